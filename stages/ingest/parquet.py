"""ingest.parquet: columns of Parquet files.

Reads row group by row group, only the columns that are mapped (dotted paths reach into structs) or kept in `meta`. Promises
that files whose columns differ are read alike: string, large_string, dictionary and null columns all give text; a missing
text column is an error that names the ones there are; bytes that are no UTF-8 are replaced or quarantined, never passed on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpusflow import ConfigError, FileRange, FileSource, Split, param, storage_for
from stages.ingest._json import dump
from stages.ingest._reasons import Reason

_BATCH_ROWS: Final = 1_000
_BATCH_BYTES: Final = 8 << 20
#: Metadata beyond these sizes is an attack or damage (Arrow's documentation, "Security considerations").
_THRIFT_STRING_BYTES: Final = 100 << 20
_THRIFT_CONTAINER_ITEMS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Parquet(FileSource):
    """Parquet files, row group by row group, with columns mapped by dotted paths."""

    version: ClassVar[int] = 2
    default_name: ClassVar[str] = "parquet"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)

    text: str = param("text", doc="Column that holds the text; dots reach into structs (`body.content`).")
    id: str = param("id", doc="Column that becomes `record_id`, where a file has it.")
    url: str = param("url", doc="Column that becomes `url`, where a file has it.")
    date: str = param("date", doc="Column that becomes `date`, where a file has it.")
    columns: dict[str, str] = param(factory=dict, doc="Further columns of strings: {name: column}.")
    meta: bool = param(True, doc="Keep the columns that are not mapped, as JSON in `meta`.")

    def outputs(self) -> Mapping[str, pa.DataType]:
        return dict.fromkeys(self.columns, pa.string())

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        """At row groups: a range reads those whose first page lies in it."""
        return self.ranges(item)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for item in split.files:
            with storage_for(item.path).open(item.path) as stream:
                yield from self._file(item, stream)

    def _file(self, item: FileRange, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        if item.size == 0:
            return
        try:
            file = pq.ParquetFile(
                stream,
                thrift_string_size_limit=_THRIFT_STRING_BYTES,
                thrift_container_size_limit=_THRIFT_CONTAINER_ITEMS,
                page_checksum_verification=True,
                arrow_extensions_enabled=False,
            )
        except (pa.ArrowException, OSError) as e:
            if item.start == 0:
                why = f"{Reason.NOT_PARQUET}: no Parquet file, or its footer is damaged ({_first_line(e)})"
                yield self._spoilt(item, 0, why)
            return
        wanted = self._wanted(item, file.schema_arrow)
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if not _starts_in(item, file.metadata.row_group(group)):
                first += rows
                continue
            done = 0
            try:
                for batch in file.iter_batches(_BATCH_ROWS, [group], wanted, use_threads=False):
                    yield from self._bounded(item, batch, first + done)
                    done += batch.num_rows
            except (pa.ArrowException, OSError) as e:
                why = f"{Reason.DAMAGED_ROWS}: row group {group} from row {first + done}: {_first_line(e)}"
                yield self._spoilt(item, first + done, why)
            first += rows

    def _wanted(self, item: FileRange, schema: pa.Schema) -> list[str] | None:
        """The columns to read; None for all.

        Raises:
            ConfigError: there is no text column.
        """
        if _type_at(schema, self.text) is None:
            raise ConfigError(
                f"{item.path} has no column {self.text!r}",
                hint=f"name the one that holds the text (text: …); it has {', '.join(_paths(schema)) or 'none'}",
            )
        if self.meta:
            return None
        mapped = [self.text, self.id, self.url, self.date, *self.columns.values()]
        return list(dict.fromkeys(p.partition(".")[0] for p in mapped if _type_at(schema, p) is not None))

    def _bounded(self, item: FileRange, batch: pa.RecordBatch, first: int) -> Iterator[pa.RecordBatch]:
        """Rows in batches of bounded bytes: a thousand long texts would be too much at once."""
        pieces = max(1, min(batch.num_rows, batch.nbytes // _BATCH_BYTES + 1))
        step = -(-batch.num_rows // pieces) or 1
        for start in range(0, batch.num_rows, step):
            yield self._documents(item, batch.slice(start, step), first + start)

    def _documents(self, item: FileRange, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        n = batch.num_rows
        found = _field(batch, self.text)
        text, spoilt = _strings(found if found is not None else pa.nulls(n), pa.large_string(), self.text)
        arrays = {
            "id": pa.array(
                [f"{self.source_name}/{item.relative_path}#{i}" for i in range(first, first + n)], pa.string()
            ),
            "text": text,
            "source": pa.array([self.source_name] * n, pa.string()),
            "path": pa.array([item.path] * n, pa.string()),
            "offset": pa.array(np.arange(first, first + n, dtype=np.int64)),
        }
        mapped = {"record_id": self.id, "url": self.url, "date": self.date, **self.columns}
        for column, path in mapped.items():
            value = _field(batch, path)
            arrays[column] = pa.nulls(n, pa.string()) if value is None else _strings(value, pa.string(), path)[0]
        if self.meta:
            arrays["meta"] = _meta(batch, [self.text, *mapped.values()])
        no_text = pc.and_(text.is_null(), spoilt.is_null())
        arrays["skipped"] = pc.if_else(no_text, pa.scalar("null_text"), pa.scalar(None, pa.string()))
        arrays["quarantine"] = spoilt
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _spoilt(self, item: FileRange, first: int, why: str) -> pa.RecordBatch:
        row = {
            "id": f"{self.source_name}/{item.relative_path}#bad{first}",
            "source": self.source_name,
            "path": item.path,
            "offset": first,
            "quarantine": why,
        }
        return pa.RecordBatch.from_pylist([row], schema=_SPOILT)


_SPOILT: Final = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("quarantine", pa.string()),
    ]
)


def _starts_in(item: FileRange, group: pq.RowGroupMetaData) -> bool:
    """Whether a row group belongs to the range; what says it starts outside of the file belongs to the last or the first."""
    if item.end is None:
        return True
    columns = [group.column(i) for i in range(group.num_columns)]
    starts = [c.dictionary_page_offset or c.data_page_offset for c in columns] or [0]
    first: int = min(max(min(starts), 0), item.size - 1)
    return item.start <= first < item.end


def _first_line(e: BaseException) -> str:
    return str(e).partition("\n")[0][:200]


def _paths(schema: pa.Schema) -> list[str]:
    """Dotted paths of all columns, structs opened."""

    def below(name: str, kind: pa.DataType) -> list[str]:
        if not pa.types.is_struct(kind):
            return [name]
        return list(itertools.chain.from_iterable(below(f"{name}.{f.name}", f.type) for f in kind))

    return list(itertools.chain.from_iterable(below(f.name, f.type) for f in schema))


def _type_at(schema: pa.Schema, path: str) -> pa.DataType | None:
    fields: Any = schema
    kind: pa.DataType | None = None
    for name in path.split("."):
        i = fields.get_field_index(name) if fields is not None else -1
        if i < 0:
            return None
        kind = fields.field(i).type
        fields = kind if pa.types.is_struct(kind) else None
    return kind


def _field(batch: pa.RecordBatch, path: str) -> pa.Array | None:
    """A column by dotted path, None where the file has none; nulls of a struct are nulls of its fields."""
    if _type_at(batch.schema, path) is None:
        return None
    top, *rest = path.split(".")
    array = batch.column(batch.schema.get_field_index(top))
    return pc.struct_field(array, rest) if rest else array


def _strings(array: pa.Array, kind: pa.DataType, path: str) -> tuple[pa.Array, pa.Array]:
    """(the column as strings, per row why it is none). Bytes that are no UTF-8 make a row's text unreadable, not the file's."""
    n = len(array)
    fine = pa.nulls(n, pa.string())
    t = array.type
    if pa.types.is_dictionary(t):
        array = array.dictionary_decode()
        t = array.type
    if pa.types.is_null(t):
        return pa.nulls(n, kind), fine
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        out = array.cast(kind) if t != kind else array
        return (out, fine) if _is_utf8(out) else _without_broken(out.cast(_binary_of(kind)), kind)
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        data = array.cast(_binary_of(kind))
        try:
            return data.cast(kind), fine
        except pa.ArrowInvalid:
            return _without_broken(data, kind)
    if kind == pa.string():
        if pa.types.is_nested(t):
            return pa.array([None if v is None else dump(_plain(v)) for v in array.to_pylist()], kind), fine
        return array.cast(kind), fine
    why = pa.scalar(f"{Reason.WRONG_TYPE}: the column {path} holds {t}, not strings")
    return pa.nulls(n, kind), pc.if_else(array.is_valid(), why, pa.scalar(None, pa.string()))


def _binary_of(kind: pa.DataType) -> pa.DataType:
    return pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()


def _is_utf8(array: pa.Array) -> bool:
    """Parquet readers take a string column's word for it."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _without_broken(data: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    values: list[str | None] = []
    whys: list[str | None] = []
    for value in data.to_pylist():
        try:
            values.append(None if value is None else value.decode("utf-8"))
            whys.append(None)
        except UnicodeDecodeError as e:
            values.append(None)
            whys.append(f"{Reason.NOT_UTF8}: the string is not UTF-8 (byte {e.start})")
    return pa.array(values, kind), pa.array(whys, pa.string())


def _meta(batch: pa.RecordBatch, mapped: Sequence[str]) -> pa.Array:
    """JSON of the columns that are not mapped; structs that are mapped in part keep the rest."""
    whole = {p for p in mapped if "." not in p}
    names = [n for n in batch.schema.names if n not in whole]
    if not names:
        return pa.nulls(batch.num_rows, pa.string())
    inner = [p.split(".") for p in mapped if "." in p]
    rows = batch.select(names).to_pylist()
    for row in rows:
        for path in inner:
            place: Any = row
            for key in path[:-1]:
                place = place.get(key) if isinstance(place, dict) else None
            if isinstance(place, dict):
                place.pop(path[-1], None)
    return pa.array([dump(_plain(row)) for row in rows], pa.string())


def _plain(value: Any) -> Any:
    """Arrow's Python values as JSON has them: bytes and dates as strings, nulls left out of objects."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


STAGE = Parquet
