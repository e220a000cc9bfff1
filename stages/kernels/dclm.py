"""The signals of DCLM's filters (mlfoundations/dclm, baselines/mappers/filters/content_filters.py), as counts.

What is different from stages/kernels/signals.py: a document's words are those that begin with a letter or number; n-grams
are of words of UAX #29 that do; ``. . .`` is an ellipsis too; stop words count each time; all copies of a repeated line,
paragraph or n-gram count, the first included; a paragraph ends at ``\\n\\n``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.copies import add_segment, count_copies
from stages.kernels.dolma import STOP_WORDS
from stages.kernels.jit import inner, kernel
from stages.kernels.lines import find_newline, strip
from stages.kernels.ngrams import Scratch, keep_repeated, make_scratch, number_ngrams, sum_characters
from stages.kernels.unicode_classes import ALPHA, NUMBER, decode, previous, unicode_tables
from stages.kernels.words import UNICODE, WHITESPACE, Words, case_fold, hash_words, make_words, split_words

_TOP: Final = (2, 3, 4)
_DUP: Final = (5, 6, 7, 8, 9, 10)
COUNTED: Final = (
    "dclm_split_words", "dclm_split_word_chars", "dclm_alpha_words", "dclm_stop_words", "dclm_symbols",
    "dclm_lines", "dclm_line_chars", "dclm_dup_lines", "dclm_dup_line_chars", "dclm_bullet_lines", "dclm_ellipsis_lines",
    "dclm_paragraphs", "dclm_paragraph_chars", "dclm_dup_paragraphs", "dclm_dup_paragraph_chars",
    "dclm_words", "dclm_uniseg_word_chars",
    *(f"dclm_top_{n}gram_chars" for n in _TOP), *(f"dclm_dup_{n}gram_chars" for n in _DUP),
)  # fmt: skip
_LINES, _PARAGRAPHS, _WORDS, _TOP_AT, _DUP_AT = 5, 11, 15, 17, 20
_NEWLINE, _STOP, _SPACE, _HASH = 0x0A, 0x2E, 0x20, 0x23
_ELLIPSIS: Final = 0x2026


class DclmScratch(NamedTuple):
    """Scratch for one document after the other. `stops`: uint64, hashes of stop words; `covered`: bool, room for all words."""

    counts: np.ndarray
    words: Words
    ngrams: Scratch
    stops: np.ndarray
    covered: np.ndarray


@inner
def _count_symbols(text: Any) -> Any:
    """``#``, ``…``, and non-overlapping ``...`` and ``. . .``."""
    n = dots = i = 0
    spaced_until = 0
    end = text.shape[0]
    while i < end:
        b = text[i]
        n += b == _HASH
        dots = dots + 1 if b == _STOP else 0
        if dots == 3:
            n += 1
            dots = 0
        if b == _STOP and i >= spaced_until and i + 4 < end:
            gaps = text[i + 1] == _SPACE and text[i + 3] == _SPACE
            if gaps and text[i + 2] == _STOP and text[i + 4] == _STOP:
                n += 1
                spaced_until = i + 5
        if b == 0xE2 and i + 2 < end:
            n += text[i + 1] == 0x80 and text[i + 2] == 0xA6  # …
        i += 1
    return n


@inner
def _starts_with_bullet(line: Any) -> Any:
    cp, _ = decode(line, 0, line.shape[0])
    return cp == 0x25CF or cp == 0x2022 or cp == 0x2A or cp == 0x2D  # ● • * -


@inner
def _ends_with_ellipsis(line: Any) -> Any:
    n = line.shape[0]
    cp, _ = decode(line, previous(line, 0, n), n)
    if cp == _ELLIPSIS:
        return True
    if cp != _STOP:
        return False
    if n >= 3 and line[n - 2] == _STOP and line[n - 3] == _STOP:
        return True
    gaps = n >= 5 and line[n - 2] == _SPACE and line[n - 4] == _SPACE
    return gaps and line[n - 3] == _STOP and line[n - 5] == _STOP


@inner
def _count_lines(text: Any, unicode: Any, segments: Any, scratch: Any, out: Any) -> None:
    n = i = 0
    end = text.shape[0]
    while i < end:
        stop = find_newline(text, i)
        line = text[i:stop]
        i = stop + 1
        before = n
        n = add_segment(line, True, unicode, segments, n)
        if n > before:
            first, last = strip(line, unicode)
            line = line[first:last]
            out[4] += _starts_with_bullet(line)
            out[5] += _ends_with_ellipsis(line)
    count_copies(n, segments, scratch, out)


