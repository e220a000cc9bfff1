"""Whether a classifier's numbers mean what they say, and a table that makes them."""

from __future__ import annotations

from typing import Any

import numpy as np


def isotonic(raw: np.ndarray, good: np.ndarray, knots: int = 33) -> list[list[float]]:
    """Monotone table from raw probability to share of good texts: pool adjacent violators, then at most `knots` points.

    Args:
        raw: float64 (n,).
        good: bool (n,).
    """
    order = np.argsort(raw, kind="stable")
    blocks: list[list[float]] = []  # [sum of good, size, sum of raw]
    for x, y in zip(raw[order], good[order].astype(float), strict=True):
        blocks.append([y, 1.0, float(x)])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    # One made-up text on each side (Laplace), so that nothing is certain on the strength of a few.
    points = [(block[2] / block[1], (block[0] + 1) / (block[1] + 2)) for block in blocks]
    x, y = np.array([p[0] for p in points]), np.maximum.accumulate([p[1] for p in points])
    if len(x) > knots:
        chosen = np.unique(np.linspace(0, len(x) - 1, knots).round().astype(int))
        x, y = x[chosen], y[chosen]
    table = [[round(float(a), 6), round(float(b), 6)] for a, b in zip(x, y, strict=True)]
    return [[0.0, table[0][1]], *table, [1.0, table[-1][1]]]


def auc(scores: np.ndarray, good: np.ndarray) -> float:
    """Chance that a good text scores above a bad one, ties counting half."""
    order = np.argsort(scores, kind="stable")
    _, first, counts = np.unique(scores[order], return_index=True, return_counts=True)
    ranks = np.repeat(first + (counts + 1) / 2, counts)
    n, m = int(good.sum()), int((~good).sum())
    if not n or not m:
        return float("nan")
    return float((ranks[good[order]].sum() - n * (n + 1) / 2) / (n * m))


def measure(scores: np.ndarray, good: np.ndarray) -> dict[str, Any]:
    """AUC, precision and recall at 0.5, expected calibration error over tenths, and the tenths themselves."""
    taken = scores >= 0.5
    hits = int((taken & good).sum())
    tenths = []
    error = 0.0
    for k in range(10):
        inside = (scores >= k / 10) & ((scores < (k + 1) / 10) | (k == 9))
        if inside.any():
            mean, share = float(scores[inside].mean()), float(good[inside].mean())
            error += abs(mean - share) * float(inside.mean())
            tenths.append({"texts": int(inside.sum()), "mean_score": round(mean, 4), "share_good": round(share, 4)})
    return {
        "texts": len(scores),
        "good": int(good.sum()),
        "auc": round(auc(scores, good), 4),
        "precision": round(hits / max(int(taken.sum()), 1), 4),
        "recall": round(hits / max(int(good.sum()), 1), 4),
        "calibration_error": round(error, 4),
        "tenths": tenths,
    }
