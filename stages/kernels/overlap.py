"""Which n-grams of a text are in a given set: a hash table behind a bitmap that answers nearly all misses from the cache."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import kernel
from stages.kernels.shingles import BLOCK, hash_shingles, next_units, tables
from stages.kernels.unicode_classes import MARK, decode, previous

_BITMAP_BITS: Final = 23  # 1 MB: it stays in the second-level cache


class NgramTable(NamedTuple):
    """A set of n-grams by hash.

    Attributes:
        sizes: int64, the n that occur, ascending.
        bitmap: uint64, one bit per hash prefix.
        keys: uint64 (power of two,), open addressing, 0 for empty.
        entries: int32 (power of two,), number of the n-gram.
    """

    sizes: np.ndarray
    bitmap: np.ndarray
    keys: np.ndarray
    entries: np.ndarray


@kernel
def _insert(hashes: Any, keys: Any, entries: Any) -> Any:
    mask = np.uint64(keys.shape[0] - 1)
    for e in range(hashes.shape[0]):
        slot = hashes[e] & mask
        while keys[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        keys[slot] = hashes[e]
        entries[slot] = e


def ngram_table(hashes: np.ndarray, sizes: np.ndarray) -> NgramTable:
    """A table of distinct hashes (uint64); entry numbers are positions in `hashes`. `sizes`: the n's, int64, ascending."""
    room = 1 << max(4, int(2 * len(hashes)).bit_length())
    keys, entries = np.zeros(room, np.uint64), np.full(room, -1, np.int32)
    hashes = np.where(hashes == 0, np.uint64(1), hashes)
    _insert(hashes, keys, entries)
    bitmap = np.zeros(1 << (_BITMAP_BITS - 6), np.uint64)
    prefix = hashes >> np.uint64(64 - _BITMAP_BITS)
    np.bitwise_or.at(bitmap, (prefix >> np.uint64(6)).astype(np.int64), np.uint64(1) << (prefix & np.uint64(63)))
    return NgramTable(sizes, bitmap, keys, entries)


@kernel
def _find(
    data: Any, offsets: Any, valid: Any, mode: Any, lookup: Any, table: Any, units: Any, wide: Any, document: Any,
    entry: Any, unit: Any, size: Any,
) -> Any:  # fmt: skip
    found = 0
    mask = np.uint64(table.keys.shape[0] - 1)
    widest = table.sizes[table.sizes.shape[0] - 1]
    for d in range(offsets.shape[0] - 1):
        if not valid[d]:
            continue
        i = offsets[d]
        end = offsets[d + 1]
        carried = 0
        base = 0  # number of the first unit held
        while i < end:
            k, i = next_units(data, i, end, mode, lookup, units, np.int64(carried), np.int64(BLOCK))
            for n in table.sizes:
                if k < n:
                    continue
                m = hash_shingles(units, k, n, wide)
                for j in range(max(0, carried - n + 1), m):
                    h = wide[j]
                    prefix = h >> np.uint64(64 - _BITMAP_BITS)
                    if not table.bitmap[prefix >> np.uint64(6)] >> (prefix & np.uint64(63)) & np.uint64(1):
                        continue
                    h = max(h, np.uint64(1))
                    slot = h & mask
                    while table.keys[slot] != 0 and table.keys[slot] != h:
                        slot = (slot + np.uint64(1)) & mask
                    if table.keys[slot] == h:
                        if found < document.shape[0]:
                            document[found] = d
                            entry[found] = table.entries[slot]
                            unit[found] = base + j
                            size[found] = n
                        found += 1
            keep = min(k, widest - 1)
            for j in range(keep):
                units[j] = units[k - keep + j]
            base += k - keep
            carried = keep
    return found


def find_ngrams(
    data: np.ndarray, offsets: np.ndarray, valid: np.ndarray, mode: int, table: NgramTable
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every occurrence of the table's n-grams.

    Args:
        data, offsets, valid: as from `buffers.text_buffers`.
        mode: of the units, see `shingles`.
        table: from `ngram_table`.

    Returns:
        (document, entry, unit, size): int64 arrays (occurrences,): which document, which n-gram, number of its first unit in
        the document, its n.
    """
    room = 1024
    scratch = np.empty(BLOCK + 2, np.uint64), np.empty(BLOCK + 2, np.uint64)
    while True:
        out = tuple(np.empty(room, np.int64) for _ in range(4))
        found = _find(data, offsets, valid, mode, tables(mode), table, *scratch, *out)
        if found <= room:
            document, entry, unit, size = (a[:found] for a in out)
            return document, entry, unit, size
        room = int(found)


@kernel
def _unit_ends(data: Any, start: Any, end: Any, mode: Any, lookup: Any, units: Any, ends: Any) -> Any:
    n = 0
    i = start
    while i < end:
        k, i = next_units(data, i, end, mode, lookup, units, np.int64(0), np.int64(1))
        if k > 1:  # a word and, right behind it, a character that is a unit by itself
            border = previous(data, start, i)
            while lookup.flags[lookup.classes[decode(data, border, i)[0]]] & MARK:
                border = previous(data, start, border)
            ends[n] = border - start
            n += 1
        if k:
            ends[n] = i - start
            n += 1
    return n


def unit_ends(data: np.ndarray, start: int, end: int, mode: int) -> np.ndarray:
    """Where each unit of one document ends, a word with what parts it from the next: int64 byte offsets from `start`."""
    ends = np.empty(end - start + 2, np.int64)
    n = _unit_ends(data, start, end, mode, tables(mode), np.empty(4, np.uint64), ends)
    return ends[:n]
