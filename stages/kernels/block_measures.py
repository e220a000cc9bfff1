# mypy: allow-untyped-defs, allow-untyped-calls
"""What is counted in the text of each block: words, stop words, sentence ends, capitals, and what the page's title shares.

Reads the text and blocks of `stages.kernels.blocks`, writes one row of integers a block. A CJK character counts as a word
by 1.6.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stages.kernels.block_words import WORD_HASH_SHIFT
from stages.kernels.blocks import END, START
from stages.kernels.html_scan import find
from stages.kernels.jit import inner, kernel

#: Columns of `measures`.
WORDS: Final = 0  # in CJK, characters by 1.6
STOPS: Final = 1
FURNITURE: Final = 2
ENDS: Final = 3  # sentence ends
COMMAS: Final = 4
CAPITALS: Final = 5  # words that begin with a capital
DIGITS: Final = 6
CJK: Final = 7
LAST_KIND: Final = 8  # of the last character: 1 sentence end, 2 colon, 3 comma, 4 letter or digit, 0 other
FIRST_KIND: Final = 9  # 1 small letter, 2 capital, 3 digit, 4 CJK, 0 other
SIGNS: Final = 10  # | © » › • · / >
LINES: Final = 11
LETTERS: Final = 12  # code points that are no space
BYTES: Final = 13
KIND: Final = 14  # of the block's element, see block_features.tag_kinds
HASH: Final = 15
IN_TITLE: Final = 16  # words, or pairs of CJK characters, that the title has too
PIECES: Final = 17  # words and CJK characters
GOOD: Final = 18  # looks like a sentence or more of running text
MEASURES: Final = 19
#: Words of the title that are remembered.
TITLE_SLOTS: Final = 64


@inner
def _title_slot(title, key):
    """Where a hash is, or would be, in the set of the title's words; -1 if the set is full."""
    i = key & (TITLE_SLOTS - 1)
    for _ in range(TITLE_SLOTS):
        if title[i] == 0 or title[i] == key:
            return i
        i = (i + 1) & (TITLE_SLOTS - 1)
    return -1


