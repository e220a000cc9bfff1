"""Any stage's survivors as plain files, one per shard: behind `corpusflow export`.

Reads a StageView; writes Parquet, JSONL or JSONL.zst under `shard-00000012.<format>`. Promises bounded memory (one row group of a
shard), files that appear whole or not at all, and the same bytes whenever it is done.
"""

from __future__ import annotations

import json
import math
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, Protocol, cast

import pyarrow as pa
import zstandard

from corpusflow.api import StageView
from corpusflow.checkpoint import WIDE_ROW_GROUP_BYTES, WIDE_ROW_GROUP_ROWS, parquet_writer
from corpusflow.errors import ConfigError
from corpusflow.plan import Shard
from corpusflow.schema import ROW
from corpusflow.storage import Storage, Upload, storage_for

FORMATS: Final = ("parquet", "jsonl", "jsonl.zst")
_NAME: Final = re.compile(r"shard-\d{8}\.(parquet|jsonl|jsonl\.zst)")


@dataclass(frozen=True)
class Written:
    """One file; `rows` of them, `size` bytes as stored; `without_text` were asked for their text and have none yet (pages that
    are not extracted).
    """

    shard: int
    path: str
    rows: int
    size: int
    without_text: int = 0


class _Format(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def write_files(
    view: StageView, folder: str, *, format_name: str, columns: Sequence[str] | None = None, force: bool = False
) -> Iterator[Written]:
    """Write a stage's survivors, shard by shard; shards without survivors make no file.

    Args:
        columns: None for id, url, text and every signal measured so far.
        force: replace files of an earlier export; those this one does not write are removed.

    Raises:
        ConfigError: the folder holds files and `force` is not given, no such column, or the stage keeps no text.
        StageError: the stage has not run on all shards yet.
    """
    if format_name not in FORMATS:
        raise ConfigError(f"unknown format {format_name!r}", hint=f"one of {', '.join(FORMATS)}")
    storage = storage_for(folder)
    before = _earlier(storage, folder, force)
    names, base = view.resolve(columns)
    schema = pa.schema([(c, view.columns[c]) for c in names])
    written = set()
    for shard in view.run.plan.shards:
        batches = (b.drop_columns([ROW]) for b in view.shard_batches(shard, names, base) if b.num_rows)
        first = next(batches, None)
        if first is None:
            continue
        done = _write(storage, folder, shard, format_name, schema, first, batches)
        written.add(done.path)
        yield done
    for path in before - written:
        storage.delete(path)


def _earlier(storage: Storage, folder: str, force: bool) -> set[str]:
    """Files of an earlier export in the folder.

    Raises:
        ConfigError: there are files, and they may not be replaced or are not ours.
    """
    there = [info.path for info in storage.list(folder)]
    strange = [p for p in there if not _NAME.fullmatch(os.path.basename(p))]
    if there and not force:
        raise ConfigError(
            f"{folder} holds {len(there)} file(s) already, {os.path.basename(there[0])} among them",
            hint="give an empty folder to --to, or add --force to replace an earlier export",
        )
    if strange:
        raise ConfigError(
            f"{folder} holds {os.path.basename(strange[0])}, which no export wrote", hint="give another folder to --to"
        )
    return set(there)


def _write(
    storage: Storage,
    folder: str,
    shard: Shard,
    format_name: str,
    schema: pa.Schema,
    first: pa.RecordBatch,
    rest: Iterator[pa.RecordBatch],
) -> Written:
    path = f"{folder}/shard-{shard.number:08d}.{format_name}"
    temporary = f"{folder}/.tmp-{uuid.uuid4().hex}"
    rows = without_text = 0
    upload = _create(storage, temporary, folder)
    try:
        with upload:
            writer = _WRITERS[format_name](upload, schema)
            for batch in _chain(first, rest):
                writer.write(batch)
                rows += batch.num_rows
                if "text" in schema.names:
                    without_text += batch.column("text").null_count
            writer.close()
        storage.publish(temporary, path)
    finally:
        storage.delete(temporary)
    return Written(shard.number, path, rows, upload.size, without_text)


def _create(storage: Storage, path: str, folder: str) -> Upload:
    try:
        return storage.create(path)
    except (NotADirectoryError, PermissionError, FileExistsError) as e:
        raise ConfigError(f"cannot write to {folder}: {e.strerror}", hint="give another folder to --to") from e


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


class _Parquet:
    """Row groups of at most 8,192 rows and about 32 MB, whatever the batches."""

    def __init__(self, upload: Upload, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = parquet_writer(upload, schema)
        self._pending: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        if (
            sum(b.num_rows for b in self._pending) >= WIDE_ROW_GROUP_ROWS
            or sum(b.nbytes for b in self._pending) >= WIDE_ROW_GROUP_BYTES
        ):
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, self._schema)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pending = []

    def close(self) -> None:
        self._flush()
        self._writer.close()


class _Jsonl:
    """One JSON object per line; column names as keys, bytes in hex, NaN and infinity as null."""

    def __init__(self, upload: Upload, schema: pa.Schema) -> None:
        self._out: Any = upload

    def write(self, batch: pa.RecordBatch) -> None:
        lines = [json.dumps(json_value(row), ensure_ascii=False) for row in batch.to_pylist()]
        # a lone surrogate cannot occur: Arrow's strings are UTF-8
        self._out.write("".join(line + "\n" for line in lines).encode())

    def close(self) -> None:
        return


class _JsonlZst(_Jsonl):
    """The same, zstandard-compressed in one frame."""

    def __init__(self, upload: Upload, schema: pa.Schema) -> None:
        super().__init__(upload, schema)
        self._out = zstandard.ZstdCompressor(level=3).stream_writer(cast(IO[bytes], upload), closefd=False)

    def close(self) -> None:
        self._out.close()


_WRITERS: Final[dict[str, Callable[[Upload, pa.Schema], _Format]]] = {
    "parquet": _Parquet,
    "jsonl": _Jsonl,
    "jsonl.zst": _JsonlZst,
}


def json_value(value: Any) -> Any:
    """A Python value as JSON has it."""
    if isinstance(value, dict):
        return {k: json_value(v) for k, v in value.items()}
    if isinstance(value, list):
        return [json_value(v) for v in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
