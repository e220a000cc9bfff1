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

from stages.kernels.jit import kernel
from stages.kernels.unicode_classes import ALPHA, CLOSING, LOWER, NUMBER, SPACE, TERMINAL, decode

_NEWLINE, _STOP = ord("\n"), ord(".")


_FULL_STOP: Final = 1  # may end an abbreviation
_MARK: Final = 2  # ends a sentence if white space follows
_WIDE: Final = 3  # ends a sentence whatever follows


@kernel
def count_sentences(data: Any, start: Any, end: Any, unicode: Any) -> Any:
    """(sentences that punctuation ends, pieces that a line end cuts off without any) in ``data[start:end]``."""
    ended = cut = 0
    open_chars = 0  # letters and numbers since the last sentence end
    word_chars = 0  # letters and numbers since the last character that is neither
    mark = 0
    spaced = False
    i = start
    while i <= end:
        if i == end:
            cp, flags, i = np.int64(_NEWLINE), np.uint32(SPACE), i + 1
        else:
            cp, i = decode(data, i, end)
            flags = unicode.flags[unicode.classes[cp]]
        if flags & SPACE:
            spaced = True
            word_chars = 0
            if cp == _NEWLINE:
                if open_chars:
                    ended += mark != 0
                    cut += mark == 0
                open_chars = mark = 0
            continue
        if flags & TERMINAL:
            if cp >= 0x80:
                mark = _WIDE
            elif cp != _STOP:
                mark = max(mark, _MARK)
            elif word_chars != 1:
                mark = max(mark, _FULL_STOP)
            spaced = False
            word_chars = 0
            continue
        if mark and flags & CLOSING and not spaced:
            continue
        if mark and (mark == _WIDE or (spaced and (mark == _MARK or not flags & LOWER))):
            ended += open_chars > 0
            open_chars = 0
        mark = 0
        if flags & (ALPHA | NUMBER):
            open_chars += 1
            word_chars += 1
        else:
            word_chars = 0
    return ended, cut
