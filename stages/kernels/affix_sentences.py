"""Sentences as spaCy's rule-based cutter counts them, on the words of affix_words.py: datatrove's sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.affix_tables import affix_tables
from stages.kernels.affix_words import ALL_PUNCTUATION, ENDS_SENTENCE, make_chunk, split_affixes
from stages.kernels.buffers import TextBuffers
from stages.kernels.jit import kernel
from stages.kernels.lines import find_newline
from stages.kernels.words import make_words


@kernel
def _count_sentences(offsets: Any, data: Any, apply: Any, tables: Any, chunk: Any, words: Any, out: Any) -> None:
    for d in range(apply.shape[0]):
        if not apply[d]:
            continue
        text = data[offsets[d] : offsets[d + 1]]
        i = 0
        while i < text.shape[0]:
            stop = find_newline(text, i)
            n = split_affixes(text[i:stop], tables, chunk, words)
            i = stop + 1
            ended = False
            out[d] += n > 0
            for k in range(n):
                kinds = words.kinds[k]
                if kinds & ENDS_SENTENCE:
                    ended = True
                elif ended and not kinds & ALL_PUNCTUATION:
                    out[d] += 1
                    ended = False


def count_sentences(text: TextBuffers, apply: np.ndarray) -> np.ndarray:
    """int32 (n,): sentences of each document, line by line, as spaCy's rule-based sentence cutter counts them.

    A sentence begins at a line and at a word behind a terminal mark that stands alone, other punctuation skipped.
    """
    out = np.zeros(len(text.valid), np.int32)
    room = int(np.diff(text.offsets).max(initial=0)) + 1
    tables = affix_tables()
    _count_sentences(text.offsets, text.data, apply & text.valid, tables, make_chunk(room), make_words(room), out)
    return out
