"""Elections in a cluster that does not fit in memory: the same outcome as in one that does, in a few passes over files.

Of a cluster at most `limit` kept documents are compared with (the representatives), and they are the best-ranked ones unlike
each other. So passes look for them: each takes the best-ranked documents, as many as fit, that are unlike the representatives
known and rank behind what has been decided, and elects among these. Usually one pass finds all; a last one holds every
document against the representatives that rank before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from stages.dedup._members import Election, Load, Members
from stages.dedup._runs import Run
from stages.dedup._statistics import SHOWN


class Decisions(Protocol):
    """Where decisions go; see `_clusters`."""

    def small(self, members: Members, election: Election, exact: bool) -> None:
        """Decide on whole clusters that are in memory."""

    def large(self, best: Members, size: int, removed: np.ndarray, unheld: int) -> None:
        """Count a cluster that was decided in pieces."""

    def decided(
        self,
        members: Members,
        among: Members,
        twins: np.ndarray,
        similarity: np.ndarray,
        heads: np.ndarray,
        sizes: np.ndarray,
    ) -> None:
        """Write verdicts and evidence."""


def hold(
    runs: Sequence[Run], bucket: int, limit: int, election: Election, exact: bool, out: Decisions, load: Load
) -> None:
    """Decide on the clusters of one bucket that has more than `limit` members.

    Args:
        runs: of members.
        bucket: which.
        limit: members held at once.
        election: how they are compared.
        exact: whether texts are.
        out: where decisions go.
        load: completes members with their text.
    """
    bucketed = _Bucket(runs, bucket, load)
    few: list[int] = []
    held = 0
    for component, size in bucketed.sizes().items():
        if size > limit:
            _hold_one(bucketed, component, size, limit, election, exact, out)
            continue
        if held + size > limit:
            out.small(Members.join(list(bucketed.members(few))).ordered(), election, exact)
            few, held = [], 0
        few.append(component)
        held += size
    if few:
        out.small(Members.join(list(bucketed.members(few))).ordered(), election, exact)


class _Bucket:
    """Members of one bucket, a run at a time."""

    def __init__(self, runs: Sequence[Run], bucket: int, load: Load) -> None:
        self._runs = runs
        self._bucket = bucket
        self._load = load

    def sizes(self) -> dict[int, int]:
        """Members of each component, ascending."""
        sizes: dict[int, int] = {}
        for run in self._runs:
            records = run.records(0, self._bucket, self._bucket + 1)
            components, counts = np.unique(records[:, 1], return_counts=True)
            for component, count in zip(components.tolist(), counts.tolist(), strict=True):
                sizes[component] = sizes.get(component, 0) + count
        return dict(sorted(sizes.items()))

    def members(self, components: Sequence[int]) -> Iterator[Members]:
        """Members of some components, a run at a time, in no order."""
        wanted = np.array(components, np.uint64)
        for run in self._runs:
            records = run.records(0, self._bucket, self._bucket + 1)
            at = np.flatnonzero(np.isin(records[:, 1], wanted))
            if len(at) and (table := run.columns(0, self._bucket, self._bucket + 1)) is not None:
                yield self._load(Members(records, table).take(at))


def _hold_one(
    bucketed: _Bucket, component: int, size: int, limit: int, election: Election, exact: bool, out: Decisions
) -> None:
    kept = _representatives(bucketed, component, limit, election, exact)
    first = len(kept)
    unheld = 0
    removed = [np.zeros(0, np.float32)]
    best = kept.slice(0, SHOWN)
    for members in bucketed.members([component]):
        rank = sum((members.after(r) for r in kept.records), np.zeros(len(members), np.int64))
        is_kept = np.isin(members.records[:, -1], kept.records[:, -1])
        eligible = np.concatenate([np.zeros(first, np.int64), np.where(is_kept, 0, rank)])
        together = Members.join([kept, members])
        whole = np.array([0, len(together)])
        twins, similarity, alone = election.hold(together, whole, exact, given=first, eligible=eligible)
        unheld += alone - int(is_kept.sum())
        heads = np.full(len(members), kept.records[0, -3], np.uint64)
        out.decided(members, kept, twins[first:], similarity[first:], heads, np.full(len(members), size))
        removed.append(similarity[first:][twins[first:] >= 0])
        if len(members):
            best = Members.join([best, members.take(np.flatnonzero(~is_kept))]).ordered().slice(0, SHOWN)
    out.large(best, size, np.concatenate(removed), unheld)


def _representatives(bucketed: _Bucket, component: int, limit: int, election: Election, exact: bool) -> Members:
    """The documents of a component that others are compared with, best first."""
    kept: Members | None = None
    last: np.ndarray | None = None
    while True:
        best, more = _best_undecided(bucketed, component, limit, election, exact, kept, last)
        if not len(best):
            break
        together = best if kept is None else Members.join([kept, best])
        given = 0 if kept is None else len(kept)
        twins, _, _ = election.hold(together, np.array([0, len(together)]), exact, given=given)
        kept = together.take(np.flatnonzero(twins < 0)[: election.limit])
        last = best.records[-1]
        if not more or len(kept) == election.limit:
            break
    if kept is None:
        raise ValueError(f"component {component} has no members")
    return kept


def _best_undecided(
    bucketed: _Bucket,
    component: int,
    limit: int,
    election: Election,
    exact: bool,
    kept: Members | None,
    last: np.ndarray | None,
) -> tuple[Members, bool]:
    """The best-ranked members behind `last` that are unlike all of `kept`, at most `limit`; and whether there are more."""
    pool: Members | None = None
    more = False
    for found in bucketed.members([component]):
        members = found if last is None else found.take(np.flatnonzero(found.after(last)))
        if kept is not None and len(members):
            together = Members.join([kept, members])
            whole, eligible = np.array([0, len(together)]), np.full(len(together), len(kept), np.int64)
            twins, _, _ = election.hold(together, whole, exact, given=len(kept), eligible=eligible)
            members = members.take(np.flatnonzero(twins[len(kept) :] < 0))
        pool = (members if pool is None else Members.join([pool, members])).ordered()
        if len(pool) > limit:
            pool = pool.take(np.arange(limit))
            more = True
    return (pool, more) if pool is not None else (Members.join([]), False)
