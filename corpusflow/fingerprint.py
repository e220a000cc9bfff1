"""Canonical JSON and the hashes made of it: what two runs must agree on to share their work."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

#: Keys that no mapping has: its own are escaped.
_FLOAT: Final = "\0f"
_BYTES: Final = "\0b"


def canonical(value: Any) -> Any:
    """The value in a form whose JSON is the same on every machine: floats by `float.hex`, strings in NFC, keys sorted.

    Integral floats and ints of the same value agree (``min_words: 50`` and ``50.0`` are one threshold).

    Raises:
        TypeError: the value has no such form, or two keys of a mapping are one (1 and "1", two forms of one text).
    """
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else {_FLOAT: value.hex()}
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, bytes):
        return {_BYTES: value.hex()}
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, Mapping):
        out = {_key(k): canonical(v) for k, v in value.items()}
        if len(out) < len(value):
            raise TypeError(f"two keys of a mapping are one: {sorted(map(str, value))}")
        return dict(sorted(out.items()))
    if isinstance(value, (set, frozenset)):
        return [canonical(v) for v in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [canonical(v) for v in value]
    raise TypeError(f"no canonical form for {type(value).__name__}: {value!r}")


def _key(key: Any) -> str:
    text = unicodedata.normalize("NFC", str(key))
    return "\0" + text if text.startswith("\0") else text


def canonical_json(value: Any) -> str:
    """One line of JSON, the same for equal values everywhere."""
    return json.dumps(canonical(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def fingerprint(*values: Any) -> str:
    """64 hex digits of SHA-256 over the values' canonical JSON."""
    return hashlib.sha256(canonical_json(list(values)).encode(errors="surrogatepass")).hexdigest()
