"""Parquet files whose row groups are bounded in rows and in bytes, whatever batches the rows came in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: A row group is closed at this much data in memory; pages and group offsets are 32-bit numbers in the format, and a reader
#: holds a whole group.
_GROUP_BYTES: Final = 64 << 20
_GROUP_ROWS: Final = 16_384


class RowGroupWriter:
    """Writes one file; `bytes` is what went in, uncompressed, `rows` how many."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema, *, compression_level: int) -> None:
        self._writer = pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            compression_level=compression_level,
            write_page_checksum=True,
            write_page_index=True,
            use_dictionary=[f.name for f in schema if f.name != "text"],
        )
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self.rows = self.bytes = 0

    def write(self, batch: pa.RecordBatch, sizes: np.ndarray) -> None:
        """Append rows; `sizes` is each row's bytes, int64 (n,), on which alone the cuts depend."""
        start = 0
        for end in _cuts(sizes, self._rows, self._bytes):
            self._add(batch.slice(start, end - start), int(sizes[start:end].sum()))
            self._flush()
            start = end
        if start < batch.num_rows:
            self._add(batch.slice(start), int(sizes[start:].sum()))

    def close(self) -> None:
        """Write what is pending and the footer."""
        self._flush()
        self._writer.close()

    def _add(self, batch: pa.RecordBatch, size: int) -> None:
        self._pending.append(batch)
        self._rows += batch.num_rows
        self._bytes += size
        self.rows += batch.num_rows
        self.bytes += size

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, self._schema)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pending, self._rows, self._bytes = [], 0, 0


def _cuts(sizes: np.ndarray, rows: int, size: int) -> Iterator[int]:
    """Where groups end within a batch: after the row that reaches either bound, given what is pending."""
    total = np.cumsum(sizes) + size
    base, start = 0, 0
    while start < len(sizes):
        by_rows = start + _GROUP_ROWS - rows - 1
        by_bytes = int(np.searchsorted(total, base + _GROUP_BYTES, "left"))
        last = min(by_rows, by_bytes)
        if last >= len(sizes):
            return
        yield last + 1
        start, rows, base = last + 1, 0, int(total[last])
