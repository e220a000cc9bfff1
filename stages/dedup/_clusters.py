"""Elect and verify inside clusters: who stays, whose twin the others are, and how alike they are.

Reads members brought together by component; writes verdicts by shard group (for the columns of `dedup.minhash`) and evidence:
one row per removed document, `evidence.parquet` of each task. A cluster that does not fit in memory is streamed: see
`_large`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import BatchWriter, PhaseInputs, PhaseTask
from stages.dedup import _large, _verdicts
from stages.dedup._bands import documents_of, text_bytes_of
from stages.dedup._components import gather_members, member_bits
from stages.dedup._members import EVIDENCE, VERDICT, Election, Load, Members, with_text
from stages.dedup._order import KeepOrder
from stages.dedup._runs import Run, bucket_counts, slices
from stages.dedup._statistics import SHOWN, Sample, Statistics
from stages.kernels.sortruns import starts_of

#: Bytes of members that a task takes; that it has in memory at once; and that it compares at once (text, and twice as much
#: again in shingles).
_TASK_BYTES: Final = 2 << 30
_HELD_BYTES: Final = 512 << 20
_SLICE_BYTES: Final = 64 << 20
#: Up to this much, the text of members is read where it lies, by each task the part it needs; beyond, reading everything once
#: per task would cost more than carrying it along (some 1,700 bytes of disk per member).
_READ_BYTES: Final = 4 << 30
_READ_TASK_BYTES: Final = 640 << 20
#: From here on two tasks share the comparing, although both read everything.
_SHARED_BYTES: Final = 128 << 20
#: What a member without its text is reckoned to take, besides the signature.
_MEMBER_BYTES: Final = 300
#: Up to this many documents similarity is exact unless the config says otherwise.
_EXACT_DOCUMENTS: Final = 100_000_000


@dataclass(frozen=True)
class Verification:
    """What similarity is: "exact", "signature", or "auto", exact up to 100 million documents."""

    verify: str

    def exact(self, inputs: PhaseInputs) -> bool:
        """Whether texts are compared, and not only signatures."""
        return self.verify == "exact" or (self.verify == "auto" and documents_of(inputs) <= _EXACT_DOCUMENTS)

    def carried(self, inputs: PhaseInputs) -> bool:
        """Whether members bring their text along."""
        nodes = sum(int(n["nodes"]) for n in inputs.info("components").values())
        each = text_bytes_of(inputs) // max(1, documents_of(inputs))
        return self.exact(inputs) and nodes * each > _READ_BYTES


def gather(
    task: PhaseTask,
    *,
    election: Election,
    verification: Verification,
    order: KeepOrder,
    settled: Callable[[PhaseInputs, int], np.ndarray] | None = None,
) -> None:
    """A phase's body, one task per shard group; see `_components.gather_members`."""
    gone = None if settled is None else settled(task, task.index)
    columns = election.columns(verification.carried(task))
    size = _member_bytes(task, election, verification)
    gather_members(task, order=order, columns=columns, length=election.length, member_bytes=size, settled=gone)


def _member_bytes(inputs: PhaseInputs, election: Election, verification: Verification) -> int:
    """About what a member takes, text included where it is compared."""
    text = text_bytes_of(inputs) // max(1, documents_of(inputs)) if verification.exact(inputs) else 0
    return election.permutations * 2 + _MEMBER_BYTES + text


def _buckets(inputs: PhaseInputs, election: Election, verification: Verification) -> int:
    return 1 << member_bits(inputs, _member_bytes(inputs, election, verification))


