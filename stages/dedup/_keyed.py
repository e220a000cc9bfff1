"""Documents with one key: the Exchange behind dedup.exact and dedup.url.

Reads a 128-bit key per document (null: comparable to nothing), the columns of the keep policy and ids. Adds

    <prefix>.twin    string, id of the document that was kept in this one's place; null where it is kept
    <prefix>.copies  int32, documents with this key, itself included (1 where alone)

Phases, each of tasks over committed files: `runs` (shards -> keys partitioned by key range), `groups` (one key range of all
runs -> verdicts partitioned by shard), `lists` (verdicts of some shards, sorted by row). 48 bytes a document plus its
compressed id travel. Memory of a task depends on the constants here, not on the corpus: a key that more documents share
than fit in memory is streamed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import xxhash

from corpusflow import Exchange, Phase, PhaseInputs, PhaseTask, Resources, param
from stages.dedup import _shards, _verdicts
from stages.dedup._index import INDEXED, IndexFile, IndexKeys, files_of, open_indexes
from stages.dedup._order import KeepOrder, epochs, parse_keep
from stages.dedup._runs import Held, Ordered, Run, RunWriter, bucket_counts, chunks, held, slices
from stages.kernels.buffers import text_buffers
from stages.kernels.sortruns import find_keys, first_of_groups, partition_order, top_bits

#: Records a range task takes, and how many of them it has in memory at once (100 bytes each while being grouped).
_TASK_RECORDS: Final = 20 << 20
_SLICE_RECORDS: Final = 2 << 20
_VERDICT: Final = pa.schema([("twin", pa.string()), ("copies", pa.int32())])


@dataclass(frozen=True, kw_only=True)
class KeyedDuplicates(Exchange):
    """Elects one document per key."""

    prefix: str = param(doc="Columns are read and added under this name.")
    keep: tuple[str, ...] = param(("id",), doc="Which of several equal documents stays: columns, best first.")
    sources: tuple[str, ...] = param((), doc="Values of `source`, best first, for source_rank in `keep`.")
    within: str | None = param(None, doc="Only documents with the same value of this column are compared; none: all.")

    against: tuple[str, ...] = param((), semantic=False, doc="Folders of dedup indexes.")
    against_digests: tuple[str, ...] = param((), doc="What they hold.")

    version: ClassVar[int] = 2
    resources: ClassVar[Resources] = Resources(memory=2000 << 20)

    def __post_init__(self) -> None:
        self._order()

    def _order(self) -> KeepOrder:
        return KeepOrder(parse_keep(self.prefix, self.keep, self.sources), self.prefix, self.sources)

    def inputs(self) -> tuple[str, ...]:
        within = () if self.within is None else (self.within,)
        return tuple(dict.fromkeys([f"{self.prefix}.hash", *self._order().columns(), *within]))

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {f"{self.prefix}.twin": pa.string(), f"{self.prefix}.copies": pa.int32()}

    def phases(self) -> tuple[Phase, ...]:
        return (
            Phase("runs", self._runs, _shards.group_count),
            Phase("groups", partial(_groups, earlier=self._earlier), partial(_range_tasks, earlier=self._earlier)),
            Phase("lists", partial(_verdicts.collect, phase="groups"), _shards.group_count),
        )

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        names = [f"{self.prefix}.{c}" for c in _VERDICT.names]
        for rows, found in _verdicts.joined(shard, inputs, "lists", _VERDICT):
            twin, copies = (found.column(c).combine_chunks() for c in _VERDICT.names)
            yield pa.RecordBatch.from_arrays([rows, twin, copies.fill_null(1)], names=["row", *names])

    def costs(self, documents: float, text_bytes: float) -> Mapping[str, Any]:
        from stages.dedup import _scale  # which reads this module's constants

        corpus = _scale.Corpus(documents, text_bytes)
        return _scale.as_costs(_scale.exact_costs(corpus), corpus)

    def _earlier(self) -> list[IndexFile]:
        return files_of(open_indexes(self.against, self.against_digests), self.prefix.rpartition(".")[2])

    def _runs(self, task: PhaseTask) -> None:
        order, by_epoch = self._order(), epochs(task)
        records: list[np.ndarray] = []
        ids: list[pa.Array] = []
        for position, shard in _shards.group_shards(task, task.index):
            for batch in task.survivors(shard, self.inputs()):
                keyed = batch.filter(batch.column(f"{self.prefix}.hash").is_valid())
                rows = keyed.column("row").to_numpy(zero_copy_only=False)
                epoch = [] if by_epoch is None else [np.full((len(rows), 1), by_epoch[position], np.uint64)]
                documents = _shards.documents(position, rows)[:, None]
                records.append(np.concatenate([self._keys(keyed), *epoch, order.words(keyed), documents], axis=1))
                ids.append(keyed.column("id"))
        # each step lets go of what it was made from: 96 shards of 50,000 documents took 2.4 GB, and take 1.7
        everything = np.concatenate(records) if records else np.zeros((0, 2), np.uint64)
        records.clear()
        all_ids = pa.chunked_array(ids, pa.string()).combine_chunks()
        ids.clear()
        bits = _shards.bucket_bits(task)
        by_bucket, offsets = partition_order(top_bits(everything[:, 0], bits), 1 << bits)
        everything = everything[by_bucket]
        with task.file("runs.bin") as stream:
            run = RunWriter(stream)
            run.add(everything, offsets, Ordered(pa.record_batch([all_ids], names=["id"]), by_bucket))
            run.close()
        task.note(records=len(everything))

    def _keys(self, batch: pa.RecordBatch) -> np.ndarray:
        """The 128-bit keys as uint64 (n, 2); documents that may not be compared get unrelated ones."""
        offsets, data, _ = text_buffers(batch.column(f"{self.prefix}.hash").cast(pa.binary()))
        keys = data[offsets[0] : offsets[-1]].view(">u8").reshape(-1, 2).astype(np.uint64)
        if self.within is not None and len(keys):
            keys ^= salt(batch.column(self.within))
        return keys


def salt(column: pa.Array) -> np.ndarray:
    """A hash of each value that makes equal keys differ where values do: uint64 (n, 2). All nulls are one value."""
    encoded = column.dictionary_encode()
    low = (1 << 64) - 1
    salts = np.zeros((len(encoded.dictionary) + 1, 2), np.uint64)
    for i, value in enumerate(encoded.dictionary.to_pylist()):
        h = xxhash.xxh3_128_intdigest(str(value).encode())
        salts[i] = h >> 64, h & low
    out: np.ndarray = salts[encoded.indices.fill_null(len(salts) - 1).to_numpy(zero_copy_only=False)]
    return out


def _range_tasks(inputs: PhaseInputs, *, earlier: Callable[[], list[IndexFile]]) -> int:
    records = sum(int(n["records"]) for n in inputs.info("runs").values()) + sum(f.rows for f in earlier())
    return min(1 << _shards.bucket_bits(inputs), max(1, -(-records // _TASK_RECORDS)))


@dataclass(frozen=True)
class _Elected:
    """The best record of each key, how many have the key, and where the best one's id lies: g rows each."""

    records: np.ndarray
    sizes: np.ndarray
    run: np.ndarray
    row: np.ndarray

    def plus(self, other: _Elected) -> _Elected:
        """Both, one row per key."""
        together = [
            np.concatenate(pair)
            for pair in (
                (self.records, other.records),
                (self.sizes, other.sizes),
                (self.run, other.run),
                (self.row, other.row),
            )
        ]
        return _elect(*together)

    def shared(self) -> _Elected:
        """The keys of more than one document, ascending."""
        chosen = np.flatnonzero(self.sizes > 1)
        chosen = chosen[np.lexsort((self.records[chosen, 1], self.records[chosen, 0]))]
        return _Elected(self.records[chosen], self.sizes[chosen], self.run[chosen], self.row[chosen])


