"""Elect and verify inside clusters: who stays, whose twin the others are, and how alike they are.

Reads members brought together by component; writes verdicts by shard group (for the columns of `dedup.minhash`) and evidence:
one row per removed document, `evidence.parquet` of each task. A cluster that does not fit in memory is streamed: see
`_large`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import BatchWriter, PhaseInputs, PhaseTask
from stages.dedup import _large, _verdicts
from stages.dedup._bands import documents_of
from stages.dedup._components import gather_members, member_bits
from stages.dedup._members import Election, Members
from stages.dedup._order import KeepOrder
from stages.dedup._runs import Run, bucket_counts, slices
from stages.kernels.sortruns import starts_of

#: Bytes of members' columns a task takes, and how many it holds at once (text, and twice as much again in shingles).
_TASK_BYTES: Final = 2 << 30
_SLICE_BYTES: Final = 128 << 20
#: What a member without its text is reckoned to take, besides the signature.
_MEMBER_BYTES: Final = 300
#: Up to this many documents similarity is exact unless the config says otherwise.
_EXACT_DOCUMENTS: Final = 100_000_000

VERDICT: Final = pa.schema(
    [("twin", pa.string()), ("similarity", pa.float32()), ("cluster", pa.int64()), ("cluster_size", pa.int32())]
)
EVIDENCE: Final = pa.schema(
    [
        ("removed_id", pa.string()),
        ("kept_id", pa.string()),
        ("similarity", pa.float32()),
        ("cluster", pa.int64()),
        ("cluster_size", pa.int32()),
        ("removed_url", pa.string()),
        ("kept_url", pa.string()),
    ]
)


@dataclass(frozen=True)
class Verification:
    """What similarity is: "exact", "signature", or "auto", exact up to 100 million documents."""

    verify: str

    def exact(self, inputs: PhaseInputs) -> bool:
        """Whether texts are compared, and not only signatures."""
        return self.verify == "exact" or (self.verify == "auto" and documents_of(inputs) <= _EXACT_DOCUMENTS)


def gather(task: PhaseTask, *, election: Election, verification: Verification, order: KeepOrder) -> None:
    """A phase's body, one task per shard group; see `_components.gather_members`."""
    gather_members(task, order=order, columns=election.columns(verification.exact(task)))


def _bytes(inputs: PhaseInputs, election: Election) -> tuple[int, int]:
    """(members, bytes of their columns)."""
    notes = inputs.info("members").values()
    members: int = sum(n["members"] for n in notes)
    text: int = sum(n["text_bytes"] for n in notes)
    return members, text + members * (election.permutations * 2 + _MEMBER_BYTES)


def tasks(inputs: PhaseInputs, *, election: Election) -> int:
    """How many tasks `hold_elections` has."""
    return min(1 << member_bits(inputs), max(1, -(-_bytes(inputs, election)[1] // _TASK_BYTES)))


def hold_elections(task: PhaseTask, *, election: Election, verification: Verification) -> None:
    """A phase's body: the clusters of one range of component hashes."""
    buckets, count = 1 << member_bits(task), tasks(task, election=election)
    lo, hi = task.index * buckets // count, (task.index + 1) * buckets // count
    members, size = _bytes(task, election)
    limit = max(1, _SLICE_BYTES * members // max(1, size))
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(task, part)) for part in task.parts("members")]
        evidence = stack.enter_context(task.parquet("evidence.parquet", EVIDENCE))
        out = _Out(task, evidence)
        counts = bucket_counts(runs, 0, lo, hi)
        for a, b in slices(counts, limit):
            if int(counts[a:b].sum()) > limit:
                _large.hold(runs, lo + a, limit, election, verification.exact(task), out)
            else:
                out.small(_read(runs, lo + a, lo + b), election, verification.exact(task))
    out.close()


def _read(runs: Sequence[Run], lo: int, hi: int) -> Members:
    """Members of buckets [lo, hi)."""
    found = [Members(run.records(0, lo, hi), table) for run in runs if (table := run.columns(0, lo, hi)) is not None]
    return Members.join(found)


class _Out:
    """Where decisions of one task go."""

    def __init__(self, task: PhaseTask, evidence: BatchWriter) -> None:
        self._task = task
        self._evidence = evidence
        self._verdicts = _verdicts.Verdicts(task)

    def small(self, members: Members, election: Election, exact: bool) -> None:
        """Decide on whole clusters that are in memory."""
        if not len(members):
            return
        members = members.ordered()
        first = starts_of(members.records[:, 1:2])
        clusters = np.concatenate([first, [len(members)]])
        sizes = np.diff(clusters)
        twins, similarity, unheld = election.hold(members, clusters, exact)
        self._task.count("clusters", len(first))
        self._task.count("kept_beyond_limit", unheld)
        heads = members.records[np.repeat(first, sizes), -3]
        self.decided(members, members, twins, similarity, heads, np.repeat(sizes, sizes))

    def large(self, clusters: int, unheld: int) -> None:
        """Count what was decided of a cluster in pieces."""
        self._task.count("clusters", clusters)
        self._task.count("kept_beyond_limit", unheld)

    def decided(
        self,
        members: Members,
        among: Members,
        twins: np.ndarray,
        similarity: np.ndarray,
        heads: np.ndarray,
        sizes: np.ndarray,
    ) -> None:
        """Write verdicts and evidence.

        Args:
            members: n documents.
            among: those that twins are.
            twins: int64 (n,), position in `among`, or -1.
            similarity: float32 (n,).
            heads: uint64 (n,), first word of the id hash of each cluster's best document: it names the cluster whatever
                the plan is.
            sizes: int64 (n,), documents in each one's cluster.
        """
        kept = twins < 0
        ids, urls = among.columns.column("id"), among.columns.column("url")
        at = pa.array(np.maximum(twins, 0), mask=kept)
        out = [
            ids.take(at).combine_chunks(),
            pa.array(similarity, mask=kept),
            pa.array((heads >> np.uint64(1)).astype(np.int64)),
            pa.array(np.minimum(sizes, 2**31 - 1).astype(np.int32)),
        ]
        self._verdicts.add(members.records[:, -1], pa.RecordBatch.from_arrays(out, schema=VERDICT))
        gone = pa.array(np.flatnonzero(~kept))
        removed_id, removed_url = (members.columns.column(c).take(gone) for c in ("id", "url"))
        columns = [removed_id, *(c.take(gone) for c in out), removed_url, urls.take(at.take(gone))]
        self._evidence.write(pa.Table.from_arrays(columns, schema=EVIDENCE))
        self._task.count("members", len(members))
        self._task.count("duplicates", len(gone))

    def close(self) -> None:
        """Write what is held."""
        self._verdicts.flush()
