"""Every signal of the quality stages has a definition, and the page that lists them is current."""

from __future__ import annotations

from pathlib import Path

from stages.quality._definitions import DEFINITIONS, page

PAGE = Path(__file__).parents[3] / "stages" / "quality" / "SIGNALS.md"


def test_the_page_is_current() -> None:
    made = "\n".join(page()) + "\n"
    assert PAGE.read_text(encoding="utf-8") == made, "python -m stages.quality._definitions > stages/quality/SIGNALS.md"


def test_no_definition_is_left_over() -> None:
    listed = {line.split("`")[1] for line in page() if line.startswith("| `")}
    assert {f"quality.{name}" for name in DEFINITIONS} == listed
