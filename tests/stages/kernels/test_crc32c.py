"""CRC-32C against its published values and a bit-by-bit one; varints against protobuf's rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.kernels.crc32c import TABLES, crc32c, masked, varints


def crc(data: bytes) -> int:
    return int(crc32c(np.frombuffer(data, np.uint8), TABLES))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
    ids=["nothing", "digits", "zeros", "ones", "up", "down"],
)
def test_published_values(data: bytes, expected: int) -> None:
    assert crc(data) == expected


@given(st.binary(max_size=70))
def test_bit_by_bit(data: bytes) -> None:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    assert crc(data) == value ^ 0xFFFFFFFF


def test_masked() -> None:
    assert masked(0) == 0xA282EAD8
    assert masked(crc(b"123456789")) == ((0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


@pytest.mark.parametrize("width", [np.uint16, np.uint32])
@given(values=st.lists(st.lists(st.integers(0, 65_535), max_size=9), max_size=9))
def test_varints(width: type, values: list[list[int]]) -> None:
    if width is np.uint32:
        values = [[v * 65_537 for v in group] for group in values]
    flat = np.array([v for group in values for v in group], width)
    ends = np.cumsum([len(g) for g in values], dtype=np.int64) if values else np.zeros(0, np.int64)
    out, out_ends = np.zeros(5 * len(flat), np.uint8), np.zeros(len(ends), np.int64)
    size = varints(flat, ends, out, out_ends)
    assert size == (out_ends[-1] if len(ends) else 0)
    starts = np.concatenate([[0], out_ends])
    found = [decoded(out[a:b].tobytes()) for a, b in itertools.pairwise(starts)]
    assert found == values


def decoded(data: bytes) -> list[int]:
    """As protobuf's guide says: seven bits a byte, lowest first, the top bit set where more follow."""
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            out.append(value)
            value = shift = 0
    return out
