"""ingest.text: plain text files, whole or by paragraph.

Reads text files, plain or compressed; a document is a file, or what lies between blank lines. Promises that UTF-8 comes
through as it is, other encodings by byte order mark, declaration in the config, or detection, that a binary file is one
quarantined row, and that nothing of a damaged compressed member is taken for text: it is one row, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Final, Literal

import pyarrow as pa

from corpusflow import ConfigError, FileRange, FileSource, Split, param, storage_for
from stages.ingest._files import whole
from stages.ingest._members import pieces
from stages.ingest._reasons import Reason
from stages.ingest._rows import batches
from stages.kernels.charset import codec_of, decode
from stages.kernels.html import is_binary

_COLUMNS: Final = ("id", "text", "source", "path", "offset", "length", "skipped", "quarantine")
_BLANK: Final = re.compile(rb"\r?\n(?:[ \t]*\r?\n)+")
_WHITE: Final = b" \t\r\n"
#: What has been read ends in blank lines, or in what may become one.
_GOES_ON: Final = re.compile(rb"[ \t]*\r?\Z")


@dataclass(frozen=True, kw_only=True)
class Text(FileSource):
    """Plain text (gzip, zstd, bzip2, xz or not): a document per file, or per paragraph between blank lines."""

    version: ClassVar[int] = 4
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
        yield whole(pieces(stream), self.max_document_bytes)

    def _paragraphs(self, stream: IO[bytes]) -> Iterator[tuple[int, bytes, str | None]]:
        """(offset in the uncompressed file, bytes, error) of each run of lines between blank ones."""
        pending = b""
        start = at = 0  # where `pending` starts; what has been read ends
        passing = False  # inside a paragraph that is too long
        for piece in pieces(stream):
            # Nothing in a paragraph tells that a bit of its compressed member is wrong, and what follows it is garbage.
            if not (piece.damaged or piece.suspect):
                pending += piece.data
            at += len(piece.data)
            if passing:
                blank = _BLANK.search(pending)
                if blank is None or _GOES_ON.match(pending, blank.end()):
                    pending = _line_ends(pending)
                else:
                    pending, passing = pending[blank.end() :], False
                start = at - len(pending)
            if not passing:
                *done, rest = _cut(pending)
                for offset, paragraph in done:
                    yield self._bounded(start + offset, paragraph)
                start, pending = start + rest[0], rest[1]
                # White space is no paragraph yet, but no reason to hold any amount of it.
                if len(pending.rstrip(_WHITE)) > self.max_document_bytes or len(pending) > 2 * self.max_document_bytes:
                    yield self._bounded(start, pending)
                    pending, passing = _line_ends(pending), True
            if piece.error is not None:
                yield piece.offset, b"", piece.error
                start, pending, passing = at, b"", False
        if not passing and (solid := pending.rstrip(_WHITE)):
            rest_of_line = pending[len(solid) :].partition(b"\n")[0].rstrip(b"\r")
            yield self._bounded(start, solid + rest_of_line)

    def _bounded(self, offset: int, paragraph: bytes) -> tuple[int, bytes, str | None]:
        if len(paragraph) <= self.max_document_bytes:
            return offset, paragraph, None
        return offset, b"", f"{Reason.TOO_LONG}: more than {self.max_document_bytes} bytes without a blank line"


def _line_ends(data: bytes) -> bytes:
    """As much of the white space at the end of a paragraph as is needed to see that it ends there."""
    return b"\n" * min(2, data.count(b"\n", len(data.rstrip(_WHITE))))


def _cut(data: bytes) -> list[tuple[int, bytes]]:
    """(offset, paragraph) pairs; the last is what may still go on, perhaps empty."""
    found = []
    at = 0
    for blank in _BLANK.finditer(data):
        if _GOES_ON.match(data, blank.end()):
            break
        if data[at : blank.start()].strip():
            found.append((at, data[at : blank.start()]))
        at = blank.end()
    found.append((at, data[at:]))
    return found


STAGE = Text
