"""The attributes of Dolma's Gopher taggers (allenai/dolma 1.2, gopher_v1 and gopher_v2), as counts.

What is different from stages/kernels/signals.py: the median of word lengths, not the mean; symbols are *words* with `#` or
`…`; a stop word counts each time and only in lower case; lines are not stripped, and blank ones are lines (v1) or not (v2);
all copies of a repeated line count; overlapping n-grams count in full, above and below the line of the fraction.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.copies import add_segment, count_copies
from stages.kernels.jit import inner, kernel
from stages.kernels.lines import find_newline
from stages.kernels.ngrams import Scratch, keep_repeated, make_scratch, number_ngrams, sum_characters
from stages.kernels.unicode_classes import ALPHA, decode, previous, unicode_tables
from stages.kernels.words import NO_FOLD, WHITESPACE, Words, hash_words, make_words, split_words

_TOP: Final = (2, 3, 4)
_DUP: Final = (5, 6, 7, 8, 9, 10)
_LINES: Final = ("lines", "line_chars", "dup_lines", "dup_line_chars", "bullet_lines", "ellipsis_lines")
COUNTED: Final = (
    "dolma_words", "dolma_word_chars", "dolma_double_median_word_length", "dolma_symbol_words", "dolma_alpha_words",
    "dolma_stop_words",
    *(f"dolma_{name}" for name in _LINES), *(f"dolma_v2_{name}" for name in _LINES),
    *(f"dolma_top_{n}gram_chars" for n in _TOP), *(f"dolma_dup_{n}gram_chars" for n in _DUP),
    *(f"dolma_all_{n}gram_chars" for n in _DUP),
)  # fmt: skip
_V1, _V2, _TOP_AT = 6, 12, 18
_DUP_AT: Final = _TOP_AT + len(_TOP)
_ALL_AT: Final = _DUP_AT + len(_DUP)
_NEWLINE, _STAR, _HYPHEN, _HASH, _ELLIPSIS = 0x0A, 0x2A, 0x2D, 0x23, 0x2026

STOP_WORDS: Final = ("the", "be", "to", "of", "and", "that", "have", "with")


class DolmaScratch(NamedTuple):
    """Scratch for one document after the other. `lengths`: int32, room for all words; `stops`: uint64 word hashes."""

    counts: np.ndarray
    words: Words
    ngrams: Scratch
    lengths: np.ndarray
    stops: np.ndarray


@inner
def _double_median(n: Any, chars: Any, lengths: Any) -> Any:
    """Twice the median of the word lengths, from a histogram of them."""
    longest = 0
    for i in range(n):
        longest = max(longest, chars[i])
    lengths[: longest + 1] = 0
    for i in range(n):
        lengths[chars[i]] += 1
    low = high = -1
    seen = 0
    for length in range(longest + 1):
        seen += lengths[length]
        if low < 0 and seen > (n - 1) // 2:
            low = length
        if high < 0 and seen > n // 2:
            high = length
    return low + high if n else 0


@inner
def _count_words(text: Any, n: Any, words: Any, stops: Any, unicode: Any, out: Any) -> None:
    for i in range(n):
        out[1] += words.chars[i]
        out[4] += (words.kinds[i] & ALPHA) != 0
        for s in range(stops.shape[0]):
            out[5] += words.hash[i] == stops[s]
        k = words.start[i]
        while k < words.end[i]:
            cp, k = decode(text, k, words.end[i])
            if cp == _HASH or cp == _ELLIPSIS:  # noqa: SIM109
                out[3] += 1
                break
    out[0] = n


@inner
def _count_lines(text: Any, skip_empty: Any, unicode: Any, segments: Any, scratch: Any, out: Any) -> None:
    """Lines between single line feeds, or (`skip_empty`) between runs of them, into `out` as _LINES."""
    n = i = 0
    end = text.shape[0]
    while True:
        stop = find_newline(text, i)
        line = text[i:stop]
        n = add_segment(line, False, unicode, segments, n)
        if line.shape[0]:
            out[4] += line[0] == _STAR or line[0] == _HYPHEN
            cp, _ = decode(line, previous(line, 0, line.shape[0]), line.shape[0])
            out[5] += cp == _ELLIPSIS
        if stop == end:
            break
        i = stop + 1
        while skip_empty and i < end and text[i] == _NEWLINE:
            i += 1
    count_copies(n, segments, scratch, out)


@inner
def _count_ngrams(n: Any, words: Any, scratch: Any, top: Any, dup: Any, every: Any) -> None:
    sum_characters(n, words.chars, scratch)
    m, _ = number_ngrams(n, 1, words.hash, scratch)
    for order in range(2, 11):
        if n < order:
            break
        m, distinct = number_ngrams(keep_repeated(m, scratch), order, words.hash, scratch)
        if order <= 4:
            best, place = 1, 0
            for number in range(distinct):
                if scratch.counts[number] > best:
                    best, place = scratch.counts[number], scratch.first[number]
            top[order - 2] = best * (scratch.sums[place + order] - scratch.sums[place])
            continue
        for number in range(distinct):
            if scratch.counts[number] > 1:
                at = np.int64(scratch.first[number])
                dup[order - 5] += scratch.counts[number] * (scratch.sums[at + order] - scratch.sums[at])
        for place in range(n - order + 1):
            every[order - 5] += scratch.sums[place + order] - scratch.sums[place]


@kernel
def _measure(offsets: Any, data: Any, apply: Any, unicode: Any, fold: Any, scratch: Any, out: Any) -> None:
    counts = scratch.counts
    for d in range(apply.shape[0]):
        if not apply[d]:
            continue
        text = data[offsets[d] : offsets[d + 1]]
        counts[:] = 0
        _count_lines(text, False, unicode, scratch.words, scratch.ngrams, counts[_V1:_V2])
        _count_lines(text, True, unicode, scratch.words, scratch.ngrams, counts[_V2:_TOP_AT])
        n = split_words(text, WHITESPACE, unicode, fold, scratch.words)
        _count_words(text, n, scratch.words, scratch.stops, unicode, counts)
        counts[2] = _double_median(n, scratch.words.chars, scratch.lengths)
        _count_ngrams(n, scratch.words, scratch.ngrams, counts[_TOP_AT:], counts[_DUP_AT:], counts[_ALL_AT:])
        for k in range(out.shape[0]):
            out[k, d] = counts[k]


def measure(text: TextBuffers, apply: np.ndarray) -> np.ndarray:
    """int64 (len(COUNTED), n) counts of the documents where `apply` (bool (n,)) holds, 0 elsewhere."""
    out = np.zeros((len(COUNTED), len(text.valid)), np.int64)
    room = int(np.diff(text.offsets).max(initial=0)) + 2
    scratch = DolmaScratch(
        np.zeros(len(COUNTED), np.int64), make_words(room), make_scratch(room), np.empty(room, np.int32),
        hash_words(STOP_WORDS, WHITESPACE),
    )  # fmt: skip
    _measure(text.offsets, text.data, apply & text.valid, unicode_tables(), NO_FOLD, scratch, out)
    return out
