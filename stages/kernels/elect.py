"""Elect and verify: which documents of a cluster stay.

Documents come best first. Each is held against the ones already kept; it goes only if one of them is similar enough, and
that one is its twin. So a ~ b ~ c with a unlike c keeps a and c: removal is never transitive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.jit import kernel


@kernel
def _agreement(minima: Any, i: Any, j: Any) -> Any:
    same = 0
    for p in range(minima.shape[1]):
        same += minima[i, p] == minima[j, p]
    return same


@kernel
def _jaccard(hashes: Any, starts: Any, i: Any, j: Any) -> Any:
    a = starts[i]
    b = starts[j]
    a_end = starts[i + 1]
    b_end = starts[j + 1]
    common = 0
    while a < a_end and b < b_end:
        x = hashes[a]
        y = hashes[b]
        common += x == y
        a += x <= y
        b += y <= x
    union = (a_end - starts[i]) + (b_end - starts[j]) - common
    return common / union if union else 0.0


@kernel
def _elect(
    clusters: Any,
    minima: Any,
    hashes: Any,
    starts: Any,
    exact: Any,
    threshold: Any,
    floor: Any,
    kept: Any,
    near: Any,
    twins: Any,
    similarity: Any,
) -> Any:
    unheld = 0
    for c in range(clusters.shape[0] - 1):
        held = 0
        for i in range(clusters[c], clusters[c + 1]):
            best = -1
            score = 0.0
            if exact:
                # the most alike by signature first: nearly always the first exact comparison decides
                for r in range(held):
                    near[r] = _agreement(minima, kept[r], i)
                while True:
                    at = -1
                    for r in range(held):
                        if near[r] >= floor and (at < 0 or near[r] > near[at]):
                            at = r
                    if at < 0:
                        break
                    near[at] = -1
                    score = _jaccard(hashes, starts, kept[at], i)
                    if score >= threshold:
                        best = kept[at]
                        break
            else:
                most = -1
                for r in range(held):
                    same = _agreement(minima, kept[r], i)
                    if same > most:
                        most = same
                        best = kept[r]
                score = most / minima.shape[1]
                if score < threshold:
                    best = -1
            twins[i] = best
            if best >= 0:
                similarity[i] = score
            elif held < kept.shape[0]:
                kept[held] = i
                held += 1
            else:
                unheld += 1
    return unheld


def elect(
    clusters: np.ndarray,
    minima: np.ndarray,
    threshold: float,
    *,
    sets: tuple[np.ndarray, np.ndarray] | None = None,
    limit: int = 256,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Decide on the documents of some clusters.

    Args:
        clusters: int64 array of shape (clusters + 1,), where each cluster starts; its documents best first.
        minima: uint16 or uint32 array of shape (documents, permutations).
        threshold: least similarity of a document that goes to its twin.
        sets: (hashes, starts) as from `shingles.shingle_sets`: similarity is their Jaccard index. None: it is the share of
            equal minima.
        limit: how many kept documents of a cluster are compared with; what is unlike all of them stays, too.

    Returns:
        (twins, similarity, unheld): int64 (documents,), the document kept in this one's place or -1; float32 (documents,),
        0 for those that stay; number of documents that stayed when the limit was reached.
    """
    n = len(minima)
    twins = np.full(n, -1, np.int64)
    similarity = np.zeros(n, np.float32)
    hashes, starts = sets if sets is not None else (np.zeros(0, np.uint64), np.zeros(1, np.int64))
    count = minima.shape[1]
    # five standard deviations of the estimate below the threshold: 3e-7 of the true pairs are missed
    margin = 5 * (threshold * (1 - threshold) / count) ** 0.5
    floor = int(np.floor((threshold - margin) * count))
    kept, near = np.empty(limit, np.int64), np.empty(limit, np.int64)
    unheld = _elect(clusters, minima, hashes, starts, sets is not None, threshold, floor, kept, near, twins, similarity)
    return twins, similarity, int(unheld)
