"""Everything a folder holds, opened as far as it can be: for proving that something is in none of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def holding(folder: Path, needles: list[bytes]) -> dict[str, bytes]:
    """File below a folder -> the first needle found in it; Parquet files are searched in what their columns hold."""
    return {
        str(path.relative_to(folder)): needle
        for path, data in contents(folder)
        for needle in [next((n for n in needles if n in data), b"")]
        if needle
    }


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """(file, its bytes, or the bytes of all its columns one after the other)."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield path, _columns(pq.read_table(path)) if data[:4] == b"PAR1" else data


def _columns(table: pa.Table) -> bytes:
    return b"\0\0".join(_values(chunk) for column in table.columns for chunk in column.chunks)


def _values(array: pa.Array) -> bytes:
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _values(array.flatten())
    if pa.types.is_struct(kind):
        return b"\0".join(_values(a) for a in array.flatten())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "\0".join(v or "" for v in array.to_pylist()).encode()
    if pa.types.is_integer(kind):
        out: bytes = np.ascontiguousarray(array.drop_null().to_numpy(zero_copy_only=False)).tobytes()
        return out
    return b"".join(v for v in array.to_pylist() if isinstance(v, bytes))
