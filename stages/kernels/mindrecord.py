"""Integers as a MindRecord file holds them: each in one, two or four bytes, behind two bits that say which.

Source: mindspore, ccsrc/minddata/mindrecord/meta/shard_column.cc (how columns of integers are compressed).
"""

from __future__ import annotations

import numpy as np

from stages.kernels.jit import kernel


@kernel
def compressed(values: np.ndarray, ends: np.ndarray, out: np.ndarray, out_ends: np.ndarray) -> int:
    """Write groups of integers, each group as its count (uint32, big-endian), the codes of its numbers (2 bits each, the first
    in the highest; 0: one byte, 1: two, 2: four), and the numbers (signed, little-endian).

    Args:
        values: uint16, uint32 or int32 (n,), each below 2**31 and not negative.
        ends: int64 (groups,), where each group of values ends.
        out: uint8, at least 5 bytes a group and 5 a value.
        out_ends: int64 (groups,), filled: where each group's bytes end.

    Returns:
        bytes written.
    """
    at = 0
    start = 0
    for group in range(len(ends)):
        end = ends[group]
        count = end - start
        for shift in range(24, -1, -8):
            out[at] = np.uint8(count >> shift & 0xFF)
            at += 1
        codes = at
        at += (count + 3) // 4
        out[codes:at] = 0
        for i in range(count):
            value = np.uint32(values[start + i])
            out[at] = np.uint8(value & np.uint32(0xFF))
            if value < np.uint32(0x80):
                at += 1
                continue
            out[at + 1] = np.uint8(value >> np.uint32(8) & np.uint32(0xFF))
            code = 1
            size = 2
            if value >= np.uint32(0x8000):
                out[at + 2] = np.uint8(value >> np.uint32(16) & np.uint32(0xFF))
                out[at + 3] = np.uint8(value >> np.uint32(24))
                code = 2
                size = 4
            out[codes + i // 4] |= np.uint8(code << (6 - 2 * (i % 4)))
            at += size
        start = end
        out_ends[group] = at
    return at
