"""From edges to clusters: connected components, and the documents in them brought together.

`find_components` labels every document that has an edge with its component; `gather_members` brings the documents of each
component into one place: rank, signature, id, address and, where similarity is to be exact, text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs, PhaseTask
from stages.dedup import _shards
from stages.dedup._order import KeepOrder, epochs
from stages.dedup._runs import Run, RunWriter
from stages.kernels.sortruns import partition_order, top_bits
from stages.kernels.unionfind import Forest

#: Members are cut finer than documents: their columns are large.
_EXTRA_BITS: Final = 4


def _bases(inputs: PhaseInputs) -> np.ndarray:
    """Where each shard's rows start when all rows are numbered through: int64 array (shards + 1,)."""
    extents: list[int] = []
    for note in inputs.info("bands").values():
        extents.extend(note["extents"])
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(extents, np.int64))])


def _edges(task: PhaseTask, bases: np.ndarray) -> Iterator[np.ndarray]:
    """All edges with rows numbered through: int64 arrays (n, 2)."""
    for part in task.parts("edges"):
        with Run(task, part) as run:
            edges = run.records(0, 0, 1)
            yield bases[_shards.positions(edges)] + _shards.rows(edges)


def find_components(task: PhaseTask) -> None:
    """A phase's body, one task: writes (document, component) of every document with an edge, a segment per shard group."""
    bases = _bases(task)
    forest = Forest(int(bases[-1]))
    for edges in _edges(task, bases):
        forest.union(np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1]))
    roots, linked = forest.roots()
    with task.file("components.bin") as stream:
        run = RunWriter(stream)
        for group in range(_shards.group_count(task)):
            records = [np.zeros((0, 2), np.uint64)]
            for position, _ in _shards.group_shards(task, group):
                lo, hi = int(bases[position]), int(bases[position + 1])
                at = np.flatnonzero(linked[lo:hi])
                records.append(np.stack([_shards.documents(position, at), roots[lo:hi][at].astype(np.uint64)], axis=1))
            together = np.concatenate(records)
            run.add(together, np.array([0, len(together)], np.int64))
        run.close()
    task.count("nodes", int(np.count_nonzero(linked)))


def member_bits(inputs: PhaseInputs) -> int:
    """Key bits that number the buckets of members."""
    return _shards.bucket_bits(inputs) + _EXTRA_BITS


def gather_members(task: PhaseTask, *, order: KeepOrder, columns: tuple[str, ...]) -> None:
    """A phase's body, one task per shard group: its documents that are in components, by component.

    Records: hash of the component, component, [epoch,] rank words, document. Columns: as asked.
    """
    by_epoch = epochs(task)
    (part,) = task.parts("components")
    with Run(task, part) as run:
        labels = run.records(task.index, 0, 1)
    documents, component = labels[:, 0], labels[:, 1]
    read = tuple(dict.fromkeys([*order.columns(), *columns]))
    records: list[np.ndarray] = []
    batches: list[pa.RecordBatch] = []
    text_bytes = 0
    for position, shard in _shards.group_shards(task, task.index):
        start, end = np.searchsorted(documents, np.array([position, position + 1], np.uint64) << np.uint64(32))
        if start == end:
            continue
        done = int(start)
        for batch in task.survivors(shard, read, _shards.rows(documents[start:end])):
            n = batch.num_rows
            label = component[done : done + n]
            epoch = [] if by_epoch is None else [np.full(n, by_epoch[position], np.uint64)]
            words = [spread(label), label, *epoch, *order.words(batch).T, documents[done : done + n]]
            records.append(np.stack(words, axis=1))
            batches.append(batch.select(list(columns)))
            text_bytes += batch.column("text").nbytes if "text" in columns else 0
            done += n
    if records:
        together = np.concatenate(records)
        bits = member_bits(task)
        by_bucket, offsets = partition_order(top_bits(together[:, 0], bits), 1 << bits)
        table = pa.Table.from_batches(batches).take(pa.array(by_bucket)).combine_chunks()
        with task.file("members.bin") as stream:
            writer = RunWriter(stream)
            writer.add(together[by_bucket], offsets, table.to_batches()[0])
            writer.close()
    task.note(members=sum(len(r) for r in records), text_bytes=text_bytes)


def spread(numbers: np.ndarray) -> np.ndarray:
    """Numbers made even over the 64-bit space: uint64 array, Fibonacci hashing with a finishing multiply."""
    with np.errstate(over="ignore"):
        x = numbers * np.uint64(0x9E3779B97F4A7C15)
        x ^= x >> np.uint64(32)
        return x * np.uint64(0xD6E8FEB86659FD93)
