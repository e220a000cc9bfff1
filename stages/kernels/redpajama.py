"""The document signals of RedPajama-V2 (togethercomputer/RedPajama-Data, app/src/core/quality_signals), as counts.

Two kinds of words. Normalised: ASCII punctuation taken out, lower case, split at white space, lengths after canonical
decomposition. Raw: runs of letters, numbers and `_`, and runs of other characters (NLTK's WordPunctTokenizer), so that
combining marks, which are neither to Python's regular expressions, cut words of Indic scripts as they do there. A letter is
one of a-z only: text in other alphabets has no word "with a letter". Lines are those of the file, blank ones included.
Each RedPajama signal is a quotient of two of these counts: rps_doc_frac_no_alph_words is 1 - rp_alpha_raw_words / rp_raw_words.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.lines import find_newline, strip
from stages.kernels.ngrams import Scratch, keep_repeated, log2, make_scratch, number_ngrams, sum_characters
from stages.kernels.unicode_classes import (
    ALPHA,
    LOWER,
    NUMBER,
    SPACE,
    UPPER,
    decode,
    lower_table,
    previous,
    unicode_tables,
)
from stages.kernels.words import Words, make_words, mix

COUNTED: Final = (
    "rp_chars", "rp_curly_brackets", "rp_symbols", "rp_sentences", "rp_lorem_ipsum",
    "rp_lines", "rp_ellipsis_lines", "rp_terminal_lines", "rp_bullet_lines",
    "rp_raw_words", "rp_alpha_raw_words", "rp_caps_raw_words",
    "rp_words", "rp_word_chars", "rp_unique_words",
    *(f"rp_top_{n}gram_chars" for n in (2, 3, 4)), *(f"rp_dup_{n}gram_chars" for n in (5, 6, 7, 8, 9, 10)),
)  # fmt: skip
_LINES, _RAW, _WORDS, _TOP, _DUP = 5, 9, 12, 15, 18
_NEWLINE, _STOP, _HASH, _ELLIPSIS, _UNDERSCORE = 0x0A, 0x2E, 0x23, 0x2026, 0x5F
_WORDLIKE: Final = ALPHA | NUMBER
_LN2: Final = 0.6931471805599453
_SEED: Final = np.uint64(0xCBF29CE484222325)


class RedPajamaScratch(NamedTuple):
    """Scratch for one document after the other. `covered`: bool, room for all words."""

    counts: np.ndarray
    words: Words
    ngrams: Scratch
    covered: np.ndarray


@cache
def decomposed_lengths() -> np.ndarray:
    """uint8 (0x20000,): code points of each one's canonical decomposition, which Unicode never changes."""
    table = np.ones(0x20000, np.uint8)
    for cp in range(0xC0, 0x20000):
        if unicodedata.decomposition(chr(cp)) or 0xAC00 <= cp < 0xD7A4:
            table[cp] = len(unicodedata.normalize("NFD", chr(cp)))
    table.flags.writeable = False
    return table


@inlined
def _is_punctuation(cp: Any) -> Any:
    """string.punctuation."""
    return 0x21 <= cp <= 0x2F or 0x3A <= cp <= 0x40 or 0x5B <= cp <= 0x60 or 0x7B <= cp <= 0x7E


@inner
def _count_text(text: Any, unicode: Any, out: Any) -> None:
    """Characters, brackets, symbols, sentences; raw words of both sorts."""
    dots = i = 0
    speaks = False  # a word character since the last . ! ?
    kind = 0  # of the open raw word: 1 word characters, 2 others
    alpha: Any = False
    upper: Any = False
    lower: Any = False
    while i <= text.shape[0]:
        now = 0
        cp = np.int64(0x20)
        flags = np.uint32(0)
        if i < text.shape[0]:
            cp, i = decode(text, i, text.shape[0])
            flags = unicode.flags[unicode.classes[cp]]
            out[0] += 1
            out[1] += cp == 0x7B or cp == 0x7D
            dots = dots + 1 if cp == _STOP else 0
            if dots == 3:
                out[2] += 1
                dots = 0
            out[2] += cp == _HASH
            out[2] += cp == _ELLIPSIS
            word = (flags & _WORDLIKE) != 0 or cp == _UNDERSCORE
            now = 1 if word else (0 if flags & SPACE else 2)
            if cp == _STOP or cp == 0x21 or cp == 0x3F:
                out[3] += speaks
                speaks = False
            speaks |= word
        else:
            i += 1
        if now != kind:
            if kind:
                out[_RAW] += 1
                out[_RAW + 1] += alpha
                out[_RAW + 2] += upper and not lower
            kind, alpha, upper, lower = now, False, False, False
        alpha |= 0x41 <= cp <= 0x5A or 0x61 <= cp <= 0x7A
        upper |= (flags & UPPER) != 0
        lower |= (flags & LOWER) != 0
    out[3] += speaks


