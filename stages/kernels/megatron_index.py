"""The index file of Megatron-LM's IndexedDataset (.idx), written and read as a stream.

Layout, little-endian: magic ``MMIDIDX\\0\\0``; version uint64 = 1; dtype code uint8; number of sequences uint64; number of
document borders uint64; then int32 tokens per sequence, int64 byte offset of each sequence in the .bin, int64 number of
the first sequence of each document, closed by the number of sequences
(megatron/core/datasets/indexed_dataset.py, class _IndexWriter). Here a sequence is a document.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np

MAGIC: Final = b"MMIDIDX\x00\x00"
VERSION: Final = 1
#: Megatron's DType codes; 8 is what it picks for vocabularies below 65,500, 4 for all larger ones.
DTYPES: Final = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16",
}  # fmt: skip
_HEADER: Final = "<QBQQ"
_BLOCK: Final = 1 << 20


@dataclass(frozen=True)
class MegatronIndex:
    """What an index says.

    Attributes:
        dtype: of the tokens in the .bin file.
        lengths: int32 (sequences,), tokens of each.
        pointers: int64 (sequences,), byte offset of each.
        documents: int64 (documents + 1,), first sequence of each document, then the number of sequences.
    """

    dtype: np.dtype[Any]
    lengths: np.ndarray
    pointers: np.ndarray
    documents: np.ndarray


def write_index(stream: IO[bytes], lengths: np.ndarray, token_dtype: np.dtype[Any]) -> None:
    """Write the index of a .bin file that holds sequences of `lengths` tokens, each a document.

    uint32 tokens become Megatron's int32: the bytes are the same for ids below 2**31. Pointers are made and written in
    blocks, so that besides `lengths` nothing grows with the number of documents.
    """
    code = 8 if token_dtype.itemsize == 2 else 4
    count = len(lengths)
    stream.write(MAGIC)
    stream.write(struct.pack(_HEADER, VERSION, code, count, count + 1))
    stream.write(np.ascontiguousarray(lengths, "<i4").data)
    at = 0
    for start in range(0, count, _BLOCK):
        sizes = lengths[start : start + _BLOCK].astype(np.int64) * token_dtype.itemsize
        ends = at + np.cumsum(sizes)
        stream.write((ends - sizes).astype("<i8").data)
        at = int(ends[-1])
    for start in range(0, count + 1, _BLOCK):
        stream.write(np.arange(start, min(start + _BLOCK, count + 1), dtype="<i8").data)


def read_index(data: bytes) -> MegatronIndex:
    """Parse an index.

    Raises:
        ValueError: wrong magic, version, dtype code or size.
    """
    if data[:9] != MAGIC:
        raise ValueError(f"magic is {data[:9]!r}, expected {MAGIC!r}")
    version, code, sequences, borders = struct.unpack_from(_HEADER, data, 9)
    if version != VERSION or code not in DTYPES:
        raise ValueError(f"version {version} and dtype code {code}, expected {VERSION} and one of {sorted(DTYPES)}")
    start = 9 + struct.calcsize(_HEADER)
    expected = start + sequences * 12 + borders * 8
    if len(data) != expected:
        raise ValueError(f"{len(data)} bytes, expected {expected} for {sequences} sequences and {borders} borders")
    return MegatronIndex(
        np.dtype(DTYPES[code]),
        np.frombuffer(data, "<i4", sequences, start),
        np.frombuffer(data, "<i8", sequences, start + 4 * sequences),
        np.frombuffer(data, "<i8", borders, start + 12 * sequences),
    )
