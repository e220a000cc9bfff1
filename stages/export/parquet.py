"""The clean corpus as Parquet, for whatever reads Parquet: datasets, Spark, DuckDB, Ray Data, another run.

Reads the columns it is told to write; writes `train-00000-of-00012.parquet` (zstd, page checksums, row groups of at most
16,384 rows and about 64 MB), the same for `validation`, and `manifest.json`. Documents stay in shard order unless `shuffle`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpusflow import Check, ConfigError, Part, Phase, PhaseInputs, PhaseTask, Published, Sink, param

from ._publish import holding, numbered, published
from ._row_groups import RowGroupWriter
from ._shuffle import SORT, SPLITS, WRITE, ordered, output_files, split_of, write_runs

_COUNT: Final = "count"
#: Bytes of documents that are put in order at once.
_SLICE_BYTES: Final = 64 << 20
#: What a row is reckoned at besides its strings, so that documents without text still fill files.
_ROW_BYTES: Final = 64


@dataclass(frozen=True, kw_only=True)
class Parquet(Sink):
    """The clean corpus as Parquet files."""

    version: ClassVar[int] = 1
    layout_phases: ClassVar[tuple[str, ...]] = (SORT, _COUNT)

    columns: tuple[str, ...] = param(
        ("id", "url", "source", "date", "text", "language.code?"),
        doc="Columns to write, in this order: document columns and signals, tokenize.tokens among them if wanted. "
        "A trailing ? means: where the run has it.",
    )
    shuffle: bool = param(False, doc="Order documents by a seeded hash of their id, over all shards.")
    validation: float = param(0.0, doc="Share of documents, picked by a hash of the id, that go to validation files.")
    file_bytes: int = param(1 << 30, doc="Bytes per file before compression, about.")
    compression_level: int = param(3, doc="Of zstd, 1 (fast) to 22 (small).")

    def __post_init__(self) -> None:
        if not 0.0 <= self.validation < 1.0:
            raise ConfigError(f"validation must be at least 0 and below 1, got {self.validation}")
        if "id" not in self.columns:
            raise ConfigError("export.parquet needs id among its columns", hint="columns: [id, …]")
        if self.file_bytes < 1:
            raise ConfigError(f"file_bytes must be positive, got {self.file_bytes}")

    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def _columns(self, inputs: PhaseInputs) -> tuple[str, ...]:
        """`columns`, the optional ones that this run lacks left out."""
        return tuple(
            c.removesuffix("?") for c in self.columns if not c.endswith("?") or inputs.has(c.removesuffix("?"))
        )

    def phases(self) -> tuple[Phase, ...]:
        if self.shuffle:
            return (Phase(SORT, self._sort), Phase(WRITE, self._write_ordered, self._file_count))
        return (Phase(_COUNT, self._count), Phase(WRITE, self._write_group, lambda inputs: len(self._groups(inputs))))

    def publish(self, inputs: PhaseInputs) -> Published:
        header = {"columns": list(self._columns(inputs)), "shuffled": self.shuffle, "validation": self.validation}
        return published(inputs, "parquet", header)

    def verify(self, inputs: PhaseInputs, sample: int) -> Iterator[Check]:
        """Every file read whole, its pages checked, its documents counted."""
        problems, count, documents = [], 0, 0
        info: Any = inputs.info(WRITE)
        for split, stem, task in numbered(inputs):
            count += 1
            for part in inputs.parts(WRITE, task):
                if part.name == f"{split}.parquet":
                    rows = _read_through(inputs, part)
                    documents += rows
                    if rows != info[task][split]["documents"]:
                        problems.append(f"{stem}.parquet: {rows} rows, {info[task][split]['documents']} were written")
        yield Check("Parquet files read whole", count, tuple(problems))
        yield Check("documents in them", documents)

    def find(self, inputs: PhaseInputs, document_id: str) -> Iterator[Mapping[str, Any]]:
        for split, stem, task in numbered(inputs):
            for part in inputs.parts(WRITE, task):
                if part.name == f"{split}.parquet":
                    ids = inputs.read_parquet(part, ["id"]).column("id")
                    for row in np.flatnonzero(pc.equal(ids, document_id).to_numpy()):
                        yield {"file": f"{stem}.parquet", "row": int(row)}

    def holding(self, inputs: PhaseInputs, phase: str, ids: pa.Array) -> set[int] | None:
        return holding(inputs, phase, ids, "parquet")

    def _sort(self, task: PhaseTask) -> None:
        write_runs(task, self._columns(task), row_bytes, self.validation, min(self.file_bytes, _SLICE_BYTES))

    def _file_count(self, inputs: PhaseInputs) -> int:
        return len(output_files(inputs, self.file_bytes))

    def _write_ordered(self, task: PhaseTask) -> None:
        output = output_files(task, self.file_bytes)[task.index]
        self._write(task, output.split, ordered(task, output, _SLICE_BYTES))

    def _count(self, task: PhaseTask) -> None:
        """Bytes of one shard, so that small shards can share a file."""
        read = [c for c in self.columns if c in ("id", "text")]
        size = sum(int(row_bytes(b).sum()) for b in task.survivors(task.shards[task.index], read))
        task.note(bytes=size)

    def _groups(self, inputs: PhaseInputs) -> list[list[int]]:
        """Positions of neighbouring shards that make one file together: a file ends with the shard that fills it."""
        groups: list[list[int]] = []
        size = self.file_bytes
        for task, info in sorted(inputs.info(_COUNT).items()):
            if not info["bytes"]:
                continue
            if size >= self.file_bytes:
                groups.append([])
                size = 0
            groups[-1].append(task)
            size += info["bytes"]
        return groups

    def _write_group(self, task: PhaseTask) -> None:
        shards = [task.shards[position] for position in self._groups(task)[task.index]]
        for i, split in enumerate(SPLITS):
            if i == 0 or self.validation > 0.0:
                self._write(task, split, self._of_split(task, shards, i))

    def _of_split(self, task: PhaseTask, shards: list[int], split: int) -> Iterator[pa.RecordBatch]:
        for shard in shards:
            for batch in task.survivors(shard, self._columns(task)):
                rows = np.flatnonzero(split_of(batch.column("id"), self.validation) == split)
                yield batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))

    def _write(self, task: PhaseTask, split: str, batches: Iterable[pa.RecordBatch]) -> None:
        filled = (b.select(list(self._columns(task))) for b in batches if b.num_rows)
        first = next(filled, None)
        if first is None:
            return
        with task.file(f"{split}.parquet") as stream:
            writer = RowGroupWriter(stream, first.schema, compression_level=self.compression_level)
            writer.write(first, row_bytes(first))
            for batch in filled:
                writer.write(batch, row_bytes(batch))
            writer.close()
        noted: dict[str, Any] = {"documents": writer.rows, "bytes": writer.bytes}
        task.note(**{split: noted})


def _read_through(inputs: PhaseInputs, part: Part) -> int:
    """Rows of a file, every page of which was read and held against its checksum."""
    with inputs.open(part) as stream:
        groups = pq.read_metadata(stream).num_row_groups
    return sum(inputs.read_parquet(part, row_groups=[g]).num_rows for g in range(groups))


def row_bytes(batch: pa.RecordBatch) -> np.ndarray:
    """About what each row takes, int64 array (n,): its strings and lists, and a little. Never 0."""
    total = np.full(batch.num_rows, _ROW_BYTES, np.int64)
    for column in batch.columns:
        if not _width(column.type):  # numbers are reckoned with the row
            total += _value_bytes(column)
    return total


def _value_bytes(column: pa.Array) -> np.ndarray:
    """About what each value takes, int64 array (n,): of lists and structs what is in them."""
    kind = column.type
    out: np.ndarray
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        out = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return out
    if pa.types.is_struct(kind):
        out = np.sum([np.zeros(len(column), np.int64), *map(_value_bytes, column.flatten())], axis=0)
        return out
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths: np.ndarray = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if width := _width(kind.value_type):
            return lengths * width
        within = np.concatenate([[0], np.cumsum(_value_bytes(column.flatten()))])
        ends = np.cumsum(lengths)
        return np.asarray(within[ends] - within[ends - lengths], np.int64)
    return np.full(len(column), _width(kind), np.int64)


def _width(kind: pa.DataType) -> int:
    """Bytes of a value of a type whose values all have as many, else 0."""
    fixed = pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)
    return int(kind.bit_width) // 8 if fixed else 0


STAGE = Parquet
