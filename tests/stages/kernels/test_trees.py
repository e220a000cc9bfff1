"""Boosted trees: they learn, exactly the same each time, survive JSON, and stop early without changing sides."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stages.kernels.trees import ONE, Trees, as_json, evaluate, from_json, grow


def data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(n, 6)), 2).astype(np.float32)
    y = ((x[:, 0] > 0.3) & (x[:, 1] < 0.5)) | (x[:, 2] * x[:, 3] > 0.8)
    return x, y.astype(np.int64)


def scores(trees: Trees, x: np.ndarray, centre: int = 0) -> np.ndarray:
    out = np.zeros(len(x), np.int32)
    evaluate(x, len(x), *trees, centre, out)
    return out


def test_they_learn() -> None:
    x, y = data(4_000, 1)
    trees = grow(x, y, np.ones(len(y)), trees=60, leaves=12)
    fresh_x, fresh_y = data(2_000, 2)
    assert ((scores(trees, fresh_x) > 0) == fresh_y).mean() > 0.96


def test_growing_twice_gives_the_same_trees() -> None:
    x, y = data(1_000, 3)
    one = grow(x, y, np.ones(1_000), trees=10, seed=4)
    two = grow(x, y, np.ones(1_000), trees=10, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one.node, grow(x, y, np.ones(1_000), trees=10, seed=5).node)


def test_json_and_back() -> None:
    x, y = data(1_000, 3)
    trees = grow(x, y, np.ones(1_000), trees=20)
    names = list("abcdef")
    again = from_json(json.loads(json.dumps(as_json(trees, names))), names)
    assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(trees, again, strict=True))
    with pytest.raises(ValueError, match="other features"):
        from_json(as_json(trees, names), list("abcdeg"))


def test_the_sum_is_that_of_the_leaves() -> None:
    """Against a walk in Python, without stopping early."""
    x, y = data(500, 6)
    trees = grow(x, y, np.ones(500), trees=25)
    for row, got in zip(x, scores(trees, x), strict=True):
        total = int(trees.bias[0])
        for root in trees.roots:
            at = int(root)
            while trees.node[at] >= 0:
                packed = int(trees.node[at])
                at = (packed & 0xFFFF) + (row[packed >> 16] > trees.threshold[at])
            total += -1 - int(trees.node[at]) - (1 << 24)
        assert got == total


def test_rows_that_are_certain_stop_early_on_the_same_side() -> None:
    x, y = data(4_000, 7)
    trees = grow(x, y, np.ones(len(y)), trees=100)
    whole = scores(trees, x, 1_000 * ONE)  # certain at once: 31 trees
    short = scores(trees, x, 0)
    assert (short != whole).any()
    full = np.zeros(len(x), np.int64) + int(trees.bias[0])
    for root in trees.roots:
        one = Trees(np.array([root], np.int32), trees.node, trees.threshold, np.zeros(1, np.int32))
        full += scores(one, x)
    assert ((short > 0) == (full > 0)).mean() > 0.99


def test_weights_count() -> None:
    x, y = data(2_000, 8)
    weights = np.where(y == 1, 10.0, 0.1)
    eager = scores(grow(x, y, weights / weights.mean(), trees=20), x)
    plain = scores(grow(x, y, np.ones(2_000), trees=20), x)
    assert (eager > 0).sum() > 1.3 * (plain > 0).sum()
