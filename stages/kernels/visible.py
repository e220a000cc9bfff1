"""The visible text of pages without parsing them: tags, scripts, styles and comments stripped from raw HTML.

Reads bodies as stored (codings and charset included), gives a bounded sample of UTF-8 a page, good enough to guess the
language by before extraction, which costs ten times more. Promises linear time on any input. It is no extraction: menus and
footers are in it, and markup is read by rules a few lines long.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from stages.kernels.buffers import text_buffers, text_column
from stages.kernels.charset import declared, decode
from stages.kernels.html import media_type
from stages.kernels.http import CodingError, TooLargeError, undo
from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.utf8 import put

#: Of a page, so many bytes (codings undone) are looked at: one with more visible text than fits has shown its language.
_LOOKED_AT_BYTES: Final = 512 << 10
_NO_PAGE: Final = ("image/", "video/", "audio/", "font/")
_NO_TEXT: Final = ("application/json", "application/javascript", "text/css", "text/javascript", "application/pdf")


@inlined
def _is_letter(b: int) -> bool:
    return (b | 32) >= 97 and (b | 32) <= 122


@inner
def _name_is(data: np.ndarray, i: int, end: int, name: np.ndarray) -> bool:
    n = len(name)
    if i + n > end:
        return False
    for k in range(n):
        if (data[i + k] | 32) != name[k]:
            return False
    return i + n == end or not _is_letter(data[i + n])


@inner
def _tag_end(data: np.ndarray, i: int, end: int) -> int:
    """Behind the '>' that ends the tag around i; quoted values may hold others."""
    quote = 0
    while i < end:
        b = data[i]
        if quote != 0:
            if b == quote:
                quote = 0
        elif b == 62:
            return i + 1
        elif (b == 34 or b == 39) and data[i - 1] == 61:
            quote = b
        i += 1
    return end


@inner
def _after_comment(data: np.ndarray, i: int, end: int) -> int:
    while i + 2 < end:
        if data[i] == 45 and data[i + 1] == 45 and data[i + 2] == 62:
            return i + 3
        i += 1
    return end


@inner
def _after_raw_text(data: np.ndarray, i: int, end: int, name: np.ndarray) -> int:
    """The start of the end tag of a script or style."""
    while i + 2 < end:
        if data[i] == 60 and data[i + 1] == 47 and _name_is(data, i + 2, end, name):
            return i
        i += 1
    return end


@kernel
def strip(
    data: np.ndarray, start: int, end: int, limit: int, script: np.ndarray, style: np.ndarray, out: np.ndarray, at: int
) -> int:
    """Write the visible bytes of data[start:end] to out[at:at + limit]; where it stops.

    White space becomes one space, a tag of more than four letters (no <b>, <i>, <em>, <span>) a space, entities the letter
    they are made of (``&eacute;`` an e) or, if numeric, UTF-8.
    """
    first = at
    last = at + limit
    i = start
    space = True
    while i < end and at < last - 4:
        b = data[i]
        if b == 60 and i + 1 < end:
            c = data[i + 1]
            if c == 33:
                if i + 3 < end and data[i + 2] == 45 and data[i + 3] == 45:
                    i = _after_comment(data, i + 4, end)
                else:
                    i = _tag_end(data, i + 1, end)
                continue
            if _is_letter(c) or c == 47 or c == 63:
                if _name_is(data, i + 1, end, script):
                    i = _after_raw_text(data, _tag_end(data, i + 1, end), end, script)
                    continue
                if _name_is(data, i + 1, end, style):
                    i = _after_raw_text(data, _tag_end(data, i + 1, end), end, style)
                    continue
                name = i + 1 + (1 if c == 47 else 0)
                size = 0
                while name + size < end and _is_letter(data[name + size]):
                    size += 1
                inline = size == 1 and (data[name] | 32) != 112
                inline = inline or (size == 2 and (data[name] | 32) == 101) or (size == 4 and (data[name] | 32) == 115)
                i = _tag_end(data, i + 1, end)
                if not inline and not space:
                    out[at] = 32
                    at += 1
                    space = True
                continue
        if b == 38:
            i, code = _entity(data, i, end)
            if code == 32:
                if not space:
                    out[at] = 32
                    at += 1
                    space = True
            else:
                at = put(out, at, code)
                space = False
            continue
        if b <= 32:
            if not space:
                out[at] = 32
                at += 1
                space = True
        else:
            out[at] = b
            at += 1
            space = False
        i += 1
    if i < end:  # stopped by the limit, perhaps inside a character
        while at > first and (out[at - 1] & 0xC0) == 0x80:
            at -= 1
        if at > first and out[at - 1] >= 0xC0:
            at -= 1
    return at


@inner
def _entity(data: np.ndarray, i: int, end: int) -> tuple[int, int]:
    """(behind the entity at i, the character it stands for): a plain & is itself, unknown names are a space."""
    k = i + 1
    if k < end and data[k] == 35:
        k += 1
        base = 10
        if k < end and (data[k] | 32) == 120:
            base = 16
            k += 1
        code = 0
        digits = 0
        while k < end and digits < 8:
            d = data[k]
            if d >= 48 and d <= 57:
                code = code * base + d - 48
            elif base == 16 and (d | 32) >= 97 and (d | 32) <= 102:
                code = code * base + (d | 32) - 87
            else:
                break
            k += 1
            digits += 1
        if k < end and data[k] == 59:
            k += 1
        good = digits > 0 and code > 32 and code < 0x110000 and not (code >= 0xD800 and code < 0xE000)
        return k, code if good and code != 160 else 32
    size = 0
    while k < end and size < 10 and _is_letter(data[k]):
        k += 1
        size += 1
    if size == 0 or k >= end or data[k] != 59:
        return i + 1, 38
    # An accented letter is its letter and a word: eacute, Ouml, ntilde, ccedil. All others are signs.
    accented = size > 3 and (data[k - 1] | 32) in (101, 108, 99, 103, 104, 110)
    return k + 1, int(data[i + 1]) if accented else 32


@kernel
def strip_all(
    data: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    limit: int,
    script: np.ndarray,
    style: np.ndarray,
    out: np.ndarray,
    offsets: np.ndarray,
) -> None:
    """`strip` for n pages: data[starts[k]:ends[k]] to out[offsets[k]:offsets[k + 1]]."""
    at = 0
    offsets[0] = 0
    for k in range(len(starts)):
        at = strip(data, starts[k], ends[k], limit, script, style, out, at)
        offsets[k + 1] = at


_SCRIPT: Final = np.frombuffer(b"script", np.uint8)
_STYLE: Final = np.frombuffer(b"style", np.uint8)


def visible_sample(
    raw: pa.Array, content_type: pa.Array, content_encoding: pa.Array, limit: int = 16 << 10
) -> pa.LargeStringArray:
    """Up to `limit` bytes of visible text of each page, as UTF-8.

    Args:
        raw: large_binary, bodies as stored.
        content_type: string, as declared.
        content_encoding: string, codings still on the bodies.
        limit: bytes of visible text a page.

    Returns:
        large_string of the same length: null where `raw` is, empty where there is no page (images, scripts, bodies that do
        not decode).
    """
    types = content_type.to_pylist()
    changed = _changed_bodies(raw, types, content_encoding.to_pylist())
    bodies = raw
    if changed:
        bodies = pa.array([changed.get(i, b) for i, b in enumerate(raw.to_pylist())], pa.large_binary())
    offsets, data, valid = text_buffers(bodies)
    starts = offsets[:-1]
    ends = np.minimum(offsets[1:], starts + _LOOKED_AT_BYTES)
    ends[~valid] = starts[~valid]
    out = np.empty(int(np.minimum(ends - starts, limit).sum()) + 8 * len(starts) + limit, np.uint8)
    out_offsets = np.zeros(len(offsets), np.int64)
    strip_all(data, starts, ends, limit, _SCRIPT, _STYLE, out, out_offsets)
    return _as_utf8(out[: out_offsets[-1]], out_offsets, valid, bodies, types)


def _changed_bodies(raw: pa.Array, types: list[str | None], codings: list[str | None]) -> dict[int, bytes]:
    """Bodies that cannot be read as they are: coded ones decoded, UTF-16 as UTF-8, what is no page empty."""
    changed: dict[int, bytes] = {}
    offsets, data, valid = text_buffers(raw)
    for i in np.flatnonzero(valid).tolist():
        declared_type = media_type(types[i])
        if declared_type.startswith(_NO_PAGE) or declared_type in _NO_TEXT:
            changed[i] = b""
        elif coding := codings[i]:
            try:
                changed[i] = undo(raw[i].as_py(), coding)
            except (CodingError, TooLargeError):
                changed[i] = b""
        start = changed[i][:2] if i in changed else data[offsets[i] : min(offsets[i] + 2, offsets[i + 1])].tobytes()
        if len(start) == 2 and (
            start[0] in (0, 0xFE, 0xFF) or start[1] == 0
        ):  # a byte order mark, or ASCII in two bytes
            body = changed[i] if i in changed else raw[i].as_py()
            changed[i] = decode(body[:_LOOKED_AT_BYTES], types[i])[0].encode("utf-8", "replace")
    return changed


def _as_utf8(
    data: np.ndarray, offsets: np.ndarray, valid: np.ndarray, bodies: pa.Array, types: list[str | None]
) -> pa.LargeStringArray:
    text = text_column(data, offsets, valid)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        values: list[Any] = text.cast(pa.large_binary()).to_pylist()
        for i, value in enumerate(values):
            try:
                values[i] = None if value is None else value.decode("utf-8")
            except UnicodeDecodeError:
                claims = declared(bodies[i].as_py()[: 16 << 10], types[i])
                values[i] = decode(value, f"text/html; charset={claims[0]}" if claims else None)[0].rstrip("\ufffd")
        text = pa.array(values, pa.large_string())
    return text
