"""ingest.text: plain text files, whole or by paragraph.

Reads text files, plain or compressed; a document is a file, or what lies between blank lines. Promises that UTF-8 comes
through as it is, other encodings by byte order mark, declaration in the config, or detection, and that a binary file is one
quarantined row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Final, Literal

import pyarrow as pa

from corpusflow import ConfigError, FileRange, FileSource, Split, param, storage_for
from stages.ingest._files import whole
from stages.ingest._members import Piece, pieces
from stages.ingest._reasons import Reason
from stages.ingest._rows import batches
from stages.kernels.charset import codec_of, decode
from stages.kernels.html import is_binary

_COLUMNS: Final = ("id", "text", "source", "path", "offset", "length", "skipped", "quarantine")
_BLANK: Final = re.compile(rb"\r?\n(?:[ \t]*\r?\n)+")


@dataclass(frozen=True, kw_only=True)
class Text(FileSource):
    """Plain text (gzip, zstd, bzip2, xz or not): a document per file, or per paragraph between blank lines."""

    version: ClassVar[int] = 2
    default_name: ClassVar[str] = "text"
    libraries: ClassVar[tuple[str, ...]] = ("resiliparse", "zstandard")

    by: Literal["file", "paragraph"] = param(
        "file", doc="What a document is: `file`, or `paragraph` (blank lines between)."
    )
    encoding: str | None = param(None, doc="Encoding of the files, where it is known; otherwise found per document.")
    max_document_bytes: int = param(64 << 20, doc="Longer documents go to quarantine.")

    def __post_init__(self) -> None:
        if self.encoding is not None and codec_of(self.encoding) is None:
            raise ConfigError(f"unknown encoding {self.encoding!r}", hint="for example utf-8, gb18030, windows-1252")

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return batches((row for item in split.files for row in self._file(item)), _COLUMNS)

    def _file(self, item: FileRange) -> Iterator[Mapping[str, Any]]:
        with storage_for(item.path).open(item.path) as stream:
            documents = self._whole(stream) if self.by == "file" else self._paragraphs(stream)
            for offset, data, error in documents:
                yield self._row(item, offset, data, error)

    def _row(self, item: FileRange, offset: int, data: bytes, error: str | None) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": f"{self.source_name}/{item.relative_path}#{offset if error is None else f'bad{offset}'}",
            "source": self.source_name,
            "path": item.path,
            "offset": offset,
            "length": len(data) if error is None else None,
        }
        if error is None and is_binary(data):
            error = f"{Reason.NOT_TEXT}: binary bytes"
        if error is not None:
            row["quarantine"] = error
        elif not data or data.isspace():
            row["skipped"] = "empty"
        else:
            row["text"], _ = decode(data, f"text/plain; charset={self.encoding}" if self.encoding else None)
        return row

    def _whole(self, stream: IO[bytes]) -> Iterator[tuple[int, bytes, str | None]]:
        offset, data, error = whole(pieces(stream), self.max_document_bytes)
        if data or error is not None:
            yield offset, data, error

    def _paragraphs(self, stream: IO[bytes]) -> Iterator[tuple[int, bytes, str | None]]:
        """(offset in the uncompressed file, bytes, error) of each run of lines between blank ones."""
        pending = b""
        start = 0
        for piece in pieces(stream):
            pending += piece.data
            *done, rest = _cut(pending)
            for at, data in done:
                yield start + at, data, None
            start += rest[0]
            pending = rest[1]
            if len(pending) > self.max_document_bytes:
                yield start, b"", f"{Reason.TOO_LONG}: more than {self.max_document_bytes} bytes without a blank line"
                return
            if piece.error is not None:
                yield from self._damaged(piece, start)
                start += len(pending)
                pending = b""
        if pending.strip():
            yield start, pending.rstrip(b"\r\n"), None

    def _damaged(self, piece: Piece, start: int) -> Iterator[tuple[int, bytes, str | None]]:
        yield piece.offset, b"", piece.error


def _cut(data: bytes) -> list[tuple[int, bytes]]:
    """(offset, paragraph) pairs; the last is what may still go on, perhaps empty."""
    found = []
    at = 0
    for blank in _BLANK.finditer(data):
        if blank.end() == len(data):  # more blank lines may follow
            break
        if data[at : blank.start()].strip():
            found.append((at, data[at : blank.start()]))
        at = blank.end()
    found.append((at, data[at:]))
    return found


STAGE = Text
