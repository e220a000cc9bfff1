"""Winnowing (Schleimer, Wilkerson, Aiken 2003): few positions of a text, such that a long enough repeat shares one.

Every window of bytes has a hash; of every `window` neighbouring ones the smallest (the last, if several are) is a seed. So
what is selected depends on the bytes around it alone, neighbouring seeds are at most `window` apart, and two texts that have
``width + window - 1`` bytes in common select the same seed in them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined, kernel
from stages.kernels.shingles import mix

_BASE: Final = np.uint64(0x9E3779B97F4A7C15)


@inlined
def _gap_hash(data: Any, start: Any, end: Any) -> Any:
    h = np.uint64(end - start)
    for i in range(start, end):
        h = (h ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return mix(h)


@kernel
def _seeds(
    data: Any,
    offsets: Any,
    valid: Any,
    width: Any,
    window: Any,
    ring: Any,
    hashes: Any,
    documents: Any,
    at: Any,
    gaps: Any,
) -> Any:
    n = 0
    mask = ring.shape[0] - 1
    power = np.uint64(1)
    for _ in range(width - 1):
        power *= _BASE
    for d in range(offsets.shape[0] - 1):
        start = offsets[d]
        count = offsets[d + 1] - start - width + 1  # windows of bytes
        if not valid[d] or count < window:
            continue
        acc = np.uint64(0)
        for j in range(width - 1):
            acc = acc * _BASE + np.uint64(data[start + j]) + np.uint64(1)
        least = -1
        last = -1
        for j in range(count):
            acc = acc * _BASE + np.uint64(data[start + j + width - 1]) + np.uint64(1)
            h = mix(acc)
            acc -= (np.uint64(data[start + j]) + np.uint64(1)) * power
            ring[j & mask] = h
            if least >= 0 and least > j - window:
                if h <= ring[least & mask]:
                    least = j
            else:  # the smallest has left: look through the window
                least = max(0, j - window + 1)
                for k in range(least + 1, j + 1):
                    if ring[k & mask] <= ring[least & mask]:
                        least = k
            if j >= window - 1 and least != last:
                if n < hashes.shape[0]:
                    hashes[n] = ring[least & mask]
                    documents[n] = d
                    at[n] = least
                    gaps[n] = np.uint64(0)
                    if last >= 0:
                        gaps[n - 1] = _gap_hash(data, start + last, start + least)
                n += 1
                last = least
    return n


def seeds(
    data: np.ndarray, offsets: np.ndarray, valid: np.ndarray, width: int, window: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Seeds of every document that has at least ``width + window - 1`` bytes.

    Args:
        data, offsets, valid: as from `buffers.text_buffers`.
        width: bytes under a hash.
        window: neighbouring hashes of which one is selected.

    Returns:
        (hashes, documents, at, gaps): uint64, int64, int64 (byte offset in the document), uint64 (hash of the bytes from this
        seed to the document's next one, 0 for the last); arrays (seeds,).
    """
    room = max(1024, int(3 * (offsets[-1] - offsets[0]) // (window + 1)))
    while True:
        hashes, gaps = np.empty(room, np.uint64), np.empty(room, np.uint64)
        documents, at = np.empty(room, np.int64), np.empty(room, np.int64)
        ring = np.empty(1 << window.bit_length(), np.uint64)
        n = int(_seeds(data, offsets, valid, width, window, ring, hashes, documents, at, gaps))
        if n <= room:
            return hashes[:n], documents[:n], at[:n], gaps[:n]
        room = n


def equal_before(a: bytes, b: bytes) -> int:
    """How many bytes at the ends of two strings are the same."""
    n = min(len(a), len(b))
    x, y = np.frombuffer(a[len(a) - n :], np.uint8), np.frombuffer(b[len(b) - n :], np.uint8)
    different = np.flatnonzero(x != y)
    return n if not len(different) else n - 1 - int(different[-1])


def equal_after(a: bytes, b: bytes) -> int:
    """How many bytes at the beginnings of two strings are the same."""
    n = min(len(a), len(b))
    different = np.flatnonzero(np.frombuffer(a[:n], np.uint8) != np.frombuffer(b[:n], np.uint8))
    return int(different[0]) if len(different) else n
