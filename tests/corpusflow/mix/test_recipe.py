"""A mixture's YAML, and what it says of mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpusflow.errors import ConfigError
from corpusflow.mix.recipe import PartRecipe, load_recipe

GOOD = """\
name: both
seed: 7
length: 2048
tokens: 1.5B
temperature: 2
max_epochs: 4
parts:
  english: {run: runs/web, weight: 3}
  chinese: {run: runs/zh, weight: 1, max_epochs: 2, export: bin}
  manuals: {run: runs/manuals, epochs: 3}
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mix.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_all_of_it(tmp_path: Path) -> None:
    recipe = load_recipe(written(tmp_path, GOOD))
    assert (recipe.name, recipe.seed, recipe.length, recipe.tokens) == ("both", 7, 2048, 1_500_000_000)
    assert (recipe.output, recipe.max_epochs, recipe.temperature) == ("runs/both", 4.0, 2.0)
    assert recipe.parts == (
        PartRecipe("english", "runs/web", weight=3.0, temperature=2.0),
        PartRecipe("chinese", "runs/zh", weight=1.0, max_epochs=2.0, export="bin", temperature=2.0),
        PartRecipe("manuals", "runs/manuals", epochs=3.0, temperature=2.0),
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("length: 2048", "lenght: 2048", 3, "unknown key 'lenght'"),
        ("length: 2048", "length: 0", 3, "whole number from 1"),
        ("length: 2048", "length: true", 3, "whole number"),
        ("tokens: 1.5B", "tokens: 1.5X", 4, "2B for one"),
        ("tokens: 1.5B", "tokens: 0", 4, "2B for one"),
        ("temperature: 2", "temperature: .inf", 5, "number above 0"),
        ("max_epochs: 4", "max_epochs: -1", 6, "number above 0"),
        ("name: both", "name: ../both", 1, "letters, digits"),
        ("weight: 3}", "weigth: 3}", 8, "did you mean weight"),
        ("run: runs/web, ", "", 8, "names no run"),
        ("epochs: 3}", "epochs: 3, tokens: 5}", 10, "one of them"),
        (", weight: 3}", "}", 8, "english has no weight though chinese has one"),
        ("english:", "eng lish:", 8, "a part's name"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as raised:
        load_recipe(path)
    assert f"mix.yaml:{line}:" in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize("text", ["- a", "name: x\nlength: 5", "length: 5\nparts: []", "parts: {a: {run: r}}"])
def test_what_is_no_mixture(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"mix\.yaml"):
        load_recipe(written(tmp_path, text))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a file"):
        load_recipe(str(tmp_path / "none.yaml"))
