"""A hash per line, or paragraph, of what it says: its units in order, whatever the case, punctuation and spacing."""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.jit import inner, kernel
from stages.kernels.shingles import BLOCK, mix, next_units, tables

_NEWLINE = 10


@inner
def _piece_end(data: Any, i: Any, end: Any, paragraphs: Any) -> Any:
    """Where the piece that starts at i ends: behind its newline, or behind the blank lines that follow it."""
    blank = False  # whether the line so far is
    seen = False  # a blank line
    first = True
    while i < end:
        c = data[i]
        if c == _NEWLINE:
            i += 1
            if not paragraphs:
                return i
            seen = seen or (blank and not first)
            blank = True
            first = False
            continue
        if blank and c != 32 and c != 9 and c != 13:
            if seen:
                while data[i - 1] != _NEWLINE:  # the indent is the next paragraph's
                    i -= 1
                return i
            blank = False
        i += 1
    return end


@kernel
def _hashes(
    data: Any, offsets: Any, valid: Any, mode: Any, lookup: Any, paragraphs: Any, least: Any, units: Any, hashes: Any,
    documents: Any, starts: Any, lengths: Any,
) -> Any:  # fmt: skip
    n = 0
    for d in range(offsets.shape[0] - 1):
        if not valid[d]:
            continue
        at = offsets[d]
        while at < offsets[d + 1]:
            end = _piece_end(data, at, offsets[d + 1], paragraphs)
            h = np.uint64(0)
            total = 0
            i = at
            while i < end:
                k, i = next_units(data, i, end, mode, lookup, units, np.int64(0), np.int64(BLOCK))
                for j in range(k):
                    h = mix(h ^ units[j]) + np.uint64(0x9E3779B97F4A7C15)
                total += k
            if total >= least:
                if n < hashes.shape[0]:
                    hashes[n] = mix(h)
                    documents[n] = d
                    starts[n] = at - offsets[d]
                    lengths[n] = end - at
                n += 1
            at = end
    return n


def line_hashes(
    data: np.ndarray, offsets: np.ndarray, valid: np.ndarray, mode: int, *, paragraphs: bool, least: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Hashes of the lines, or paragraphs, with at least `least` units.

    Args:
        data, offsets, valid: as from `buffers.text_buffers`.
        mode: of the units, see `shingles`.
        paragraphs: pieces are separated by blank lines, not by newlines.
        least: at least 1: a piece without units says nothing and equals nothing.

    Returns:
        (hashes, documents, starts, lengths): uint64 and three int64 arrays (pieces,): byte offset in the document, and bytes
        with what separates the piece from the next one.
    """
    room = 4096
    while True:
        hashes = np.empty(room, np.uint64)
        rest = tuple(np.empty(room, np.int64) for _ in range(3))
        units = np.empty(BLOCK + 2, np.uint64)
        n = int(_hashes(data, offsets, valid, mode, tables(mode), paragraphs, max(1, least), units, hashes, *rest))
        if n <= room:
            documents, starts, lengths = (a[:n] for a in rest)
            return hashes[:n], documents, starts, lengths
        room = n
