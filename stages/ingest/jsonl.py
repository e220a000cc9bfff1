"""ingest.jsonl: one JSON object a line.

Reads JSONL files, plain or compressed (gzip, zstd, bzip2, xz; many members or frames), and maps fields to columns by dotted
paths; what is not mapped goes to `meta`. Every line is a row: documents, lines without text (`skipped`), and lines that are
no JSON object (`quarantine`, with their place). A file in which no line is one is a single row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from corpusflow import ConfigError, FileRange, Split, param, storage_for
from stages.ingest._fields import RECORD_COLUMNS, FieldSource
from stages.ingest._json import LineError, dump, parse
from stages.ingest._lines import Line, lines
from stages.ingest._members import Piece, layout, pieces
from stages.ingest._reasons import Reason
from stages.ingest._rows import batches

#: So many lines at a file's start must fail, and no other follow, before the file itself is held to be no JSONL; so many
#: records must lack the text field before the config is held to be wrong.
_PATIENCE: Final = 100


@dataclass(frozen=True, kw_only=True)
class Jsonl(FieldSource):
    """One JSON object a line (plain, gzip, zstd, bzip2, xz), with fields mapped by dotted paths."""

    version: ClassVar[int] = 3
    default_name: ClassVar[str] = "jsonl"
    libraries: ClassVar[tuple[str, ...]] = ("orjson", "zstandard")

    max_line_bytes: int = param(32 << 20, doc="Longer lines go to quarantine.")

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        rows = (row for item in split.files for row in self._file(item))
        return batches(rows, RECORD_COLUMNS, tuple(self.columns))

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        """Anywhere, if it is not compressed; else at members or frames, if there are many."""
        with storage_for(item.path).open(item.path) as stream:
            return (item,) if layout(stream) == "whole" else self.ranges(item)

    def _file(self, item: FileRange) -> Iterator[dict[str, Any]]:
        with storage_for(item.path).open(item.path) as stream:
            if item.end is not None:
                # What the file's first lines say of it, all its ranges must hear.
                rows = self._rows(item, pieces(stream))
                if self._judged(item, rows)[1]:
                    if item.start == 0:
                        yield from self._judged(item, self._rows(item, pieces(stream)))[0]
                    return
                yield from self._rows(item, pieces(stream, item.start, item.end), item.start > 0)
                return
            rows = self._rows(item, pieces(stream))
            head, foreign = self._judged(item, rows)
            yield from head
            if not foreign:
                yield from rows

    def _rows(self, item: FileRange, found: Iterable[Piece], middle: bool = False) -> Iterator[dict[str, Any]]:
        return (self._row(item, line) for line in lines(found, self.max_line_bytes, middle))

    def _judged(self, item: FileRange, rows: Iterator[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
        """(rows from the file's start up to the first good one, whether it is a file of another kind): then it is one row,
        not a million."""
        head: list[dict[str, Any]] = []
        bad = 0
        for row in rows:
            head.append(row)
            if _is_record(row):
                return head, False
            bad += "quarantine" in row
            if len(head) >= _PATIENCE:
                break
        if bad == len(head) > 1:
            return [self._no_jsonl(item, head)], True
        return head, False

    def _no_jsonl(self, item: FileRange, bad: list[dict[str, Any]]) -> dict[str, Any]:
        why = f"{Reason.NOT_JSONL}: none of its first {len(bad)} lines is a JSON object ({bad[0]['quarantine']})"
        return {**bad[0], "offset": 0, "length": item.size, "quarantine": why}

    def check_input(self, item: FileRange) -> None:
        with storage_for(item.path).open(item.path) as stream:
            head, foreign = self._judged(item, self._rows(item, pieces(stream)))
            if foreign or len(head) < _PATIENCE or _is_record(head[-1]):
                return
            keys = next(_keys(lines(pieces(stream), self.max_line_bytes)))
        raise ConfigError(
            f"{item.path}: none of its first {_PATIENCE} records has the field {self.text!r}",
            hint=f"name the one that holds the text (text: …); the first record has {', '.join(keys[:20])}",
        )

    def _row(self, item: FileRange, line: Line) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": f"{self.source_name}/{item.relative_path}#{line.position}",
            "source": self.source_name,
            "path": item.path,
            "offset": line.offset,
            "length": line.length,
        }
        if line.error is not None:
            row["quarantine"] = line.error
            return row
        try:
            record, replaced = parse(line.data)
        except LineError as e:
            row["quarantine"] = str(e)
            return row
        self.take_fields(record, row)
        if replaced:
            record["replaced_characters"] = replaced
        if line.suspect:
            record["unverified"] = "the checksum of its compressed file is wrong"
        if record:
            row["meta"] = dump(record)
        return row


def _is_record(row: dict[str, Any]) -> bool:
    """Whether a row comes from an object that has the text field, whatever it holds."""
    if "quarantine" in row:
        return str(row["quarantine"]).startswith(Reason.WRONG_TYPE)
    return row.get("skipped") != "missing_text"


def _keys(found: Iterable[Line]) -> Iterator[list[str]]:
    """Of each line that is an object."""
    for line in found:
        with contextlib.suppress(LineError):
            yield list(parse(line.data)[0])


STAGE = Jsonl
