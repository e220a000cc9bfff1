"""CRC-32C (Castagnoli), eight bytes at a time, and protobuf varints: what a TFRecord file is made of.

Source: M. E. Kounavis and F. L. Berry 2005, "A systematic approach to building high performance software-based CRC
generators" (slicing by 8); RFC 3720, appendix B.4 for the polynomial and test vectors.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stages.kernels.jit import kernel

_POLYNOMIAL: Final = 0x82F63B78  # 0x1EDC6F41, bits reversed
_MASK: Final = 0xA282EAD8


def _tables() -> np.ndarray:
    """uint32 (8, 256): table k is what a byte k places further back adds."""
    tables = np.zeros((8, 256), np.uint32)
    for i in range(256):
        value = i
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, i] = value
    for k in range(1, 8):
        before = tables[k - 1]
        tables[k] = before >> np.uint32(8) ^ tables[0, before & np.uint32(0xFF)]
    return tables


TABLES: Final = _tables()


@kernel
def crc32c(data: np.ndarray, tables: np.ndarray) -> int:
    """CRC-32C of bytes (uint8 array)."""
    crc = np.uint32(0xFFFFFFFF)
    n = len(data)
    whole = n - n % 8
    for i in range(0, whole, 8):
        a = crc ^ (
            np.uint32(data[i])
            | np.uint32(data[i + 1]) << np.uint32(8)
            | np.uint32(data[i + 2]) << np.uint32(16)
            | np.uint32(data[i + 3]) << np.uint32(24)
        )
        crc = (
            tables[7, a & np.uint32(0xFF)]
            ^ tables[6, (a >> np.uint32(8)) & np.uint32(0xFF)]
            ^ tables[5, (a >> np.uint32(16)) & np.uint32(0xFF)]
            ^ tables[4, a >> np.uint32(24)]
            ^ tables[3, data[i + 4]]
            ^ tables[2, data[i + 5]]
            ^ tables[1, data[i + 6]]
            ^ tables[0, data[i + 7]]
        )
    for i in range(whole, n):
        crc = tables[0, (crc ^ np.uint32(data[i])) & np.uint32(0xFF)] ^ crc >> np.uint32(8)
    return int(crc ^ np.uint32(0xFFFFFFFF))


@kernel
def varints(values: np.ndarray, ends: np.ndarray, out: np.ndarray, out_ends: np.ndarray) -> int:
    """Write values as base-128 varints, one after the other.

    Args:
        values: uint16 or uint32 (n,).
        ends: int64 (groups,), where each group of values ends.
        out: uint8, at least 5 n.
        out_ends: int64 (groups,), filled: where each group's bytes end.

    Returns:
        bytes written.
    """
    at = 0
    i = 0
    for group in range(len(ends)):
        while i < ends[group]:
            value = np.uint32(values[i])
            while value >= np.uint32(0x80):
                out[at] = (value & np.uint32(0x7F)) | np.uint32(0x80)
                at += 1
                value >>= np.uint32(7)
            out[at] = value
            at += 1
            i += 1
        out_ends[group] = at
    return at


def masked(crc: int) -> int:
    """The form in which a TFRecord stores a CRC: rotated and offset, since a CRC of data that holds CRCs is weak."""
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF
