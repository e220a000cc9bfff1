"""Every model, list and detector that is measured has a card beside it that says what it is made of and how good it is."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

STAGES = Path(__file__).parents[2] / "stages"
MODELS = sorted(
    p for p in STAGES.rglob("models/**/*") if p.suffix in (".ftz", ".bin", ".json") and p.name != "card.json"
)
#: What a card must say, by words that say it.
SAYS = {
    "data": r"\b(?:data|trained on|made of)\b",
    "licence": r"\blicen[cs]e|public domain|Apache-2\.0|MIT\b",
    "command": r"corpusflow (?:train|eval)|python -m|published at|\bcommand\b",
    "measured quality": r"\bmeasured\b",
    "known failures": r"known failures|\bweak\b|does not|knows nothing",
}


def _cards(path: Path) -> dict[str, str]:
    """Cards that may be about a file: Markdown in its folder, or in the folder of all models."""
    folder = next(p for p in path.parents if p.name == "models")
    return {str(p.relative_to(STAGES)): p.read_text(encoding="utf-8") for p in sorted(folder.rglob("*.md"))}


def _missing(text: str) -> list[str]:
    return [what for what, words in SAYS.items() if not re.search(words, text, re.IGNORECASE)]


def test_there_are_models() -> None:
    assert {p.parent.parent.name for p in MODELS} >= {"language", "toxicity"}


@pytest.mark.parametrize("path", MODELS, ids=lambda p: str(p.relative_to(STAGES)))
def test_every_model_has_a_card(path: Path) -> None:
    name = path.name if path.stem != "model" else path.parent.name
    about = [text for text in _cards(path).values() if name in text]
    assert about, f"no card in {path.parent} names {name}"
    assert not _missing("\n".join(about)), f"the cards that name {name} do not say all"


@pytest.mark.parametrize("card", ["toxicity/lists/README.md", "clean/pii.md"])
def test_lists_and_detectors_have_cards(card: str) -> None:
    assert not _missing((STAGES / card).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [p for p in MODELS if p.suffix == ".ftz"], ids=lambda p: str(p.relative_to(STAGES)))
def test_a_digest_in_a_card_is_the_files(path: Path) -> None:
    """A model that was trained again has other figures, too."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    named = re.findall(r"[0-9a-f]{64}", "\n".join(_cards(path).values()))
    assert not named or digest in named


def test_cards_of_third_parties_and_share_alike_data_are_shipped_as_licences() -> None:
    project = (STAGES.parent / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"license-files = \[(.*?)\]", project, re.DOTALL)
    assert listed is not None
    for card in ("stages/language/models/NOTICE.md", "stages/toxicity/models/README.md"):
        assert card in listed[1]
        assert "Creative Commons" in (STAGES.parent / card).read_text(encoding="utf-8") or "CC BY" in (
            STAGES.parent / card
        ).read_text(encoding="utf-8")
