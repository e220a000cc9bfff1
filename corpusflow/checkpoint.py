"""Checkpoints as files: wide parts (documents), narrow parts (row numbers and columns), and reading narrow parts by row.

Promises: the bytes of a part depend on its rows alone, not on how they were cut into batches; every page has a checksum,
checked on reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from corpusflow.commit import Attempt, Dataset, run_of
from corpusflow.errors import CorruptShardError, typed
from corpusflow.record import PartFile, Record
from corpusflow.schema import ROW
from corpusflow.storage import Upload

#: A row group holds at most this many rows and bytes of text, cut row by row, so that a reader's memory is bounded.
WIDE_ROW_GROUP_ROWS: Final = 8_192
WIDE_ROW_GROUP_BYTES: Final = 32 << 20
NARROW_ROW_GROUP_ROWS: Final = 65_536

#: Columns whose values repeat; the rest would only grow a dictionary to throw it away.
_REPEATING: Final = frozenset({"source", "date", "content_type", "path", "skipped", "stage", "reason"})


class PartWriter:
    """Writes one Parquet file of an attempt.

    Args:
        attempt: whose file it is.
        label: its name in the commit record.
        schema: of every batch.
        row_group_rows: most rows per row group.
        sized_by: a string or binary column whose bytes also end a row group, at `row_group_bytes`; without one it
            is lists (65,536 documents had 61 M tokens once, which took 800 MB to write).
    """

    def __init__(
        self,
        attempt: Attempt,
        label: str,
        schema: pa.Schema,
        *,
        row_group_rows: int = NARROW_ROW_GROUP_ROWS,
        sized_by: str | None = None,
        row_group_bytes: int = WIDE_ROW_GROUP_BYTES,
    ) -> None:
        self.rows = 0
        self.schema = schema
        self._attempt = attempt
        self._label = label
        self._max_rows = row_group_rows
        self._max_bytes = row_group_bytes
        self._sized_by = sized_by
        self._lists = [f.name for f in schema if pa.types.is_list(f.type) and pa.types.is_primitive(f.type.value_type)]
        if sized_by is not None:
            self._lists = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._name, self._upload = attempt.create("parquet")
        self._writer = parquet_writer(self._upload, schema)

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows; columns are put in the schema's order."""
        for piece in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            self._append(piece.select(self.schema.names))

    def _append(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            take = self._fitting(batch)
            if take:
                self._pending.append(batch.slice(0, take))
                self._pending_rows += take
                self._pending_bytes += int(self._bytes(batch.slice(0, take)).sum())
                batch = batch.slice(take)
            if batch.num_rows:
                self._flush()

    def _fitting(self, batch: pa.RecordBatch) -> int:
        """How many rows still go into the open row group; at least one if it is empty."""
        take: int = min(self._max_rows - self._pending_rows, batch.num_rows)
        if take:
            total = np.cumsum(self._bytes(batch.slice(0, take))) + self._pending_bytes
            take = int(np.searchsorted(total, self._max_bytes, side="right"))
            if take == 0 and self._pending_rows == 0:
                return 1
        return take

    def _bytes(self, batch: pa.RecordBatch) -> np.ndarray:
        """What ends a row group, of each row, int64."""
        if self._sized_by is not None:
            lengths = pc.binary_length(batch.column(self._sized_by)).fill_null(0).to_numpy(zero_copy_only=False)
            return np.asarray(lengths, np.int64)
        total = np.zeros(batch.num_rows, np.int64)
        for name in self._lists:
            column = batch.column(name)
            lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            total += lengths * (column.type.value_type.bit_width // 8)
        return total

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        table = pa.Table.from_batches(self._pending, schema=self.schema).combine_chunks()
        self._writer.write_table(table, row_group_size=self._pending_rows)
        self.rows += self._pending_rows
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def close(self) -> None:
        """Make the file durable and name it in the record to come."""
        self._flush()
        self._upload.mark()  # what is still to come is the footer
        self._writer.close()
        self._upload.close()
        self._attempt.add(self._label, self._name, self._upload, self.rows)

    def abort(self) -> None:
        """Forget the file."""
        self._upload.abort()

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def parquet_writer(sink: Upload, schema: pa.Schema) -> pq.ParquetWriter:
    """Our Parquet settings: zstd (level 1 writes 433 MB/s a core, level 3 240 for 20 % less), page checksums, statistics.

    Lists of integers are tokens, mostly, which Parquet keeps in 32 bits with the upper ones 0: with the bytes of one place
    together zstd writes them 2.1 times as fast, 5 % smaller, and they are read 1.4 times as fast.
    """
    dictionary = [
        f.name
        for f in schema
        if f.name in _REPEATING or (pa.types.is_string(f.type) and "." in f.name) or pa.types.is_integer(f.type)
    ]
    split = [
        f"{f.name}.list.element" for f in schema if pa.types.is_list(f.type) and pa.types.is_integer(f.type.value_type)
    ]
    return pq.ParquetWriter(
        pa.PythonFile(sink, mode="w"),
        schema,
        compression="zstd",
        compression_level=1,
        version="2.6",
        use_dictionary=dictionary,
        use_byte_stream_split=split,
        write_page_checksum=True,
        write_statistics=True,
        store_schema=True,
    )


@contextmanager
def open_parquet(dataset: Dataset, part: PartFile) -> Iterator[pq.ParquetFile]:
    """A committed Parquet file, its size checked against the record, page checksums on.

    Raises:
        CorruptShardError: missing, not of the size and rows its record says, or with a damaged footer.
    """
    dataset_part_exists(dataset, part)
    path = dataset.path(part.path)
    with dataset.storage.open(path) as stream:  # ParquetFile does not close a stream it was given
        with noticing_damage(dataset, part):
            if part.footer_digest:
                footer = dataset.storage.get_range(path, part.footer, part.size)
                if xxhash.xxh3_128(footer).hexdigest() != part.footer_digest:
                    raise ValueError("its footer does not have the checksum of its record")
            file = pq.ParquetFile(
                stream,
                page_checksum_verification=True,
                thrift_string_size_limit=1 << 27,
                thrift_container_size_limit=1 << 24,
            )
            # a Sink's own Parquet file (PhaseTask.file) is bytes to its record, which knows neither footer nor rows
            if part.footer_digest and file.metadata.num_rows != part.rows:
                raise ValueError(f"it has {file.metadata.num_rows} rows, its record says {part.rows}")
        with file:
            yield file


@contextmanager
def noticing_damage(dataset: Dataset, part: PartFile) -> Iterator[None]:
    """What Arrow says of bytes that are not those it wrote, as a CorruptShardError that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException, ValueError, KeyError) as e:
        if isinstance(e, OSError) and e.errno is not None:  # the disk's, not the file's
            raise
        raise CorruptShardError(
            f"{dataset.path(part.path)} cannot be read: {str(e).strip() or type(e).__name__}",
            hint=f"{typed('verify', run_of(dataset.root), '--repair')}  makes this shard again",
        ) from e


def dataset_part_exists(dataset: Dataset, part: PartFile) -> None:
    """Cheap check of one part: there, and of the recorded size."""
    dataset.verify(Record(dataset.fp, 0, "", "", (part,), {}), digests=False)


def read_part(
    dataset: Dataset, part: PartFile, columns: Sequence[str] | None = None, row_groups: Sequence[int] | None = None
) -> pa.Table:
    """Columns of a committed Parquet file (all of them, in one table).

    Raises:
        CorruptShardError: the bytes fail their checksums.
    """
    with open_parquet(dataset, part) as file, noticing_damage(dataset, part):
        names = None if columns is None else list(columns)
        if row_groups is not None:
            return file.read_row_groups(list(row_groups), columns=names, use_threads=False)
        groups = file.metadata.num_row_groups
        if groups < 2:
            return file.read(columns=names, use_threads=False)
        # one by one: Arrow decodes all it is asked for as 32-bit integers first, twice what tokens take
        return pa.concat_tables([file.read_row_group(g, columns=names, use_threads=False) for g in range(groups)])


def iterate_part(
    dataset: Dataset, part: PartFile, columns: Sequence[str], wanted: np.ndarray | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(row number of the first row, batch) per row group of a wide part.

    Args:
        columns: may be empty: batches then have rows and no columns.
        wanted: bool array over all rows; row groups without a wanted row are not read.
    """
    with open_parquet(dataset, part) as file:
        start = 0
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if wanted is None or wanted[start : start + rows].any():
                with noticing_damage(dataset, part):
                    table = file.read_row_group(group, columns=list(columns), use_threads=False)
                    batch = one_batch(table, list(columns))
                yield start, batch
            start += rows


def one_batch(table: pa.Table, columns: Sequence[str]) -> pa.RecordBatch:
    """The table as a single batch with columns in this order."""
    table = table.select(columns).combine_chunks()
    batches = table.to_batches()
    if len(batches) == 1:
        return batches[0]
    arrays = [pa.array([], f.type) for f in table.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


class NarrowView:
    """Columns of a narrow part, found by row number of its base.

    Rows that were not measured read as null.
    """

    def __init__(self, dataset: Dataset, record: Record, types: Mapping[str, pa.DataType], label: str = "rows") -> None:
        self._dataset = dataset
        self._part = record.part(label)
        self._types = types
        self._columns: dict[str, pa.Array] = {}
        self._rows: np.ndarray | None = None

    @property
    def rows(self) -> np.ndarray:
        """Measured rows, ascending int32 array."""
        if self._rows is None:
            self._load([ROW])
        if self._rows is None:
            return np.empty(0, np.int32)
        return self._rows

    def _load(self, names: Sequence[str]) -> None:
        missing = [n for n in {ROW, *names} if n not in self._columns]
        if not missing:
            return
        if self._part is None:
            for name in missing:
                self._columns[name] = pa.array([], pa.int32() if name == ROW else self._types[name])
        else:
            table = read_part(self._dataset, self._part, sorted(missing))
            for name in missing:
                column = table.column(name).combine_chunks()
                self._columns[name] = column
        self._rows = self._columns[ROW].to_numpy(zero_copy_only=False)

    def prefetch(self, names: Sequence[str]) -> None:
        """Read columns that will be asked for, in one go."""
        self._load(names)

    def take(self, name: str, rows: np.ndarray) -> pa.Array:
        """The column at `rows` (int32 array of base rows), null where not measured."""
        self._load([name])
        column = self._columns[name]
        mine = self.rows
        if len(mine) == len(rows) and np.array_equal(mine, rows):
            return column
        if not len(mine):
            return pa.nulls(len(rows), self._types[name])
        at = np.searchsorted(mine, rows)
        at[at == len(mine)] = 0
        found = mine[at] == rows
        return column.take(pa.array(at, pa.int64(), mask=~found))

    def measured(self, rows: np.ndarray) -> np.ndarray:
        """Bool array: which of `rows` the part has."""
        mine = self.rows
        if not len(mine):
            return np.zeros(len(rows), np.bool_)
        at = np.searchsorted(mine, rows)
        at[at == len(mine)] = 0
        return np.asarray(mine[at] == rows)
