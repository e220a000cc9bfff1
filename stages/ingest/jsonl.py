"""ingest.jsonl: one JSON object a line.

Reads JSONL files, plain or compressed (gzip, zstd, bzip2, xz; many members or frames), and maps fields to columns by dotted
paths; what is not mapped goes to `meta`. Every line is a row: documents, lines without text (`skipped`), and lines that are
no JSON object (`quarantine`, with their place). A file in which no line is one is a single row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from corpusflow import ConfigError, FileRange, FileSource, Split, param, storage_for
from stages.ingest._json import LineError, as_string, dump, name_of, parse, take
from stages.ingest._lines import Line, lines
from stages.ingest._members import pieces
from stages.ingest._rows import batches

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
#: So many lines at a file's start must fail, and no other follow, before the file itself is held to be no JSONL; so many
#: records must lack the text field before the config is held to be wrong.
_PATIENCE: Final = 100


@dataclass(frozen=True, kw_only=True)
class Jsonl(FileSource):
    """One JSON object a line (plain, gzip, zstd, bzip2, xz), with fields mapped by dotted paths."""

    version: ClassVar[int] = 1
    default_name: ClassVar[str] = "jsonl"
    libraries: ClassVar[tuple[str, ...]] = ("orjson", "zstandard")

    text: str = param("text", doc="Field that holds the text; dots reach into objects (`body.content`).")
    id: str = param("id", doc="Field that becomes `record_id`.")
    url: str = param("url", doc="Field that becomes `url`.")
    date: str = param("date", doc="Field that becomes `date`.")
    columns: dict[str, str] = param(factory=dict, doc="Further columns of strings: {name: field}.")
    max_line_bytes: int = param(32 << 20, doc="Longer lines go to quarantine.")

    def outputs(self) -> Mapping[str, pa.DataType]:
        return dict.fromkeys(self.columns, pa.string())

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        rows = (row for item in split.files for row in self._file(item))
        return batches(rows, _COLUMNS, tuple(self.columns))

    def _file(self, item: FileRange) -> Iterator[dict[str, Any]]:
        with storage_for(item.path).open(item.path) as stream:
            found = lines(pieces(stream, item.start, item.end), self.max_line_bytes)
            yield from self._patiently(item, (self._row(item, line) for line in found))

    def _patiently(self, item: FileRange, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The rows; but a file of another kind becomes one row, not a million, and a wrong field name an error."""
        bad: list[dict[str, Any]] = []
        seen = good = 0
        for row in rows:
            seen += 1
            if good == 0 and "quarantine" in row:
                bad.append(row)
                if len(bad) >= _PATIENCE:
                    yield self._no_jsonl(item, bad)
                    return
                continue
            yield from bad
            bad = []
            good += row.get("skipped") != "missing_text"
            if good == 0 and seen >= _PATIENCE:
                raise self._wrong_field(item)
            yield row
        if len(bad) > 1:
            yield self._no_jsonl(item, bad)
        else:
            yield from bad

    def _no_jsonl(self, item: FileRange, bad: list[dict[str, Any]]) -> dict[str, Any]:
        first = bad[0]["quarantine"].removeprefix("jsonl: ")
        why = f"jsonl: no JSONL file, none of its first {len(bad)} lines is a JSON object ({first})"
        return {**bad[0], "offset": 0, "length": item.size, "quarantine": why}

    def _wrong_field(self, item: FileRange) -> ConfigError:
        with storage_for(item.path).open(item.path) as stream:
            line = next(lines(pieces(stream, item.start, item.end), self.max_line_bytes))
        keys = list(parse(line.data)[0])
        return ConfigError(
            f"{item.path}: none of its first {_PATIENCE} records has the field {self.text!r}",
            hint=f"name the one that holds the text (text: …); the first record has {', '.join(keys[:20])}",
        )

    def _row(self, item: FileRange, line: Line) -> dict[str, Any]:
        place = f"stored{line.offset}" if line.stored else str(line.offset)
        row: dict[str, Any] = {
            "id": f"{self.source_name}/{item.relative_path}#{place}",
            "source": self.source_name,
            "path": item.path,
            "offset": line.offset,
            "length": line.length,
        }
        if line.error is not None:
            row["quarantine"] = f"jsonl: {line.error}"
            return row
        try:
            record, replaced = parse(line.data)
        except LineError as e:
            row["quarantine"] = f"jsonl: {e}"
            return row
        self._map(record, row)
        if replaced:
            record["replaced_characters"] = replaced
        if line.suspect:
            record["unverified"] = "the checksum of its compressed file is wrong"
        if record:
            row["meta"] = dump(record)
        return row

    def _map(self, record: dict[str, Any], row: dict[str, Any]) -> None:
        there, text = take(record, tuple(self.text.split(".")))
        for column, field in (("record_id", self.id), ("url", self.url), ("date", self.date), *self.columns.items()):
            row[column] = as_string(take(record, tuple(field.split(".")))[1])
        if isinstance(text, str):
            row["text"] = text
        elif text is None:
            row["skipped"] = "null_text" if there else "missing_text"
        else:
            row["quarantine"] = f"jsonl: the field {self.text} is {name_of(text)}, not a string"


STAGE = Jsonl
