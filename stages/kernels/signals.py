"""All text signals of a batch: each document is decoded, split and counted once, in scratch arrays that all documents share.

The order of the counts is that of `COUNTED`; what each of them means is said in stages/quality/signals.py.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels import characters, lines, ngrams
from stages.kernels.buffers import TextBuffers
from stages.kernels.characters import CharacterScratch, count_characters, make_character_scratch
from stages.kernels.jit import inner, kernel
from stages.kernels.lines import LineScratch, make_line_scratch, measure_lines
from stages.kernels.ngrams import Scratch, make_scratch, repetition
from stages.kernels.sentences import count_sentences
from stages.kernels.stop_words import StopWords, count_stop_words
from stages.kernels.unicode_classes import ALPHA, LOWER, UPPER, unicode_tables
from stages.kernels.words import NO_FOLD, NONE, Words, make_words, split_words

TEXT_COUNTED: Final = (*characters.COUNTED, *lines.COUNTED, "sentences", "cut_sentences")
WORDS_COUNTED: Final = (
    "words", "word_chars", "alpha_words", "upper_words", "unique_words",
    *(f"top_{n}gram_chars" for n in ngrams.TOP_ORDERS), *(f"dup_{n}gram_chars" for n in ngrams.REPEATED_ORDERS),
)  # fmt: skip
STOP_WORDS_COUNTED: Final = ("stop_words", "stop_word_hits")
COUNTED: Final = (*TEXT_COUNTED, *WORDS_COUNTED, *STOP_WORDS_COUNTED)

_NEWLINES: Final = characters.COUNTED.index("newlines")
_LINES: Final = len(characters.COUNTED)
_SENTENCES: Final = _LINES + len(lines.COUNTED)
_WORDS: Final = len(TEXT_COUNTED)
_TOP: Final = _WORDS + 5
_REPEATED: Final = _TOP + len(ngrams.TOP_ORDERS)
_STOP: Final = _WORDS + len(WORDS_COUNTED)


class SignalScratch(NamedTuple):
    """Scratch of every part, and `counts`, int64 (len(COUNTED),), of the document at hand."""

    words: Words
    ngrams: Scratch
    lines: LineScratch
    characters: CharacterScratch
    counts: np.ndarray


@inner
def _count_words(n: Any, words: Any, counts: Any) -> None:
    chars = alpha = upper = 0
    for i in range(n):
        chars += words.chars[i]
        kinds = words.kinds[i]
        alpha += (kinds & ALPHA) != 0
        upper += words.chars[i] > 1 and (kinds & UPPER) != 0 and (kinds & LOWER) == 0
    counts[0], counts[1], counts[2], counts[3] = n, chars, alpha, upper


@kernel
def _measure(
    offsets: Any, data: Any, valid: Any, units: Any, languages: Any, keys: Any, numbers: Any, longest: Any,
    unicode: Any, fold: Any, scratch: Any, out: Any, entropy: Any,
) -> None:  # fmt: skip
    counts = scratch.counts
    for d in range(valid.shape[0]):
        if not valid[d]:
            continue
        text = data[offsets[d] : offsets[d + 1]]
        counts[:] = 0
        count_characters(text, unicode, scratch.characters, counts[:_LINES])
        measure_lines(text, counts[_NEWLINES], unicode, scratch.lines, counts[_LINES:_SENTENCES])
        counts[_SENTENCES], counts[_SENTENCES + 1] = count_sentences(text, unicode)
        if units[d] != NONE:
            words = scratch.words
            n = split_words(text, units[d], unicode, fold, words)
            _count_words(n, words, counts[_WORDS:])
            counts[_WORDS + 4], entropy[d] = repetition(
                n, words.hash, words.chars, scratch.ngrams, counts[_TOP:_REPEATED], counts[_REPEATED:_STOP]
            )
            if languages[d] >= 0:
                counts[_STOP], counts[_STOP + 1] = count_stop_words(
                    n, words.hash, words.chars, languages[d], keys, numbers, longest
                )
        for k in range(counts.shape[0]):
            out[k, d] = counts[k]


def measure(
    text: TextBuffers, units: np.ndarray, languages: np.ndarray, stop: StopWords
) -> tuple[np.ndarray, np.ndarray]:
    """Signals of a batch of n documents.

    Args:
        text: from `text_buffers`; no document over 2 GiB.
        units: uint8 (n,), from `word_units`; NONE leaves the word signals 0.
        languages: int32 (n,), from `language_numbers`.
        stop: stop words.

    Returns:
        int32 (len(COUNTED), n) counts, and float32 (n,) entropy of the words in bits.
    """
    n = len(text.valid)
    out, entropy = np.zeros((len(COUNTED), n), np.int32), np.zeros(n, np.float32)
    room = int(np.diff(text.offsets).max(initial=0)) + 1
    scratch = SignalScratch(
        make_words(room),
        make_scratch(room),
        make_line_scratch(room),
        make_character_scratch(),
        np.zeros(len(COUNTED), np.int64),
    )
    _measure(
        text.offsets, text.data, text.valid, units, languages, stop.keys, stop.numbers, stop.longest,
        unicode_tables(), NO_FOLD, scratch, out, entropy,
    )  # fmt: skip
    return out, entropy