@inner
def _count_paragraphs(text: Any, unicode: Any, segments: Any, scratch: Any, out: Any) -> None:
    n = begin = i = 0
    end = text.shape[0]
    while begin < end:
        stop = find_newline(text, i)
        if stop < end and not (stop + 1 < end and text[stop + 1] == _NEWLINE):
            i = stop + 1
            continue
        n = add_segment(text[begin:stop], True, unicode, segments, n)
        begin = i = stop + 2
    count_copies(n, segments, scratch, out)


@inner
def _count_split_words(text: Any, n: Any, unicode: Any, words: Any, stops: Any, out: Any) -> None:
    out[0] = n
    for i in range(n):
        cp, _ = decode(text, words.start[i], words.end[i])
        out[_WORDS] += (unicode.flags[unicode.classes[cp]] & (ALPHA | NUMBER)) != 0
        out[1] += words.chars[i]
        out[2] += (words.kinds[i] & ALPHA) != 0
        for s in range(stops.shape[0]):
            out[3] += words.hash[i] == stops[s]


@inner
def _keep_alphanumeric(text: Any, n: Any, unicode: Any, words: Any) -> Any:
    """Drop words that do not begin with a letter or number; returns how many are left."""
    kept = 0
    for i in range(n):
        cp, _ = decode(text, words.start[i], words.end[i])
        words.hash[kept], words.chars[kept] = words.hash[i], words.chars[i]
        kept += (unicode.flags[unicode.classes[cp]] & (ALPHA | NUMBER)) != 0
    return kept


@inner
def _count_ngrams(n: Any, words: Any, scratch: Any, covered: Any, top: Any, dup: Any) -> None:
    sum_characters(n, words.chars, scratch)
    m, _ = number_ngrams(n, 1, words.hash, scratch)
    for order in range(2, 11):
        m, distinct = number_ngrams(keep_repeated(m, scratch), order, words.hash, scratch)
        if order <= 4:
            best = 1
            longest = 0
            for number in range(distinct):
                count, place = scratch.counts[number], np.int64(scratch.first[number])
                chars = scratch.sums[place + order] - scratch.sums[place]
                if count > best or (count == best and count > 1 and chars > longest):
                    best, longest = count, chars
            top[order - 2] = best * longest
            continue
        covered[:n] = False
        for j in range(m):
            if scratch.counts[scratch.number[j]] > 1:
                for k in range(order):
                    covered[scratch.position[j] + k] = True
        for i in range(n):
            dup[order - 5] += words.chars[i] if covered[i] else 0


@kernel
def _measure(offsets: Any, data: Any, apply: Any, unicode: Any, fold: Any, scratch: Any, out: Any) -> None:
    counts = scratch.counts
    for d in range(apply.shape[0]):
        if not apply[d]:
            continue
        text = data[offsets[d] : offsets[d + 1]]
        counts[:] = 0
        _count_lines(text, unicode, scratch.words, scratch.ngrams, counts[_LINES:_PARAGRAPHS])
        _count_paragraphs(text, unicode, scratch.words, scratch.ngrams, counts[_PARAGRAPHS:_WORDS])
        n = split_words(text, WHITESPACE, unicode, fold, scratch.words)
        _count_split_words(text, n, unicode, scratch.words, scratch.stops, counts)
        counts[4] = _count_symbols(text)
        n = split_words(text, UNICODE, unicode, fold[:0], scratch.words)
        n = _keep_alphanumeric(text, n, unicode, scratch.words)
        for i in range(n):
            counts[_WORDS + 1] += scratch.words.chars[i]
        _count_ngrams(n, scratch.words, scratch.ngrams, scratch.covered, counts[_TOP_AT:], counts[_DUP_AT:])
        for k in range(out.shape[0]):
            out[k, d] = counts[k]


def measure(text: TextBuffers, apply: np.ndarray) -> np.ndarray:
    """int64 (len(COUNTED), n) counts of the documents where `apply` (bool (n,)) holds, 0 elsewhere."""
    out = np.zeros((len(COUNTED), len(text.valid)), np.int64)
    room = int(np.diff(text.offsets).max(initial=0)) + 2
    scratch = DclmScratch(
        np.zeros(len(COUNTED), np.int64),
        make_words(room),
        make_scratch(room),
        hash_words(STOP_WORDS, WHITESPACE, case_fold()),
        np.empty(room, np.bool_),
    )
    _measure(text.offsets, text.data, apply & text.valid, unicode_tables(), case_fold(), scratch, out)
    return out