@dataclass(frozen=True)
class _Size:
    """Members of all clusters: how many, and bytes of their columns and texts, as reckoned."""

    members: int
    columns: int
    text: int

    @staticmethod
    def of(inputs: PhaseInputs, election: Election, exact: bool) -> _Size:
        notes = inputs.info("members").values()
        members: int = sum(n["members"] for n in notes)
        text: int = sum(n["text_bytes"] for n in notes)
        size = members * (election.permutations * 2 + _MEMBER_BYTES)
        return _Size(members, size, text if exact else 0)

    def rows(self, at_once: int) -> int:
        """Members of so many bytes."""
        return max(1, at_once * self.members // max(1, self.columns + self.text))


def tasks(inputs: PhaseInputs, *, election: Election, verification: Verification) -> int:
    """How many tasks `hold_elections` has."""
    size = _Size.of(inputs, election, verification.exact(inputs))
    carried = verification.carried(inputs) or not size.text
    wanted = (size.columns + size.text) / (_TASK_BYTES if carried else _READ_TASK_BYTES)
    count = max(2 if size.columns + size.text > _SHARED_BYTES else 1, ceil(wanted))
    # few tasks that each read everything: an odd one would run alone
    return min(_buckets(inputs, election, verification), count + count % 2 if 1 < count < 8 else count)


def hold_elections(task: PhaseTask, *, election: Election, verification: Verification) -> None:
    """A phase's body: the clusters of one range of component hashes."""
    buckets = _buckets(task, election, verification)
    count = tasks(task, election=election, verification=verification)
    lo, hi = task.index * buckets // count, (task.index + 1) * buckets // count
    exact = verification.exact(task)
    read_here = exact and not verification.carried(task)
    size = _Size.of(task, election, exact)
    limit = size.rows(_READ_TASK_BYTES * 4 // 3 if read_here else _HELD_BYTES)
    load: Load = partial(with_text, task) if read_here else _as_it_is
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(task, part)) for part in task.parts("members")]
        evidence = stack.enter_context(task.parquet("evidence.parquet", EVIDENCE))
        out = _Out(task, evidence)
        counts = bucket_counts(runs, 0, lo, hi)
        for a, b in slices(counts, limit):
            if int(counts[a:b].sum()) > limit:
                _large.hold(runs, lo + a, limit, election, exact, out, load)
                continue
            members = load(_read(runs, lo + a, lo + b).ordered())
            for piece in _whole_clusters(members, size.rows(_SLICE_BYTES)):
                out.small(piece, election, exact)
    out.close()


def _as_it_is(members: Members) -> Members:
    return members


def _read(runs: Sequence[Run], lo: int, hi: int) -> Members:
    """Members of buckets [lo, hi)."""
    found = [Members(run.records(0, lo, hi), table) for run in runs if (table := run.columns(0, lo, hi)) is not None]
    return Members.join(found)


def _whole_clusters(members: Members, rows: int) -> Iterator[Members]:
    """Ordered members in pieces of about `rows`, no cluster in two."""
    starts = [*starts_of(members.records[:, 1:2]).tolist(), len(members)]
    begin = 0
    for start, following in pairwise(starts):
        if following - begin > rows and start > begin:
            yield members.slice(begin, start)
            begin = start
    if begin < len(members):
        yield members.slice(begin, len(members))


class _Out:
    """Where decisions of one task go."""

    def __init__(self, task: PhaseTask, evidence: BatchWriter) -> None:
        self._task = task
        self._evidence = evidence
        self._verdicts = _verdicts.Verdicts(task)
        self._seen = Statistics()

    def small(self, members: Members, election: Election, exact: bool) -> None:
        """Decide on whole clusters that are in memory, in order."""
        if not len(members):
            return
        first = starts_of(members.records[:, 1:2])
        clusters = np.concatenate([first, [len(members)]])
        sizes = np.diff(clusters)
        twins, similarity, unheld = election.hold(members, clusters, exact)
        self._task.count("clusters", len(first))
        self._task.count("kept_beyond_limit", unheld)
        heads = members.records[np.repeat(first, sizes), -3]
        self.decided(members, members, twins, similarity, heads, np.repeat(sizes, sizes))
        self._seen.sizes(sizes)
        for c in np.argsort(-sizes, kind="stable").tolist():
            if not self._seen.is_large(int(sizes[c])):
                break
            start, end = int(clusters[c]), int(clusters[c + 1])
            gone = similarity[start:end][twins[start:end] >= 0]
            self._tell(members.slice(start, end), int(sizes[c]), gone)

    def _tell(self, members: Members, size: int, removed: np.ndarray) -> None:
        """Tell of a cluster whose best members these are."""
        best = members.columns.slice(0, SHOWN).select(["id", "url"]).to_pylist()
        sample = Sample(best[0]["id"], best[0]["url"], members.first_text(), tuple(m["id"] for m in best[1:]))
        self._seen.cluster(int(members.records[0, -3] >> np.uint64(1)), size, removed, sample)

    def large(self, best: Members, size: int, removed: np.ndarray, unheld: int) -> None:
        """Count a cluster that was decided in pieces.

        Args:
            best: its best-ranked ones.
            size: its documents.
            removed: similarities of those that go.
            unheld: see `elect`.
        """
        self._task.count("clusters", 1)
        self._task.count("kept_beyond_limit", unheld)
        self._seen.sizes(np.array([size]))
        if self._seen.is_large(size):
            self._tell(best, size, removed)

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
        self._seen.similarity(similarity[~kept])

    def close(self) -> None:
        """Write what is held."""
        self._verdicts.flush()
        self._seen.write(self._task)
