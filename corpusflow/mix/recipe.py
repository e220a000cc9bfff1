"""The YAML of a mixture.

name: bilingual
seed: 7
length: 2048               # tokens to predict per sequence
tokens: 2B                 # of the whole; without it, as much as max_epochs lets through
temperature: 2             # above 1, small parts get more than their size; only where no weights are given
max_epochs: 4
output: runs/bilingual
parts:
  english: {run: runs/web, weight: 3}
  chinese: {run: runs/web-zh, weight: 1, max_epochs: 2}
  manuals: {run: runs/manuals, epochs: 3}        # exactly so often
  crawl:   {run: runs/crawl, by: language.code}  # a part per language; `by: domain` one per host
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from corpusflow.config import Path, read_tree
from corpusflow.errors import ConfigError, did_you_mean

_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kMBT]?)")
_SCALE: Final = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


@dataclass(frozen=True)
class PartRecipe:
    """One part.

    Attributes:
        run: a run folder.
        export: folder below its `exports/`; the first one the feed can read, if "".
        by: a signal, or "domain": one part for each of its values.
        weight: share of what is not fixed; None: by size.
        tokens, epochs: exactly so much of it.
        max_epochs: never more often.
    """

    name: str
    run: str
    export: str = ""
    split: str = "train"
    by: str | None = None
    weight: float | None = None
    tokens: int | None = None
    epochs: float | None = None
    max_epochs: float | None = None
    temperature: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """All of it; `tokens` None: as much as `max_epochs` lets through."""

    name: str
    output: str
    parts: tuple[PartRecipe, ...]
    length: int
    seed: int = 0
    tokens: int | None = None
    temperature: float = 1.0
    max_epochs: float | None = None


def load_recipe(path: str) -> Recipe:
    """Read a mixture's YAML.

    Raises:
        ConfigError: with file:line and key.
    """
    tree, lines = read_tree(path)

    def at(*key: str | int) -> str:
        for n in range(len(key), -1, -1):
            if (line := lines.get(tuple(key[:n]))) is not None:
                return f"{path}:{line}"
        return path

    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected a mapping with name, length and parts, got {type(tree).__name__}")
    values = _values(tree, _TOP, at, ())
    for key in ("length", "parts"):
        if key not in values:
            raise ConfigError(f"{path}: a mixture needs {key}", hint=_NEEDED[key])
    parts = values.pop("parts")
    if not isinstance(parts, dict) or not parts:
        raise ConfigError(f"{at('parts')}: parts must be a mapping of names", hint=_NEEDED["parts"])
    name = values.setdefault("name", "mixture")
    values.setdefault("output", f"runs/{name}")
    made = tuple(_part(str(n), body, values.get("temperature", 1.0), at) for n, body in parts.items())
    weighted = [p.name for p in made if p.weight is not None]
    unweighted = [p.name for p in made if p.weight is None and p.tokens is None and p.epochs is None]
    if weighted and unweighted:
        raise ConfigError(
            f"{at('parts', unweighted[0])}: {unweighted[0]} has no weight though {weighted[0]} has one",
            hint="give every part a weight, tokens or epochs, or none of them a weight",
        )
    return Recipe(parts=made, **values)


def _part(name: str, body: Any, temperature: float, at: Callable[..., str]) -> PartRecipe:
    if not re.fullmatch(r"[\w.-]+", name):
        raise ConfigError(f"{at('parts', name)}: a part's name is letters, digits, '.', '_' or '-', got {name!r}")
    if not isinstance(body, dict):
        raise ConfigError(f"{at('parts', name)}: expected a mapping, got {body!r}", hint=_NEEDED["parts"])
    values = _values(body, _PART, at, ("parts", name))
    if "run" not in values:
        raise ConfigError(f"{at('parts', name)}: {name} names no run", hint=_NEEDED["parts"])
    given = [k for k in ("weight", "tokens", "epochs") if k in values]
    if len(given) > 1:
        raise ConfigError(f"{at('parts', name, given[1])}: {name} has {given[0]} and {given[1]}", hint="one of them")
    return PartRecipe(name=name, **{"temperature": temperature, **values})


def _values(
    tree: Mapping[Any, Any], known: Mapping[str, Callable[[Any], Any]], at: Callable[..., str], path: Path
) -> dict[str, Any]:
    out = {}
    for key, value in tree.items():
        if key not in known:
            raise ConfigError(f"{at(*path, key)}: unknown key {key!r}", hint=did_you_mean(str(key), tuple(known)))
        try:
            out[str(key)] = known[key](value)
        except ValueError as e:
            raise ConfigError(f"{at(*path, key)}: {key}: {e}, got {value!r}") from e
    return out


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be text")
    return value


def _name(value: Any) -> str:
    if not re.fullmatch(r"[\w.-]+", _text(value)):
        raise ValueError("must be letters, digits, '.', '_' or '-'")
    return str(value)


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (value > 0 and math.isfinite(value)):
        raise ValueError("must be a number above 0")
    return float(value)


def _whole(least: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"must be a whole number from {least}")
        return value

    return check


def _tokens(value: Any) -> int:
    """``2B``, ``500M``, ``1.5k`` or a whole number."""
    if isinstance(value, bool):
        raise ValueError("must be a number of tokens, 2B for one")
    match = _NUMBER.fullmatch(str(value))
    number = float(match[1]) * _SCALE[match[2]] if match else 0
    if number < 1:
        raise ValueError("must be a number of tokens, 2B for one")
    return round(number)


def _anything(value: Any) -> Any:
    return value


_TOP: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": _name,
    "seed": _whole(0),
    "length": _whole(1),
    "tokens": _tokens,
    "temperature": _positive,
    "max_epochs": _positive,
    "output": _text,
    "parts": _anything,
}
_PART: Final[Mapping[str, Callable[[Any], Any]]] = {
    "run": _text,
    "export": _text,
    "split": _name,
    "by": _text,
    "weight": _positive,
    "tokens": _tokens,
    "epochs": _positive,
    "max_epochs": _positive,
    "temperature": _positive,
}
_NEEDED: Final = {
    "length": "length: 2048",
    "parts": "parts:\n  english: {run: runs/web, weight: 3}",
}
