"""Sentences by punctuation alone, in any script.

A sentence ends at terminal punctuation (UCD Sentence_Terminal), closing quotes and brackets after it included, where white
space or the end follows, or at once after a full-width or non-ASCII mark (。！？). A full stop does not end one where the next
word begins in lower case ("approx. half"), nor after a single letter ("J. Smith") or inside an abbreviation with stops in
it ("e.g. this"). A line always ends a sentence. Words such as "Mr." are not known: counts are for thresholds like "at
least five sentences", not for cutting text.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.unicode_classes import (
    ALPHA,
    CLOSING,
    LOWER,
    NUMBER,
    SPACE,
    TERMINAL,
    decode,
    previous,
    unicode_tables,
)

_NEWLINE, _STOP = ord("\n"), ord(".")


def _first_bytes() -> np.ndarray:
    unicode = unicode_tables()
    marks = np.flatnonzero(unicode.flags[unicode.classes] & TERMINAL)
    table = np.zeros(256, np.bool_)
    table[[chr(c).encode()[0] for c in marks]] = True
    table.flags.writeable = False
    return table


#: bool (256,): bytes that terminal punctuation begins with; most letters of most scripts begin with others.
MAY_BE_TERMINAL: Final = _first_bytes()

_FULL_STOP: Final = 1  # may end an abbreviation
_MARK: Final = 2  # ends a sentence if white space follows
_WIDE: Final = 3  # ends a sentence whatever follows


@kernel
def count_sentences(text: Any, unicode: Any) -> Any:
    """(sentences that punctuation ends, pieces that a line end cuts off without any) in `text` (uint8, UTF-8)."""
    ended = cut = 0
    begin = i = 0  # of the sentence at hand; of what has not been looked at
    while i < text.shape[0]:
        b = text[i]
        if b == _NEWLINE:
            cut += _has_text(text, begin, i, unicode)
            i += 1
            begin = i
        elif MAY_BE_TERMINAL[b]:
            cp, after = decode(text, i, text.shape[0])
            if unicode.flags[unicode.classes[cp]] & TERMINAL:
                after, ends = _read_marks(text, i, unicode)
                if ends:
                    ended += _has_text(text, begin, i, unicode)
                    begin = after
            i = after
        else:
            i += 1  # continuation bytes are no first byte of anything
    cut += _has_text(text, begin, text.shape[0], unicode)
    return ended, cut


@inner
def _has_text(text: Any, i: Any, end: Any, unicode: Any) -> Any:
    """Whether there is a letter or a number; found at once where there is one, as sentences begin with them."""
    while i < end:
        cp, i = decode(text, i, end)
        if unicode.flags[unicode.classes[cp]] & (ALPHA | NUMBER):
            return True
    return False


@inner
def _read_marks(text: Any, i: Any, unicode: Any) -> Any:
    """(where the run of terminal and closing marks at `i` ends, whether it ends a sentence)."""
    end = text.shape[0]
    strength = 0
    first = True
    abbreviates = _follows_single_letter(text, i, unicode)
    flags = np.uint32(0)
    cp = np.int64(0)
    after = i
    while i < end:
        cp, after = decode(text, i, end)
        flags = unicode.flags[unicode.classes[cp]]
        if flags & TERMINAL:
            if cp >= 0x80:
                strength = _WIDE
            elif cp != _STOP:
                strength = max(strength, _MARK)
            elif not (first and abbreviates):
                strength = max(strength, _FULL_STOP)
        elif not flags & CLOSING:
            break
        first = False
        i = after
    if i == end or cp == _NEWLINE or strength == _WIDE:
        return i, True
    if strength == 0 or not flags & SPACE:
        return i, False
    while after < end and flags & SPACE and cp != _NEWLINE:
        cp, after = decode(text, after, end)
        flags = unicode.flags[unicode.classes[cp]]
    return i, strength == _MARK or not flags & LOWER


@inlined
def _follows_single_letter(text: Any, i: Any, unicode: Any) -> Any:
    """Whether exactly one letter or digit stands before `i`: an initial, or part of an abbreviation with stops."""
    if i == 0:
        return False
    before = previous(text, 0, i)
    cp, _ = decode(text, before, i)
    if not unicode.flags[unicode.classes[cp]] & (ALPHA | NUMBER):
        return False
    if before == 0:
        return True
    cp, _ = decode(text, previous(text, 0, before), before)
    return not unicode.flags[unicode.classes[cp]] & (ALPHA | NUMBER)