@kernel
def _measure(text, i, end, hashes, title, learn, row):
    """Fill a row of measures, except KIND, from text[i:end]; with `learn`, put its words into the set `title`."""
    row[BYTES] = end - i
    h = np.uint64(0xCBF29CE484222325)
    whole = np.uint64(0xCBF29CE484222325)
    in_word: bool = False
    capital: bool = False
    in_title = 0
    words = stops = furniture = ends = commas = capitals = digits = cjk = signs = lines = letters = 0
    previous = np.int64(0)
    last = 0
    first = -1
    while i < end:
        b = np.int64(text[i])
        size = 1
        code = b
        if b >= 0xF0:
            code = (b & 7) << 18 | (np.int64(text[i + 1]) & 63) << 12 | (np.int64(text[i + 2]) & 63) << 6
            code |= np.int64(text[i + 3]) & 63
            size = 4
        elif b >= 0xE0:
            code = (b & 15) << 12 | (np.int64(text[i + 1]) & 63) << 6 | (np.int64(text[i + 2]) & 63)
            size = 3
        elif b >= 0xC0:
            code = (b & 31) << 6 | (np.int64(text[i + 1]) & 63)
            size = 2
        wide = (code >= 0x3040 and code <= 0x30FF) or (code >= 0x3400 and code <= 0x9FFF) or code >= 0x20000
        letter = False
        if code < 128:
            letter = bool(((code | 32) >= 97 and (code | 32) <= 122) or (code >= 48 and code <= 57))
        elif not wide:
            letter = not (
                code < 0xC0
                or code == 0xD7
                or (code >= 0x2000 and code <= 0x2BFF)
                or (code >= 0x3000 and code <= 0x303F)
                or (code >= 0xFF00 and code <= 0xFFEF)
            )
        if code > 32:
            letters += 1
        if letter:
            if not in_word:
                in_word = True
                h = np.uint64(0xCBF29CE484222325)
                # capital: ASCII, Latin-1, Greek and Cyrillic
                capital = bool(
                    (code >= 65 and code <= 90) or (code >= 0xC0 and code <= 0xDE) or (code >= 0x391 and code <= 0x42F)
                )
                capital = capital and not (code >= 0x3B1 and code <= 0x3CE)
                words += 1
                if capital:
                    capitals += 1
            if code < 128:
                if code >= 65 and code <= 90:
                    h = (h ^ np.uint64(code + 32)) * np.uint64(0x100000001B3)
                else:
                    h = (h ^ np.uint64(code)) * np.uint64(0x100000001B3)
                    if code <= 57:
                        digits += 1
            else:
                if code >= 0x410 and code <= 0x42F:  # Cyrillic capitals; others keep their case
                    code += 32
                    h = (h ^ np.uint64(0xC0 | (code >> 6))) * np.uint64(0x100000001B3)
                    h = (h ^ np.uint64(0x80 | (code & 63))) * np.uint64(0x100000001B3)
                else:
                    for j in range(size):
                        h = (h ^ np.uint64(text[i + j])) * np.uint64(0x100000001B3)
        elif in_word:
            in_word = False
            key = np.int64(h >> np.uint64(1)) | 1
            whole = (whole ^ h) * np.uint64(0x100000001B3)
            found = find(hashes, 0, WORD_HASH_SHIFT, np.int64(h >> np.uint64(1)))
            stops += found & 1
            furniture += found >> 1
            slot = _title_slot(title, key)
            if learn and slot >= 0:
                title[slot] = key
            in_title += slot >= 0 and title[slot] == key
        if wide:
            cjk += 1
            whole = (whole ^ np.uint64(code)) * np.uint64(0x100000001B3)
            stops += find(hashes, 0, WORD_HASH_SHIFT, code | np.int64(1) << 62) & 1
            if previous:
                key = previous << 21 | code | np.int64(1) << 62
                slot = _title_slot(title, key)
                if learn and slot >= 0:
                    title[slot] = key
                in_title += slot >= 0 and title[slot] == key
                furniture += find(hashes, 0, WORD_HASH_SHIFT, previous << 21 | code | np.int64(1) << 62) >> 1
            previous = code
        else:
            previous = np.int64(0)
        kind = 4 if letter or wide else 0
        if (
            code == 46
            or code == 33
            or code == 63
            or code == 0x3002
            or code == 0xFF01
            or code == 0xFF1F
            or code == 0x2026
        ):
            kind = 1
            if i + size >= end or text[i + size] <= 34 or code > 127 or text[i + size] == 0xE2:
                ends += 1
        elif code == 58 or code == 0xFF1A:
            kind = 2
        elif code == 44 or code == 59 or code == 0xFF0C or code == 0x3001 or code == 0xFF1B:
            kind = 3
            commas += 1
        elif (
            code == 124
            or code == 0xA9
            or code == 0xBB
            or code == 0x203A
            or code == 0x2022
            or code == 0xB7
            or code == 47
        ):
            signs += 1
        if code == 10:
            lines += 1
        closing = code == 34 or code == 39 or code == 41 or code == 0x201D or code == 0x2019 or code == 0x300D
        if code > 32 and not (closing and last == 1):
            last = kind
        if first < 0 and code > 32 and (kind == 4):
            first = 4 if wide else 3 if code >= 48 and code <= 57 else 2 if capital else 1
        i += size
    if in_word:
        key = np.int64(h >> np.uint64(1)) | 1
        slot = _title_slot(title, key)
        if learn and slot >= 0:
            title[slot] = key
        in_title += slot >= 0 and title[slot] == key
        found = find(hashes, 0, WORD_HASH_SHIFT, np.int64(h >> np.uint64(1)))
        stops += found & 1
        furniture += found >> 1
    row[WORDS] = words + (cjk * 5) // 8
    row[STOPS] = stops
    row[FURNITURE] = furniture
    row[ENDS] = ends
    row[COMMAS] = commas
    row[CAPITALS] = capitals
    row[DIGITS] = digits
    row[CJK] = cjk
    row[LAST_KIND] = last
    row[FIRST_KIND] = max(first, 0)
    row[SIGNS] = signs
    row[LINES] = lines
    row[LETTERS] = letters
    row[IN_TITLE] = in_title
    row[PIECES] = words + cjk
    row[HASH] = np.int64(whole >> np.uint64(33))


@kernel
def measure(text, blocks, n, title_start, title_end, hashes, title, measures):
    """Fill measures[:n + 1] (int32, MEASURES columns but KIND) from each block's text; the last row is the title's.

    `title` is int64 (TITLE_SLOTS,), scratch.
    """
    for i in range(TITLE_SLOTS):
        title[i] = 0
    _measure(text, title_start, title_end, hashes, title, True, measures[n])
    for k in range(n):
        _measure(text, np.int64(blocks[k, START]), np.int64(blocks[k, END]), hashes, title, False, measures[k])