def _elect(records: np.ndarray, sizes: np.ndarray, run: np.ndarray, row: np.ndarray) -> _Elected:
    winners = first_of_groups(records)
    best, group = np.unique(winners, return_inverse=True)
    total = np.bincount(group, weights=sizes, minlength=len(best)).astype(np.int64)
    return _Elected(records[best], total, run[best], row[best])


def _groups(task: PhaseTask, *, earlier: Callable[[], list[IndexFile]]) -> None:
    """Group one key range of all runs, and of indexes; write who stands behind whom, by shard group."""
    verdicts = _verdicts.Verdicts(task)
    bits = _shards.bucket_bits(task)
    lo, hi = _shards.range_of(task, task.index, _range_tasks(task, earlier=earlier))
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(task, part)) for part in task.parts("runs")]
        near = held(runs, 0, lo, hi, 2 * _TASK_RECORDS)
        words = max((run.words() for run in runs), default=2)
        known = [stack.enter_context(IndexKeys(file, bits, words)) for file in earlier()]
        for a, b in slices(bucket_counts(near, 0, lo, hi), _SLICE_RECORDS):
            _group_slice(task, [*runs, *known], [*near, *known], lo + a, lo + b, verdicts)
    verdicts.flush()


def _group_slice(
    task: PhaseTask,
    runs: Sequence[Run | IndexKeys],
    near: Sequence[Run | Held | IndexKeys],
    lo: int,
    hi: int,
    verdicts: _verdicts.Verdicts,
) -> None:
    """Group buckets [lo, hi) of the runs (`near` are their records, where they are at hand).

    Usually they fit in memory; a bucket with a very common key is read twice instead.
    """
    first: list[np.ndarray] = []
    elected: _Elected | None = None
    for records, run, row in _chunks(near, lo, hi):
        found = _elect(records, np.ones(len(records), np.int64), run, row)
        elected = found if elected is None else elected.plus(found)
        first = [records] if not first else [*first, records][:2]
    if elected is None:
        return
    shared = elected.shared()
    names = _names(runs, lo, hi, shared)
    again = first if len(first) == 1 else (records for records, _, _ in _chunks(near, lo, hi))
    for records in again:
        group = find_keys(shared.records, records)
        members = np.flatnonzero((group >= 0) & (records[:, -1] < INDEXED))
        group = group[members]
        documents = records[members, -1]
        kept = shared.records[group, -1] == documents
        twin = names.take(pa.array(group, mask=kept))
        copies = pa.array(np.minimum(shared.sizes[group], 2**31 - 1).astype(np.int32))
        verdicts.add(documents, pa.RecordBatch.from_arrays([twin, copies], schema=_VERDICT))
        task.count("duplicates", int((~kept).sum()))
        task.count("groups", int(kept.sum()))


