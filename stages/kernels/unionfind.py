"""Connected components in memory: a union-find forest, 4 bytes per node whether it has an edge or not.

The root of a tree is its smallest node, so components do not depend on the order of edges.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import kernel

#: Nodes are numbered in 32 bits.
MAX_NODES: Final = (1 << 32) - 1


@kernel
def _union(parent: Any, left: Any, right: Any) -> Any:
    for i in range(left.shape[0]):
        x = np.int64(left[i])
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = np.int64(parent[x])
        y = np.int64(right[i])
        while parent[y] != y:
            parent[y] = parent[parent[y]]
            y = np.int64(parent[y])
        if x < y:
            parent[y] = x
        else:
            parent[x] = y


@kernel
def _flatten(parent: Any, linked: Any) -> Any:
    # a parent is smaller than its child, so it is at its root already
    for x in range(parent.shape[0]):
        root = parent[parent[x]]
        parent[x] = root
        if root != x:
            linked[x] = True
            linked[root] = True


class Forest:
    """Union-find over nodes 0 … size - 1.

    Raises:
        ValueError: more nodes than MAX_NODES.
    """

    def __init__(self, size: int) -> None:
        if size > MAX_NODES:
            raise ValueError(f"{size} nodes do not fit in 32 bits")
        self._parent = np.arange(size, dtype=np.uint32)

    def union(self, left: np.ndarray, right: np.ndarray) -> None:
        """Join the components of left[i] and right[i]: contiguous int64 arrays."""
        _union(self._parent, left, right)

    def roots(self) -> tuple[np.ndarray, np.ndarray]:
        """(roots, linked): uint32 (size,), smallest node of each node's component; bool (size,), nodes with an edge."""
        linked = np.zeros(len(self._parent), np.bool_)
        _flatten(self._parent, linked)
        return self._parent, linked
