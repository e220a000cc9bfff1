"""ingest.warc: web archives.

Reads WARC, WET and ARC files, one gzip member a record or otherwise, zstd, lz4 or plain. Every record is a row: the
responses, resources and conversions that hold a document, with their bytes as stored (WET: with their text); all others with
the reason why they are none (`skipped`) or why they could not be read (`quarantine`). Source: ISO 28500 (WARC 1.1), as found
and not as specified: wrong lengths, cut files and damaged gzip members are mended where the record's own border shows, else
counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Final

import pyarrow as pa

from corpusflow import FileRange, FileSource, Split, param, storage_for
from stages.ingest._json import dump
from stages.ingest._members import layout, pieces
from stages.ingest._reasons import Reason
from stages.ingest._rows import batches
from stages.ingest._warc import Record, digest_fits, opens_record, records
from stages.kernels.http import Head, codings, parse_head

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
#: Response headers that later stages ask for: consent, licence, language.
_KEPT_HEADERS: Final = ("x-robots-tag", "tdm-reservation", "link", "content-language", "last-modified")
_KEPT_CHARACTERS: Final = 500
#: Nearly all heads of responses are shorter.
_HEAD_BYTES: Final = 4_096
_DOCUMENT_KINDS: Final = ("response", "resource", "conversion")


@dataclass(frozen=True, kw_only=True)
class Warc(FileSource):
    """Web archives (WARC, ARC; gzip, zstd, lz4 or plain), record by record, damaged files included."""

    version: ClassVar[int] = 3
    default_name: ClassVar[str] = "warc"
    gives_bytes: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("fastwarc", "zstandard")

    max_record_bytes: int = param(64 << 20, doc="Records with more bytes than this go to quarantine.")
    verify_digests: bool = param(False, doc="Check every record that states a WARC-Block-Digest against it.")

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        """At members; uncompressed, a record may hold what looks like another's start, so such files stay whole."""
        with storage_for(item.path).open(item.path) as stream:
            return self.ranges(item) if layout(stream) == "members" else (item,)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return batches(self._rows(split), _COLUMNS)

    def _rows(self, split: Split) -> Iterator[Mapping[str, Any]]:
        for item in split.files:
            with storage_for(item.path).open(item.path) as stream:
                yield from self.file_rows(item, stream)

    def file_rows(self, item: FileRange, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
        """A row per record of an open file."""
        found = pieces(stream, item.start, item.end, opens_record)
        for record in records(found, self.max_record_bytes):
            yield self._row(item, record)

    def _row(self, item: FileRange, record: Record) -> dict[str, Any]:
        headers = record.headers
        row: dict[str, Any] = {
            "id": f"{self.source_name}/{item.relative_path}#{record.position}",
            "record_id": headers.get("warc-record-id"),
            "url": _url(headers),
            "source": self.source_name,
            "date": headers.get("warc-date"),
            "path": item.path,
            "offset": record.offset,
            "length": record.length,
        }
        if record.error is not None:
            row["quarantine"] = record.error
            return row
        # Of the records in a damaged member, digests can tell which is bad. Elsewhere they are wrong more often than the
        # bytes are (writers that digest something else), so they count only when asked for.
        fits = digest_fits(record) if self.verify_digests or record.suspect else None
        if fits is False:
            row["quarantine"] = f"{Reason.WRONG_DIGEST}: the block does not have the digest that the record states"
            return row
        kind = headers.get("warc-type", "").lower()
        if kind not in _DOCUMENT_KINDS:
            row["skipped"] = kind if kind.isalpha() and kind.isascii() and len(kind) < 20 else "unknown_type"
            return row
        record.suspect = record.suspect and not fits
        row.update(_payload(record))
        return row


def _payload(record: Record) -> dict[str, Any]:
    """The columns that come from the record's block."""
    headers, block = record.headers, record.block
    declared = headers.get("content-type")
    meta: dict[str, Any] = {}
    if record.repaired:
        meta["repaired"] = "content-length"
    if record.suspect:
        meta["unverified"] = "the checksum of its compressed member is wrong"
    if cut := headers.get("warc-truncated"):
        meta["truncated"] = cut[:_KEPT_CHARACTERS]
    values: dict[str, Any] = {"raw": block, "content_type": declared}
    is_http = declared is None or declared.lower().startswith("application/http")
    head = _http_head(block) if is_http else None
    if head is not None:
        if not 200 <= head.status < 300 or head.status in (204, 205, 206):
            return {"skipped": f"http_status_{head.status}"}
        values["raw"] = block[head.body :]
        values["content_type"] = head.headers.get("content-type")
        values["content_encoding"] = codings(head.headers)
        meta |= {k: v[:_KEPT_CHARACTERS] for k in _KEPT_HEADERS if (v := head.headers.get(k))}
    elif is_http:  # no HTTP head: a crawler that stored the body alone
        values["content_type"] = headers.get("warc-identified-payload-type")
    elif (url := headers.get("warc-target-uri", "")).startswith("dns:") or declared == "text/dns":
        return {"skipped": "dns", "url": url}
    elif headers.get("warc-type", "").lower() == "conversion" and (declared or "").lower().startswith("text/plain"):
        # WET: UTF-8 by its specification. What is not goes the way of bytes.
        with contextlib.suppress(UnicodeDecodeError):
            values = {"text": bytes(block).decode(), "content_type": declared}
    if meta:
        values["meta"] = dump(meta)
    if "raw" in values:
        values["raw"] = bytes(values["raw"])  # of a memoryview, pa.array never lets go (pyarrow 26)
    return values


def _http_head(block: bytes | memoryview) -> Head | None:
    """The head of the response in a block, of which no more is copied than it takes."""
    start = bytes(block[:_HEAD_BYTES])
    return parse_head(start if b"\r\n\r\n" in start else bytes(block))


def _url(headers: dict[str, str]) -> str | None:
    url = headers.get("warc-target-uri")
    if url and url.startswith("<") and url.endswith(">"):  # as GNU Wget up to 1.20 and the WARC 1.0 grammar have it
        url = url[1:-1]
    return url


STAGE = Warc
