# mypy: allow-untyped-defs, allow-untyped-calls
"""Sums of decision trees in fixed point: growing them from examples, and evaluating them.

Reads float32 features, writes int32 scores (ONE is one unit of log-odds). Promises that a score is a sum of integers picked
by comparisons, so that it is the same on every CPU; and that growing is deterministic: no sampling but by seed, ties to the
lower feature. Gradient boosting as in Friedman 2001 with second-order leaves (Chen and Guestrin 2016) and leaf-wise growth
over histograms (Ke et al. 2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import kernel

#: Fixed point of scores: 0 is a probability of one half.
ONE: Final = 1 << 12
_BINS: Final = 64


class Trees(NamedTuple):
    """Trees as arrays over nodes. The two children of a node follow one another.

    Attributes:
        roots: int32 (trees,), first node of each tree.
        node: int32 (nodes,): feature << 16 | left child; of a leaf, its value (`leaf`).
        threshold: float32 (nodes,): rows with a value above it go right.
        bias: int32 (1,), the score of no tree.
    """

    roots: np.ndarray
    node: np.ndarray
    threshold: np.ndarray
    bias: np.ndarray


#: Values of leaves are stored as negative numbers: -1 - (value + _LEAF).
_LEAF: Final = 1 << 24
#: After so many trees, and then after each tenth, rows whose score is this far from the threshold are left at that.
_CERTAIN_AFTER: Final = 30
_CERTAIN: Final = 2 * ONE


@kernel
def evaluate(features, n, roots, node, threshold, bias, centre, scores):
    """Fill scores[:n] (int32) from features[:n] (float32); exact only as to the side of `centre` that a score is on.

    Rows that thirty trees put two units of log-odds or more from `centre` are not shown to the others: 72 % of blocks, of
    which 2 in 1,000 would come out on the other side.
    """
    for k in range(n):
        row = features[k]
        total = bias[0]
        for tree in range(len(roots)):
            m = node[roots[tree]]
            at = roots[tree]
            while m >= 0:
                at = (m & 0xFFFF) + (row[m >> 16] > threshold[at])
                m = node[at]
            total += -1 - m - _LEAF
            if tree >= _CERTAIN_AFTER and tree % 10 == 0 and (total < centre - _CERTAIN or total > centre + _CERTAIN):
                break
        scores[k] = total


def as_json(trees: Trees, names: Sequence[str]) -> dict[str, Any]:
    """Trees as plain values; features by name, so that a model cannot be read against another feature table."""
    return {
        "features": list(names),
        "bias": int(trees.bias[0]),
        "roots": trees.roots.tolist(),
        "node": trees.node.tolist(),
        "threshold": [float(t) for t in trees.threshold],
    }


def from_json(data: Mapping[str, Any], names: Sequence[str]) -> Trees:
    """Inverse of `as_json`.

    Raises:
        ValueError: the model was made for other features.
    """
    if list(data["features"]) != list(names):
        raise ValueError("the model was trained on other features than this version measures")
    return Trees(
        np.array(data["roots"], np.int32),
        np.array(data["node"], np.int32),
        np.array(data["threshold"], np.float32),
        np.array([data["bias"]], np.int32),
    )


# ---- growing ----


@kernel
def _histogram(binned, rows, gradient, hessian, chosen, out):
    """Sum gradients and hessians by feature and bin: out is float64 (features, _BINS, 2), zeroed here."""
    for c in range(len(chosen)):
        f = chosen[c]
        for b in range(_BINS):
            out[f, b, 0] = 0.0
            out[f, b, 1] = 0.0
        for j in range(len(rows)):
            r = rows[j]
            b = binned[f, r]
            out[f, b, 0] += gradient[r]
            out[f, b, 1] += hessian[r]


@kernel
def _best_split(histogram, chosen, least, ridge, best):
    """Gain, feature and bin of the best split into best (float64 (3,)); gain 0 for none."""
    best[0] = 0.0
    for c in range(len(chosen)):
        f = chosen[c]
        g = h = 0.0
        for b in range(_BINS):
            g += histogram[f, b, 0]
            h += histogram[f, b, 1]
        whole = g * g / (h + ridge)
        left_g = left_h = 0.0
        for b in range(_BINS - 1):
            left_g += histogram[f, b, 0]
            left_h += histogram[f, b, 1]
            right_h = h - left_h
            if left_h < least or right_h < least:
                continue
            right_g = g - left_g
            gain = left_g * left_g / (left_h + ridge) + right_g * right_g / (right_h + ridge) - whole
            if gain > best[0]:
                best[0] = gain
                best[1] = f
                best[2] = b


class _Leaf(NamedTuple):
    gain: float
    node: int
    rows: np.ndarray
    histogram: np.ndarray
    feature: int
    bin: int


def grow(
    features: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    *,
    trees: int = 100,
    leaves: int = 15,
    rate: float = 0.1,
    ridge: float = 5.0,
    least: float = 3.0,
    column_share: float = 0.5,
    row_share: float = 0.8,
    seed: int = 0,
) -> Trees:
    """Boosted trees for a yes-or-no label.

    Args:
        features: float32 (n, columns).
        labels: 0 or 1, shape (n,).
        weights: of mean 1, shape (n,).
        trees, leaves, rate: how many, how large, how much each counts.
        ridge, least: regularisation of a leaf's value; least sum of hessians in a leaf.
        column_share, row_share: what each tree sees, at random by `seed`.
    """
    rng = np.random.default_rng(seed)
    n, columns = features.shape
    edges = [_edges(features[:, f]) for f in range(columns)]
    binned = np.stack([np.searchsorted(e, features[:, f], "left").astype(np.uint8) for f, e in enumerate(edges)])
    prior = float((labels * weights).sum() / weights.sum())
    bias = np.log(prior / (1 - prior))
    score = np.full(n, bias)
    nodes: list[list[float]] = []
    roots = []
    for _ in range(trees):
        p = 1.0 / (1.0 + np.exp(-score))
        gradient = (p - labels) * weights
        hessian = np.maximum(p * (1 - p), 1e-6) * weights
        rows = np.flatnonzero(rng.random(n) < row_share)
        chosen = np.sort(rng.choice(columns, max(1, int(columns * column_share)), replace=False)).astype(np.int64)
        roots.append(len(nodes))
        score += _grow_one(nodes, binned, edges, rows, gradient, hessian, chosen, leaves, rate, ridge, least)
    if len(nodes) > 0xFFFF:
        raise ValueError(f"{len(nodes)} nodes: a child's number must fit into 16 bits")
    packed = [int(f) << 16 | int(left) if f >= 0 else -1 - (int(value) + _LEAF) for f, _, left, value in nodes]
    return Trees(
        np.array(roots, np.int32),
        np.array(packed, np.int32),
        np.array([t for _, t, _, _ in nodes], np.float32),
        np.array([round(bias * ONE)], np.int32),
    )


def _edges(values: np.ndarray) -> np.ndarray:
    """Thresholds between bins, float32: midway between neighbouring values, at most _BINS - 1 of them."""
    found = np.unique(values)
    if len(found) > _BINS:
        found = np.unique(np.quantile(values, np.linspace(0, 1, _BINS), method="nearest"))
    middle: np.ndarray = ((found[:-1].astype(np.float64) + found[1:]) / 2).astype(np.float32)
    return middle


def _grow_one(
    nodes: list[list[float]],
    binned: np.ndarray,
    edges: list[np.ndarray],
    rows: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
    chosen: np.ndarray,
    leaves: int,
    rate: float,
    ridge: float,
    least: float,
) -> np.ndarray:
    """Append one tree's nodes; its contribution to every row's score."""
    best = np.zeros(3)

    def leaf(node: int, rows: np.ndarray, histogram: np.ndarray) -> _Leaf:
        _best_split(histogram, chosen, least, ridge, best)
        return _Leaf(best[0], node, rows, histogram, int(best[1]), int(best[2]))

    def fresh(rows: np.ndarray) -> np.ndarray:
        out = np.zeros((len(binned), _BINS, 2))
        _histogram(binned, rows, gradient, hessian, chosen, out)
        return out

    first = len(nodes)
    nodes.append([-1, 0, 0, 0])
    open_leaves = [leaf(first, rows, fresh(rows))]
    while len(open_leaves) < leaves:
        at = max(range(len(open_leaves)), key=lambda i: open_leaves[i].gain)
        parent = open_leaves[at]
        if parent.gain <= 0:
            break
        goes_left = binned[parent.feature, parent.rows] <= parent.bin
        left, right = parent.rows[goes_left], parent.rows[~goes_left]
        small = fresh(left if len(left) < len(right) else right)
        large = parent.histogram - small
        pair = (small, large) if len(left) < len(right) else (large, small)
        nodes[parent.node] = [parent.feature, edges[parent.feature][parent.bin], len(nodes), 0]
        nodes += [[-1, 0, 0, 0], [-1, 0, 0, 0]]
        open_leaves[at : at + 1] = [
            leaf(len(nodes) - 2, left, pair[0]),
            leaf(len(nodes) - 1, right, pair[1]),
        ]
    for x in open_leaves:
        value = -rate * gradient[x.rows].sum() / (hessian[x.rows].sum() + ridge)
        nodes[x.node][3] = round(value * ONE)
    return _walk(nodes, first, binned, edges)


def _walk(nodes: list[list[float]], first: int, binned: np.ndarray, edges: list[np.ndarray]) -> np.ndarray:
    """The tree's value for every row."""
    out = np.zeros(binned.shape[1])
    waiting = [(first, np.arange(binned.shape[1]))]
    while waiting:
        node, rows = waiting.pop()
        feature, threshold, left, value = nodes[node]
        if feature < 0:
            out[rows] = value / ONE
            continue
        f = int(feature)
        bin_ = int(np.searchsorted(edges[f], np.float32(threshold), "left"))
        goes_left = binned[f, rows] <= bin_
        waiting += [(int(left), rows[goes_left]), (int(left) + 1, rows[~goes_left])]
    return out
