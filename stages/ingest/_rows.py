"""Rows gathered into bounded batches: what every Source here yields its records with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from corpusflow import DOCUMENT_COLUMNS, LOCATION_COLUMNS, QUARANTINE, SKIPPED

#: A batch is closed at this many bytes of text or raw bytes, or at this many rows, whichever is first.
BATCH_BYTES: Final = 8 << 20
BATCH_ROWS: Final = 1_000

_TYPES: Final[Mapping[str, pa.DataType]] = {
    **DOCUMENT_COLUMNS,
    **LOCATION_COLUMNS,
    QUARANTINE: pa.string(),
    SKIPPED: pa.string(),
}


def batches(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], extra: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Batches of the named columns.

    Args:
        rows: column -> value; what is absent is null.
        columns: reserved names, with their declared types.
        extra: further columns, strings.
    """
    schema = _schema(columns, extra)
    held: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.get("raw") or row.get("text") or "")
        if size >= BATCH_BYTES or len(held) >= BATCH_ROWS:
            yield _batch(held, schema)
            held, size = [], 0
    if held:
        yield _batch(held, schema)


def shaped(batch: pa.RecordBatch, columns: Sequence[str], extra: Sequence[str] = ()) -> pa.RecordBatch:
    """A batch with exactly these columns, as in `batches`; what it has not is null."""
    schema = _schema(columns, extra)
    names = set(batch.schema.names)
    arrays = [batch.column(f.name) if f.name in names else pa.nulls(batch.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _schema(columns: Sequence[str], extra: Sequence[str]) -> pa.Schema:
    return pa.schema([(c, _TYPES[c]) for c in columns] + [(c, pa.string()) for c in extra])


def _batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    names = schema.names
    columns = zip(*(map(row.get, names) for row in rows), strict=True)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
