"""Text as exact deduplication compares it: white space removed, letters in lower case.

Reads Arrow buffers of UTF-8; writes new ones, never longer. 0.5 to 1 GB/s on one core.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import kernel
from stages.kernels.unicode_classes import SPACE, decode, lower_table, unicode_tables

DROP_SPACE: Final = 1
LOWER: Final = 2


@kernel
def _fold(
    data: Any,
    offsets: Any,
    mode: Any,
    ascii_table: Any,
    classes: Any,
    flags: Any,
    lower: Any,
    out: Any,
    out_offsets: Any,
) -> Any:
    k = 0
    for d in range(offsets.shape[0] - 1):
        i = offsets[d]
        end = offsets[d + 1]
        out_offsets[d] = k
        while i < end:
            b = data[i]
            if b < 0x80:
                c = ascii_table[b]
                out[k] = c
                k += c != 0xFF  # the byte is written anyway and overwritten by the next: no branch to mispredict
                i += 1
                continue
            # Han and Hangul have neither case nor space; U+A000 to U+ABFF, where Cyrillic and Latin letters lie, goes below.
            if 0xE4 <= b <= 0xED and i + 2 < end and (b != 0xEA or data[i + 1] >= 0xB0):
                out[k] = b
                out[k + 1] = data[i + 1]
                out[k + 2] = data[i + 2]
                k += 3
                i += 3
                continue
            cp, following = decode(data, i, end)
            if mode & DROP_SPACE and flags[classes[cp]] & SPACE:
                i = following
                continue
            low = cp
            if mode & LOWER and cp < 0x20000:
                low = np.int64(lower[cp])
            if low == cp or (
                low >= 0x800 and cp < 0x800
            ):  # unchanged, or it would grow: U+023A, U+023E stay as they are
                while i < following:
                    out[k] = data[i]
                    k += 1
                    i += 1
            elif low < 0x80:
                out[k] = low
                k += 1
                i = following
            elif low < 0x800:
                out[k] = 0xC0 | (low >> 6)
                out[k + 1] = 0x80 | (low & 0x3F)
                k += 2
                i = following
            elif low < 0x10000:
                out[k] = 0xE0 | (low >> 12)
                out[k + 1] = 0x80 | ((low >> 6) & 0x3F)
                out[k + 2] = 0x80 | (low & 0x3F)
                k += 3
                i = following
            else:
                out[k] = 0xF0 | (low >> 18)
                out[k + 1] = 0x80 | ((low >> 12) & 0x3F)
                out[k + 2] = 0x80 | ((low >> 6) & 0x3F)
                out[k + 3] = 0x80 | (low & 0x3F)
                k += 4
                i = following
    out_offsets[offsets.shape[0] - 1] = k


def fold(data: np.ndarray, offsets: np.ndarray, mode: int) -> tuple[np.ndarray, np.ndarray]:
    """Fold each value.

    Args:
        data: uint8 array of UTF-8.
        offsets: int64 array of shape (n + 1,), as from `buffers.text_buffers`.
        mode: DROP_SPACE (every character of `str.isspace`) and LOWER (Unicode's one-to-one lower case), or'ed.

    Returns:
        (data, offsets) of the folded values, uint8 and int64 (n + 1,), starting at 0.
    """
    tables = unicode_tables()
    ascii_table = np.arange(256, dtype=np.uint8)
    if mode & LOWER:
        ascii_table[ord("A") : ord("Z") + 1] += 32
    if mode & DROP_SPACE:
        ascii_table[[c for c in range(128) if chr(c).isspace()]] = 0xFF
    size = int(offsets[-1] - offsets[0]) if len(offsets) > 1 else 0
    out = np.empty(size + 4, np.uint8)
    out_offsets = np.zeros(len(offsets), np.int64)
    _fold(data, offsets, mode, ascii_table, tables.classes, tables.flags, lower_table(), out, out_offsets)
    return out, out_offsets
