"""Byte pair encoding of one chunk: merge the neighbours of best rank, leftmost first, until none can be merged.

Symbols are small integers; `pairs` says which two merge, into what, and how early. Short chunks are scanned; long ones use
a heap, so that the time is n log n whatever the text (a megabyte of one letter, base64, ideographs without end).
Source: Sennrich et al. 2016; the order is that of sentencepiece's src/bpe_model.cc and of tiktoken's byte_pair_merge.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stages.kernels.jit import inlined, inner
from stages.kernels.token_tables import ABSENT, Int, find

#: Above this many symbols the heap is faster than scanning for the best pair again and again.
SCAN: Final = 48
#: No pair.
NEVER: Final = np.int64(0x7FFF_FFFF)
_S32: Final = np.uint64(32)


@inlined
def pair_value(pairs: np.ndarray, left: Int, right: Int) -> Int:
    """rank << 32 | merged symbol of two symbols, int64; NEVER << 32 where they do not merge. Symbols below 0 never do."""
    if left < 0 or right < 0:
        return NEVER << 32
    found = find(pairs, np.uint64(left) << _S32 | np.uint64(right))
    if found == ABSENT:
        return NEVER << 32
    return np.int64(found)


@inner
def merge_short(pairs: np.ndarray, symbols: np.ndarray, starts: np.ndarray, values: np.ndarray, n: Int) -> Int:
    """Merge symbols[:n] in place, for n up to a few dozen; how many are left.

    Args:
        pairs: hash table, left << 32 | right -> rank << 32 | merged.
        symbols: int32, at least n.
        starts: int32, at least n: where each symbol starts, kept in step.
        values: int64, at least n: scratch.
    """
    for i in range(n - 1):
        values[i] = pair_value(pairs, symbols[i], symbols[i + 1])
    while n > 1:
        best = values[0]
        at = 0
        for i in range(1, n - 1):
            # equal ranks: the leftmost, whatever the merged symbol's number
            if values[i] >> 32 < best >> 32:
                best = values[i]
                at = i
        if best >> 32 == NEVER:
            break
        symbols[at] = np.int32(best & 0xFFFF_FFFF)
        n -= 1
        for i in range(at + 1, n):
            symbols[i] = symbols[i + 1]
            starts[i] = starts[i + 1]
            values[i - 1] = values[i]
        if at > 0:
            values[at - 1] = pair_value(pairs, symbols[at - 1], symbols[at])
        if at + 1 < n:
            values[at] = pair_value(pairs, symbols[at], symbols[at + 1])
    return n


@inlined
def _push(heap: np.ndarray, size: Int, item: Int) -> None:
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if heap[up] <= item:
            break
        heap[at] = heap[up]
        at = up
    heap[at] = item


@inlined
def _sift(heap: np.ndarray, at: Int, size: Int) -> None:
    """Let heap[at] sink to its place among heap[:size]."""
    item = heap[at]
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and heap[down + 1] < heap[down]:
            down += 1
        if heap[down] >= item:
            break
        heap[at] = heap[down]
        at = down
    heap[at] = item


@inner
def merge_long(
    pairs: np.ndarray,
    symbols: np.ndarray,
    starts: np.ndarray,
    values: np.ndarray,
    links: np.ndarray,
    heap: np.ndarray,
    n: Int,
) -> Int:
    """As `merge_short`, with a heap of rank << 32 | position.

    Args:
        links: int32, at least 2n: the next symbol of each, then the previous.
        heap: int64, at least 2n + 2.

    A popped entry counts if the pair that stands at its position now has its rank; every pair that comes to stand somewhere
    is pushed then, so the popped minimum is always the best, leftmost pair. At most one push per position and two per merge
    minus one pop: 2n entries.
    """
    size = np.int64(0)
    for i in range(n):
        links[i] = i + 1
        links[n + i] = i - 1
    for i in range(n - 1):
        values[i] = pair_value(pairs, symbols[i], symbols[i + 1])
        if values[i] >> 32 != NEVER:
            heap[size] = values[i] >> 32 << 32 | i
            size += 1
    for i in range(size // 2 - 1, -1, -1):
        _sift(heap, i, size)
    values[n - 1] = NEVER << 32
    while size > 0:
        item = heap[0]
        size -= 1
        heap[0] = heap[size]
        _sift(heap, np.int64(0), size)
        at = item & 0xFFFF_FFFF
        if values[at] >> 32 != item >> 32:
            continue
        right = links[at]
        symbols[at] = np.int32(values[at] & 0xFFFF_FFFF)
        values[right] = NEVER << 32
        after = links[right]
        links[at] = after
        values[at] = NEVER << 32
        if after < n:
            links[n + after] = at
            values[at] = pair_value(pairs, symbols[at], symbols[after])
            if values[at] >> 32 != NEVER:
                _push(heap, size, values[at] >> 32 << 32 | at)
                size += 1
        before = links[n + at]
        if before >= 0:
            values[before] = pair_value(pairs, symbols[before], symbols[at])
            if values[before] >> 32 != NEVER:
                _push(heap, size, values[before] >> 32 << 32 | np.int64(before))
                size += 1
    kept = 0
    i = 0
    while i < n:
        symbols[kept] = symbols[i]
        starts[kept] = starts[i]
        kept += 1
        i = links[i]
    return kept
