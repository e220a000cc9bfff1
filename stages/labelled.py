"""Labelled texts to train and measure models on: JSONL, also .gz."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from corpusflow import ConfigError, storage_for

T = TypeVar("T")


def read_labelled(paths: Sequence[str], wanted: str, convert: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Lines of files, each as `convert` makes of its object.

    Args:
        wanted: what the objects should have, for the error.

    Raises:
        ConfigError: a line is no object, or `convert` does not find in it what it needs.
    """
    for path in paths:
        data = storage_for(path).get(path)
        if path.endswith(".gz"):
            data = gzip.decompress(data)
        for number, line in enumerate(data.splitlines(), 1):
            try:
                row = convert(json.loads(line))
            except (ValueError, KeyError, TypeError, StopIteration) as e:
                raise ConfigError(f"{path}:{number}: not an object with {wanted} ({e})") from e
            yield row
