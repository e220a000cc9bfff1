"""What a character is: one table from code points to a small class, and small tables from classes to properties.

Kernels look a character up as ``flags[classes[code_point]] & SPACE``. The 1.1 MB table is touched only where a text's scripts
lie, the 256-entry ones stay in the first-level cache. Pinned to one Unicode version (17.0), whatever the interpreter's is.
"""

from __future__ import annotations

import base64
import struct
import zlib
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels._unicode_ranges import CLASSES, RUNS
from stages.kernels.jit import inlined

CODE_POINTS: Final = 0x110000
REPLACEMENT: Final = 0xFFFD

# Property bits, in the order make_unicode_ranges.py writes them.
SPACE: Final = 1 << 0  # as str.isspace()
ALPHA: Final = 1 << 1  # L*, as str.isalpha()
UPPER: Final = 1 << 2
LOWER: Final = 1 << 3
DIGIT: Final = 1 << 4  # Nd
NUMBER: Final = 1 << 5  # N*
PUNCTUATION: Final = 1 << 6  # P*
SYMBOL: Final = 1 << 7  # S*
MARK: Final = 1 << 8  # M*
HAN: Final = 1 << 9
KANA: Final = 1 << 10  # hiragana and katakana
HANGUL: Final = 1 << 11
UNSPACED: Final = 1 << 12  # scripts that put no spaces between words: Thai, Lao, Khmer, Burmese, Tibetan and their like
TERMINAL: Final = 1 << 13  # Sentence_Terminal: . ? ! of every script
CLOSING: Final = 1 << 14  # brackets and quotes that may follow the end of a sentence
GARBAGE: Final = 1 << 15  # controls, private use, unassigned, U+FFFD: what broken decoding leaves behind
PICTOGRAPH: Final = 1 << 16  # emoji and their like
ICON: Final = 1 << 17  # So: symbols that are neither currency, nor mathematics, nor modifiers

# Word_Break values (UAX #29, table 3).
WB_OTHER: Final = 0
WB_CR: Final = 1
WB_LF: Final = 2
WB_NEWLINE: Final = 3
WB_EXTEND: Final = 4
WB_ZWJ: Final = 5
WB_FORMAT: Final = 6
WB_KATAKANA: Final = 7
WB_HEBREW_LETTER: Final = 8
WB_ALETTER: Final = 9
WB_SINGLE_QUOTE: Final = 10
WB_DOUBLE_QUOTE: Final = 11
WB_MID_NUM_LET: Final = 12
WB_MID_LETTER: Final = 13
WB_MID_NUM: Final = 14
WB_NUMERIC: Final = 15
WB_EXTEND_NUM_LET: Final = 16
WB_WSEG_SPACE: Final = 17
WB_REGIONAL_INDICATOR: Final = 18


class Unicode(NamedTuple):
    """The tables, as kernels take them.

    Attributes:
        classes: uint8 (0x110000,), code point -> class.
        flags: uint32 (256,), class -> property bits.
        breaks: uint8 (256,), class -> Word_Break value.
    """

    classes: np.ndarray
    flags: np.ndarray
    breaks: np.ndarray


@cache
def unicode_tables() -> Unicode:
    """The tables; built once per process in a few milliseconds."""
    packed = zlib.decompress(base64.b85decode("".join(RUNS)))
    runs = list(struct.iter_unpack("<IB", packed))
    lengths = np.array([length for length, _ in runs])
    classes = np.repeat(np.array([c for _, c in runs], np.uint8), lengths)
    flags = np.zeros(256, np.uint32)
    breaks = np.zeros(256, np.uint8)
    flags[: len(CLASSES)] = [f for f, _ in CLASSES]
    breaks[: len(CLASSES)] = [b for _, b in CLASSES]
    for table in (classes, flags, breaks):
        table.flags.writeable = False
    return Unicode(classes, flags, breaks)


@cache
def lower_table() -> np.ndarray:
    """int32 (0x20000,): simple lower case of the code points that have one, themselves otherwise.

    Only one-to-one mappings, which Unicode's stability policy fixes for good; U+0130 stays as it is.
    """
    tables = unicode_tables()
    table = np.arange(0x20000, dtype=np.int32)
    flags = tables.flags[tables.classes[: len(table)]]
    # Title-case letters carry neither UPPER nor LOWER.
    for cp in np.flatnonzero((flags & (UPPER | ALPHA) != 0) & (flags & (LOWER | HAN | HANGUL) == 0)):
        lower = chr(cp).lower()
        if len(lower) == 1:
            table[cp] = ord(lower)
    table.flags.writeable = False
    return table


@inlined
def decode(data: Any, i: Any, end: Any) -> Any:
    """(code point, next position) of the UTF-8 sequence at data[i]; a malformed byte is one U+FFFD. Never reads past `end`."""
    b = data[i]
    if b < 0x80:
        return np.int64(b), i + 1
    if 0xC2 <= b < 0xE0 and i + 1 < end:
        return ((np.int64(b) & 0x1F) << 6) | (np.int64(data[i + 1]) & 0x3F), i + 2
    if 0xE0 <= b < 0xF0 and i + 2 < end:
        cp = ((np.int64(b) & 0x0F) << 12) | ((np.int64(data[i + 1]) & 0x3F) << 6) | (np.int64(data[i + 2]) & 0x3F)
        return cp, i + 3
    if 0xF0 <= b < 0xF5 and i + 3 < end:
        cp = (
            ((np.int64(b) & 0x07) << 18)
            | ((np.int64(data[i + 1]) & 0x3F) << 12)
            | ((np.int64(data[i + 2]) & 0x3F) << 6)
            | (np.int64(data[i + 3]) & 0x3F)
        )
        if cp < CODE_POINTS:
            return cp, i + 4
    return np.int64(REPLACEMENT), i + 1


@inlined
def previous(data: Any, start: Any, i: Any) -> Any:
    """Where the UTF-8 sequence that ends before `i` begins; never before `start`."""
    i -= 1
    lowest = max(start, i - 3)
    while i > lowest and data[i] & 0xC0 == 0x80:
        i -= 1
    return i
