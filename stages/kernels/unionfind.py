"""Connected components of edges between numbered nodes, few of which occur: a bitmap, ranks and a union-find forest.

Of N documents most have no near-duplicate. A bit per document says which are nodes (N / 8 bytes), running counts give each
node its dense number (N / 128 bytes), and the forest holds 4 bytes per node: 30 M documents with 10 M nodes take 44 MB.
The root of a tree is its smallest node, so components do not depend on the order of edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.jit import kernel

_WORD = 64
#: 64-bit words of the bitmap per running count.
_STRIDE = 8


@kernel
def _mark(bits: Any, nodes: Any) -> Any:
    for i in range(nodes.shape[0]):
        bits[nodes[i] >> 6] |= np.uint64(1) << np.uint64(nodes[i] & 63)


@kernel
def _popcount(x: Any) -> Any:
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _counts(bits: Any, counts: Any) -> Any:
    total = 0
    for w in range(bits.shape[0]):
        if w % _STRIDE == 0:
            counts[w // _STRIDE] = total
        total += _popcount(bits[w])
    return total


@kernel
def _rank(bits: Any, counts: Any, node: Any) -> Any:
    word = node >> 6
    group = word // _STRIDE
    rank = counts[group]
    for w in range(group * _STRIDE, word):
        rank += _popcount(bits[w])
    below = (np.uint64(1) << np.uint64(node & 63)) - np.uint64(1)
    return rank + _popcount(bits[word] & below)


@kernel
def _find(parent: Any, x: Any) -> Any:
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


@kernel
def _union(bits: Any, counts: Any, parent: Any, left: Any, right: Any) -> Any:
    for i in range(left.shape[0]):
        x = _find(parent, np.int64(_rank(bits, counts, left[i])))
        y = _find(parent, np.int64(_rank(bits, counts, right[i])))
        if x < y:
            parent[y] = x
        else:
            parent[x] = y


@kernel
def _nodes(bits: Any, first: Any, end: Any, out: Any) -> Any:
    k = 0
    for node in range(first, end):
        if bits[node >> 6] >> np.uint64(node & 63) & np.uint64(1):
            out[k] = node
            k += 1
    return k


@kernel
def _flatten(parent: Any) -> Any:
    # a parent is smaller than its child, so it is at its root already
    for x in range(parent.shape[0]):
        parent[x] = parent[parent[x]]


class Components:
    """Union-find over nodes 0 … size - 1. First `mark` every edge, then `union` every edge, then read `roots`."""

    def __init__(self, size: int) -> None:
        self._bits = np.zeros(size // _WORD + 1, np.uint64)
        self._counts = np.zeros(len(self._bits) // _STRIDE + 1, np.int64)
        self._parent: np.ndarray | None = None

    def mark(self, nodes: np.ndarray) -> None:
        """Say that nodes occur: int64 array."""
        _mark(self._bits, nodes)

    def start(self) -> int:
        """End of marking: every node its own component. Returns how many nodes there are."""
        nodes = int(_counts(self._bits, self._counts))
        self._parent = np.arange(nodes, dtype=np.uint32)
        return nodes

    def union(self, left: np.ndarray, right: np.ndarray) -> None:
        """Join the components of left[i] and right[i]: int64 arrays of marked nodes."""
        _union(self._bits, self._counts, self._forest(), left, right)

    def finish(self) -> None:
        """End of joining."""
        _flatten(self._forest())

    def roots(self, first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """(nodes, components) of the marked nodes in [first, end): int64 and uint32 arrays.

        A component is the dense number of its smallest node.
        """
        nodes = np.empty(end - first, np.int64)
        nodes = nodes[: _nodes(self._bits, first, end, nodes)].copy()
        if not len(nodes):
            return nodes, np.zeros(0, np.uint32)
        at = int(_rank(self._bits, self._counts, int(nodes[0])))
        return nodes, self._forest()[at : at + len(nodes)]

    def _forest(self) -> np.ndarray:
        if self._parent is None:
            raise ValueError("start() comes between mark() and union()")
        return self._parent
