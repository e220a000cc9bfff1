"""ingest.csv: tables of text, comma or tab separated.

Reads CSV and TSV files, plain or compressed, row by row, by RFC 4180 as found: fields may hold line ends between quotes, rows
end in CR LF or LF. Every row under the header is a row here: documents, rows without text (`skipped`), and rows that do not
have the header's fields (`quarantine`). A quote that is never closed costs the line it stands in, not the rest of the file; a
damaged compressed member is one row.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Final

import pyarrow as pa

from corpusflow import ConfigError, FileRange, Split, param, storage_for
from stages.ingest._fields import RECORD_COLUMNS, FieldSource, distinct
from stages.ingest._json import dump
from stages.ingest._members import Piece, pieces
from stages.ingest._reasons import Reason
from stages.ingest._rows import batches
from stages.kernels.charset import codec_of
from stages.kernels.html import is_binary

_DELIMITERS: Final = "\t,;|"


@dataclass(frozen=True, kw_only=True)
class Csv(FieldSource):
    """Comma or tab separated tables (plain, gzip, zstd, bzip2, xz), a document a row."""

    version: ClassVar[int] = 2
    default_name: ClassVar[str] = "csv"
    libraries: ClassVar[tuple[str, ...]] = ("zstandard",)

    delimiter: str | None = param(
        None, doc="What stands between fields; if not given, the one of tab , ; | that the first line has most of."
    )
    header: tuple[str, ...] = param((), doc="Names of the columns, where the file's first row does not hold them.")
    encoding: str = param("utf-8", doc="Encoding of the files; what is not in it becomes U+FFFD and is counted.")
    max_row_bytes: int = param(32 << 20, doc="Longer rows go to quarantine.")

    def __post_init__(self) -> None:
        codec = codec_of(self.encoding)
        if codec is None or "\n".encode(codec) != b"\n":
            what = "unknown encoding" if codec is None else "tables are not read in the encoding"
            raise ConfigError(f"{what} {self.encoding!r}", hint="for example utf-8, gb18030, windows-1252")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ConfigError(f"delimiter is {self.delimiter!r}", hint="one character: ',' or '\\t'")

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        rows = (row for item in split.files for row in self._file(item))
        return batches(rows, RECORD_COLUMNS, tuple(self.columns))

    def _file(self, item: FileRange) -> Iterator[dict[str, Any]]:
        with storage_for(item.path).open(item.path) as stream:
            yield from self.file_rows(item, stream)

    def file_rows(self, item: FileRange, stream: IO[bytes]) -> Iterator[dict[str, Any]]:
        """A row per row of an open file."""
        names = distinct(self.header)
        for record in self._found(stream):
            if record.error is None and not names:
                names = distinct(record.fields)
                if self.text not in names:
                    there = ", ".join(names)[:500]
                    record.error = f"{Reason.NO_TEXT_COLUMN}: no column {self.text}; the first row is {there}"
                    yield self._row(item, record, names)
                    return
                continue
            yield self._row(item, record, names)

    def check_input(self, item: FileRange) -> None:
        with storage_for(item.path).open(item.path) as stream:
            found = self._found(stream)
            first = next((distinct(r.fields) for r in found if r.error is None), [self.text])
        names = distinct(self.header) or first
        if self.text not in names:
            there = ", ".join(names[:20])[:500]
            hint = f"name the one that holds the text (text: …); its first row is {there}"
            if "\ufffd" in there:
                hint = f"say its encoding (encoding: gb18030): as {self.encoding}, its first row is {there}"
            raise ConfigError(f"{item.path} has no column {self.text!r}", hint=hint)

    def _found(self, stream: IO[bytes]) -> Iterator[_Record]:
        csv.field_size_limit(1 << 40)  # the limit here is `max_row_bytes`, and one of a process is all that csv has
        return _records(pieces(stream), codec_of(self.encoding) or "utf-8", self.delimiter, self.max_row_bytes)

    def _row(self, item: FileRange, record: _Record, names: list[str]) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": f"{self.source_name}/{item.relative_path}#{record.position}",
            "source": self.source_name,
            "path": item.path,
            "offset": record.offset,
            "length": record.length,
        }
        error = record.error
        if error is None and len(record.fields) != len(names):
            error = f"{Reason.BROKEN_ROW}: {len(record.fields)} fields, the header has {len(names)}"
        if error is not None:
            row["quarantine"] = error
            return row
        values: dict[str, Any] = {name: value or None for name, value in zip(names, record.fields, strict=True)}
        text = values.get(self.text)
        for column, name in self.mapped.items():
            row[column] = values.get(name)
        if text is None:
            row["skipped"] = "null_text"
        else:
            row["text"] = text
        mapped = {self.text, *self.mapped.values()}
        meta: dict[str, Any] = {name: v for name, v in values.items() if v is not None and name not in mapped}
        if record.replaced:
            meta["replaced_characters"] = record.replaced
        if meta:
            row["meta"] = dump(meta)
        return row


@dataclass(slots=True)
class _Record:
    """A row's fields, with the place of its first line as in `_lines.Line`, or why there are none."""

    fields: list[str]
    position: str
    offset: int
    length: int | None
    replaced: int = 0
    error: str | None = None


