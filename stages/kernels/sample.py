"""A bounded sample of each document for language models, with the letters of every script counted on the way.

Reads Arrow buffers of valid UTF-8. Of a long document three windows are looked at: its beginning, its middle and its end.
What is not language is left out: numbers, markup, addresses, paths, options, identifiers, what stands between backticks; and
letters of any other script than that of most of them, since a model that sees both judges by either. White space becomes one
space.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined, kernel
from stages.kernels.script import CANTONESE, CLASSICAL, HANI, KANA, KORE, MODERN, SIMPLIFIED, TRADITIONAL

#: Columns of the facts.
LETTERS: Final = 0  # in all, a Han, kana or Hangul character counting as _SYLLABLE
SCRIPT: Final = 1  # number of the script with the most of them, Han and kana counted as Han; 0 for none
HAN_LETTERS: Final = 2
KANA_LETTERS: Final = 3
HANGUL_LETTERS: Final = 4
SIMPLIFIED_LETTERS: Final = 5
TRADITIONAL_LETTERS: Final = 6
SCRIPT_LETTERS: Final = 7  # of LETTERS, those in SCRIPT
CANTONESE_LETTERS: Final = 8
MODERN_LETTERS: Final = 9
CLASSICAL_LETTERS: Final = 10
FACTS: Final = 11

_SYLLABLE: Final = 3  # letters of an alphabet that say as much as one such character
_LONGEST_CODE: Final = 160  # bytes between two backticks of a line
_WORD_REACH: Final = 48  # bytes a window is moved or extended so as not to cut a word


@inlined
def _window(data: Any, start: Any, end: Any, window: Any, k: Any, whole: Any) -> Any:
    """Start and end of the k-th of three windows of a document; the first covers all of a short one."""
    if whole:
        return start, end
    size = end - start
    a = start + (0 if k == 0 else (size - window) // 2 if k == 1 else size - window)
    b = a + window
    if k > 0:
        for reach in range(_WORD_REACH):
            if data[a + reach] <= 32:
                a += reach
                break
        while (data[a] & 0xC0) == 0x80:
            a += 1
    if k < 2:
        for reach in range(_WORD_REACH):
            if data[b + reach] <= 32:
                b += reach
                break
        while (data[b] & 0xC0) == 0x80:
            b += 1
    return a, b


@inlined
def _ascii_end(data: Any, i: Any, end: Any) -> Any:
    """End of the run of ASCII that is not white space, and whether it may be a word rather than code, number or address."""
    word = True
    first = i
    before = 32
    while i < end:
        b = data[i]
        if b <= 32 or b >= 0x7F:
            break
        letter = 97 <= (b | 32) <= 122
        if not letter:
            # Quotes, brackets, commas and hyphens occur in words and around them.
            if b == 45:
                word = word and i > first
            elif b == 46 or b == 58:
                pass
            elif not (b == 33 or b == 34 or b == 39 or b == 40 or b == 41 or b == 44 or b == 59 or b == 63):
                word = False
        elif before == 46 or before == 58 or (before == 40 and i > first + 1) or (b < 97 <= before <= 122):
            word = False  # a.b, a:b, f(x), camelCase
        before = b
        i += 1
    return i, word


@inlined
def _after_code(data: Any, i: Any, stop: Any) -> Any:
    """Behind the closing backtick of the code that opens at i; i where none closes on the line."""
    for j in range(i + 1, min(stop, i + _LONGEST_CODE)):
        if data[j] == 96:
            return j + 1
        if data[j] == 10:
            break
    return i


@inlined
def _only(data: Any, start: Any, end: Any, scripts: Any, script: Any) -> Any:
    """Take letters of other scripts out of data[start:end] in place; where it ends then. Each run of them leaves a space."""
    o = start
    i = start
    while i < end:
        b = data[i]
        size = 1 if b < 0x80 else 2 if b < 0xE0 else 3 if b < 0xF0 else 4
        code = np.int64(b)
        if size > 1:
            code = np.int64(b & (0x7F >> size))
            for j in range(1, size):
                code = (code << 6) | (data[i + j] & 0x3F)
        of = scripts[code]
        if of == 0 or of == script or (script == HANI and of == KANA):
            if b != 32 or (o > start and data[o - 1] != 32):
                for j in range(size):
                    data[o + j] = data[i + j]
                o += size
        elif o > start and data[o - 1] != 32:
            data[o] = 32
            o += 1
        i += size
    return o


@kernel
def sample(
    data: Any,
    offsets: Any,
    valid: Any,
    scripts: Any,
    variants: Any,
    lowers: Any,
    counts: Any,
    window: Any,
    lower: Any,
    out: Any,
    out_offsets: Any,
    facts: Any,
) -> Any:
    """Samples of n documents.

    Args:
        data, offsets, valid: uint8 (bytes,), int64 (n + 1,), bool (n,).
        scripts, variants: of `script.script_table` and `script.variant_table`.
        lowers: uint16 (0x800,): lower case of two-byte characters, of `script.lower_table`.
        counts: int32 scratch, one for every script.
        window: bytes of each of the three windows; a document of up to three windows is taken whole.
        lower: whether letters of one or two bytes become lower case.
        out, out_offsets: uint8 (long enough: see `sample_bound`), int64 (n + 1,): the samples.
        facts: int32 (n, FACTS).
    """
    o = 0
    out_offsets[0] = 0
    for d in range(offsets.shape[0] - 1):
        for s in range(counts.shape[0]):
            counts[s] = 0
        simplified = 0
        traditional = 0
        cantonese = 0
        modern = 0
        classical = 0
        start = offsets[d]
        end = offsets[d + 1] if valid[d] else start
        whole = end - start <= 3 * window
        for k in range(1 if whole else 3):
            i, stop = _window(data, start, end, window, k, whole)
            while i < stop:
                b = data[i]
                if b <= 32 or b == 0x7F:
                    if o > out_offsets[d] and out[o - 1] != 32:
                        out[o] = 32
                        o += 1
                    i += 1
                elif b == 96 and _after_code(data, i, stop) > i:
                    i = _after_code(data, i, stop)
                elif b < 0x80:
                    first = i
                    i, word = _ascii_end(data, i, stop)
                    if word:
                        for j in range(first, i):
                            b = data[j]
                            letter = 97 <= (b | 32) <= 122
                            counts[4] += letter
                            out[o] = b | 32 if lower and letter else b
                            o += 1
                else:
                    size = 2 if b < 0xE0 else 3 if b < 0xF0 else 4
                    code = b & (0x7F >> size)
                    out[o] = b
                    for j in range(1, size):
                        code = (code << 6) | (data[i + j] & 0x3F)
                        out[o + j] = data[i + j]
                    counts[scripts[code]] += 1
                    if lower and code < 0x800:
                        small = lowers[code]
                        out[o] = 0xC0 | small >> 6
                        out[o + 1] = 0x80 | small & 0x3F
                    if code < 0x10000:
                        variant = variants[code]
                        simplified += variant & SIMPLIFIED
                        traditional += (variant & TRADITIONAL) != 0
                        cantonese += (variant & CANTONESE) != 0
                        modern += (variant & MODERN) != 0
                        classical += (variant & CLASSICAL) != 0
                    if code == 0x3000 or code == 0xA0:
                        out[o] = 32
                        o += 1
                    else:
                        o += size
                    i += size
            if o > out_offsets[d] and out[o - 1] != 32:
                out[o] = 32
                o += 1
        han, kana, hangul = counts[HANI], counts[KANA], counts[KORE]
        counts[HANI] = _SYLLABLE * (han + kana)
        counts[KANA] = 0
        counts[KORE] = _SYLLABLE * hangul
        letters = 0
        best = 0
        counts[0] = 0
        for s in range(1, counts.shape[0]):
            letters += counts[s]
            if counts[s] > counts[best]:
                best = s
        if counts[best] < letters:
            o = _only(out, out_offsets[d], o, scripts, best)
        out_offsets[d + 1] = o
        facts[d, LETTERS] = letters
        facts[d, SCRIPT] = best
        facts[d, SCRIPT_LETTERS] = counts[best]
        facts[d, HAN_LETTERS] = han
        facts[d, KANA_LETTERS] = kana
        facts[d, HANGUL_LETTERS] = hangul
        facts[d, SIMPLIFIED_LETTERS] = simplified
        facts[d, TRADITIONAL_LETTERS] = traditional
        facts[d, CANTONESE_LETTERS] = cantonese
        facts[d, MODERN_LETTERS] = modern
        facts[d, CLASSICAL_LETTERS] = classical


def sample_bound(offsets: Any, window: int) -> int:
    """Bytes that `out` must have room for."""
    sizes = np.minimum(np.diff(offsets), 3 * (window + _WORD_REACH + 4))
    return int(sizes.sum()) + 4 * len(sizes) + 16
