"""Personal data in one document: candidates of the kernel, held against patterns, checksums and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stages.clean import _pii_patterns as patterns
from stages.clean._pii_detect import DETECTORS
from stages.clean._pii_window import AFTER, AFTER_AT, CUE_REACH, Window
from stages.kernels import pii as kernel

KINDS: Final = (
    "email", "phone", "ip", "iban", "card", "national_id", "ssn", "passport", "crypto", "plate", "mac", "location", "secret",
)  # fmt: skip
_LONGEST_NUMBER: Final = 4096  # bytes: rows of numbers are looked at in pieces
_LONGEST_KEY: Final = 16_384


class Span(NamedTuple):
    """A finding: bytes [start, end) of the document."""

    start: int
    end: int
    kind: str


def look(document: bytes, candidates: Iterable[tuple[int, int, int]]) -> list[Span]:
    """Findings in a document, ascending, not overlapping.

    Args:
        document: UTF-8.
        candidates: (start, end, kind of candidate) of the kernel, in bytes.
    """
    found: set[Span] = set()
    for start, end, kind in candidates:
        if kind == kernel.PRIVATE_KEY:
            found.update(_private_key(document, start))
            continue
        if _hopeless(document, start, end, kind):
            continue
        for low in range(start, end, _LONGEST_NUMBER):
            high = min(end, low + _LONGEST_NUMBER)
            view = Window(document, low, high, AFTER_AT if kind == kernel.AT else AFTER)
            for name, a, b in DETECTORS[kind](view):
                found.add(Span(view.byte(a), view.byte(b), name))
    return _without_overlaps(found)


def _hopeless(document: bytes, start: int, end: int, kind: int) -> bool:
    """Whether no pattern can match, by tests that are cheaper than looking: most candidates in web pages are such."""
    piece = document[start:end]
    if kind == kernel.NUMBER:
        digits = sum(map(piece.count, _DIGITS))
        if digits >= 9 or not piece.isascii() or b"+" in piece or piece.count(b".") >= 3:
            return False
        near = document[max(0, start - CUE_REACH) : end + 24].lower()
        return not patterns.PHONE_HINTS.search(near) and not patterns.OTHER_HINTS.search(near)
    if kind == kernel.SPELLED:
        return b"at" not in document[max(0, start - 72) : end].lower()
    if kind == kernel.AT:
        host = document[end : end + 72]
        return b"." not in host and "．".encode() not in host
    if kind == kernel.TOKEN:
        if piece.startswith(_TOKEN_STARTS) or piece.count(b"-") == 5 or (piece[:2].isalpha() and piece[2:4].isdigit()):
            return False
        return piece.isascii() and not patterns.SECRET_HINTS.search(document[max(0, start - CUE_REACH) : start].lower())
    return False


def _without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """The longest of those that overlap; at equal length the kind named first in KINDS."""
    kept: list[Span] = []
    group: list[Span] = []
    reach = 0
    for span in sorted(spans):
        if group and span.start >= reach:
            kept += _longest(group)
            group = []
        group.append(span)
        reach = max(reach, span.end)
    return kept + _longest(group)


def _longest(group: list[Span]) -> list[Span]:
    kept: list[Span] = []
    for span in sorted(group, key=lambda s: (s.start - s.end, KINDS.index(s.kind), s.start)):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    return sorted(kept)


def _private_key(document: bytes, start: int) -> Iterator[Span]:
    begin = patterns.PRIVATE_KEY_BEGIN.match(document, start)
    if begin and document.find(b"-----END ", begin.end(), start + _LONGEST_KEY) >= 0:
        end = patterns.PRIVATE_KEY_END.search(document, begin.end(), start + _LONGEST_KEY)
        if end:
            yield Span(start, end.end(), "secret")


_DIGITS: Final = tuple(b"%d" % i for i in range(10))
_TOKEN_STARTS: Final = tuple(patterns.TOKEN_STARTS)
