"""Samples of a text column: the kernel of `stages.kernels.sample` with its tables and buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stages.kernels.buffers import text_buffers
from stages.kernels.sample import FACTS, sample, sample_bound
from stages.kernels.script import SCRIPTS, lower_table, script_table, variant_table


def take_samples(column: pa.Array, window: int, lower: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(data, offsets, facts) of n documents: uint8 and int64 (n + 1,) of single-line samples, int32 (n, FACTS).

    Args:
        column: text; null gives an empty sample.
        window: bytes of each of the three windows.
        lower: whether letters of one or two bytes become lower case.
    """
    offsets, data, valid = text_buffers(column)
    out = np.empty(sample_bound(offsets, window), np.uint8)
    out_offsets = np.empty(len(offsets), np.int64)
    facts = np.empty((len(column), FACTS), np.int32)
    sample(
        data, offsets, valid, script_table(), variant_table(), lower_table(), np.empty(len(SCRIPTS), np.int32),
        window, lower, out, out_offsets, facts,
    )  # fmt: skip
    return out[: out_offsets[-1]], out_offsets, facts
