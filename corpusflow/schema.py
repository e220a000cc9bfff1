"""The document: reserved columns, their Arrow types, and how a document gets its id.

A document is a row. Sources yield rows with (some of) the columns below; stages add *signals*, whose names carry a dot
(`quality.words`). Whatever a config maps beyond these (`columns: {lang: metadata.lang}`) is a string column of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import xxhash

TEXT: Final = "text"
ID: Final = "id"

#: Columns every batch has, in this order, whether or not a Source fills them.
DOCUMENT_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "id": pa.string(),  # source/path-below-its-base#position; unique by construction
    "record_id": pa.string(),  # what the data calls itself: WARC-Record-ID, a JSONL id
    "text": pa.large_string(),
    "raw": pa.large_binary(),  # bytes as stored, from Sources of bytes; ingest.extract consumes them
    "content_type": pa.string(),  # as declared by the data, e.g. 'text/html; charset=gbk'
    "content_encoding": pa.string(),  # codings still on `raw`, outermost last: 'gzip', 'gzip,chunked'
    "url": pa.string(),
    "source": pa.string(),  # the Source's `name`
    "date": pa.string(),  # as the data states it, ISO 8601 where it can be
    "meta": pa.string(),  # JSON object of what the config did not map
}

#: Where the bytes of a document lie; written by the Source's own checkpoint only.
LOCATION_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "path": pa.string(),
    "offset": pa.int64(),  # bytes from the start of the (compressed) file, or a row number where a file has rows
    "length": pa.int64(),  # bytes, or null where unknown
}

#: Consumed by ingest.extract; never part of a checkpoint.
BYTES_COLUMNS: Final = ("raw", "content_type", "content_encoding")

#: A stage fills these to take single rows out: null means "fine". Never stored as document columns.
QUARANTINE: Final = "quarantine"  # any stage: why this row could not be processed
SKIPPED: Final = "skipped"  # Sources: why this record is not a document

#: A stage's `inputs()` may name a column with this suffix: it is read only where some stage before makes it. A Transform's
#: `outputs()` may, too: it rewrites the column where it was handed one.
OPTIONAL: Final = "?"

#: Position of a row in the shard's base (the Source's index, or the wide checkpoint that narrow parts are aligned to).
ROW: Final = "row"


def is_signal(column: str) -> bool:
    """Signals are the dotted columns."""
    return "." in column


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def conform(batch: pa.RecordBatch, columns: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The batch with exactly `columns`, in their order: missing ones become null, types are cast losslessly.

    Raises:
        pa.ArrowInvalid: a column cannot be cast to its declared type without loss.
    """
    arrays = []
    names = set(batch.schema.names)
    for name, kind in columns.items():
        if name not in names:
            arrays.append(pa.nulls(batch.num_rows, kind))
            continue
        array = batch.column(name)
        arrays.append(array if array.type == kind else array.cast(kind))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(columns.items())))


def document_id(source: str, relative_path: str, position: int) -> str:
    """`source/path#position`: position is a byte offset or a row number, whichever finds the document again."""
    return f"{source}/{relative_path}#{position}"


def id_hashes(ids: pa.Array, seed: int = 0) -> np.ndarray:
    """128-bit hashes of ids, as a uint64 array of shape (n, 2) that compares like the 128-bit number.

    The order of documents wherever one must be chosen, and the seeded order of shuffles, come from these: they do not
    depend on file names' order, on the plan, or on arrival. xxh3-128 with `seed` (https://xxhash.com), stable across
    versions and machines.
    """
    out = np.empty((len(ids), 2), np.uint64)
    digest = xxhash.xxh3_128_intdigest
    low = (1 << 64) - 1
    for i, value in enumerate(ids.cast(pa.binary()).to_pylist()):
        h = digest(value, seed)
        out[i, 0] = h >> 64
        out[i, 1] = h & low
    return out
