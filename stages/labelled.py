"""Labelled texts to train and measure models on: JSONL or one JSON array, also .gz."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from corpusflow import ConfigError, storage_for

T = TypeVar("T")
#: For who gives something else.
_FORM: Final = "JSONL with an object a line, or one JSON array of objects; --help says what is read of them"


def read_labelled(paths: Sequence[str], wanted: str, convert: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Lines of files, or values of their arrays, each as `convert` makes of its object.

    Args:
        wanted: what the objects should have, for the error; `convert` may raise a ConfigError that says more.

    Raises:
        ConfigError: a line is no object, or `convert` does not find in it what it needs.
    """
    for path in paths:
        data = storage_for(path).get(path)
        if path.endswith(".gz"):
            data = gzip.decompress(data)
        for number, item in enumerate(_items(data, path), 1):
            try:
                row = convert(json.loads(item) if isinstance(item, bytes) else item)
            except ConfigError as e:
                raise ConfigError(f"{path}:{number}: {e.message}", hint=e.hint) from e
            except (ValueError, KeyError, TypeError, StopIteration) as e:
                found = f"it has no {e}" if isinstance(e, KeyError) else str(e)
                raise ConfigError(f"{path}:{number}: not an object with {wanted} ({found})", hint=_FORM) from e
            yield row


def _items(data: bytes, path: str) -> Sequence[Any]:
    """Lines, as they are; or the values of an array."""
    if not data.lstrip().startswith(b"["):
        return data.splitlines()
    try:
        values = json.loads(data)
    except ValueError as e:
        raise ConfigError(
            f"{path}: begins like a JSON array, but is none ({e})", hint="JSONL has an object a line"
        ) from e
    return values if isinstance(values, list) else [values]
