"""Elect and verify: which documents of a cluster stay.

Documents come best first. Each is held against the ones already kept; it goes only if one of them is similar enough, and
that one is its twin. So a ~ b ~ c with a unlike c keeps a and c: removal is never transitive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.jit import inner, kernel


@inner
def _agreement(minima: Any, i: Any, j: Any) -> Any:
    same = 0
    for p in range(minima.shape[1]):
        same += minima[i, p] == minima[j, p]
    return same


@inner
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
    eligible: Any,
    given: Any,
    grow: Any,
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
            if held < given:
                kept[held] = i
                held += 1
                continue
            known = min(held, eligible[i])
            best = -1
            score = 0.0
            most = -1
            for r in range(known):
                near[r] = _agreement(minima, kept[r], i)
                if near[r] > most:
                    most = near[r]
                    best = r
            if exact:
                # the most alike by signature first: nearly always the first exact comparison decides
                while best >= 0:
                    score = _jaccard(hashes, starts, kept[best], i) if most >= floor else -1.0
                    if score < 0 or score >= threshold:
                        break
                    near[best] = -1
                    most = -1
                    best = -1
                    for r in range(known):
                        if near[r] > most:
                            most = near[r]
                            best = r
            else:
                score = most / minima.shape[1]
            if best >= 0 and score >= threshold:
                twins[i] = kept[best]
                similarity[i] = score
            elif grow and held < kept.shape[0]:
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
    given: int = 0,
    eligible: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Decide on the documents of some clusters.

    Args:
        clusters: int64 array of shape (clusters + 1,), where each cluster starts; its documents best first.
        minima: uint16 or uint32 array of shape (documents, permutations).
        threshold: least similarity of a document that goes to its twin.
        sets: (hashes, starts) as from `shingles.shingle_sets`: similarity is their Jaccard index. None: it is the share of
            equal minima.
        limit: how many kept documents of a cluster are compared with; what is unlike all of them stays, too.
        given: the first documents of each cluster are known to stay.
        eligible: int64 array (documents,): each is held only against that many of the kept, and none is added to them. None:
            against all kept so far.

    Returns:
        (twins, similarity, unheld): int64 (documents,), the document kept in this one's place or -1; float32 (documents,),
        0 for those that stay; number of documents that stayed without being compared with by later ones.
    """
    n = len(minima)
    twins = np.full(n, -1, np.int64)
    similarity = np.zeros(n, np.float32)
    hashes, starts = sets if sets is not None else (np.zeros(0, np.uint64), np.zeros(1, np.int64))
    count = minima.shape[1]
    # five standard deviations of the estimate below the threshold: 3e-7 of the true pairs are missed
    margin = 5 * (threshold * (1 - threshold) / count) ** 0.5
    floor = int(np.floor((threshold - margin) * count))
    grow = eligible is None
    against = np.full(n, limit, np.int64) if eligible is None else eligible
    kept, near = np.empty(limit, np.int64), np.empty(limit, np.int64)
    unheld = _elect(
        clusters, against, given, grow, minima, hashes, starts, sets is not None, threshold, floor,
        kept, near, twins, similarity,
    )  # fmt: skip
    return twins, similarity, int(unheld)
