"""Byte strings with numbers and values as a double array: a step down the trie is one load, that of its value included.

A unit is `base | label << 23 | 1 << 31 | value << 32`, the value being a float32, NaN where no string ends. The child of a unit
by a byte is at `base ^ byte`, if the label there is that byte; no two units have the same base, so that no other unit's child
is taken for it. As a hash table of edges the 32,000 pieces of a unigram model took 4 MB, and finding the best path through a
chunk waited for the memory at each byte; with the values in an array of their own, it did so at every other one.
Source: Aoe 1989, "An efficient digital search algorithm by using a double-array structure"; labels as in Darts-clone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import inlined, kernel
from stages.kernels.token_tables import Int, trie_edges

#: Bits of a base, which bounds the number of units.
_BASE_BITS: Final = 23
_BASE: Final = np.uint64((1 << _BASE_BITS) - 1)
_CHECK: Final = np.uint64(0x1FF << _BASE_BITS)
_TAKEN: Final = np.uint64(256)
_S23: Final = np.uint64(_BASE_BITS)
#: Nodes for which there is room, whatever they look like: half the units.
MOST_NODES: Final = 1 << _BASE_BITS - 1
_NOT_A_NUMBER: Final = np.uint64(int(np.float32(np.nan).view(np.uint32)) << 32)


class DoubleArray(NamedTuple):
    """A trie; the root is at place 0.

    Attributes:
        units: uint64 (places,).
        values: float32 (2 * places,), the units themselves: the value of place p is at 2 p + 1.
        numbers: int32 (places,), number of the string that ends at each place, or -1.
    """

    units: np.ndarray
    values: np.ndarray
    numbers: np.ndarray


@inlined
def below(trie: DoubleArray, place: Int, byte: Int) -> Int:
    """The place below another by a byte, or -1."""
    child = np.int64((trie.units[place] & _BASE) ^ np.uint64(byte))
    return child if trie.units[child] & _CHECK == (_TAKEN | np.uint64(byte)) << _S23 else np.int64(-1)


@inlined
def ends(trie: DoubleArray, place: Int) -> Any:
    """Whether (bool) a string ends at a place."""
    value = trie.values[2 * place + 1]
    return value == value


@inlined
def value_of(trie: DoubleArray, place: Int) -> Any:
    """The value (float32) of the string that ends at a place."""
    return trie.values[2 * place + 1]


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
            units[at] = (_TAKEN | np.uint64(labels[k])) << _S23
            places[children[k]] = at
    return True


def double_array(strings: Sequence[bytes], numbers: Iterable[int], values: np.ndarray) -> DoubleArray:
    """A trie of distinct, non-empty strings with numbers from 0 on and values (float32, as many).

    Raises:
        ValueError: they need more than 2**23 places.
    """
    edges, leaves = trie_edges(strings, range(len(strings)))
    keys = np.fromiter(edges, np.int64, len(edges))
    order = np.argsort(keys)
    children = np.fromiter(edges.values(), np.int64, len(edges))[order]
    firsts = np.searchsorted(keys[order] >> 8, np.arange(len(leaves) + 1))
    labels = (keys[order] & 0xFF).astype(np.uint8)
    most = 1 << _BASE_BITS
    size = min(256 * (len(leaves) // 200 + 2), most)
    while True:
        units = np.zeros(size, np.uint64)
        places = np.zeros(len(leaves), np.int64)
        if _arrange(firsts, labels, children, places, units, np.zeros(size, np.bool_)):
            string = np.array(leaves)
            units[places[string < 0]] |= _NOT_A_NUMBER
            own, string = places[string >= 0], string[string >= 0]
            units[own] |= values.astype(np.float32).view(np.uint32)[string].astype(np.uint64) << np.uint64(32)
            found = np.full(size, -1, np.int32)
            found[own] = np.fromiter(numbers, np.int32, len(strings))[string]
            for array in (units, found):
                array.flags.writeable = False
            return DoubleArray(units, units.view(np.float32), found)
        if size == most:
            raise ValueError(f"{len(leaves)} nodes do not fit into a double array of 2**{_BASE_BITS} places")
        size = min(2 * size, most)
