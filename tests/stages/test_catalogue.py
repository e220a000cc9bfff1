"""stages/README.md is what `corpusflow stages --markdown` prints."""

from __future__ import annotations

from pathlib import Path

from corpusflow.catalogue import catalogue, markdown
from corpusflow.registry import stage_names

PAGE = Path(__file__).resolve().parents[2] / "stages" / "README.md"


def test_the_page_is_current() -> None:
    made = markdown(catalogue(stage_names()))
    assert PAGE.read_text(encoding="utf-8") == made, "corpusflow stages --markdown > stages/README.md"


def test_every_parameter_says_what_it_is() -> None:
    for entry in catalogue(stage_names()):
        assert entry.summary, entry.name
        for parameter in entry.parameters:
            assert parameter.doc.endswith((".", ":", ")")), f"{entry.name}.{parameter.name}: {parameter.doc!r}"


def test_the_readme_says_who_reads_each_export() -> None:
    readme = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    sinks = [entry.name for entry in catalogue(stage_names()) if entry.name.startswith("export.")]
    assert len(sinks) > 10
    assert [name for name in sinks if f"| `{name}`" not in readme and f", `{name}` |" not in readme] == []
