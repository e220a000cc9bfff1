# ruff: noqa: SIM109 - comparisons are cheaper to compile than membership in a tuple
"""Words as spaCy's English tokenizer cuts them, punctuation marks included: the word unit of datatrove's filters.

What white space separates is peeled from both ends (punctuation, quotes, currency, symbols, units after digits, 's), unless
what is left is a known contraction or abbreviation; the rest is kept whole if it is a web address, else cut inside (at
ellipses, at hyphens, colons, slashes and commas between letters). This restates the published rules of spaCy 3.8 for
English on code points; on web pages it cuts like spaCy in all but about one word in a thousand.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.affix_address import is_address
from stages.kernels.affix_tables import (
    CURRENCY,
    HASH_BASE,
    HASH_PRIME,
    ICON,
    IS_DIGIT,
    IS_PUNCTUATION,
    LETTER,
    LETTERS,
    LONGEST_SPECIAL,
    LOWERCASE,
    MARKS,
    NOT_SYMBOL,
    PERIOD,
    PREFIX,
    QUOTE,
    SUFFIX,
    UPPERCASE,
    WHITE,
)
from stages.kernels.jit import inner, kernel
from stages.kernels.unicode_classes import decode


class Chunk(NamedTuple):
    """What white space separates, as code points; scratch for one after the other.

    Attributes:
        points: int32, code points.
        traits: uint16, their bits.
        at: int64, positions in the document; one more than points.
        suffixes: int32, where suffixes begin, outermost first.
    """

    points: np.ndarray
    traits: np.ndarray
    at: np.ndarray
    suffixes: np.ndarray


def make_chunk(size: int) -> Chunk:
    """Room for chunks of up to `size` bytes."""
    return Chunk(
        np.empty(size, np.int32), np.empty(size, np.uint16), np.empty(size + 1, np.int64), np.empty(size, np.int32)
    )


# What `Words.kinds` holds here.
HAS_LETTER: Final = 1
HAS_TEXT: Final = 2  # a character datatrove does not call punctuation
ALL_PUNCTUATION: Final = 4
ENDS_SENTENCE: Final = 8

_DOT, _PLUS, _DOLLAR, _COMMA, _HYPHEN, _TILDE = 0x2E, 0x2B, 0x24, 0x2C, 0x2D, 0x7E
_EN_DASH, _EM_DASH, _ELLIPSIS, _APOSTROPHE, _CURLY_APOSTROPHE = 0x2013, 0x2014, 0x2026, 0x27, 0x2019


@kernel
def split_affixes(text: Any, tables: Any, chunk: Any, words: Any) -> Any:
    """Words of a document (uint8, UTF-8) into `words`, from index 0; returns how many.

    `Words.hash` is the polynomial of `string_hash`, `Words.kinds` are HAS_LETTER and the like.
    """
    n = size = 0
    i, end = 0, text.shape[0]
    h = np.uint64(0)
    common = np.uint16(0xFFFF)
    while i < end:
        cp, after = decode(text, i, end)
        traits = tables.traits[cp]
        if not traits & WHITE:
            chunk.points[size], chunk.traits[size], chunk.at[size] = cp, traits, i
            h = h * HASH_BASE + np.uint64(cp + 1)
            common &= traits
            size += 1
        if size and (traits & WHITE or after == end):
            chunk.at[size] = i if traits & WHITE else after
            if common & LETTER and (size > LONGEST_SPECIAL or _find(h, tables.keys) < 0):
                # Letters only, as most are: nothing to peel or to cut.
                words.start[n], words.end[n], words.hash[n] = chunk.at[0], chunk.at[size], h
                words.chars[n], words.kinds[n] = size, HAS_LETTER | HAS_TEXT
                n += 1
            else:
                n = _split_chunk(size, tables, chunk, words, n)
            size = 0
            h, common = np.uint64(0), np.uint16(0xFFFF)
        i = after
    return n


@inner
def _emit(start: Any, end: Any, chunk: Any, words: Any, n: Any) -> Any:
    h = np.uint64(0)
    seen = np.uint16(0)
    common = np.uint16(0xFFFF)
    for k in range(start, end):
        h = h * HASH_BASE + np.uint64(chunk.points[k] + 1)
        seen |= chunk.traits[k]
        common &= chunk.traits[k]
    kinds = HAS_LETTER if seen & LETTER else 0
    kinds |= HAS_TEXT if seen & NOT_SYMBOL else 0
    kinds |= ALL_PUNCTUATION if common & IS_PUNCTUATION else 0
    kinds |= ENDS_SENTENCE if end - start == 1 and common & PERIOD else 0
    words.start[n], words.end[n], words.hash[n] = chunk.at[start], chunk.at[end], h
    words.chars[n], words.kinds[n] = end - start, kinds
    return n + 1


@inner
def _special(start: Any, end: Any, tables: Any, chunk: Any) -> Any:
    """Slot of the string in the table, -1 if it is not there."""
    if not 0 < end - start <= LONGEST_SPECIAL:
        return -1
    h = np.uint64(0)
    for k in range(start, end):
        h = h * HASH_BASE + np.uint64(chunk.points[k] + 1)
    return _find(h, tables.keys)


@kernel
def _find(h: Any, keys: Any) -> Any:
    """Slot of a hash in the table, -1 if it is not there."""
    mask = keys.shape[0] - 1
    slot = np.int64((h * HASH_PRIME) >> np.uint64(32)) & mask
    while keys[slot] != np.uint64(0):
        if keys[slot] == h:
            return slot
        slot = (slot + 1) & mask
    return -1


@inner
def _split_chunk(size: Any, tables: Any, chunk: Any, words: Any, n: Any) -> Any:
    """Words of one chunk, appended; returns how many words there are now."""
    first = n
    start, end = 0, size
    suffixes = 0
    special = -1
    while start < end:
        special = _special(start, end, tables, chunk)
        if special >= 0:
            break
        prefix = _prefix(start, end, chunk)
        if prefix:
            special = _special(start + prefix, end, tables, chunk)
            if special >= 0:
                n = _emit(start, start + prefix, chunk, words, n)
                start += prefix
                break
        suffix = _suffix(start + prefix, end, tables, chunk)
        if suffix:
            special = _special(start, end - suffix, tables, chunk)
            if special >= 0:
                chunk.suffixes[suffixes] = end - suffix
                suffixes += 1
                end -= suffix
                break
        if not prefix and not suffix:
            break
        if prefix:
            n = _emit(start, start + prefix, chunk, words, n)
            start += prefix
        if suffix and start < end:
            chunk.suffixes[suffixes] = end - suffix
            suffixes += 1
            end -= suffix
    if start < end:
        if special >= 0:
            begin = start
            for k in range(3):
                if tables.cuts[special, k]:
                    n = _emit(begin, start + tables.cuts[special, k], chunk, words, n)
                    begin = start + tables.cuts[special, k]
            n = _emit(begin, end, chunk, words, n)
        elif is_address(start, end, chunk):
            n = _emit(start, end, chunk, words, n)
        else:
            n = _split_inside(start, end, chunk, words, n)
    for k in range(suffixes - 1, -1, -1):
        begin = chunk.suffixes[k]
        n = _emit(begin, chunk.suffixes[k - 1] if k else size, chunk, words, n)
    return _join_pairs(first, n, tables, words)


@inner
def _join_pairs(first: Any, n: Any, tables: Any, words: Any) -> Any:
    """Put together neighbours that are known as one, the second of one character: ``)`` and ``:``, or ``e.g`` and a stop."""
    kept = k = first
    while k < n:
        joined = False
        if k + 1 < n and words.chars[k + 1] == 1 and words.chars[k] < LONGEST_SPECIAL:
            h = words.hash[k] * HASH_BASE + words.hash[k + 1]
            slot = _find(h, tables.keys)
            if slot >= 0 and tables.cuts[slot, 0] == 0:
                words.start[kept], words.end[kept], words.hash[kept] = words.start[k], words.end[k + 1], h
                kinds = (words.kinds[k] | words.kinds[k + 1]) & (HAS_LETTER | HAS_TEXT)
                words.kinds[kept] = kinds | (words.kinds[k] & words.kinds[k + 1] & ALL_PUNCTUATION)
                words.chars[kept] = words.chars[k] + 1
                joined = True
        if not joined and kept < k:
            words.start[kept], words.end[kept], words.hash[kept] = words.start[k], words.end[k], words.hash[k]
            words.chars[kept], words.kinds[kept] = words.chars[k], words.kinds[k]
        kept += 1
        k += 2 if joined else 1
    return kept


@inner
def _prefix(start: Any, end: Any, chunk: Any) -> Any:
    """Code points of the prefix of the string, 0 if it has none."""
    c = chunk.points[start]
    if chunk.traits[start] & PREFIX:
        return 1
    if c == _DOT:
        k = start + 1
        while k < end and chunk.points[k] == _DOT:
            k += 1
        return k - start if k - start > 1 else 0
    if c == _PLUS:
        return 0 if start + 1 < end and chunk.traits[start + 1] & IS_DIGIT else 1
    if (c == 0x41 or c == 0x43) and start + 1 < end and chunk.points[start + 1] == _DOLLAR:  # A$ C$
        return 2
    us = c == 0x55 and start + 2 < end and chunk.points[start + 1] == 0x53
    return 3 if us and chunk.points[start + 2] == _DOLLAR else 0


@inner
def _suffix(start: Any, end: Any, tables: Any, chunk: Any) -> Any:
    """Code points of the suffix of the string, 0 if it has none."""
    if start >= end:
        return 0
    c = chunk.points[end - 1]
    if c == _DOT:
        return _stop_suffix(start, end, chunk)
    before = chunk.traits[end - 2] if end - start > 1 else np.uint16(0)
    if c == _ELLIPSIS and end - start > 1 and chunk.points[end - 2] == _ELLIPSIS:
        return 2
    if (c == 0x73 or c == 0x53) and before:  # 's
        apostrophe = chunk.points[end - 2]
        if apostrophe == _APOSTROPHE or apostrophe == _CURLY_APOSTROPHE:
            return 2
    if chunk.traits[end - 1] & SUFFIX:
        return 1
    if (c == _PLUS or chunk.traits[end - 1] & CURRENCY) and before & IS_DIGIT:
        return 1
    return _unit_suffix(start, end, tables, chunk)


@inner
def _stop_suffix(start: Any, end: Any, chunk: Any) -> Any:
    """The suffix of a string that ends in a full stop."""
    k = end - 1
    while k > start and chunk.points[k - 1] == _DOT:
        k -= 1
    if end - k > 1:
        return end - k
    if k == start:
        return 0
    before = chunk.traits[k - 1]
    if before & (IS_DIGIT | LOWERCASE | MARKS):
        return 1
    capitals = before & UPPERCASE and k - 1 > start
    if capitals and (chunk.traits[k - 2] & UPPERCASE or chunk.points[k - 2] == 0xB0):  # °C.
        return 1
    return 0


@inner
def _unit_suffix(start: Any, end: Any, tables: Any, chunk: Any) -> Any:
    """Code points of the unit of measurement behind a digit."""
    for length in range(min(4, end - start - 1), 0, -1):
        if not chunk.traits[end - length - 1] & IS_DIGIT:
            continue
        h = np.uint64(0)
        for k in range(end - length, end):
            h = h * HASH_BASE + np.uint64(chunk.points[k] + 1)
        for u in range(tables.units.shape[0]):
            if tables.units[u] == h:
                return length
    return 0


@inner
def _split_inside(start: Any, end: Any, chunk: Any, words: Any, n: Any) -> Any:
    begin = k = start
    while k < end:
        length = _infix(start, k, end, chunk)
        if length == 0:
            k += 1
            continue
        if k != start:
            if k != begin:
                n = _emit(begin, k, chunk, words, n)
            n = _emit(k, k + length, chunk, words, n)
            begin = k + length
        k += length
    if begin < end:
        n = _emit(begin, end, chunk, words, n)
    return n


@inner
def _infix(start: Any, k: Any, end: Any, chunk: Any) -> Any:
    """Code points of the infix at `k`, 0 if there is none."""
    c = chunk.points[k]
    if c == _ELLIPSIS or chunk.traits[k] & ICON:
        return 1
    before = chunk.traits[k - 1] if k > start else np.uint16(0)
    after = chunk.traits[k + 1] if k + 1 < end else np.uint16(0)
    if c == _DOT:
        run = k + 1
        while run < end and chunk.points[run] == _DOT:
            run += 1
        if run - k > 1:
            return run - k
        return 1 if before & (LOWERCASE | QUOTE) and after & (UPPERCASE | QUOTE) else 0
    arithmetic = c == _PLUS or c == _HYPHEN or c == 0x2A or c == 0x5E  # + - * ^
    if arithmetic and before & IS_DIGIT and (after & IS_DIGIT or (k + 1 < end and chunk.points[k + 1] == _HYPHEN)):
        return 1
    if c == _COMMA:
        return 1 if before & LETTERS and after & LETTERS else 0
    if not before & (LETTERS | IS_DIGIT):
        return 0
    if c == 0x3A or c == 0x3C or c == 0x3E or c == 0x3D or c == 0x2F:  # : < > = /
        return 1 if after & LETTERS else 0
    if c == _HYPHEN or c == _EN_DASH or c == _EM_DASH or c == _TILDE:
        run = k + 1
        longest = 3 if c == _HYPHEN else (2 if c == _EM_DASH else 1)
        while run < end and run - k < longest and chunk.points[run] == c:
            run += 1
        return run - k if run < end and chunk.traits[run] & LETTERS else 0
    return 0
