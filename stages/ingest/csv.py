"""ingest.csv: tables of text, comma or tab separated.

Reads CSV and TSV files, plain or compressed, row by row, by RFC 4180 as found: fields may hold line ends between quotes, rows
end in CR LF or LF. Every row under the header is a row here: documents, rows without text (`skipped`), and rows that do not
have the header's fields (`quarantine`). A quote that is never closed costs the line it stands in, not the rest of the file.
"""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from corpusflow import ConfigError, FileRange, Split, param, storage_for
from stages.ingest._fields import FieldSource
from stages.ingest._json import dump
from stages.ingest._members import Piece, pieces
from stages.ingest._reasons import Reason
from stages.ingest._rows import batches
from stages.kernels.charset import codec_of
from stages.kernels.html import is_binary

_COLUMNS: Final = (
    "id",
    "record_id",
    "text",
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
_DELIMITERS: Final = "\t,;|"


@dataclass(frozen=True, kw_only=True)
class Csv(FieldSource):
    """Comma or tab separated tables (plain, gzip, zstd, bzip2, xz), a document a row."""

    version: ClassVar[int] = 1
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
        return batches(rows, _COLUMNS, tuple(self.columns))

    def _file(self, item: FileRange) -> Iterator[dict[str, Any]]:
        csv.field_size_limit(1 << 40)  # the limit here is `max_row_bytes`, and one of a process is all that csv has
        with storage_for(item.path).open(item.path) as stream:
            found = _records(pieces(stream), codec_of(self.encoding) or "utf-8", self.delimiter, self.max_row_bytes)
            names = list(self.header)
            for record in found:
                if record.error is None and not names:
                    names = _distinct(record.fields)
                    self._require(item, names)
                    continue
                yield self._row(item, record, names)

    def _require(self, item: FileRange, names: list[str]) -> None:
        if self.text not in names:
            raise ConfigError(
                f"{item.path} has no column {self.text!r}",
                hint=f"name the one that holds the text (text: …); its first row is {', '.join(names[:20])[:500]}",
            )

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
        text = values.pop(self.text, None)
        for column, name in self.mapped.items():
            row[column] = values.pop(name, None)
        if text is None:
            row["skipped"] = "null_text"
        else:
            row["text"] = text
        meta: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
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
    text: str
    offset: int
    inner: int
    size: int
    replaced: int
    error: str | None = None

    @property
    def position(self) -> str:
        if self.error is not None:
            return f"bad{self.offset}"
        return f"{self.offset}+{self.inner}" if self.inner > 0 else str(self.offset)


def _records(found: Iterable[Piece], codec: str, delimiter: str | None, max_bytes: int) -> Iterator[_Record]:
    found = iter(found)
    start = next(found, None)
    if start is None:
        return
    if is_binary(start.data[:4096]):
        yield _Record([], "bad0", 0, None, error=f"{Reason.NOT_TEXT}: binary bytes")
        return
    waiting: list[_Line] = []  # lines to be read again, last first
    rest = _lines(itertools.chain([start], found), codec, max_bytes)
    while (head := waiting.pop() if waiting else next(rest, None)) is not None:
        if head.error is not None:
            yield _Record([], head.position, head.offset, head.size, error=head.error)
            continue
        if not head.text.strip("\r\n"):
            continue
        if delimiter is None:
            delimiter = _most(head.text)
        taken = [head]
        fields, closed = _parse(taken, waiting, rest, delimiter, max_bytes)
        if not closed:
            # Read on behind the line with the open quote.
            waiting.extend(reversed(taken[1:]))
            taken = taken[:1]
        plain = head.inner < 0
        size = sum(line.size for line in taken)
        yield _Record(
            fields,
            head.position,
            head.offset,
            size if plain else None,
            sum(line.replaced for line in taken),
            None if closed else f"{Reason.BROKEN_ROW}: a quote that is not closed, or more than {max_bytes} bytes",
        )


def _parse(
    taken: list[_Line], waiting: list[_Line], rest: Iterator[_Line], delimiter: str, max_bytes: int
) -> tuple[list[str], bool]:
    """(fields of the row that starts with the one line in `taken`, whether it ends); its further lines are added to `taken`."""
    open_ended = False

    def texts() -> Iterator[str]:
        nonlocal open_ended
        size = taken[0].size
        yield taken[0].text
        while True:
            line = waiting.pop() if waiting else next(rest, None)
            if line is None or line.error is not None or (size := size + line.size) > max_bytes:
                if line is not None:
                    waiting.append(line)
                open_ended = True
                return
            taken.append(line)
            yield line.text

    try:
        fields = next(csv.reader(texts(), delimiter=delimiter), [])
    except csv.Error:
        return [], False
    return fields, not open_ended


def _lines(found: Iterable[Piece], codec: str, max_bytes: int) -> Iterator[_Line]:
    """Lines with their ends, decoded. Empty ones too: between quotes they are text."""
    pending = bytearray()
    place = (0, -1)
    for piece in found:
        data = b"" if piece.damaged else piece.data
        first = 0
        while first < len(data):
            if not pending:
                place = (piece.offset + first, -1) if piece.inner < 0 else (piece.offset, piece.inner + first)
            end = data.find(b"\n", first) + 1 or len(data)
            pending += data[first:end]
            first = end
            if pending.endswith(b"\n") or len(pending) > max_bytes:
                yield _decoded(bytes(pending), place, codec)
                pending.clear()
        if piece.error is not None:
            pending.clear()  # the line that the damage cuts goes with it
            yield _Line("", piece.offset, piece.inner, piece.end - piece.offset, 0, piece.error)
    if pending:
        yield _decoded(bytes(pending), place, codec)


def _decoded(data: bytes, place: tuple[int, int], codec: str) -> _Line:
    replaced = 0
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        text = data.decode(codec, "replace")
        replaced = text.count("\ufffd")
    if place in ((0, -1), (0, 0)):
        text = text.removeprefix("\ufeff")
    return _Line(text, *place, len(data), replaced)


def _most(line: str) -> str:
    counts = Counter(c for c in line if c in _DELIMITERS)
    return max(_DELIMITERS, key=lambda c: (counts[c], c == ","))


def _distinct(names: list[str]) -> list[str]:
    """Column names; the second of two equal ones gets a number."""
    seen: Counter[str] = Counter()
    made = []
    for name in names:
        seen[name] += 1
        made.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return made


STAGE = Csv
