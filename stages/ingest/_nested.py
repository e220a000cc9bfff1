"""Files inside of archives that hold many documents themselves: WARC, CSV, Parquet, Arrow, read as their own Sources read them.

Reads a member where it lies in an uncompressed tar, else from memory, where it must not be longer than the Source's limit.
Gives rows for `_rows.batches`; their ids are the member's with the place inside of it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import IO, Any, Final

from corpusflow import FileRange, storage_for
from stages.ingest._archives import UNVERIFIED, Member
from stages.ingest._fields import FieldSource
from stages.ingest._files import Kind, whole
from stages.ingest._json import dump
from stages.ingest.arrow import Arrow
from stages.ingest.csv import Csv
from stages.ingest.parquet import Parquet
from stages.ingest.warc import Warc

NESTED: Final = frozenset[Kind]({"warc", "csv", "parquet", "arrow"})


class Slice(io.RawIOBase):
    """Bytes [start, start + size) of a stream, as a stream."""

    def __init__(self, stream: IO[bytes], start: int, size: int) -> None:
        super().__init__()
        self._stream, self._start, self._size, self._at = stream, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._stream.seek(self._start + self._at)
        data = self._stream.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def nested_rows(
    source: FieldSource, kind: Kind, item: FileRange, member: Member, row: Mapping[str, Any], max_bytes: int
) -> Iterator[dict[str, Any]]:
    """The documents of a member.

    Args:
        source: whose mapping of fields counts.
        kind: one of NESTED, by the member's name.
        item: the archive.
        member: its data are not read yet.
        row: what all rows of the member have.
        max_bytes: a member is held in memory up to so many.
    """
    # The path is for messages; in rows it is the archive's.
    inner = replace(item, path=f"{item.path}: {member.name}", size=member.size, start=0, end=None)
    if member.place is not None:
        with storage_for(item.path).open(item.path) as stream:
            lying = io.BufferedReader(Slice(stream, member.place, member.size))
            yield from _rows(row, member, _found(source, kind, inner, lying))
        return
    _, data, error = whole(member.data, max_bytes)
    if error is not None:
        yield {**row, "quarantine": error}
        return
    yield from _rows(row, member, _found(source, kind, replace(inner, size=len(data)), io.BytesIO(data)))


def _rows(row: Mapping[str, Any], member: Member, documents: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Documents of a member with the member's place."""
    for found in documents:
        meta = json.loads(found["meta"]) if found.get("meta") else {}
        if member.suspect():
            meta["unverified"] = UNVERIFIED
        yield {
            **found,
            "id": f"{row['id']}+{found['id'].rpartition('#')[2]}",
            "path": row["path"],
            "offset": row["offset"],
            "length": None,
            "meta": dump({**meta, "member": member.name}),
        }


def _found(source: FieldSource, kind: Kind, item: FileRange, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    name = source.source_name
    if kind == "warc":
        yield from Warc(paths=(), name=name).file_rows(item, stream)
        return
    fields: dict[str, Any] = {c: getattr(source, c) for c in ("text", "id", "url", "date", "columns")}
    if kind == "csv":
        yield from Csv(paths=(), name=name, **fields).file_rows(item, stream)
        return
    table = Parquet(paths=(), name=name, **fields) if kind == "parquet" else Arrow(paths=(), name=name, **fields)
    for batch in table.file_batches(item, stream):
        yield from batch.to_pylist()