def _chunks(
    runs: Sequence[Run | Held | IndexKeys], lo: int, hi: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(records, run, row) of buckets [lo, hi), some runs at a time."""
    for part in chunks(runs, 0, lo, hi, 2 * _SLICE_RECORDS):
        yield (
            np.concatenate([records for _, records in part]),
            np.concatenate([np.full(len(records), i, np.int32) for i, records in part]),
            np.concatenate([np.arange(len(records), dtype=np.int32) for _, records in part]),
        )


def _names(runs: Sequence[Run | IndexKeys], lo: int, hi: int, shared: _Elected) -> pa.Array:
    """Ids of the elected, in their order; all that an id is needed for."""
    names = [pa.array([], pa.string())]
    places = [np.zeros(0, np.int64)]
    for i in np.unique(shared.run).tolist():
        chosen = np.flatnonzero(shared.run == i)
        table = runs[i].columns(0, lo, hi)
        if table is not None:
            names.append(table.column("id").take(pa.array(shared.row[chosen])).combine_chunks())
            places.append(chosen)
    order = np.argsort(np.concatenate(places))
    return pa.concat_arrays(names).take(pa.array(order))


def hash_column(data: np.ndarray, offsets: np.ndarray, usable: np.ndarray) -> pa.Array:
    """xxh3-128 of each value, big-endian as its authors print it: fixed_size_binary(16), null where not `usable`.

    Args:
        data: uint8 array.
        offsets: int64 array of shape (n + 1,).
        usable: bool array of shape (n,).
    """
    view = np.ascontiguousarray(data).data
    digest = xxhash.xxh3_128_digest
    bounds = offsets.tolist()
    joined = b"".join([digest(view[a:b]) for a, b in pairwise(bounds)])
    bitmap = pa.py_buffer(np.packbits(usable, bitorder="little"))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(usable), [bitmap, pa.py_buffer(joined)])
