"""Which texts are in Unicode normalisation form C beyond doubt, in one pass over their bytes.

A text is in NFC if all its characters are assigned, have combining class 0, are their own NFC and never compose with what is
in front (UAX #15, NFC_Quick_Check = Yes). What is unassigned in this Python's Unicode version is doubted, since another
version may know it; for assigned characters all versions agree (Unicode's stability policy).
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

import numpy as np

from stages.kernels.jit import kernel
from stages.kernels.utf8 import code_point

_PLANES = ((0, 0xD800), (0xF900, 0x20000), (0x20000, 0x32000))


@cache
def inert_characters() -> np.ndarray:
    """bool (0x110000,): characters of which a text may be made and be in NFC for certain."""
    table = np.zeros(0x110000, np.bool_)
    second = {chr(c) for c in [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]}  # Hangul vowels and finals
    kept = []
    for first, last in _PLANES:
        for code in range(first, last):
            char = chr(code)
            parts = unicodedata.decomposition(char)
            if parts and parts[0] != "<" and " " in parts:
                second.add(chr(int(parts.split(" ")[1], 16)))
            if unicodedata.category(char) != "Cn" and not unicodedata.combining(char):
                kept.append(char)
    for char in kept:
        table[ord(char)] = char not in second and (char < "\u00c0" or unicodedata.is_normalized("NFC", char))
    table[0xAC00:0xD7A4] = True
    table.flags.writeable = False
    return table


@kernel
def flag_doubtful(
    inert: np.ndarray, offsets: np.ndarray, data: np.ndarray, valid: np.ndarray, doubtful: np.ndarray
) -> Any:
    """Set doubtful[i] (bool) for each valid row that may not be in NFC; how many there are."""
    count = 0
    for row in range(valid.shape[0]):
        doubtful[row] = False
        if not valid[row]:
            continue
        p = offsets[row]
        end = offsets[row + 1]
        while p < end:
            b = np.int64(data[p])
            if b < 0x80:
                p += 1
                continue
            code, size = code_point(data, p)
            p += size
            if not inert[code]:
                doubtful[row] = True
                count += 1
                break
    return count
