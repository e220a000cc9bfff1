"""Elect and verify inside clusters: who stays, whose twin the others are, and how alike they are.

Reads members brought together by component; writes verdicts by shard group (for the columns of `dedup.minhash`) and evidence:
one row per removed document, `evidence.parquet` of each task.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs, PhaseTask
from stages.dedup import _verdicts
from stages.dedup._bands import documents_of, minima
from stages.dedup._components import gather_members, member_bits
from stages.dedup._order import KeepOrder
from stages.dedup._runs import Run, bucket_counts, slices
from stages.kernels.buffers import text_buffers
from stages.kernels.elect import elect
from stages.kernels.shingles import shingle_sets

#: Bytes of members' columns a task takes, and how many it holds at once (text, and about as much again in shingles).
_TASK_BYTES: Final = 2 << 30
_SLICE_BYTES: Final = 192 << 20
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
class Election:
    """How documents of a cluster are compared.

    Args:
        signature: column of the stored minima.
        units: column of the number of units.
        permutations: minima in a signature.
        shingle: units in a shingle.
        mode: of the units, see `shingles`.
        threshold: least similarity of a document that goes.
        verify: "exact", "signature", or "auto".
        limit: kept documents of a cluster that others are compared with.
    """

    signature: str
    units: str
    permutations: int
    shingle: int
    mode: int
    threshold: float
    verify: str
    limit: int

    def exact(self, inputs: PhaseInputs) -> bool:
        """Whether texts are compared, and not only signatures."""
        return self.verify == "exact" or (self.verify == "auto" and documents_of(inputs) <= _EXACT_DOCUMENTS)


def gather(task: PhaseTask, *, election: Election, order: KeepOrder) -> None:
    """A phase's body, one task per shard group; see `_components.gather_members`."""
    text = ("text",) if election.exact(task) else ()
    gather_members(task, order=order, columns=(election.signature, election.units, "id", "url", *text))


def tasks(inputs: PhaseInputs, *, election: Election) -> int:
    """How many tasks `hold_elections` has."""
    notes = inputs.info("members").values()
    size: int = sum(n["text_bytes"] + n["members"] * (election.permutations * 2 + 300) for n in notes)
    return min(1 << member_bits(inputs), max(1, -(-size // _TASK_BYTES)))


def hold_elections(task: PhaseTask, *, election: Election) -> None:
    """A phase's body: the clusters of one range of component hashes."""
    buckets, count = 1 << member_bits(task), tasks(task, election=election)
    lo, hi = task.index * buckets // count, (task.index + 1) * buckets // count
    verdicts = _verdicts.Verdicts(task)
    exact = election.exact(task)
    notes = task.info("members").values()
    each = max(1, sum(n["text_bytes"] for n in notes) // max(1, sum(n["members"] for n in notes)))
    limit = max(1, _SLICE_BYTES // (each + election.permutations * 2 + 300))
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(task, part)) for part in task.parts("members")]
        evidence = stack.enter_context(task.parquet("evidence.parquet", EVIDENCE))
        for a, b in slices(bucket_counts(runs, 0, lo, hi), limit):
            records, columns = _read(runs, lo + a, lo + b)
            if columns is not None:
                evidence.write(_decide(task, records, columns, election, exact, verdicts))
    verdicts.flush()


def _read(runs: Sequence[Run], lo: int, hi: int) -> tuple[np.ndarray, pa.Table | None]:
    """Members of buckets [lo, hi), by component and rank."""
    records: list[np.ndarray] = []
    tables: list[pa.Table] = []
    for run in runs:
        table = run.columns(0, lo, hi)
        if table is not None:
            records.append(run.records(0, lo, hi))
            tables.append(table)
    if not tables:
        return np.zeros((0, 3), np.uint64), None
    together = np.concatenate(records)
    order = np.lexsort(together[:, ::-1].T)
    return together[order], pa.concat_tables(tables).take(pa.array(order)).combine_chunks()


def _decide(
    task: PhaseTask,
    records: np.ndarray,
    columns: pa.Table,
    election: Election,
    exact: bool,
    verdicts: _verdicts.Verdicts,
) -> pa.Table:
    """Elect in every cluster of a slice; adds verdicts and returns evidence."""
    n = len(records)
    first = np.flatnonzero(np.concatenate([[True], records[1:, 1] != records[:-1, 1]]))
    clusters = np.concatenate([first, [n]]).astype(np.int64)
    sizes = np.repeat(np.diff(clusters), np.diff(clusters))
    heads = np.repeat(first, np.diff(clusters))
    sets = None
    if exact:
        offsets, data, _ = text_buffers(columns.column("text").combine_chunks())
        room = int(columns.column(election.units).to_numpy().sum()) + n
        sets = shingle_sets(data, offsets, election.shingle, election.mode, room)
    signatures = minima(columns.column(election.signature).combine_chunks(), election.permutations)
    twins, similarity, unheld = elect(clusters, signatures, election.threshold, sets=sets, limit=election.limit)
    kept = twins < 0
    # the id hash of the cluster's best document names it, whatever the plan
    names = (records[heads, -3] >> np.uint64(1)).astype(np.int64)
    ids, urls = columns.column("id"), columns.column("url")
    twin = ids.take(pa.array(np.maximum(twins, 0), mask=kept)).combine_chunks()
    out = [
        twin,
        pa.array(similarity, mask=kept),
        pa.array(names),
        pa.array(np.minimum(sizes, 2**31 - 1).astype(np.int32)),
    ]
    verdicts.add(records[:, -1], pa.RecordBatch.from_arrays(out, schema=VERDICT))
    gone = pa.array(np.flatnonzero(~kept))
    task.count("clusters", len(first))
    task.count("members", n)
    task.count("duplicates", len(gone))
    task.count("kept_beyond_limit", unheld)
    columns_out = [ids.take(gone), *(c.take(gone) for c in out), urls.take(gone)]
    kept_url = urls.take(pa.array(twins[~kept]))
    return pa.Table.from_arrays([*columns_out, kept_url], schema=EVIDENCE)
