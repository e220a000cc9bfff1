"""Repeats of text from shared seeds: pure functions behind dedup.substring.

A *match* is a seed of a document that a better-ranked place (of another document, or earlier in this one) has, too. A *chain* is
a series of matches with one source and one distance, the text between which is known to be equal. A *span* is a chain
extended, byte by byte, to both sides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from stages.kernels.sortruns import starts_of

_U32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def pack(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Two numbers below 2**32 in one word: uint64 array."""
    packed: np.ndarray = high.astype(np.uint64) << _32 | low.astype(np.uint64)
    return packed


def unpack(word: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of `pack`: int64 arrays."""
    return (word >> _32).astype(np.int64), (word & _U32).astype(np.int64)


def best_places(seeds: np.ndarray, most: int) -> np.ndarray:
    """The `most` best-ranked seeds of each hash, by hash, then best first.

    Args:
        seeds: uint64 (n, 5): hash, rank, document, place (offset and bytes to the next seed), hash of those bytes.
        most: per hash.
    """
    ordered = seeds[np.lexsort((seeds[:, 3], seeds[:, 2], seeds[:, 1], seeds[:, 0]))]
    first = starts_of(ordered[:, :1])
    rank = np.arange(len(ordered)) - np.repeat(first, np.diff([*first, len(ordered)]))
    kept: np.ndarray = ordered[rank < most]
    return kept


def matches(seeds: np.ndarray, places: np.ndarray, most: int) -> np.ndarray:
    """Seeds with places that rank before them.

    Args:
        seeds: see `best_places`.
        places: from `best_places`.
        most: as given there.

    Returns:
        uint64 (matches, 4): document, offset and equal bytes up to the next seed (0 where they differ), source document,
        offset in it.
    """
    out = []
    if not len(places):
        return np.zeros((0, 4), np.uint64)
    start = np.searchsorted(places[:, 0], seeds[:, 0])
    for c in range(most):
        at = np.minimum(start + c, len(places) - 1)
        source = places[at]
        better = (start + c < len(places)) & (source[:, 0] == seeds[:, 0]) & _before(source, seeds)
        mine, theirs = seeds[better], source[better]
        offset, gap = unpack(mine[:, 3])
        same = (mine[:, 4] == theirs[:, 4]) & (gap == unpack(theirs[:, 3])[1])
        here = pack(offset, np.where(same, gap, 0))
        out.append(np.stack([mine[:, 2], here, theirs[:, 2], theirs[:, 3] >> _32], axis=1))
    return np.concatenate(out)


def _before(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Bool array: whether a ranks before b: by rank, document, offset."""
    before = np.zeros(len(a), np.bool_)
    equal = np.ones(len(a), np.bool_)
    for word in (1, 2, 3):
        before |= equal & (a[:, word] < b[:, word])
        equal &= a[:, word] == b[:, word]
    return before


def chains(found: np.ndarray) -> np.ndarray:
    """Matches joined: uint64 (chains, 4): source document, offsets of its first and last seed, document, offsets of its own.

    Args:
        found: from `matches`, any order.
    """
    offset, gap = unpack(found[:, 1])
    source = found[:, 3].astype(np.int64)
    distance = (offset - source).astype(np.int64)
    order = np.lexsort((offset, distance, found[:, 2], found[:, 0]))
    found, offset, gap, source, distance = (a[order] for a in (found, offset, gap, source, distance))
    if not len(found):
        return np.zeros((0, 4), np.uint64)
    new = np.ones(len(found), np.bool_)
    new[1:] = (
        (found[1:, 0] != found[:-1, 0])
        | (found[1:, 2] != found[:-1, 2])
        | (distance[1:] != distance[:-1])
        | (gap[:-1] == 0)
        | (offset[:-1] + gap[:-1] != offset[1:])
    )
    first = np.flatnonzero(new)
    last = np.concatenate([first[1:], [len(found)]]) - 1
    return np.stack(
        [
            found[first, 2],
            pack(source[first], source[last]),
            found[first, 0],
            pack(offset[first], offset[last]),
        ],
        axis=1,
    )


@dataclass(frozen=True, order=True)
class Span:
    """Bytes [start, end) of a document that `source`, of a rank, has from `at` on."""

    start: int
    end: int
    rank: tuple[int, int]
    source: str
    document: int
    at: int

    def part(self, start: int, end: int) -> Span:
        """Bytes [start, end) of it."""
        return Span(start, end, self.rank, self.source, self.document, self.at + start - self.start)


def joined(spans: list[Span]) -> list[Span]:
    """Spans of one source and one distance that touch or overlap, as one."""
    out: list[Span] = []
    for s in sorted(spans, key=lambda s: (s.source, s.start - s.at, s.start)):
        last = out[-1] if out else None
        if (
            last is not None
            and (last.source, last.start - last.at) == (s.source, s.start - s.at)
            and s.start <= last.end
        ):  # fmt: skip
            out[-1] = last.part(last.start, max(last.end, s.end))
        else:
            out.append(s)
    return out


def chosen(spans: list[Span]) -> list[Span]:
    """Spans that do not overlap: every byte is of the best-ranked place that has it.

    So what has to stay for the sake of one document is, but for parts that are too short to be found, not what could be cut
    for the sake of a better-ranked one.
    """
    parts: list[Span] = []
    taken = _Intervals()
    for span in sorted(spans, key=lambda s: (s.rank, s.source, s.at, s.start)):
        for start, end in taken.outside(span.start, span.end):
            parts.append(span.part(start, end))
            taken.add(start, end)
    return sorted(parts)


def without(spans: list[Span], protected: list[tuple[int, int]]) -> list[Span]:
    """What of the spans lies outside the protected bytes."""
    kept = _Intervals()
    for start, end in protected:
        for part in kept.outside(start, end):
            kept.add(*part)
    return [s.part(start, end) for s in spans for start, end in kept.outside(s.start, s.end)]


class _Intervals:
    """Disjoint intervals, ascending: a page made of pieces of others has ten thousands."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """One that overlaps none."""
        at = bisect_right(self._starts, start)
        self._starts.insert(at, start)
        self._ends.insert(at, end)

    def outside(self, start: int, end: int) -> list[tuple[int, int]]:
        """What of [start, end) is in none of them."""
        out = []
        for i in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            if self._starts[i] > start:
                out.append((start, self._starts[i]))
            start = max(start, self._ends[i])
        if start < end:
            out.append((start, end))
        return out
