"""ingest.parquet: columns of Parquet files.

Reads row group by row group, only the columns that are mapped (dotted paths reach into structs) or kept in `meta`. Promises
that a damaged page costs its row group alone, and that of a large file each range reads the row groups that start in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq

from corpusflow import FileRange, Split, storage_for
from stages.ingest._reasons import Reason
from stages.ingest._tables import BATCH_ROWS, DAMAGE, TableSource, said_of

#: Metadata beyond these sizes is an attack or damage (Arrow's documentation, "Security considerations").
_THRIFT_STRING_BYTES: Final = 100 << 20
_THRIFT_CONTAINER_ITEMS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Parquet(TableSource):
    """Parquet files, row group by row group, with columns mapped by dotted paths."""

    version: ClassVar[int] = 3
    default_name: ClassVar[str] = "parquet"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        """At row groups: a range reads those whose first page lies in it."""
        return self.ranges(item)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for item in split.files:
            with storage_for(item.path).open(item.path) as stream:
                yield from self.file_batches(item, stream)

    def schema_of(self, stream: IO[bytes]) -> pa.Schema:
        return _open(stream).schema_arrow

    def file_batches(self, item: FileRange, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        """The rows of an open file."""
        if item.size == 0:
            return
        try:
            file = _open(stream)
            schema = file.schema_arrow
        except DAMAGE as e:
            why = f"{Reason.NOT_PARQUET}: no Parquet file, or its footer is damaged ({said_of(e)})"
            if item.start == 0:
                yield self.spoilt(item, 0, why)
            return
        yield from self.unlike(item, schema)
        if (wanted := self.wanted(schema)) == []:
            return
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if not _starts_in(item, file.metadata.row_group(group)):
                first += rows
                continue
            done = 0
            try:
                for batch in file.iter_batches(BATCH_ROWS, [group], wanted, use_threads=False):
                    yield from self.documents(item, batch, first + done)
                    done += batch.num_rows
            except DAMAGE as e:
                why = f"{Reason.DAMAGED_ROWS}: row group {group} from row {first + done}: {said_of(e)}"
                yield self.spoilt(item, first + done, why)
            first += rows


def _open(stream: IO[bytes]) -> pq.ParquetFile:
    return pq.ParquetFile(
        stream,
        thrift_string_size_limit=_THRIFT_STRING_BYTES,
        thrift_container_size_limit=_THRIFT_CONTAINER_ITEMS,
        page_checksum_verification=True,
        arrow_extensions_enabled=False,
    )


def _starts_in(item: FileRange, group: pq.RowGroupMetaData) -> bool:
    """Whether a row group belongs to the range; what says it starts outside of the file belongs to the last or the first."""
    if item.end is None:
        return True
    columns = [group.column(i) for i in range(group.num_columns)]
    starts = [c.dictionary_page_offset or c.data_page_offset for c in columns] or [0]
    first: int = min(max(min(starts), 0), item.size - 1)
    return item.start <= first < item.end


STAGE = Parquet
