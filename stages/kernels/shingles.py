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

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import inlined, inner, kernel
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

NOT_ASCII: Final = 1
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
        ascii: uint8 (256,), what a byte counts as in a word; 0 separates, NOT_ASCII is what it says.
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
    table = np.full(256, NOT_ASCII, np.uint8)
    for c in range(128):
        char = chr(c)
        digit = char.isdigit() and mode & DIGITS_ALIKE
        table[c] = ord("0") if digit else ord(char.lower()) if char.isalnum() else 0
    return Tables(table, unicode.classes, unicode.flags, lower_table())


@inlined
def next_units(data: Any, i: Any, end: Any, mode: Any, lookup: Any, units: Any, k: Any, limit: Any) -> Any:
    """Append unit hashes of data[i:end] to `units` from position k until there are `limit` (or one more).

    Args:
        lookup: from `tables(mode)`.

    Returns:
        (k, i): units held, and where to go on: always between two units.
    """
    if mode & CHARACTERS:
        return _next_characters(data, i, end, mode, lookup, units, k, limit)
    return _next_words(data, i, end, mode, lookup, units, k, limit)


@inner
def _next_words(data: Any, i: Any, end: Any, mode: Any, lookup: Any, units: Any, k: Any, limit: Any) -> Any:
    h = _SEED
    inside = np.int64(0)
    while i < end and k < limit:
        # ASCII without a branch on where words end, which would be mispredicted at every one: 310 MB/s, 170 with it
        stop = min(end, i + limit - k)
        while i < stop:
            c = lookup.ascii[data[i]]
            if c == NOT_ASCII:
                break
            word = np.int64(c > NOT_ASCII)
            units[k] = h
            k += inside & (1 - word)
            h = (h ^ np.uint64(c)) * _PRIME if word else _SEED
            inside = word
            i += 1
        if i >= stop:
            continue
        b = data[i]
        if 0xE4 <= b <= 0xE9 and i + 2 < end and (b > 0xE4 or data[i + 1] >= 0xB8):  # U+4E00 to U+9FFF, all of it Han
            units[k] = h
            k += inside
            h = _SEED
            inside = np.int64(0)
            cp = (np.int64(b) & 0x0F) << 12 | (np.int64(data[i + 1]) & 0x3F) << 6 | (np.int64(data[i + 2]) & 0x3F)
            units[k] = (_SEED ^ np.uint64(cp)) * _PRIME
            k += 1
            i += 3
            continue
        cp, following = decode(data, i, end)
        kind = lookup.flags[lookup.classes[cp]]
        if kind & _ALONE and not kind & MARK:
            units[k] = h
            k += inside
            h = _SEED
            inside = np.int64(0)
            i = following
            unit = (_SEED ^ np.uint64(cp)) * _PRIME
            while kind & UNSPACED and i < end and data[i] >= 0x80:
                mark, after = decode(data, i, end)
                if not lookup.flags[lookup.classes[mark]] & MARK:
                    break
                unit = (unit ^ np.uint64(mark)) * _PRIME
                i = after
            units[k] = unit
            k += 1
            continue
        i = following
        if kind & _WORD or (inside and kind & MARK):
            h = (h ^ np.uint64(_plain(cp, kind, mode, lookup.lower))) * _PRIME
            inside = np.int64(1)
        elif not kind & MARK:
            units[k] = h
            k += inside
            h = _SEED
            inside = np.int64(0)
    if inside and i >= end:
        units[k] = h
        k += 1
    return k, i


@inlined
def _plain(cp: Any, kind: Any, mode: Any, lower: Any) -> Any:
    """The character it counts as."""
    if mode & DIGITS_ALIKE and kind & DIGIT:
        return np.int64(0x30)
    return np.int64(lower[cp]) if cp < 0x20000 else cp


@inner
def _next_characters(data: Any, i: Any, end: Any, mode: Any, lookup: Any, units: Any, k: Any, limit: Any) -> Any:
    space = False
    while i < end and k < limit:
        cp, following = decode(data, i, end)
        i = following
        kind = lookup.flags[lookup.classes[cp]]
        if kind & SPACE:
            space = k > 0
            continue
        if space:
            units[k] = (_SEED ^ np.uint64(0x20)) * _PRIME
            k += 1
            space = False
        units[k] = (_SEED ^ np.uint64(_plain(cp, kind, mode, lookup.lower))) * _PRIME
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


@inner
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
    lookup: Any,
    units: Any,
    out: Any,
    starts: Any,
) -> Any:
    at = 0
    for d in range(offsets.shape[0] - 1):
        starts[d] = at
        i = offsets[d]
        end = offsets[d + 1]
        k, i = next_units(data, i, end, mode, lookup, units, np.int64(0), np.int64(BLOCK))
        at += hash_shingles(units, k, n, out[at:])
        while i < end:
            for j in range(n - 1):
                units[j] = units[k - n + 1 + j]
            k, i = next_units(data, i, end, mode, lookup, units, n - 1, np.int64(BLOCK))
            if k >= n:
                at += hash_shingles(units, k, n, out[at:])
    starts[offsets.shape[0] - 1] = at


@kernel
def _compact(hashes: Any, starts: Any) -> Any:
    """Move the distinct ones of each document's ascending hashes together, in place; `starts` follow."""
    at = 0
    end = starts[0]
    for d in range(starts.shape[0] - 1):
        begin = end
        end = starts[d + 1]
        starts[d] = at
        for i in range(begin, end):
            if i == begin or hashes[i] != hashes[at - 1]:
                hashes[at] = hashes[i]
                at += 1
    starts[starts.shape[0] - 1] = at


def _distinct(hashes: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ascending distinct hashes of each document, made in place."""
    for a, b in pairwise(starts.tolist()):
        hashes[a:b].sort()
    _compact(hashes, starts)
    return hashes[: starts[-1]], starts


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
    _sets(data, offsets, n, mode, tables(mode), np.empty(BLOCK + 2, np.uint64), out, starts)
    return _distinct(out[: starts[-1]], starts)