@dataclass(slots=True)
class _Line:
    """A line with its end, or several of which the quotes say that they are one row; or why there is none."""

    data: bytes
    offset: int
    inner: int
    error: str | None = None
    spoilt: int = 0  # bytes of the file, with an error

    @property
    def position(self) -> str:
        if self.error is not None:
            return f"bad{self.offset}"
        return f"{self.offset}+{self.inner}" if self.inner > 0 else str(self.offset)

    def single(self) -> list[_Line]:
        """Its lines, one by one, last first."""
        made = []
        at = 0
        for part in io.BytesIO(self.data).readlines():
            plain = self.inner < 0
            made.append(_Line(part, self.offset + at * plain, self.inner + at * (not plain)))
            at += len(part)
        return made[::-1]


def _records(found: Iterable[Piece], codec: str, delimiter: str | None, max_bytes: int) -> Iterator[_Record]:
    found = iter(found)
    start = next(found, None)
    if start is None:
        return
    if is_binary(start.data[:4096]):
        yield _Record([], "bad0", 0, None, error=f"{Reason.NOT_TEXT}: binary bytes")
        return
    waiting: list[_Line] = []  # lines to be read next, last first
    rest = _rows(itertools.chain([start], found), max_bytes)
    while (head := waiting.pop() if waiting else next(rest, None)) is not None:
        if head.error is not None:
            yield _Record([], head.position, head.offset, head.spoilt, error=head.error)
            continue
        if not head.data.strip(b"\r\n"):
            continue
        if delimiter is None:
            delimiter = _most(head.data.partition(b"\n")[0].decode(codec, "replace"))
        taken = [head]
        fields, replaced, closed = _parse(taken, waiting, rest, codec, delimiter, max_bytes)
        if (not closed or len(taken) > 1) and len(lines := head.single()) > 1:
            # What its quotes seemed to say is wrong. Line by line, then.
            waiting.extend(reversed(taken[1:]))
            waiting.extend(lines)
            continue
        closed = closed and len(head.data) <= max_bytes
        if not closed:
            # Read on behind the line with the open quote.
            waiting.extend(reversed(taken[1:]))
            taken = taken[:1]
        yield _Record(
            fields,
            head.position,
            head.offset,
            sum(len(line.data) for line in taken) if head.inner < 0 else None,
            replaced,
            None if closed else f"{Reason.BROKEN_ROW}: a quote that is not closed, or more than {max_bytes} bytes",
        )


def _parse(
    taken: list[_Line], waiting: list[_Line], rest: Iterator[_Line], codec: str, delimiter: str, max_bytes: int
) -> tuple[list[str], int, bool]:
    """(fields, characters replaced, whether it ends) of the row that starts with the one in `taken`; its further lines are
    added there."""
    open_ended = False
    replaced = 0

    def texts() -> Iterator[str]:
        nonlocal open_ended, replaced
        line: _Line | None = taken[0]
        size = 0
        while line is not None:
            text, bad = _decoded(line, codec)
            replaced += bad
            yield text
            size += len(taken[-1].data)
            if not waiting and (following := next(rest, None)) is not None:
                waiting.extend(following.single() if following.error is None else [following])
            line = waiting[-1] if waiting else None
            if line is None or line.error is not None or size + len(line.data) > max_bytes:
                open_ended = True
                return
            taken.append(waiting.pop())

    try:
        fields = next(csv.reader(texts(), delimiter=delimiter), [])
    except csv.Error:
        return [], replaced, False
    return fields, replaced, not open_ended


def _rows(found: Iterable[Piece], max_bytes: int) -> Iterator[_Line]:
    """What is a row if quotes come in pairs, as nearly everywhere; where they do not, lines."""
    pending = b""
    place = (0, -1)
    for piece in found:
        # Text that a wrong bit has spoilt is a row like any other: nothing of a damaged member is taken for one.
        fresh = b"" if piece.damaged or piece.suspect else piece.data
        if not pending:
            place = _place(piece, 0)
        data = pending + fresh if pending else fresh
        skipped = len(pending)
        first = at = 0
        quotes = 0
        while (end := data.find(b"\n", at) + 1) > 0:
            quotes += data.count(b'"', at, end)
            at = end
            if quotes & 1 and end - first <= max_bytes:
                continue
            row = _Line(data[first:end], *place)
            if quotes & 1:
                yield from reversed(row.single())
            else:
                yield row
            first, quotes = end, 0
            place = _place(piece, first - skipped)
        pending = data[first:]
        if len(pending) > max_bytes:
            yield from reversed(_Line(pending, *place).single())
            pending = b""
        if piece.error is not None:
            # The line that the damage cuts goes with it.
            whole = pending[: pending.rfind(b"\n") + 1]
            if whole:
                yield from reversed(_Line(whole, *place).single())
            pending = b""
            yield _Line(b"", piece.offset, piece.inner, piece.error, piece.end - piece.offset)
    if pending:
        yield from reversed(_Line(pending, *place).single())


def _place(piece: Piece, at: int) -> tuple[int, int]:
    return (piece.offset + at, -1) if piece.inner < 0 else (piece.offset, piece.inner + at)


def _decoded(line: _Line, codec: str) -> tuple[str, int]:
    """(text, characters that are not in the encoding); without the mark that some writers put first."""
    try:
        text, replaced = line.data.decode(codec), 0
    except UnicodeDecodeError:
        text = line.data.decode(codec, "replace")
        replaced = text.count("\ufffd")
    return (text.removeprefix("\ufeff") if line.offset == 0 and line.inner <= 0 else text), replaced


def _most(line: str) -> str:
    counts = Counter(c for c in line if c in _DELIMITERS)
    return max(_DELIMITERS, key=lambda c: (counts[c], c == ","))


STAGE = Csv
