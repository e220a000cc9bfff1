"""Sources of Arrow batches: columns mapped to documents' columns, whatever their types.

Promises that files whose columns differ are read alike: string, large_string, dictionary and null columns all give text; where
the first file has no text column, the error names the ones there are, any other such file is a quarantined row; bytes that are
no UTF-8 are quarantined, never passed on.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import ConfigError, FileRange, param, storage_for
from stages.ingest._fields import FieldSource, distinct
from stages.ingest._json import dump
from stages.ingest._reasons import Reason

BATCH_ROWS: Final = 1_000
_BATCH_BYTES: Final = 8 << 20
#: What Arrow raises on damaged data; a false length asks for more memory than there is, a name may be no UTF-8.
DAMAGE: Final = (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError)


@dataclass(frozen=True, kw_only=True)
class TableSource(FieldSource):
    """A Source whose records are rows of typed columns."""

    meta: bool = param(True, doc="Keep the columns that are not mapped, as JSON in `meta`.")

    @abstractmethod
    def schema_of(self, stream: IO[bytes]) -> pa.Schema:
        """The columns of an open file.

        Raises:
            DAMAGE: they cannot be read.
        """

    def check_input(self, item: FileRange) -> None:
        with storage_for(item.path).open(item.path) as stream:
            try:
                schema = self.schema_of(stream)
            except DAMAGE as e:
                said_of(e)
                return
        if _type_at(schema, self.text) is None:
            raise ConfigError(
                f"{item.path} has no column {self.text!r}",
                hint=f"name the one that holds the text (text: …); it has {', '.join(_paths(schema)) or 'none'}",
            )

    def unlike(self, item: FileRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The one row of a file that has no text column, by the range that starts it; nothing for all others."""
        if _type_at(schema, self.text) is None and item.start == 0:
            why = (
                f"{Reason.NO_TEXT_COLUMN}: no column {self.text}; there are {', '.join(_paths(schema))[:500] or 'none'}"
            )
            yield self.spoilt(item, 0, why)

    def wanted(self, schema: pa.Schema) -> list[str] | None:
        """The columns to read: all (None), none where there is no text among them, or those that are mapped."""
        if _type_at(schema, self.text) is None:
            return []
        if self.meta:
            return None
        mapped = [self.text, *self.mapped.values()]
        return list(dict.fromkeys(p.partition(".")[0] for p in mapped if _type_at(schema, p) is not None))

    def documents(self, item: FileRange, batch: pa.RecordBatch, first: int) -> Iterator[pa.RecordBatch]:
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
        mapped = self.mapped
        for column, path in mapped.items():
            value = _field(batch, path)
            arrays[column] = pa.nulls(n, pa.string()) if value is None else _named(value, path)
        if self.meta:
            arrays["meta"] = _meta(batch, [self.text, *mapped.values()])
        no_text = pc.and_(text.is_null(), spoilt.is_null())
        arrays["skipped"] = pc.if_else(no_text, pa.scalar("null_text"), pa.scalar(None, pa.string()))
        arrays["quarantine"] = spoilt
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def spoilt(self, item: FileRange, first: int, why: str) -> pa.RecordBatch:
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


def said_of(e: BaseException) -> str:
    """What damage says of itself, in one line.

    Raises:
        OSError: it is none, but the storage failed.
    """
    if isinstance(e, OSError) and e.errno is not None:
        raise e
    return str(e).partition("\n")[0][:200] or type(e).__name__


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
        # Whether bytes can be cast depends on all values of a batch, and no row may depend on its neighbours.
        if not (pa.types.is_nested(t) or pa.types.is_fixed_size_binary(t) or isinstance(t, pa.BaseExtensionType)):
            with contextlib.suppress(pa.ArrowNotImplementedError):
                return array.cast(kind), fine
        return pa.array([_in_words(v) for v in array.to_pylist()], kind), fine
    why = pa.scalar(f"{Reason.WRONG_TYPE}: the column {path} holds {t}, not strings")
    return pa.nulls(n, kind), pc.if_else(array.is_valid(), why, pa.scalar(None, pa.string()))


def _named(array: pa.Array, path: str) -> pa.Array:
    """A column beside the text as strings; what is not UTF-8 in it is replaced, as in `meta`, and not the row's end."""
    found, broken = _strings(array, pa.string(), path)
    if broken.null_count == len(broken):
        return found
    values = array.cast(pa.binary()).to_pylist()
    return pa.array([None if v is None else v.decode("utf-8", "replace") for v in values], pa.string())


def _in_words(value: Any) -> str | None:
    """A value of a type that has no strings of its own: objects as JSON, numbers of so many bytes (digests) in hexadecimal."""
    if value is None:
        return None
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.hex()
    return dump(_plain(value)) if isinstance(value, (dict, list, tuple)) else str(value)


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
    names = batch.schema.names
    others = [i for i, name in enumerate(names) if name not in whole]
    if not others:
        return pa.nulls(batch.num_rows, pa.string())
    inner = [p.split(".") for p in mapped if "." in p]
    arrays = [batch.column(i) for i in others]
    rows = pa.RecordBatch.from_arrays(arrays, names=distinct([names[i] for i in others])).to_pylist()
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
