"""Documents that an index has, near enough: the phases of `dedup.minhash` that compare with earlier runs.

`edges` pairs each document with the first indexed one that shares a band with it. `find_signatures` (a task per file of the
index) brings the indexed signatures to the documents, `settle` compares: what agrees in enough minima goes, its twin being the
most alike. There is no text in an index, so similarity to it is always the share of equal minima.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs, PhaseTask
from stages.dedup import _shards
from stages.dedup._bands import Earlier, minima
from stages.dedup._index import BLOCK, DedupIndex, IndexRun, files_of, open_indexes
from stages.dedup._members import EVIDENCE, VERDICT
from stages.dedup._outbox import Outbox, inbox
from stages.dedup._verdicts import Verdicts
from stages.kernels.sortruns import smallest_per_key, starts_of


@dataclass(frozen=True)
class Against:
    """The indexes that a run compares with."""

    paths: tuple[str, ...]
    digests: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.paths)

    def indexes(self) -> list[DedupIndex]:
        """Opened, and held against what the plan saw."""
        return open_indexes(self.paths, self.digests)

    def earlier(self) -> Earlier:
        """For `_bands.write_edges`."""
        files = files_of(self.indexes(), "signatures")
        return Earlier(sum(f.rows for f in files), len(files), partial(KnownBands, self))


class KnownBands:
    """Band keys of the indexes in one key range, each with the first document that has it."""

    def __init__(self, against: Against, band: int, lo: int, hi: int, bits: int) -> None:
        found = [np.zeros((0, 2), np.uint64)]
        for number, file in enumerate(files_of(against.indexes(), "bands")):
            with IndexRun(file) as run:
                records = run.within(band, lo, hi, bits).copy()
            records[:, 1] |= np.uint64(number << 32)
            found.append(smallest_per_key(records))
        self._keys = smallest_per_key(np.concatenate(found))

    def pairs(self, records: np.ndarray) -> np.ndarray:
        """(indexed document, document) for the (key, document) records whose key is known: uint64 (n, 2)."""
        if not len(self._keys):
            return np.zeros((0, 2), np.uint64)
        at = np.minimum(np.searchsorted(self._keys[:, 0], records[:, 0]), len(self._keys) - 1)
        known = self._keys[at, 0] == records[:, 0]
        return np.stack([self._keys[at[known], 1], records[known, 1]], axis=1)


def signature_tasks(_: PhaseInputs, *, against: Against) -> int:
    """How many tasks `find_signatures` has."""
    return len(files_of(against.indexes(), "signatures"))


def find_signatures(task: PhaseTask, *, against: Against) -> None:
    """A phase's body: signatures and ids of the indexed documents of one file, sent to the documents paired with them."""
    pairs, _ = inbox(task, "edges", task.index, "known")
    out = Outbox(task, "found")
    pairs = np.unique(pairs.reshape(-1, 2), axis=0)
    if len(pairs):
        local = (pairs[:, 0] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        with IndexRun(files_of(against.indexes(), "signatures")[task.index]) as run:
            for block in np.unique(local // BLOCK).tolist():
                mine = np.flatnonzero(local // BLOCK == block)
                words, names = run.records(0, block, block + 1), run.columns(0, block, block + 1)
                if names is None:
                    continue
                at = local[mine] - block * BLOCK
                records = np.concatenate([pairs[mine, 1:], pairs[mine, :1], words[at]], axis=1)
                ids = pa.record_batch([names.column("id").take(pa.array(at)).combine_chunks()], names=["id"])
                out.add_documents(records, records[:, 0], _shards.MOST, ids)
    out.close()


def settle(task: PhaseTask, *, signature: str, permutations: int, threshold: float) -> None:
    """A phase's body, one task per shard group: documents near enough to an indexed one."""
    records, names = inbox(task, "known", task.index)
    verdicts = Verdicts(task)
    with task.parquet("evidence.parquet", EVIDENCE) as evidence:
        if names is not None:
            order = np.argsort(records[:, 0], kind="stable")
            ids = names.column("id").take(pa.array(order)).combine_chunks()
            for found in _near(task, records[order], ids, signature, permutations, threshold):
                evidence.write(found.evidence())
                verdicts.add(found.documents, found.verdicts())
                task.count("known", len(found.documents))
    verdicts.flush()


@dataclass(frozen=True)
class _Found:
    """Documents with their twins in an index."""

    documents: np.ndarray
    ids: pa.Array
    urls: pa.Array
    twins: pa.Array
    similarity: np.ndarray

    def verdicts(self) -> pa.RecordBatch:
        n = len(self.documents)
        columns = [self.twins, pa.array(self.similarity), pa.nulls(n, pa.int64()), pa.array(np.ones(n, np.int32))]
        return pa.RecordBatch.from_arrays(columns, schema=VERDICT)

    def evidence(self) -> pa.Table:
        verdict = self.verdicts().columns
        columns = [self.ids, *verdict, self.urls, pa.nulls(len(self.documents), pa.string())]
        return pa.Table.from_arrays(columns, schema=EVIDENCE)


def _near(
    task: PhaseTask, records: np.ndarray, ids: pa.Array, signature: str, permutations: int, threshold: float
) -> Iterator[_Found]:
    """Of the pairs (document, indexed one, its minima), ascending, those near enough; the most alike of each document."""
    theirs = np.ascontiguousarray(records[:, 2:]).view(np.uint16)[:, :permutations]
    for position, shard in _shards.group_shards(task, task.index):
        bounds = np.array([position, position + 1], np.uint64) << np.uint64(32)
        start, end = (int(v) for v in np.searchsorted(records[:, 0], bounds))
        if start == end:
            continue
        pairs = records[start:end]
        for batch in task.survivors(shard, (signature, "id", "url"), np.unique(_shards.rows(pairs[:, 0]))):
            numbers = _shards.documents(position, batch.column("row").to_numpy(zero_copy_only=False))
            first, last = (np.searchsorted(pairs[:, 0], numbers, side=side) for side in ("left", "right"))
            own = np.repeat(np.arange(len(numbers)), last - first)
            at = np.arange(int(first[0]), int(last[-1]))
            mine = minima(batch.column(signature), permutations).astype(np.uint16)
            same = np.count_nonzero(mine[own] == theirs[start + at], axis=1)
            near = np.flatnonzero(same / permutations >= threshold)
            # the most alike of each, and of several the first in the index
            near = near[np.lexsort((pairs[at[near], 1], -same[near], own[near]))]
            near = near[starts_of(own[near][:, None])]
            chosen = pa.array(own[near])
            yield _Found(
                numbers[own[near]],
                batch.column("id").take(chosen),
                batch.column("url").take(chosen),
                ids.take(pa.array(start + at[near])),
                (same[near] / permutations).astype(np.float32),
            )


def settled(inputs: PhaseInputs, group: int) -> np.ndarray:
    """Documents of a shard group that an index has, ascending: uint64 array."""
    records, _ = inbox(inputs, "settle", group, "verdicts")
    return np.sort(records.reshape(-1))
