"""From edges to clusters: connected components, and the documents in them brought together.

`label` names the component of every document that has an edge, in memory or, beyond, from the files of `_stars`.
`gather_members` brings the documents of each component into one place: rank, signature, id, address and, where similarity is
to be exact, text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs, PhaseTask, StageError
from stages.dedup import _shards, _stars
from stages.dedup._order import KeepOrder, epochs
from stages.dedup._runs import Run, RunWriter
from stages.kernels.sortruns import partition_order, top_bits
from stages.kernels.unionfind import Forest

#: More documents (5 bytes each) would take over 2 GB.
FOREST_DOCUMENTS: Final = 400_000_000
#: Bytes of members that a bucket holds, of all files together.
_BUCKET_BYTES: Final = 256 << 20
_FLUSH_LABELS: Final = 8 << 20
#: Bytes of members' columns that a task holds before it writes them.
_FLUSH_BYTES: Final = 512 << 20


def label_tasks(inputs: PhaseInputs, *, in_files: bool) -> int:
    """How many tasks `label` has: one where a forest holds all documents."""
    return _stars.star_label_tasks(inputs) if in_files else 1


def label(task: PhaseTask, *, in_files: bool) -> None:
    """A phase's body: writes (document, component) of every document with an edge, by shard group.

    Raises:
        StageError: there are more documents than a forest holds.
    """
    held: list[np.ndarray] = []
    rows = files = nodes = 0

    def flush() -> None:
        nonlocal held, rows, files
        labels = np.concatenate(held)
        order, offsets = partition_order(_shards.group_of(task, labels[:, 0]), _shards.group_count(task))
        with task.file(f"labels-{files:03d}.bin") as stream:
            run = RunWriter(stream)
            run.add(labels[order], offsets)
            run.close()
        held, rows = [], 0
        files += 1

    for labels in _stars.stable_labels(task) if in_files else _forest_labels(task):
        held.append(labels)
        rows += len(labels)
        nodes += len(labels)
        if rows >= _FLUSH_LABELS:
            flush()
    if rows:
        flush()
    task.count("nodes", nodes)
    task.note(nodes=nodes)


def _forest_labels(task: PhaseTask) -> Iterator[np.ndarray]:
    """(document, component), a shard at a time: uint64 arrays (n, 2)."""
    extents = [extent for note in task.info("bands").values() for extent in note["extents"]]
    bases = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(extents, np.int64))])
    if bases[-1] > FOREST_DOCUMENTS:
        raise StageError(
            f"{bases[-1]:,} documents do not fit in one process's memory ({FOREST_DOCUMENTS:,} do)",
            hint="dedup.minhash: add `components: files`; what is done stays done",
        )
    forest = Forest(int(bases[-1]))
    for part in task.parts("edges"):
        if not part.name.startswith("edges"):
            continue
        with Run(task, part) as run:
            edges = run.records(0, 0, 1)
        rows = bases[_shards.positions(edges)] + _shards.rows(edges)
        forest.union(np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1]))
    roots, linked = forest.roots()
    for position, (lo, hi) in enumerate(zip(bases.tolist(), bases[1:].tolist(), strict=False)):
        at = np.flatnonzero(linked[lo:hi])
        yield np.stack([_shards.documents(position, at), roots[lo:hi][at].astype(np.uint64)], axis=1)


def member_bits(inputs: PhaseInputs, member_bytes: int) -> int:
    """Hash bits that number the buckets of members: as few as make a bucket fit in memory, since each has a header in each file.

    Args:
        inputs: of a phase behind `label`.
        member_bytes: about what a member's columns take.
    """
    nodes = sum(int(n["nodes"]) for n in inputs.info("components").values())
    return max(4, (nodes * member_bytes // _BUCKET_BYTES).bit_length())


def gather_members(
    task: PhaseTask,
    *,
    order: KeepOrder,
    columns: tuple[str, ...],
    length: str,
    member_bytes: int,
    settled: np.ndarray | None = None,
) -> None:
    """A phase's body, one task per shard group: its documents that are in components, by component, but for the settled.

    Records: hash of the component, component, [epoch,] rank words, document. Columns: as asked.
    """
    by_epoch = epochs(task)
    labels = _group_labels(task)
    if settled is not None:
        labels = labels[~np.isin(labels[:, 0], settled)]
    read = tuple(dict.fromkeys([*order.columns(), *columns]))
    members = _Members(task, length, member_bits(task, member_bytes))
    for position, shard in _shards.group_shards(task, task.index):
        start, end = np.searchsorted(labels[:, 0], np.array([position, position + 1], np.uint64) << np.uint64(32))
        if start == end:
            continue
        done = int(start)
        for batch in task.survivors(shard, read, _shards.rows(labels[start:end, 0])):
            n = batch.num_rows
            documents, component = labels[done : done + n].T
            epoch = [] if by_epoch is None else [np.full(n, by_epoch[position], np.uint64)]
            words = [_stars.spread(component), component, *epoch, *order.words(batch).T, documents]
            members.add(np.stack(words, axis=1), batch.select(list(columns)))
            done += n
    members.close()


def _group_labels(task: PhaseTask) -> np.ndarray:
    """(document, component) of this task's shards, ascending."""
    found = [np.zeros((0, 2), np.uint64)]
    for part in task.parts("components"):
        with Run(task, part) as run:
            found.append(run.records(0, task.index, task.index + 1))
    labels = np.concatenate(found)
    ordered: np.ndarray = labels[np.argsort(labels[:, 0])]
    return ordered


class _Members:
    """Members of a task, partitioned by component hash, written as they come."""

    def __init__(self, task: PhaseTask, length: str, bits: int) -> None:
        self._task = task
        self._length = length
        self._bits = bits
        self._records: list[np.ndarray] = []
        self._batches: list[pa.RecordBatch] = []
        self._held = self._files = self._rows = self._text_bytes = 0

    def add(self, records: np.ndarray, columns: pa.RecordBatch) -> None:
        self._records.append(records)
        self._batches.append(columns)
        self._held += records.nbytes + columns.nbytes
        self._rows += len(records)
        self._text_bytes += int(columns.column(self._length).to_numpy(zero_copy_only=False).sum())
        if self._held >= _FLUSH_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._task.note(members=self._rows, text_bytes=self._text_bytes)

    def _flush(self) -> None:
        if not self._records:
            return
        records = np.concatenate(self._records)
        order, offsets = partition_order(top_bits(records[:, 0], self._bits), 1 << self._bits)
        table = pa.Table.from_batches(self._batches).take(pa.array(order)).combine_chunks()
        with self._task.file(f"members-{self._files:03d}.bin") as stream:
            run = RunWriter(stream)
            run.add(records[order], offsets, table.to_batches()[0])
            run.close()
        self._records, self._batches, self._held = [], [], 0
        self._files += 1
