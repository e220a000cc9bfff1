"""Characters of a document by kind, in one pass."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import inner
from stages.kernels.unicode_classes import (
    ALPHA,
    DIGIT,
    GARBAGE,
    HAN,
    HANGUL,
    KANA,
    PUNCTUATION,
    SPACE,
    SYMBOL,
    UNSPACED,
    UPPER,
    decode,
)

#: What `count_characters` counts, by position in its result.
COUNTED: Final = (
    "chars", "spaces", "newlines", "letters", "upper_chars", "digits", "punctuation", "symbols", "han_chars", "kana_chars",
    "hangul_chars", "unspaced_chars", "garbage_chars", "hashes", "ellipses", "curly_brackets",
)  # fmt: skip
_HASH, _CURLY, _STOP, _NEWLINE = ord("#"), ord("{"), ord("."), ord("\n")
_ELLIPSIS: Final = 0x2026


class CharacterScratch(NamedTuple):
    """`ascii` int64 (128,) and `classes` int64 (256,): occurrences of each ASCII character, of each class."""

    ascii: np.ndarray
    classes: np.ndarray


def make_character_scratch() -> CharacterScratch:
    """Arrays that `count_characters` uses for one document after the other."""
    return CharacterScratch(np.zeros(128, np.int64), np.zeros(256, np.int64))


@inner
def count_characters(text: Any, unicode: Any, scratch: Any, out: Any) -> None:
    """Counts of a document (uint8, UTF-8) into `out`, int64, ordered as COUNTED.

    `hashes` are ``#``; `ellipses` are ``…`` and non-overlapping ``...``; `curly_brackets` are ``{``.
    """
    scratch.ascii[:] = 0
    scratch.classes[:] = 0
    ellipses = dots = 0
    i, end = 0, text.shape[0]
    while i < end:
        b = text[i]
        if b < 0x80:
            scratch.ascii[b] += 1
            i += 1
            if b == _STOP:
                dots += 1
                if dots == 3:
                    ellipses += 1
                    dots = 0
            else:
                dots = 0
        else:
            cp, i = decode(text, i, end)
            scratch.classes[unicode.classes[cp]] += 1
            dots = 0
            if cp == _ELLIPSIS:
                ellipses += 1
    for b in range(128):
        scratch.classes[unicode.classes[b]] += scratch.ascii[b]
    out[:] = 0
    for c in range(256):
        n = scratch.classes[c]
        if n:
            flags = unicode.flags[c]
            out[0] += n
            out[1] += n if flags & SPACE else 0
            out[3] += n if flags & ALPHA else 0
            out[4] += n if flags & UPPER else 0
            out[5] += n if flags & DIGIT else 0
            out[6] += n if flags & PUNCTUATION else 0
            out[7] += n if flags & SYMBOL else 0
            out[8] += n if flags & HAN else 0
            out[9] += n if flags & KANA else 0
            out[10] += n if flags & HANGUL else 0
            out[11] += n if flags & UNSPACED else 0
            out[12] += n if flags & GARBAGE else 0
    out[2] = scratch.ascii[_NEWLINE]
    out[13] = scratch.ascii[_HASH]
    out[14] = ellipses
    out[15] = scratch.ascii[_CURLY]
