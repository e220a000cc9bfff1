r"""Where a byte-level BPE tokenizer's regular expression cuts a text: the patterns of GPT-2, cl100k, Llama 3, Qwen 2, o200k.

Each is an alternation that matches something at every position, so that the pieces follow from the first position on:

    contraction        's 't 're 've 'm 'll 'd, in any case or in lower case only
    letters            an optional character in front, then \p{L}+; o200k: by case, a contraction at the end
    numbers            \p{N}+ with an optional space in front, or up to 1 or 3 of \p{N}
    others             an optional space, [^\s\p{L}\p{N}]+, then [\r\n]* (o200k: [\r\n/]*)
    line ends          \s*[\r\n]+
    spaces             \s+(?!\S), then \s+

What is a letter, a number or a space depends on the Unicode version of the engine: the classes come from the engine itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stages.kernels.jit import inlined, inner
from stages.kernels.loads import load64, lowest_bit
from stages.kernels.token_tables import Int
from stages.kernels.utf8 import code_point

LETTER: Final = 1
NUMBER: Final = 2
SPACE: Final = 4
#: o200k: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}]
UPPER: Final = 8
LOWER: Final = 16

NO_CONTRACTIONS: Final = 0
LOWER_CONTRACTIONS: Final = 1
ANY_CONTRACTIONS: Final = 2

_CR: Final = 13
_LF: Final = 10
_BLANK: Final = 32
_SLASH: Final = 47

#: Which of eight bytes are letters: in lower case, `a` and all above carry into the high bit, and so does what is above `z`.
_CASE: Final = np.uint64(0x2020_2020_2020_2020)
_SEVEN: Final = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_FROM_A: Final = np.uint64(0x1F1F_1F1F_1F1F_1F1F)
_BEYOND_Z: Final = np.uint64(0x0505_0505_0505_0505)
_HIGH: Final = np.uint64(0x8080_8080_8080_8080)
_NONE: Final = np.uint64(0)


class Pattern(NamedTuple):
    """A pattern of the family.

    Attributes:
        classes: uint8 (0x110000,), LETTER | NUMBER | SPACE | UPPER | LOWER of each code point.
        contractions: NO_CONTRACTIONS, LOWER_CONTRACTIONS or ANY_CONTRACTIONS, tried first.
        any_prefix: any character but letters, numbers and line ends may stand before letters; otherwise a blank only.
        most_digits: \\p{N}{1,k}; 0: ` ?\\p{N}+`.
        line_ends: others take line ends that follow, and `\\s*[\\r\\n]+` is tried before spaces.
        slashes: others take slashes that follow, too.
        cased: letters are split by case, a contraction belongs to the word (o200k).
        tail: spaces that reach the end of the text are one piece, line ends or not (`\\s++$`, tiktoken's own cl100k).
    """

    classes: np.ndarray
    contractions: int
    any_prefix: bool
    most_digits: int
    line_ends: bool
    slashes: bool
    cased: bool
    tail: bool


@inlined
def _run(classes: np.ndarray, data: np.ndarray, p: Int, end: Int, wanted: Int) -> Int:
    """Where characters of one of the wanted classes end."""
    while p < end:
        c, size = code_point(data, p)
        if not classes[c] & wanted:
            break
        p += size
    return p


@inlined
def _letter_run(classes: np.ndarray, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where letters end. Eight bytes of ASCII at once: a loop that ends where words do is left by a mispredicted branch."""
    while p + 8 <= end:
        x = load64(data, p)
        low = (x | _CASE) & _SEVEN
        other = ~((low + _FROM_A) & ~(low + _BEYOND_Z) & ~x) & _HIGH
        if other != _NONE:
            p += lowest_bit(other) >> 3
            if data[p] < 0x80:
                return p
            break
        p += 8
    return _run(classes, data, p, end, LETTER)


@inner
def _contraction(data: np.ndarray, p: Int, end: Int, mode: Int) -> Int:
    """Bytes of the contraction at p, or 0."""
    if p + 1 >= end or data[p] != 39:
        return 0
    a = np.int64(data[p + 1])
    fold = 32 if mode == ANY_CONTRACTIONS else 0
    if a == 0xC5 and fold and p + 2 < end and data[p + 2] == 0xBF:
        return 3  # U+017F, the long s, is an s to a case-insensitive match
    if 65 <= a <= 90:
        a += fold
    if a == 115 or a == 116 or a == 109 or a == 100:  # s t m d
        return 2
    if p + 2 >= end:
        return 0
    b = np.int64(data[p + 2])
    if 65 <= b <= 90:
        b += fold
    if (a == 114 and b == 101) or (a == 118 and b == 101) or (a == 108 and b == 108):  # re ve ll
        return 3
    return 0


@inner
def _lower_word(pattern: Pattern, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where o200k's first alternative, [A]*[B]+ of UPPER and LOWER with a contraction, ends from p on, or p."""
    classes = pattern.classes
    r = _run(classes, data, p, end, UPPER)
    # what [A]* took is given back, one character at a time from its end, until a B follows
    while not (r < end and classes[code_point(data, r)[0]] & LOWER):
        if r == p:
            return p
        r -= 1
        while r > p and data[r] & 0xC0 == 0x80:
            r -= 1
    q = _run(classes, data, r, end, LOWER)
    return q + _contraction(data, q, end, pattern.contractions)


@inner
def _upper_word(pattern: Pattern, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where o200k's second alternative, [A]+[B]*, ends from p on, or p. No B follows: the first alternative failed."""
    q = _run(pattern.classes, data, p, end, UPPER)
    if q == p:
        return p
    return q + _contraction(data, q, end, pattern.contractions)


@inner
def _letters(pattern: Pattern, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where letters with their optional prefix end, or p."""
    c, size = code_point(data, p)
    kind = pattern.classes[c]
    after = p + size
    if pattern.any_prefix:
        prefix = not kind & (LETTER | NUMBER) and c != _CR and c != _LF
    else:
        prefix = c == _BLANK
    prefix = prefix and after < end
    if not pattern.cased:
        q = _letter_run(pattern.classes, data, after, end) if prefix else p
        return q if prefix and q > after else _letter_run(pattern.classes, data, p, end)
    q = _lower_word(pattern, data, after, end) if prefix else after
    if q == after:
        q = _lower_word(pattern, data, p, end)
        if q > p:
            return q
        q = _upper_word(pattern, data, after, end) if prefix else after
    if q > after:
        return q
    return _upper_word(pattern, data, p, end)


@inner
def _numbers(pattern: Pattern, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where numbers end, or p."""
    if pattern.most_digits == 0:
        first = p + 1 if data[p] == _BLANK else p
        q = _run(pattern.classes, data, first, end, NUMBER)
        return q if q > first else p
    taken = 0
    while p < end and taken < pattern.most_digits:
        c, size = code_point(data, p)
        if not pattern.classes[c] & NUMBER:
            break
        p += size
        taken += 1
    return p


@inner
def _others(pattern: Pattern, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where an optional blank and characters that are neither letters, numbers nor spaces end, or p."""
    first = p + 1 if data[p] == _BLANK else p
    q = first
    while q < end:
        c, size = code_point(data, q)
        if pattern.classes[c] & (LETTER | NUMBER | SPACE):
            break
        q += size
    if q == first:
        return p
    if pattern.line_ends:
        while q < end and (data[q] == _CR or data[q] == _LF or (pattern.slashes and data[q] == _SLASH)):
            q += 1
    return q


@inner
def _spaces(pattern: Pattern, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where the piece of spaces that starts at p ends."""
    q = p
    last = p  # where the last space starts
    line_end = p  # behind the last line end
    while q < end:
        c, size = code_point(data, q)
        if not pattern.classes[c] & SPACE:
            break
        last = q
        q += size
        if c in (_CR, _LF):
            line_end = q
    if pattern.tail and q == end:
        return q
    if pattern.line_ends and line_end > p:
        return line_end
    if q < end and last > p:
        return last  # one space is left for the word behind
    return q


@inner
def pretoken_end(pattern: Pattern, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where the piece that starts at p ends; always above p."""
    if pattern.contractions and not pattern.cased and data[p] == 39:
        size = _contraction(data, p, end, pattern.contractions)
        if size:
            return p + size
    q = _letters(pattern, data, p, end)
    if q == p:
        q = _numbers(pattern, data, p, end)
    if q == p:
        q = _others(pattern, data, p, end)
    if q == p:
        q = _spaces(pattern, data, p, end)
    return q
