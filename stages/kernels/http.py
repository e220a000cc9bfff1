"""HTTP messages as archives hold them: the head taken apart, transfer and content codings undone within limits.

Reads bytes as stored, returns bytes. Promises that no input makes more than `MAX_BODY_BYTES` of output or more than
`MAX_RATIO` times its own size (above 1 MiB), and that a body which does not decode is an error, never part of a page.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any, Final

import brotli  # type: ignore[import-untyped]
import zstandard

MAX_BODY_BYTES: Final = 64 << 20
#: Real pages compress 5 to 50 times; gzip cannot do more than 1,028, zstd and brotli bombs do 30,000 and 650,000.
MAX_RATIO: Final = 1_000
_RATIO_FROM_BYTES: Final = 1 << 20
#: zstd cannot be stopped inside a call and expands up to 32,466 : 1.
_ZSTD_SLICE: Final = 1 << 10
_STEP_BYTES: Final = 1 << 20

_STATUS: Final = re.compile(rb"HTTP/[0-9.]+[ \t]+([0-9]{3})|ICY[ \t]+([0-9]{3})")
_HEADER: Final = re.compile(r"\n([^:\r\n]+):[ \t]*([^\n]*)")
#: Headers that servers and the programs behind them each add one of; a refusal in the first counts as much as in the last.
_LISTS: Final = frozenset({"x-robots-tag", "tdm-reservation"})
_FOLD: Final = re.compile(r"\r?\n[ \t]+")
_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
_CHUNK: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\n]{0,4096})?\r?\n")


class CodingError(ValueError):
    """A body that its declared codings do not fit; the message says which and how."""


class TooLargeError(ValueError):
    """A body that grows beyond the limits."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of a response.

    Attributes:
        status: 0 if there is no status line.
        headers: names in lower case; of a repeated name the last counts, of those in _LISTS all, divided by commas.
        body: where the body starts in the message.
    """

    status: int
    headers: dict[str, str]
    body: int


def parse_head(message: bytes) -> Head | None:
    """The head of an HTTP response; None if the message does not begin with one."""
    status = _STATUS.match(message)
    if status is None:
        return None
    end = message.find(b"\r\n\r\n")
    body = end + 4
    if end < 0 or message.find(b"\n\n", 0, end) >= 0:
        blank = _BLANK_LINE.search(message)
        end, body = (blank.start(), blank.end()) if blank else (len(message), len(message))
    text = message[:end].decode("latin-1")
    if "\n " in text or "\n\t" in text:
        text = _FOLD.sub(" ", text)
    found = _HEADER.findall(text)
    headers = {name.lower().rstrip(): value.rstrip() for name, value in found}
    for name in _LISTS & headers.keys():
        headers[name] = ", ".join(value.rstrip() for other, value in found if other.lower().rstrip() == name)
    return Head(int(status[1] or status[2]), headers, body)


def codings(headers: dict[str, str]) -> str | None:
    """The codings still on a body, innermost first, as one string: ``gzip``, ``gzip,chunked``; None for none."""
    names = f"{headers.get('content-encoding', '')},{headers.get('transfer-encoding', '')}".lower().split(",")
    found = [
        n for n in (name.strip() for name in names) if n not in ("", "identity", "none", "binary", "utf-8", "8bit")
    ]
    return ",".join(found) or None


def undo(body: bytes, encoding: str | None) -> bytes:
    """The body without its codings.

    Archives written by some crawlers keep the headers but store the body decoded: a coding whose mark is not in the bytes
    is taken as undone already.

    Raises:
        CodingError: it does not decode, ends early, or names a coding nobody knows, or several content codings.
        TooLargeError: more than MAX_BODY_BYTES, or MAX_RATIO, come out.
    """
    if not encoding:
        return body
    names = encoding.split(",")
    if sum(n != "chunked" for n in names) > 1:
        raise CodingError(f"several content codings ({encoding})")
    for name in reversed(names):
        if name == "chunked":
            body = _dechunk(body)
        elif name in ("gzip", "x-gzip"):
            body = _inflate(body, 31) if body[:2] == b"\x1f\x8b" else body
        elif name == "deflate":
            body = _undeflate(body)
        elif name == "br":
            body = _unbrotli(body)
        elif name == "zstd":
            body = _unzstd(body) if body[:4] == b"\x28\xb5\x2f\xfd" else body
        else:
            raise CodingError(f"unknown coding {name[:40]!r}")
    return body


def _dechunk(body: bytes) -> bytes:
    first = _CHUNK.match(body)
    if first is None:
        return body  # stored without its chunks
    parts: list[bytes] = []
    at = 0
    while True:
        head = _CHUNK.match(body, at)
        if head is None:
            if not parts or not _plausible(parts, body):
                return body
            raise CodingError(f"no chunk size at byte {at}")
        size = int(head[1], 16)
        if size == 0:
            return b"".join(parts)
        start = head.end()
        if start + size > len(body):
            if not parts and not _plausible([body[start:]], body):
                return body
            raise CodingError(f"the last chunk has {len(body) - start} of {size} bytes")
        parts.append(body[start : start + size])
        at = start + size
        if body[at : at + 2] == b"\r\n":
            at += 2
        elif body[at : at + 1] == b"\n":
            at += 1
        if at >= len(body):
            raise CodingError("the last chunk is missing")


def _plausible(parts: list[bytes], body: bytes) -> bool:
    """Whether what was read as chunks were chunks, and not a plain page that happens to begin with a hexadecimal word."""
    return body[:64].lstrip()[:1] != b"<" and len(parts[0]) > 0


def _grown(produced: int, used: int) -> None:
    if produced > MAX_BODY_BYTES or (produced > _RATIO_FROM_BYTES and produced > MAX_RATIO * max(used, 1)):
        raise TooLargeError(f"{used} bytes of body grow to more than {produced}")


def _inflate(body: bytes, window_bits: int) -> bytes:
    parts = []
    produced = 0
    data: bytes = body
    while data:
        inflater = zlib.decompressobj(window_bits)
        while not inflater.eof:
            try:
                out = inflater.decompress(data, _STEP_BYTES)
            except zlib.error as e:
                raise CodingError(f"gzip: {e}") from e
            produced += len(out)
            _grown(produced, len(body))
            parts.append(out)
            data = inflater.unconsumed_tail
            if not data and not out and not inflater.eof:
                raise CodingError("gzip: the body ends early")
        data = inflater.unused_data
        if data[:2] != b"\x1f\x8b":  # else a second member, as the format allows; anything else is padding
            break
    return b"".join(parts)


def _undeflate(body: bytes) -> bytes:
    """`deflate` is zlib by the standard and raw deflate by what servers do."""
    if body[:2] == b"\x1f\x8b":
        return _inflate(body, 31)
    if len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0:
        return _inflate(body, 15)
    try:
        return _inflate(body, -15)
    except CodingError:
        if body.lstrip()[:1] == b"<":
            return body
        raise


def _unbrotli(body: bytes) -> bytes:
    decoder: Any = brotli.Decompressor()
    parts = []
    produced = 0
    data = body
    try:
        while True:
            out = decoder.process(data, output_buffer_limit=_STEP_BYTES)
            data = b""
            produced += len(out)
            _grown(produced, len(body))
            parts.append(out)
            if decoder.is_finished():
                return b"".join(parts)
            if not out and decoder.can_accept_more_data():
                raise CodingError("br: the body ends early")
    except brotli.error as e:
        if body.lstrip()[:1] == b"<":  # it has no mark to tell it by
            return body
        raise CodingError(f"br: {e}") from e


def _unzstd(body: bytes) -> bytes:
    parts = []
    produced = at = 0
    while at < len(body):
        frame = zstandard.ZstdDecompressor(max_window_size=MAX_BODY_BYTES).decompressobj()
        while not frame.eof:
            piece = body[at : at + _ZSTD_SLICE]
            if not piece:
                raise CodingError("zstd: the body ends early")
            try:
                out = frame.decompress(piece)
            except zstandard.ZstdError as e:
                raise CodingError(f"zstd: {e}") from e
            produced += len(out)
            _grown(produced, at + len(piece))
            parts.append(out)
            at += len(piece) - len(frame.unused_data)
        if body[at : at + 4] != b"\x28\xb5\x2f\xfd":
            break
    return b"".join(parts)
