"""ingest.arrow: Arrow IPC files and streams (`.arrow`, `.feather`, what Hugging Face's `save_to_disk` writes).

Reads record batch by record batch, columns mapped as in ingest.parquet. The format has no checksums: every batch is
validated in full before it is looked at, so that a damaged one is a quarantined row and never bytes outside of its buffers
(one that cannot even be read takes the rest of a stream with it, and says so; files know where their batches lie). Damage
inside of a text that is still UTF-8 cannot be seen. Files from people you do not trust are better given as Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import IO, ClassVar, Final

import pyarrow as pa

from corpusflow import FileRange, Split, storage_for
from stages.ingest._reasons import Reason
from stages.ingest._tables import BATCH_ROWS, DAMAGE, TableSource, said_of

_MAGIC: Final = b"ARROW1"


@dataclass(frozen=True, kw_only=True)
class Arrow(TableSource):
    """Arrow IPC files and streams, batch by batch, with columns mapped by dotted paths."""

    version: ClassVar[int] = 2
    default_name: ClassVar[str] = "arrow"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for item in split.files:
            with storage_for(item.path).open(item.path) as stream:
                yield from self.file_batches(item, stream)

    def schema_of(self, stream: IO[bytes]) -> pa.Schema:
        return _open(stream)[0]

    def file_batches(self, item: FileRange, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        """The rows of an open file."""
        if item.size == 0:
            return
        try:
            schema, batches = _open(stream)
        except DAMAGE as e:
            yield self.spoilt(item, 0, f"{Reason.NOT_ARROW}: no Arrow file, or its schema is damaged ({said_of(e)})")
            return
        yield from self.unlike(item, schema)
        if (names := self.wanted(schema)) == []:
            return
        first = 0
        spoilt: list[str] = []  # why the batches before this one could not be read
        for load, whatever_follows in batches:
            rows: int | None = None
            try:
                batch = load()
                rows = 0 if batch is None else batch.num_rows
                batch = batch and _validated(batch)
            except DAMAGE as e:
                spoilt.append(said_of(e))
                lost = rows is None and whatever_follows
                # how many rows they had is not known: those that follow each other are one row
                if not lost and not rows:
                    continue
                yield self._unread(item, first, spoilt, lost)
                if lost:
                    return
                first += rows or 0
                spoilt = []
                continue
            if spoilt:
                yield self._unread(item, first, spoilt)
                spoilt = []
            if batch is None:
                return
            if names is not None:
                batch = batch.select(names)
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield from self.documents(item, batch.slice(start, BATCH_ROWS), first + start)
            first += batch.num_rows

    def _unread(self, item: FileRange, first: int, whys: list[str], lost: bool = False) -> pa.RecordBatch:
        what = "a batch" if len(whys) == 1 else f"{len(whys)} batches"
        behind = " and all behind it" if lost else ""
        return self.spoilt(item, first, f"{Reason.DAMAGED_ROWS}: {what} from row {first}{behind}: {whys[0]}")


#: Reads a batch, None behind the last; and whether one that cannot be read takes with it whatever follows.
_Load = tuple[Callable[[], pa.RecordBatch | None], bool]


def _open(stream: IO[bytes]) -> tuple[pa.Schema, Iterator[_Load]]:
    head = stream.read(len(_MAGIC))
    stream.seek(0)
    if head == _MAGIC:
        file = pa.ipc.open_file(stream)
        loads: list[Callable[[], pa.RecordBatch | None]]
        loads = [partial(file.get_batch, i) for i in range(file.num_record_batches)]
        return file.schema, ((load, False) for load in [*loads, lambda: None])
    reader = pa.ipc.open_stream(stream)
    return reader.schema, repeat((partial(next, reader, None), True))


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch; with strings as bytes, if they are no UTF-8: then that costs rows and not the batch.

    Raises:
        pa.ArrowInvalid: its buffers are not what its type says.
    """
    try:
        batch.validate(full=True)
        return batch
    except pa.ArrowInvalid:
        as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
        arrays = [c.view(as_bytes[c.type]) if c.type in as_bytes else c for c in batch.columns]
        batch = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
        batch.validate(full=True)
        return batch


STAGE = Arrow
