"""Canonical JSON and the hashes made of it: what two runs must agree on to share their work."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any


def canonical(value: Any) -> Any:
    """The value in a form whose JSON is the same on every machine: floats by `float.hex`, strings in NFC, keys sorted.

    Integral floats and ints of the same value agree (``min_words: 50`` and ``50.0`` are one threshold).
    """
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else {"f": value.hex()}
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, Mapping):
        return {unicodedata.normalize("NFC", str(k)): canonical(value[k]) for k in sorted(value, key=str)}
    if isinstance(value, (set, frozenset)):
        return [canonical(v) for v in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [canonical(v) for v in value]
    raise TypeError(f"no canonical form for {type(value).__name__}: {value!r}")


def canonical_json(value: Any) -> str:
    """One line of JSON, the same for equal values everywhere."""
    return json.dumps(canonical(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def fingerprint(*values: Any) -> str:
    """64 hex digits of SHA-256 over the values' canonical JSON."""
    return hashlib.sha256(canonical_json(list(values)).encode()).hexdigest()