@inner
def _count_lines(text: Any, unicode: Any, out: Any) -> None:
    i = 0
    while i < text.shape[0]:
        stop = find_newline(text, i)
        first, last = strip(text[i:stop], unicode)
        line = text[i + first : i + last]
        i = stop + 1
        n = line.shape[0]
        out[0] += 1
        if n:
            cp, _ = decode(line, previous(line, 0, n), n)
            dots = n >= 3 and line[n - 1] == _STOP and line[n - 2] == _STOP and line[n - 3] == _STOP
            out[1] += cp == _ELLIPSIS or dots
            out[2] += cp == _STOP or cp == 0x21 or cp == 0x3F or cp == 0x201D  # . ! ? ”
            cp, _ = decode(line, 0, n)
            out[3] += (
                cp == 0x2022 or cp == 0x2023 or cp == 0x25B6 or cp == 0x25C0 or cp == 0x25E6
                or cp == 0x25A0 or cp == 0x25A1 or cp == 0x25AA or cp == 0x25AB or cp == 0x2013
            )  # fmt: skip


@inner
def _normalised_words(text: Any, unicode: Any, lower: Any, lengths: Any, words: Any) -> Any:
    """Hashes and lengths into `words`; returns how many."""
    n = chars = i = 0
    h = _SEED
    while i <= text.shape[0]:
        if i < text.shape[0]:
            cp, i = decode(text, i, text.shape[0])
            space = (unicode.flags[unicode.classes[cp]] & SPACE) != 0
        else:
            cp, space, i = np.int64(0x20), True, i + 1
        if space:
            if chars:
                words.hash[n], words.chars[n] = h | np.uint64(1), chars
                n += 1
            chars, h = 0, _SEED
        elif not _is_punctuation(cp):
            small = np.int64(lower[cp]) if cp < lower.shape[0] else cp
            h = mix(h, small)
            chars += lengths[small] if small < lengths.shape[0] else 1
    return n


@inner
def _count_ngrams(n: Any, words: Any, scratch: Any, covered: Any, out: Any, top: Any, dup: Any) -> Any:
    """Counts of words and n-grams; returns the entropy of the words, in nats."""
    sum_characters(n, words.chars, scratch)
    m, distinct = number_ngrams(n, 1, words.hash, scratch)
    out[0], out[1], out[2] = n, scratch.sums[n], distinct
    weighted = 0.0
    for number in range(distinct):
        if scratch.counts[number] > 1:
            weighted += scratch.counts[number] * log2(scratch.counts[number])
    entropy = max(0.0, log2(n) - weighted / n) * _LN2 if n else 0.0
    for order in range(2, 11):
        m, distinct = number_ngrams(keep_repeated(m, scratch), order, words.hash, scratch)
        if order <= 4:
            best, place = 1, 0
            for number in range(distinct):
                if scratch.counts[number] > best:
                    best, place = scratch.counts[number], scratch.first[number]
            if best > 1:
                top[order - 2] = best * (scratch.sums[place + order] - scratch.sums[place])
            continue
        covered[:n] = False
        for j in range(m):
            if scratch.counts[scratch.number[j]] > 1:
                for k in range(order):
                    covered[scratch.position[j] + k] = True
        for i in range(n):
            dup[order - 5] += words.chars[i] if covered[i] else 0
    return entropy


@inner
def _count_pairs(n: Any, words: Any, first: Any, second: Any) -> Any:
    """How often two words follow each other: lorem ipsum, in normalised text."""
    found = 0
    for i in range(n - 1):
        found += words.hash[i] == first and words.hash[i + 1] == second
    return found


@kernel
def _measure(
    offsets: Any, data: Any, apply: Any, unicode: Any, lower: Any, lengths: Any, lorem: Any, scratch: Any, out: Any,
    entropy: Any,
) -> None:  # fmt: skip
    counts = scratch.counts
    for d in range(apply.shape[0]):
        if not apply[d]:
            continue
        text = data[offsets[d] : offsets[d + 1]]
        counts[:] = 0
        _count_text(text, unicode, counts)
        _count_lines(text, unicode, counts[_LINES:_RAW])
        n = _normalised_words(text, unicode, lower, lengths, scratch.words)
        counts[4] = _count_pairs(n, scratch.words, lorem[0], lorem[1])
        entropy[d] = _count_ngrams(
            n, scratch.words, scratch.ngrams, scratch.covered, counts[_WORDS:_TOP], counts[_TOP:_DUP], counts[_DUP:]
        )
        for k in range(out.shape[0]):
            out[k, d] = counts[k]


def _hash(word: str) -> int:
    h = int(_SEED)
    for c in word:
        h = ((h ^ ord(c)) * 0x9E3779B97F4A7C15) % (1 << 64)
        h ^= h >> 32
    return h | 1


def measure(text: TextBuffers, apply: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the documents where `apply` (bool (n,)) holds, 0 elsewhere.

    Returns:
        int64 (len(COUNTED), n) counts, and float32 (n,) entropy of the normalised words in nats.
    """
    out = np.zeros((len(COUNTED), len(text.valid)), np.int64)
    room = int(np.diff(text.offsets).max(initial=0)) + 2
    scratch = RedPajamaScratch(
        np.zeros(len(COUNTED), np.int64), make_words(room), make_scratch(room), np.empty(room, np.bool_)
    )
    entropy = np.zeros(len(text.valid), np.float32)
    lorem = np.array([_hash("lorem"), _hash("ipsum")], np.uint64)
    _measure(
        text.offsets, text.data, apply & text.valid, unicode_tables(), lower_table(), decomposed_lengths(), lorem,
        scratch, out, entropy,
    )  # fmt: skip
    return out, entropy
