"""Redaction of short columns beside the text: titles, authors, and JSON objects of what else is known of a document.

A value that is a JSON object or list is redacted string by string and number by number, each beside the name of its field, so
that `{"phone": 2079460958}` has its cue and what is left is JSON; field names that hold a value are redacted as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow as pa

from stages.clean._pii_redact import Redactor, suspects

#: Characters that a value has at least.
_LEAST: Final = 5
#: Field names are short words; those that hold a value have a digit or a sign of an address, or are long.
_TELLING_NAME: Final = re.compile(r"[\d@]|[^\x00-\x7f]|.{16}")


def redacted_fields(redactor: Redactor, column: pa.Array) -> tuple[pa.Array, list[tuple[int, str]]]:
    """(the column, of its own type, with the findings replaced; (row, kind) of each finding, ascending by row)."""
    wide = column.cast(pa.large_string())
    parsed: dict[int, Any] = {}
    looked_at = suspects(wide)
    for row, value in enumerate(wide.to_pylist()):
        # what is suspect in a field is suspect in the whole, unless it is written with escapes
        if value is not None and value[:1] in ("{", "[") and (row in looked_at or "\\" in value):
            try:
                parsed[row] = json.loads(value, strict=False)  # orjson would round integers beyond 64 bits
            except (ValueError, RecursionError):
                continue  # text that begins with a bracket
    if parsed:
        plain = [None if row in parsed else value for row, value in enumerate(wide.to_pylist())]
        wide = pa.array(plain, pa.large_string())
    wide, places = redactor.column(wide)
    found = [(row, edit.kind) for row, edits in places.items() for edit in edits]
    if parsed:
        rewritten, of_objects = _objects(redactor, parsed, column)
        found = sorted([*found, *of_objects], key=lambda f: f[0])
        values = [rewritten.get(row, value) for row, value in enumerate(wide.to_pylist())]
        wide = pa.array(values, pa.large_string())
    return wide.cast(column.type), found


def _objects(
    redactor: Redactor, parsed: dict[int, Any], column: pa.Array
) -> tuple[dict[int, str], list[tuple[int, str]]]:
    """(row -> JSON as it leaves, findings) of rows that hold JSON; those without findings are as they were, byte for byte."""
    leaves = [(row, cue, text) for row, value in parsed.items() for cue, text in _leaves(value, "")]
    texts = pa.array([cue + text for _, cue, text in leaves], pa.large_string())
    looked_at = suspects(texts)
    clean: dict[tuple[str, str], str] = {}
    found = []
    if looked_at:
        chosen = sorted(looked_at)
        redacted, places = redactor.column(texts.take(pa.array(chosen)))
        for k, edits in sorted(places.items()):
            row, cue, text = leaves[chosen[k]]
            whole = redacted[k].as_py()
            if not whole.startswith(cue):  # the name itself is part of what was found: the value is judged alone
                alone, again = redactor.column(pa.array([text], pa.large_string()))
                whole, edits = cue + alone[0].as_py(), again.get(0, [])
            found += [(row, edit.kind) for edit in edits]
            clean[cue, text] = whole[len(cue) :]
    touched = {row for row, _ in found}
    return {
        row: _dump(_rewritten(value, "", clean)) if row in touched else str(column[row])
        for row, value in parsed.items()
    }, found


def _leaves(value: Any, cue: str) -> Iterator[tuple[str, str]]:
    """(cue, text) of every string, integer and field name in a JSON value that may hold something."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if _TELLING_NAME.search(name):
                yield "", name
            if isinstance(inner, str):
                if len(inner) >= _LEAST:
                    yield _cue(name), inner
            else:
                yield from _leaves(inner, _cue(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, cue)
    elif isinstance(value, str) or type(value) is int:
        text = str(value)
        if len(text) >= _LEAST:
            yield cue, text


def _cue(name: str) -> str:
    return name.replace("_", " ").replace("-", " ") + ": "


def _rewritten(value: Any, cue: str, clean: dict[tuple[str, str], str]) -> Any:
    if isinstance(value, dict):
        out: dict[str, Any] = {}
        for name, inner in value.items():
            shown = stem = clean.get(("", str(name)), str(name))
            count = 1
            while shown in out:  # two names with the same stand-in
                count += 1
                shown = f"{stem} {count}"
            out[shown] = _rewritten(inner, _cue(name), clean)
        return out
    if isinstance(value, list):
        return [_rewritten(inner, cue, clean) for inner in value]
    if not isinstance(value, str) and type(value) is not int:
        return value
    plain = str(value)
    left = clean.get((cue, plain), plain)
    return value if left == plain else left


def _dump(value: Any) -> str:
    """As `ingest` writes `meta`."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # integers beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
