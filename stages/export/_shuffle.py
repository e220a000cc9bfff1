"""The seeded global order of documents, as sorted runs and ranged reads of them.

Two phases. "sort": each task reads one shard's survivors and writes them ordered by the seeded 128-bit hash of their id, one
run per split. "write": each task makes one output file, which covers an equal range of the hash, from the row groups of all
runs that hold that range, slice by slice of it. So the order depends on ids and the seed alone; memory is bounded by one shard
in the first phase and by one slice in the second; and no phase makes (shards x files) objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpusflow import Part, PhaseInputs, PhaseTask, id_hashes

from ._packed import pack_tokens, unpack_tokens

SORT: Final = "sort"
WRITE: Final = "write"
SPLITS: Final = ("train", "validation")

#: A document's split must not change with the run's seed, nor follow the order: its hash has a seed of its own.
_SPLIT_SEED: Final = 0x73706C6974
_HASHES: Final = 1 << 64
_KEYS: Final = ("_key_high", "_key_low")
#: Rows handed to a writer at a time.
_BLOCK_ROWS: Final = 4_096

Measure = Callable[[pa.RecordBatch], np.ndarray]


def split_of(ids: pa.Array, validation: float) -> np.ndarray:
    """Position in SPLITS of each id, int8 array (n,). A larger `validation` only ever moves documents out of train."""
    if validation <= 0.0:
        return np.zeros(len(ids), np.int8)
    below = min(int(validation * _HASHES), _HASHES - 1)
    return (id_hashes(ids, _SPLIT_SEED)[:, 0] < np.uint64(below)).astype(np.int8)


@dataclass(frozen=True)
class OutputFile:
    """Output file number `index` of `count` of a split: hashes [first, last)."""

    split: str
    index: int
    count: int
    size: int  # about

    @property
    def stem(self) -> str:
        """`train-00000-of-00004`."""
        return f"{self.split}-{self.index:05d}-of-{self.count:05d}"

    def ranges(self, slice_size: int) -> Iterator[tuple[int, int]]:
        """Ranges of hashes [first, last), in order, that together are the file's and hold about `slice_size` each."""
        first, last = self.index * _HASHES // self.count, (self.index + 1) * _HASHES // self.count
        slices = max(1, math.ceil(self.size / slice_size))
        for i in range(slices):
            yield first + i * (last - first) // slices, first + (i + 1) * (last - first) // slices


def write_runs(task: PhaseTask, columns: Sequence[str], measure: Measure, validation: float, target: int) -> None:
    """The "sort" phase's task: one sorted run per split, with documents and size noted.

    Args:
        task: of a phase with one task per shard.
        columns: what the output needs, `id` among them.
        measure: size of each row of a batch (tokens, bytes), int64 array; rows of size 0 are left out and counted.
        validation: share of documents in the second split.
        target: size of what is read at once (a slice, or a file if that is smaller); row groups are cut so that this needs
            about one of each run.
    """
    batches = list(task.survivors(task.shards[task.index], columns))
    note: dict[str, tuple[int, int]] = {}
    if batches:
        ids = pa.Table.from_batches(batches).column("id").combine_chunks()
        size = np.concatenate([measure(b) for b in batches])
        task.count("empty_documents", int((size == 0).sum()))
        keys = id_hashes(ids, task.seed)
        splits = split_of(ids, validation)
        rows_of = _Rows([pack_tokens(b.drop_columns(["row"])) for b in batches])
        slices = max(1, math.ceil(int(size.sum()) * len(task.shards) / target))
        for i, split in enumerate(SPLITS):
            rows = np.flatnonzero((splits == i) & (size > 0))
            if not len(rows):
                continue
            order = rows[np.lexsort((keys[rows, 1], keys[rows, 0]))]
            _write_run(task, split, rows_of, keys, order, max(64, min(65_536, len(rows) // slices)))
            note[split] = (len(rows), int(size[rows].sum()))
    task.note(**note)


class _Rows:
    """Rows of batches by number, without a copy of them all: a shard has 60 M tokens and more."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.schema = batches[0].schema
        self._batches = batches
        self._starts = np.cumsum([0, *(b.num_rows for b in batches)])

    def take(self, rows: np.ndarray) -> pa.Table:
        """Rows (int64, any order) as a table."""
        owner = np.searchsorted(self._starts, rows, "right") - 1
        order = np.argsort(owner, kind="stable")
        owners, first = np.unique(owner[order], return_index=True)
        pieces = [
            self._batches[o].take(pa.array(rows[own] - self._starts[o]))
            for o, own in zip(owners.tolist(), np.split(order, first[1:]), strict=True)
        ]
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return pa.Table.from_batches(pieces).combine_chunks().take(pa.array(back))


def _write_run(
    task: PhaseTask, split: str, rows_of: _Rows, keys: np.ndarray, order: np.ndarray, group_rows: int
) -> None:
    schema = pa.schema([*[pa.field(k, pa.uint64()) for k in _KEYS], *rows_of.schema])
    with task.parquet(f"{split}.parquet", schema, row_group_rows=group_rows) as writer:
        for start in range(0, len(order), _BLOCK_ROWS):
            rows = order[start : start + _BLOCK_ROWS]
            columns = [pa.array(keys[rows, 0]), pa.array(keys[rows, 1]), *rows_of.take(rows).columns]
            writer.write(pa.table(columns, schema=schema))


def output_files(inputs: PhaseInputs, target: int) -> list[OutputFile]:
    """The files of the "write" phase in order, from what the "sort" tasks noted."""
    files = []
    for split in SPLITS:
        noted = [info[split] for info in inputs.info(SORT).values() if split in info]
        if noted:
            total = sum(size for _, size in noted)
            count = max(1, math.ceil(total / target))
            files += [OutputFile(split, k, count, total // count) for k in range(count)]
    return files


def ordered(task: PhaseTask, output: OutputFile, slice_size: int) -> Iterator[pa.RecordBatch]:
    """The rows of an output file in order, in batches; columns as the runs have them, without the keys."""
    for first, last in output.ranges(slice_size):
        pieces = [
            p
            for part in task.parts(SORT)
            if part.name == f"{output.split}.parquet"
            for p in _range(task, part, first, last)
        ]
        if not pieces:
            continue
        # take() joins a column's chunks at every call, so they are joined once here
        table = pa.concat_tables(pieces).combine_chunks()
        del pieces
        high, low = (table.column(k).to_numpy() for k in _KEYS)
        order = np.lexsort((low, high))
        payload = table.drop_columns(list(_KEYS))
        for start in range(0, len(order), _BLOCK_ROWS):
            yield from map(unpack_tokens, payload.take(pa.array(order[start : start + _BLOCK_ROWS])).to_batches())


def _range(task: PhaseTask, part: Part, first: int, last: int) -> Iterator[pa.Table]:
    """The rows of a run whose hash lies in [first, last)."""
    with task.open(part) as stream:
        metadata = pq.read_metadata(stream)
    for g in range(metadata.num_row_groups):
        if not _overlaps(metadata.row_group(g).column(0).statistics, first, last):
            continue
        table = task.read_parquet(part, row_groups=[g])
        high = table.column(_KEYS[0]).to_numpy()
        # runs are sorted, so the range is a slice
        start = int(np.searchsorted(high, np.uint64(first), "left"))
        end = len(high) if last >= _HASHES else int(np.searchsorted(high, np.uint64(last), "left"))
        if end > start:
            yield table.slice(start, end - start)


def _overlaps(statistics: pq.Statistics | None, first: int, last: int) -> bool:
    """Whether a row group may hold hashes of [first, last); without statistics it may."""
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.max >= first and statistics.min < last)
