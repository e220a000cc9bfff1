"""A Score made of a plain function of one document: the shortest way to a stage of one's own."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from corpusflow.errors import ConfigError
from corpusflow.stage import Score


def document_score(
    *, adds: Mapping[str, str | pa.DataType], version: int = 1
) -> Callable[[Callable[..., Any]], type[Score]]:
    """Make a Score of a function of one document.

    The function's argument names are the columns it reads; `meta` arrives as a dict, nulls as None. It returns one
    value, or a dict with a value per added column::

        @corpusflow.document_score(adds={"my.letters": "int32"})
        def letters(text: str) -> int:
            return sum(c.isalpha() for c in text)

    A config names it as ``./my_stage.py:letters``. Being a Python loop over documents it runs at a few MB/s.
    """
    types = {k: _arrow_type(v) for k, v in adds.items()}

    def wrap(function: Callable[..., Any]) -> type[Score]:
        read = tuple(inspect.signature(function).parameters)

        @dataclass(frozen=True, kw_only=True)
        class FunctionScore(Score):
            def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
                columns = [batch.column(c).to_pylist() for c in read]
                if "meta" in read:
                    i = read.index("meta")
                    columns[i] = [json.loads(m) if m else {} for m in columns[i]]
                rows = [function(*values) for values in zip(*columns, strict=True)]
                arrays = []
                for name, kind in types.items():
                    values = [r[name] for r in rows] if len(types) > 1 or _all_dicts(rows) else rows
                    arrays.append(pa.array(values, kind))
                return pa.RecordBatch.from_arrays(arrays, names=list(types))

        FunctionScore.reads = read
        FunctionScore.adds = types
        FunctionScore.version = version
        FunctionScore.__name__ = FunctionScore.__qualname__ = function.__name__
        FunctionScore.__module__ = function.__module__
        FunctionScore.__doc__ = function.__doc__
        return FunctionScore

    return wrap


def _all_dicts(rows: Sequence[Any]) -> bool:
    return bool(rows) and all(isinstance(r, dict) for r in rows)


def _arrow_type(kind: str | pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(kind)
    except ValueError as e:
        raise ConfigError(
            f"document_score: unknown type {kind!r}", hint="use an Arrow name: int32, int64, float32, bool, string"
        ) from e
