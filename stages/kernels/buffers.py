"""Arrow text columns as the plain arrays that kernels take, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa


class TextBuffers(NamedTuple):
    """A text column of n rows, without copying it.

    Attributes:
        offsets: int64 (n + 1,): row i is ``data[offsets[i]:offsets[i + 1]]``.
        data: uint8, UTF-8 of all rows; may hold more than these rows.
        valid: bool (n,): False where the row is null (its bytes mean nothing).
    """

    offsets: np.ndarray
    data: np.ndarray
    valid: np.ndarray


def text_buffers(array: pa.Array) -> TextBuffers:
    """Buffers of a string, large_string, binary or large_binary array, sliced or not."""
    if pa.types.is_string(array.type) or pa.types.is_null(array.type):
        array = array.cast(pa.large_string())
    elif pa.types.is_binary(array.type):
        array = array.cast(pa.large_binary())
    n = len(array)
    _, offsets_buffer, data_buffer = array.buffers()
    if offsets_buffer is None or offsets_buffer.size == 0:  # Arrow allows an empty array to have no offsets
        offsets = np.zeros(n + 1, np.int64)
    else:
        offsets = np.frombuffer(offsets_buffer, np.int64, n + 1, array.offset * 8)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    valid = np.ones(n, np.bool_) if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    # One signature for every caller: numba compiles a kernel again for arrays that may be written to.
    for view in (offsets, data):
        view.flags.writeable = False
    return TextBuffers(offsets, data, valid)


def number_column(values: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """An Arrow array of `values`; null where `valid` (bool, same length) is False."""
    if valid is None or valid.all():
        return pa.array(values)
    return pa.array(values, mask=~valid)


def text_column(data: np.ndarray, offsets: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """A large_string array over buffers that hold valid UTF-8 and are not written to afterwards.

    Args:
        data, offsets: uint8, and int64 (n + 1,) as in `TextBuffers`.
        valid: bool (n,), False for null; None where all are valid.
    """
    bitmap = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data), bitmap)
