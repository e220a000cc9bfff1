"""Arrow columns of text or bytes as the two numpy arrays that kernels work on, and back.

Reads and returns Arrow arrays; nothing here looks at a single value, so nothing is copied on the way in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def text_buffers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a string or binary column without a copy.

    Args:
        column: large_string, string, large_binary or binary array of n values, slices included.

    Returns:
        (data, offsets): uint8 array, and int64 array of shape (n + 1,): value i is ``data[offsets[i]:offsets[i + 1]]``.
        What lies between the offsets of a null is unspecified; mask it.
    """
    n = len(column)
    _, offset_buffer, data_buffer = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    if n == 0 or offset_buffer is None:
        return np.zeros(0, np.uint8), np.zeros(n + 1, np.int64)
    kind = np.int64 if wide else np.int32
    offsets = np.frombuffer(offset_buffer, kind, n + 1, column.offset * kind().itemsize)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return data, offsets.astype(np.int64, copy=False)


def valid_mask(column: pa.Array) -> np.ndarray:
    """Bool array of shape (n,): False where the column is null."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    mask: np.ndarray = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def text_array(data: np.ndarray, offsets: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """A large_string array over the given buffers, which must be valid UTF-8 and must not be written to afterwards.

    Args:
        data: uint8 array.
        offsets: int64 array of shape (n + 1,), starting anywhere in `data`.
        valid: bool array of shape (n,), False for null; None where all are valid.
    """
    return pa.LargeStringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data), _bitmap(valid)
    )


def _bitmap(valid: np.ndarray | None) -> Any:
    """Arrow's validity bitmap: one bit a value, least significant first."""
    if valid is None or bool(valid.all()):
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
