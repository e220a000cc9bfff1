"""What kernels for fastText models share: its hash, words as numbers, exponentials that have the same bits on every CPU."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined

#: Words whose sums a kernel remembers (a power of two: what fits into a core's cache), and the longest of them, in bytes.
MEMO: Final = 1 << 13
MEMO_BYTES: Final = 23


@inlined
def memo_slot(h: Any) -> Any:
    """Where the word of a hash is remembered."""
    return np.int64(h ^ (h >> np.uint32(15))) & (MEMO - 1)


@inlined
def hash_byte(h: Any, byte: Any) -> Any:
    """One byte of FNV-1a as fastText has it: bytes are sign-extended before they are mixed in."""
    return ((h ^ np.uint32(np.int8(byte))) * np.uint32(16777619)) & np.uint32(0xFFFFFFFF)


@inlined
def packed(data: Any, start: Any, end: Any) -> Any:
    """A word's bytes and size as three integers, unique up to MEMO_BYTES bytes."""
    first: Any = np.int64(0)
    second: Any = np.int64(0)
    third: Any = np.int64(0)
    size = end - start
    for i in range(min(size, MEMO_BYTES)):
        byte = np.int64(data[start + i]) << (8 * (i & 7))
        if i < 8:
            first |= byte
        elif i < 16:
            second |= byte
        else:
            third |= byte
    return first, second, third | size << 56


@inlined
def find_word(data: Any, start: Any, end: Any, h: Any, table: Any, words: Any, word_offsets: Any) -> Any:
    """Number of the word data[start:end], -1 where the model does not know it."""
    mask = np.int64(table.shape[0] - 1)
    slot = np.int64(h) & mask
    while table[slot] >= 0:
        w = table[slot]
        a = word_offsets[w]
        if word_offsets[w + 1] - a == end - start:
            same = True
            for j in range(end - start):
                if words[a + j] != data[start + j]:
                    same = False
                    break
            if same:
                return w
        slot = (slot + 1) & mask
    return -1


_TAYLOR: Final = 1.0 / np.arange(12, 0, -1)


@inlined
def exp(x: Any) -> Any:
    """e^x in plain multiplications and additions (Cody-Waite reduction, Taylor to degree 12), relative error < 1e-14."""
    if x < -700.0:
        return 0.0
    k = np.int64(np.floor(x * 1.4426950408889634 + 0.5))
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    p = 1.0
    for i in range(_TAYLOR.shape[0]):
        p = 1.0 + p * r * _TAYLOR[i]
    return p * np.int64((k + 1023) << 52).view(np.float64)


@inlined
def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + exp(-x)) if x > -30.0 else exp(x)


@inlined
def stepped_sigmoid(x: Any) -> Any:
    """What fastText computes for one-vs-all and negative sampling: a table of 512 steps between -8 and 8."""
    if x < -8.0:
        return 0.0
    if x > 8.0:
        return 1.0
    return sigmoid(np.floor((x + 8.0) * 512.0 / 16.0) * 16.0 / 512.0 - 8.0)
