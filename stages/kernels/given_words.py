"""Words that something else has cut a document into, for kernels that count words: where they lie and what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.affix_tables import HASH_BASE, IS_PUNCTUATION, LETTER, NOT_SYMBOL, PERIOD, WHITE
from stages.kernels.affix_words import ALL_PUNCTUATION, ENDS_SENTENCE, HAS_LETTER, HAS_TEXT
from stages.kernels.jit import inner
from stages.kernels.unicode_classes import decode


@inner
def take_words(text: Any, pieces: Any, tables: Any, words: Any) -> Any:
    """Words of a document (uint8, UTF-8) into `words`, from index 0, as `split_affixes` leaves them; returns how many.

    Args:
        pieces: int32, code points of each piece; together they are the document. White space at their ends is left out,
            pieces of nothing else are no words.
        tables: `affix_tables()`.
    """
    n = i = 0
    end = text.shape[0]
    for piece in pieces:
        begin = stop = i
        chars = pending = 0
        h = kept = np.uint64(0)
        seen = np.uint16(0)
        common = np.uint16(0xFFFF)
        for _ in range(piece):
            if i == end:
                break
            at = i
            cp, i = decode(text, i, end)
            traits = tables.traits[cp]
            if traits & WHITE and chars == 0:
                continue
            if chars == 0:
                begin = at
            h = h * HASH_BASE + np.uint64(cp + 1)
            pending += 1
            if not traits & WHITE:
                seen |= traits
                common &= traits
                stop, chars, kept = i, pending, h
        if chars == 0:
            continue
        kinds = HAS_LETTER if seen & LETTER else 0
        kinds |= HAS_TEXT if seen & NOT_SYMBOL else 0
        kinds |= ALL_PUNCTUATION if common & IS_PUNCTUATION else 0
        kinds |= ENDS_SENTENCE if chars == 1 and common & PERIOD else 0
        words.start[n], words.end[n], words.hash[n] = begin, stop, kept
        words.chars[n], words.kinds[n] = chars, kinds
        n += 1
    return n
