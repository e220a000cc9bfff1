"""Text as a sequence of unit hashes, the n-grams of which are what near-duplicate search compares.

Units, by script and not by language, so that a wrong language label cannot hide a duplicate and mixed pages work:

    words       runs of letters and digits (with the marks on them), in lower case; every Han and kana character, and every
                character of a script without spaces (Thai, Khmer, …; with its marks), is a unit of its own;
                everything else separates
    characters  every character, in lower case; runs of white space are one space, none at the ends

A text with fewer units than the n-gram has exactly one shingle, made of all of them and their number: such documents
share a shingle only if they are equal unit for unit. A text without units has none.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from stages.kernels.jit import inlined, kernel
from stages.kernels.unicode_classes import (
    ALPHA,
    DIGIT,
    HAN,
    KANA,
    MARK,
    NUMBER,
    SPACE,
    UNSPACED,
    decode,
    lower_table,
    unicode_tables,
)

# Bits of the mode.
CHARACTERS: Final = 1
DIGITS_ALIKE: Final = 2  # every digit counts as 0, as in FineWeb's recipe

#: Units that a kernel holds at a time.
BLOCK: Final = 4096

_SEED: Final = np.uint64(0xCBF29CE484222325)  # FNV-1a's offset and prime, over code points instead of bytes
_PRIME: Final = np.uint64(0x100000001B3)
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)  # of the polynomial over unit hashes; odd
_SPACE_UNIT: Final = 0x20
_WORD: Final = ALPHA | NUMBER
_ALONE: Final = HAN | KANA | UNSPACED


class Tables(NamedTuple):
    """What the kernels look characters up in.

    Attributes:
        ascii: uint8 (128,), what a byte counts as; 0 separates.
        classes, flags: see `unicode_classes.Unicode`.
        lower: see `unicode_classes.lower_table`.
    """

    ascii: np.ndarray
    classes: np.ndarray
    flags: np.ndarray
    lower: np.ndarray


def tables(mode: int) -> Tables:
    """The tables for a mode (CHARACTERS, DIGITS_ALIKE, or'ed)."""
    unicode = unicode_tables()
    table = np.zeros(128, np.uint8)
    for c in range(128):
        char = chr(c)
        if char.isalnum() or (mode & CHARACTERS and not char.isspace()):
            table[c] = ord("0") if mode & DIGITS_ALIKE and char.isdigit() else ord(char.lower())
    return Tables(table, unicode.classes, unicode.flags, lower_table())


@kernel
def next_units(
    data: Any,
    i: Any,
    end: Any,
    mode: Any,
    ascii_table: Any,
    classes: Any,
    flags: Any,
    lower: Any,
    units: Any,
    k: Any,
    limit: Any,
) -> Any:
    """Append unit hashes of data[i:end] to `units` from position k until there are `limit` (or one more).

    Returns:
        (k, i): units held, and where to go on: always between two units.
    """
    h = _SEED
    inside = False  # of a word; for characters: behind white space that has not been written yet
    while i < end and k < limit:
        b = data[i]
        cp = np.int64(b)
        following = i + 1
        if b < 0x80:
            c = ascii_table[b]
            if not mode & CHARACTERS:
                i = following
                if c:
                    h = (h ^ np.uint64(c)) * _PRIME
                    inside = True
                elif inside:
                    units[k] = h
                    k += 1
                    h = _SEED
                    inside = False
                continue
            cp = np.int64(c)
            space = c == 0
            kind = np.uint32(0)
        else:
            cp, following = decode(data, i, end)
            kind = flags[classes[cp]]
            space = kind & SPACE != 0
            if mode & DIGITS_ALIKE and kind & DIGIT:
                cp = np.int64(0x30)
            elif cp < 0x20000:
                cp = np.int64(lower[cp])
        if mode & CHARACTERS:
            i = following
            if space:
                inside = k > 0
                continue
            if inside:
                units[k] = (_SEED ^ np.uint64(0x20)) * _PRIME
                k += 1
                inside = False
            units[k] = (_SEED ^ np.uint64(cp)) * _PRIME
            k += 1
        elif kind & _ALONE and not kind & MARK:
            if inside:
                units[k] = h
                k += 1
                h = _SEED
                inside = False
            i = following
            unit = (_SEED ^ np.uint64(cp)) * _PRIME
            while kind & UNSPACED and i < end and data[i] >= 0x80:
                mark, after = decode(data, i, end)
                if not flags[classes[mark]] & MARK:
                    break
                unit = (unit ^ np.uint64(mark)) * _PRIME
                i = after
            units[k] = unit
            k += 1
        else:
            i = following
            if kind & _WORD or (inside and kind & MARK):
                h = (h ^ np.uint64(cp)) * _PRIME
                inside = True
            elif inside and not kind & MARK:
                units[k] = h
                k += 1
                h = _SEED
                inside = False
    if inside and not mode & CHARACTERS:
        units[k] = h  # only at the end of the text: a full block ends behind a unit
        k += 1
    return k, i


@inlined
def mix(h: Any) -> Any:
    """The 64-bit finaliser of MurmurHash3, a bijection."""
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@kernel
def hash_shingles(units: Any, k: Any, n: Any, out: Any) -> Any:
    """Write the 64-bit hashes of the n-grams of units[:k], mix of a polynomial rolled along; returns how many.

    Fewer than n units make one n-gram of all of them; none make none.
    """
    if k == 0:
        return 0
    power = np.uint64(1)
    acc = np.uint64(0)
    for j in range(min(n, k)):
        acc = acc * _BASE + units[j]
        power *= _BASE
    if k < n:
        out[0] = mix(acc ^ (np.uint64(n - k) << np.uint64(48)))
        return 1
    out[0] = mix(acc)
    for j in range(n, k):
        acc = acc * _BASE + units[j] - units[j - n] * power
        out[j - n + 1] = mix(acc)
    return k - n + 1


@kernel
def _sets(
    data: Any,
    offsets: Any,
    n: Any,
    mode: Any,
    ascii_table: Any,
    classes: Any,
    flags: Any,
    lower: Any,
    units: Any,
    out: Any,
    starts: Any,
) -> Any:
    at = 0
    for d in range(offsets.shape[0] - 1):
        starts[d] = at
        i = offsets[d]
        end = offsets[d + 1]
        k, i = next_units(data, i, end, mode, ascii_table, classes, flags, lower, units, 0, BLOCK)
        at += hash_shingles(units, k, n, out[at:])
        while i < end:
            for j in range(n - 1):
                units[j] = units[k - n + 1 + j]
            k, i = next_units(data, i, end, mode, ascii_table, classes, flags, lower, units, n - 1, BLOCK)
            if k >= n:
                at += hash_shingles(units, k, n, out[at:])
    starts[offsets.shape[0] - 1] = at


@njit(nogil=True, cache=True)
def _distinct(hashes: Any, starts: Any) -> Any:
    at = 0
    for d in range(starts.shape[0] - 1):
        piece = hashes[starts[d] : starts[d + 1]]
        piece.sort()
        starts[d] = at
        for j in range(piece.shape[0]):
            if j == 0 or piece[j] != piece[j - 1]:
                hashes[at] = piece[j]
                at += 1
    starts[starts.shape[0] - 1] = at


def shingle_sets(data: np.ndarray, offsets: np.ndarray, n: int, mode: int, room: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct shingles of each document.

    Args:
        data: uint8 array of UTF-8.
        offsets: int64 array of shape (documents + 1,).
        n: units in a shingle, at most 1,000.
        mode: CHARACTERS and DIGITS_ALIKE, or'ed.
        room: at least the number of shingles, repetitions included: max(1, units - n + 1) over the documents.

    Returns:
        (hashes, starts): uint64 array, ascending and distinct within a document; int64 array (documents + 1,).
    """
    out = np.empty(room + 1, np.uint64)
    starts = np.zeros(len(offsets), np.int64)
    _sets(data, offsets, n, mode, *tables(mode), np.empty(BLOCK + 2, np.uint64), out, starts)
    _distinct(out, starts)
    return out[: starts[-1]], starts
