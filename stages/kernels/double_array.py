"""Byte strings with numbers as a double array: a step down the trie is one load, and all of a vocabulary lies in a megabyte.

A unit is `base | (256 | label) << 24 | (number + 1) << 33`. The child of a unit by a byte is at `base ^ byte`, if the label there
is that byte; no two units have the same base, so that no other unit's child is taken for it. As a hash table of edges the
32,000 pieces of a unigram model took 4 MB, and finding the best path through a chunk waited for the memory at each byte.
Source: Aoe 1989, "An efficient digital search algorithm by using a double-array structure"; labels as in Darts-clone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from stages.kernels.jit import inlined, kernel
from stages.kernels.token_tables import Int, trie_edges

#: Bits of a base, which bounds the number of units.
_BASE_BITS: Final = 24
_BASE: Final = np.uint64((1 << _BASE_BITS) - 1)
_LABEL: Final = np.uint64(0x1FF)
_TAKEN: Final = np.uint64(256)
_S24: Final = np.uint64(_BASE_BITS)
_S33: Final = np.uint64(33)


@inlined
def step(units: np.ndarray, unit: Int, byte: Int) -> Int:
    """The unit (uint64) below `unit` by a byte, or 0. The root is units[0]."""
    below = units[np.int64((unit & _BASE) ^ np.uint64(byte))]
    return below if (below >> _S24) & _LABEL == _TAKEN | np.uint64(byte) else np.uint64(0)


@inlined
def number_of(unit: Int) -> Int:
    """The number of the string that ends at a unit, or -1."""
    return np.int64(unit >> _S33) - 1


@kernel
def _arrange(
    firsts: np.ndarray,
    labels: np.ndarray,
    children: np.ndarray,
    places: np.ndarray,
    units: np.ndarray,
    based: np.ndarray,
) -> bool:
    """Give every node a place and its children a base, first fit; False if there is no room.

    Args:
        firsts: int64 (nodes + 1,); children[firsts[i]:firsts[i + 1]] are those of node i, by labels (uint8); parents come first.
        places: int64 (nodes,), zeros: filled.
        units: uint64, a multiple of 256, zeros: filled, but for the numbers.
        based: bool, as many, False.
    """
    lowest = np.int64(1)
    for node in range(places.shape[0]):
        first, last = firsts[node], firsts[node + 1]
        if first == last:
            continue
        while lowest < units.shape[0] and units[lowest] != np.uint64(0):
            lowest += 1
        place = lowest
        base = np.int64(-1)
        while place < units.shape[0]:
            base = place ^ np.int64(labels[first])
            fits = base > 0 and not based[base]
            k = first
            while fits and k < last:
                other = base ^ np.int64(labels[k])
                fits = other > 0 and units[other] == np.uint64(0)
                k += 1
            if fits:
                break
            place += 1
        if place >= units.shape[0]:
            return False
        based[base] = True
        units[places[node]] |= np.uint64(base)
        for k in range(first, last):
            at = base ^ np.int64(labels[k])
            units[at] = (_TAKEN | np.uint64(labels[k])) << _S24
            places[children[k]] = at
    return True


def double_array(strings: Sequence[bytes], numbers: Iterable[int]) -> np.ndarray:
    """Units, uint64, of distinct, non-empty strings with numbers from 0 on.

    Raises:
        ValueError: they need more than 2**24 units.
    """
    edges, leaves = trie_edges(strings, numbers)
    keys = np.fromiter(edges, np.int64, len(edges))
    order = np.argsort(keys)
    children = np.fromiter(edges.values(), np.int64, len(edges))[order]
    firsts = np.searchsorted(keys[order] >> 8, np.arange(len(leaves) + 1))
    labels = (keys[order] & 0xFF).astype(np.uint8)
    size = 256 * (len(leaves) // 200 + 2)
    while size <= 1 << _BASE_BITS:
        units = np.zeros(size, np.uint64)
        places = np.zeros(len(leaves), np.int64)
        if _arrange(firsts, labels, children, places, units, np.zeros(size, np.bool_)):
            units[places] |= (np.array(leaves, np.int64) + 1).astype(np.uint64) << _S33
            units.flags.writeable = False
            return units
        size *= 2
    raise ValueError(f"{len(leaves)} nodes do not fit into a double array of 2**{_BASE_BITS} units")
