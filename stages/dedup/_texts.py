"""Texts of cluster members, held once however their owners are ordered, cut or joined.

They are kept as they were read: zstd's fastest levels make of documents of some 4 kB two thirds and cost as much time as the
comparing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stages.kernels.buffers import text_buffers


@dataclass(frozen=True)
class Texts:
    """Texts by number.

    Args:
        chunks: bytes of UTF-8.
        chunk: int32 (n,), which of them each text is in.
        start, end: int64 (n,), where.
    """

    chunks: tuple[memoryview, ...]
    chunk: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def __len__(self) -> int:
        return len(self.chunk)

    @staticmethod
    def of(columns: Sequence[pa.Array]) -> Texts:
        """The texts of large_string arrays, one array after the other."""
        buffers = [text_buffers(column) for column in columns]
        return Texts(
            tuple(data.data for _, data, _ in buffers),
            np.repeat(np.arange(len(buffers), dtype=np.int32), [len(offsets) - 1 for offsets, _, _ in buffers]),
            np.concatenate([np.zeros(0, np.int64), *(offsets[:-1] for offsets, _, _ in buffers)]),
            np.concatenate([np.zeros(0, np.int64), *(offsets[1:] for offsets, _, _ in buffers)]),
        )

    @staticmethod
    def join(parts: Sequence[Texts]) -> Texts:
        """All of them, one part after the other."""
        firsts = np.cumsum([0, *(len(p.chunks) for p in parts)])
        return Texts(
            tuple(chunk for p in parts for chunk in p.chunks),
            np.concatenate([p.chunk + np.int32(first) for p, first in zip(parts, firsts[:-1].tolist(), strict=True)]),
            np.concatenate([p.start for p in parts]),
            np.concatenate([p.end for p in parts]),
        )

    def gather(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(offsets, data) of some of them, as from `buffers.text_buffers`."""
        start, end = self.start[at], self.end[at]
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum(end - start, out=offsets[1:])
        offsets.flags.writeable = False
        chunks = self.chunks
        places = zip(self.chunk[at].tolist(), start.tolist(), end.tolist(), strict=True)
        return offsets, np.frombuffer(b"".join([chunks[c][a:b] for c, a, b in places]), np.uint8)

    def only(self, at: np.ndarray) -> Texts:
        """Some of them, copied, so that the others can go."""
        offsets, data = self.gather(at)
        return Texts((data.data,), np.zeros(len(at), np.int32), offsets[:-1], offsets[1:])
