"""ingest.archive: tar and zip archives of pages, texts, and files of many documents.

Reads each member where it lies in the archive, by what its name ends in: pages become documents of raw bytes for
ingest.extract (or, without it, are counted and left out: `pages: skip`), texts documents, lines of JSON and rows of tables
documents with mapped fields, web archives their records.
Nothing is unpacked, so names lead nowhere; what expands beyond any honest ratio, links, devices and encrypted members are
counted and not read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from corpusflow import ConfigError, FileRange, Split, param, storage_for
from stages.ingest._archives import UNVERIFIED, Member, cuts, members
from stages.ingest._fields import FieldSource
from stages.ingest._files import kind_of_name, url_of, whole
from stages.ingest._json import LineError, dump, parse
from stages.ingest._lines import Line, lines
from stages.ingest._members import Piece, pieces
from stages.ingest._nested import NESTED, nested_rows
from stages.ingest._reasons import Reason
from stages.ingest._rows import batches
from stages.ingest.html import content_type
from stages.kernels.charset import codec_of, decode
from stages.kernels.html import is_binary

_COLUMNS: Final = (
    "id",
    "record_id",
    "text",
    "raw",
    "content_type",
    "content_encoding",
    "url",
    "source",
    "date",
    "meta",
    "path",
    "offset",
    "length",
    "skipped",
    "quarantine",
)

_OF_PAGES: Final = ("raw", "content_type", "content_encoding")


@dataclass(frozen=True, kw_only=True)
class Archive(FieldSource):
    """Tar (gzip, zstd, bzip2, xz or not) and zip archives of HTML, text, JSONL, CSV, Parquet, Arrow and WARC files."""

    version: ClassVar[int] = 3
    default_name: ClassVar[str] = "archive"
    libraries: ClassVar[tuple[str, ...]] = ("fastwarc", "orjson", "pyarrow", "resiliparse", "zstandard")

    base_url: str | None = param(
        None, doc="What stands in front of a member's name in its address: https:// for a mirror."
    )
    encoding: str | None = param(
        None, doc="Encoding of pages and texts, where it is known; otherwise found per document."
    )
    max_member_bytes: int = param(
        64 << 20, doc="Longer pages and texts, and members not read where they lie, go to quarantine."
    )
    max_line_bytes: int = param(32 << 20, doc="Longer lines of JSONL members go to quarantine.")
    pages: Literal["raw", "skip"] = param(
        "raw",
        doc="raw: pages are bytes for ingest.extract, which must follow; skip: they are counted as `page` and left out.",
    )

    without_bytes: ClassVar[str] = "pages: skip"

    def __post_init__(self) -> None:
        if self.encoding is not None and codec_of(self.encoding) is None:
            raise ConfigError(f"unknown encoding {self.encoding!r}", hint="for example utf-8, gb18030, windows-1252")

    @property
    def gives_bytes(self) -> bool:
        """What is in an archive is known when it is read, so without a parameter that says more there may be pages."""
        return self.pages == "raw"

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        """At members of an uncompressed tar."""
        with storage_for(item.path).open(item.path) as stream:
            found = cuts(stream, item.size, -(-item.size // self.split_size))
        bounds = [0, *found, item.size]
        return tuple(replace(item, start=a, end=b) for a, b in pairwise(bounds)) if found else (item,)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        rows = (self._wanted(row) for item in split.files for row in self._file(item))
        return batches(rows, _COLUMNS, tuple(self.columns))

    def _file(self, item: FileRange) -> Iterator[dict[str, Any]]:
        if item.size == 0:
            return
        with storage_for(item.path).open(item.path) as stream:
            for member in members(stream, item.size, item.start, item.end):
                yield from self._member(item, member)

    def _member(self, item: FileRange, member: Member) -> Iterator[dict[str, Any]]:
        row: dict[str, Any] = {
            "id": f"{self.source_name}/{item.relative_path}#{member.position}",
            "source": self.source_name,
            "path": item.path,
            "offset": member.offset,
            "url": url_of(self.base_url, member.name),
            "meta": json.dumps(_facts(member), ensure_ascii=False) if member.name else None,
        }
        kind = kind_of_name(member.name)
        if member.error is not None:
            yield {**row, "quarantine": member.error}
        elif member.skipped is not None:
            yield {**row, "skipped": member.skipped}
        elif kind in ("other", "unknown"):
            yield {**row, "skipped": "unsupported_type"}
        elif kind in NESTED:
            yield from nested_rows(self, kind, item, member, row, self.max_member_bytes)
        elif kind == "jsonl":
            for line in lines(self._opened(member), self.max_line_bytes):
                yield self._record(row, member, line)
        else:
            found = self._document(kind, member)
            yield {**row, **found, "meta": json.dumps(_facts(member), ensure_ascii=False)}

    def _wanted(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row, of a page nothing but that it was there where nobody extracts its text."""
        if self.pages == "raw" or row.get("raw") is None:
            return row
        return {**{key: value for key, value in row.items() if key not in _OF_PAGES}, "skipped": "page"}

    def _opened(self, member: Member) -> Iterator[Piece]:
        """The member's bytes, a compression of its own undone."""
        first = next(member.data, None)
        if first is None:
            return
        if first.error is not None or not _is_compressed(first.data):
            yield first
            yield from member.data
            return
        _, data, error = whole((p for source in ([first], member.data) for p in source), self.max_member_bytes)
        if error is not None:
            yield Piece(b"", 0, -1, False, 0, error)
            return
        yield from pieces(io.BytesIO(data))

    def _document(self, kind: str, member: Member) -> dict[str, Any]:
        _, data, error = whole(self._opened(member), self.max_member_bytes)
        if error is None and is_binary(data):
            error = f"{Reason.NOT_TEXT}: binary bytes"
        if error is not None:
            return {"quarantine": error}
        if not data or data.isspace():
            return {"skipped": "empty"}
        declared = content_type(kind, self.encoding)
        if kind == "page":
            return {"raw": data, "content_type": declared}
        return {"text": decode(data, declared)[0]}

    def _record(self, row: dict[str, Any], member: Member, line: Line) -> dict[str, Any]:
        row = {**row, "id": f"{row['id']}+{line.position}", "url": None}
        if line.error is not None:
            row["quarantine"] = line.error
            return row
        try:
            record, replaced = parse(line.data)
        except LineError as e:
            row["quarantine"] = str(e)
            return row
        self.take_fields(record, row)
        record |= _facts(member, line.suspect)
        if replaced:
            record["replaced_characters"] = replaced
        row["meta"] = dump(record)
        return row


def _facts(member: Member, suspect: bool = False) -> dict[str, str]:
    """What `meta` says of a document's member."""
    facts = {"member": member.name}
    if suspect or member.suspect():
        facts["unverified"] = UNVERIFIED
    return facts


def _is_compressed(data: bytes) -> bool:
    return data.startswith((b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"))


STAGE = Archive
