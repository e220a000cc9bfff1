"""Tables that the token kernels look things up in: a hash table of 64-bit keys, a byte trie, and the set of joined pairs.

All are plain numpy arrays, built once per tokenizer file and only read afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from stages.kernels.jit import inlined, inner, kernel

#: An integer of a kernel: a numpy scalar or a Python int, which mypy tells apart and numba does not.
Int: TypeAlias = Any

#: Marks a free slot; no key is ever this (keys are pairs of 31-bit numbers, or a node and a byte).
EMPTY: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
#: What `find` gives for a key that is not there.
ABSENT: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_MIX_A: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_S32: Final = np.uint64(32)
_ONE: Final = np.uint64(1)
_TWO: Final = np.uint64(2)
_S8: Final = np.uint64(8)
_LOW32: Final = np.uint64(0xFFFF_FFFF)

PAIR_BITS: Final = 21
_PAIR_SHIFT: Final = np.uint64(64 - PAIR_BITS)
_CODE_POINT_BITS: Final = np.uint64(21)


@inlined
def _place(key: Int, mask: Int) -> Int:
    # one multiplication will do: the keys are pairs of small numbers, and a step through a trie waits for this
    h = key * _MIX_A
    return (h ^ (h >> _S32)) & mask


@inlined
def find(slots: np.ndarray, key: Int) -> Int:
    """The uint64 value of a uint64 key, or ABSENT. `slots` is uint64 (2 * 2**k,): key, value, key, value, …"""
    mask = np.uint64(slots.shape[0] // 2 - 1)
    at = _place(key, mask)
    while True:
        found = slots[_TWO * at]
        if found == key:
            return slots[_TWO * at + _ONE]
        if found == EMPTY:
            return ABSENT
        at = (at + _ONE) & mask


@kernel
def _insert(slots: np.ndarray, keys: np.ndarray, values: np.ndarray) -> None:
    mask = np.uint64(slots.shape[0] // 2 - 1)
    for i in range(keys.shape[0]):
        at = _place(keys[i], mask)
        while slots[_TWO * at] != EMPTY and slots[_TWO * at] != keys[i]:
            at = (at + _ONE) & mask
        slots[_TWO * at] = keys[i]
        slots[_TWO * at + _ONE] = values[i]


def hash_table(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Slots for `find` over uint64 keys and values, both (n,); at most half full."""
    size = 16
    while size < 2 * len(keys):
        size *= 2
    slots = np.full(2 * size, EMPTY, np.uint64)
    _insert(slots, keys.astype(np.uint64), values.astype(np.uint64))
    slots.flags.writeable = False
    return slots


class Trie(NamedTuple):
    """Byte strings with numbers.

    Attributes:
        edges: hash table; node << 8 | byte -> child. The root is node 0.
        leaves: int32 (nodes,), number of the string that ends here, or -1.
        starts: bool (256,), whether any string starts with this byte.
    """

    edges: np.ndarray
    leaves: np.ndarray
    starts: np.ndarray


def trie_edges(strings: Sequence[bytes], numbers: Iterable[int]) -> tuple[dict[int, int], list[int]]:
    """A trie of distinct, non-empty strings: node << 8 | byte -> child, parents before children; each node's number or -1."""
    edges: dict[int, int] = {}
    leaves = [-1]
    for string, number in zip(strings, numbers, strict=True):
        node = 0
        for byte in string:
            key = node << 8 | byte
            child = edges.get(key)
            if child is None:
                child = edges[key] = len(leaves)
                leaves.append(-1)
            node = child
        leaves[node] = number
    return edges, leaves


def byte_trie(strings: Sequence[bytes], numbers: Iterable[int]) -> Trie:
    """A trie of distinct, non-empty strings."""
    edges, leaves = trie_edges(strings, numbers)
    starts = np.zeros(256, np.bool_)
    starts[[s[0] for s in strings]] = True
    table = hash_table(np.fromiter(edges, np.uint64, len(edges)), np.fromiter(edges.values(), np.uint64, len(edges)))
    out = Trie(table, np.array(leaves, np.int32), starts)
    for array in out:
        array.flags.writeable = False
    return out


@inlined
def child(trie: Trie, node: Int, byte: Int) -> Int:
    """The node that follows, or -1."""
    found = find(trie.edges, np.uint64(node) << _S8 | np.uint64(byte))
    if found == ABSENT:
        return -1
    return np.int64(found)


@inner
def longest_number(trie: Trie, data: np.ndarray, start: Int, end: Int) -> Int:
    """length << 32 | number of the longest string at data[start:end], or 0."""
    node = np.int64(0)
    best = np.int64(0)
    for p in range(start, end):
        node = child(trie, node, data[p])
        if node < 0:
            break
        if trie.leaves[node] >= 0:
            best = np.int64(p + 1 - start) << 32 | np.int64(trie.leaves[node])
    return best


class JoinedPairs(NamedTuple):
    """Pairs of neighbouring characters that some piece holds. May hold others too: that costs speed, never correctness.

    Attributes:
        ascii: bool (128 * 128,), exact for two ASCII characters.
        bits: uint8 (2**PAIR_BITS / 8,), by a hash of the two code points.
    """

    ascii: np.ndarray
    bits: np.ndarray


def joined_pairs(pieces: Iterable[str]) -> JoinedPairs:
    """The pairs within any of `pieces`."""
    return pair_set({(ord(a), ord(b)) for p in pieces for a, b in pairwise(p)})


def pair_set(code_points: Iterable[tuple[int, int]]) -> JoinedPairs:
    """JoinedPairs of given pairs of code points."""
    pairs = np.array(sorted(code_points), np.uint64).reshape(-1, 2)
    exact = np.zeros(128 * 128, np.bool_)
    both = (pairs < 128).all(axis=1)
    exact[(pairs[both, 0] * 128 + pairs[both, 1]).astype(np.int64)] = True
    bits = np.zeros(1 << PAIR_BITS, np.bool_)
    bits[(((pairs[:, 0] << _CODE_POINT_BITS | pairs[:, 1]) * _MIX_A) >> _PAIR_SHIFT).astype(np.int64)] = True
    out = JoinedPairs(exact, np.packbits(bits, bitorder="little"))
    for array in out:
        array.flags.writeable = False
    return out


@inlined
def joined(pairs: JoinedPairs, a: Int, b: Int) -> Any:
    """Whether (bool) a piece may hold code point b right after code point a; False is certain."""
    if (a | b) < 128:
        return pairs.ascii[a << 7 | b]
    h = ((np.uint64(a) << _CODE_POINT_BITS | np.uint64(b)) * _MIX_A) >> _PAIR_SHIFT
    return (pairs.bits[np.int64(h >> np.uint64(3))] >> np.uint8(h & np.uint64(7))) & 1 != 0
