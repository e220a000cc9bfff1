"""The signals of datatrove's filters, by its own definitions (0.10, gopher_quality, gopher_repetition, fineweb_quality).

What is different from stages/kernels/signals.py, and why a document fares differently under the two:
    words         as spaCy cuts English (affix_words.py): punctuation marks are words, and stop words keep their case
    lines         three kinds: str.splitlines() with blank lines for Gopher's bullets; split at runs of line feeds for
                  repetition; not blank, but not stripped either, for FineWeb
    top n-grams   the most frequent even where it occurs once, its characters and spaces times its occurrences
    n-grams seen before   after a hit the next n words are skipped; words are joined without spaces ("ab c" is "a bc")
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.affix_tables import ENDS_LINE, HASH_BASE, affix_tables
from stages.kernels.affix_words import HAS_LETTER, HAS_TEXT, Chunk, make_chunk, split_affixes
from stages.kernels.buffers import TextBuffers
from stages.kernels.characters import COUNTED as CHARACTERS
from stages.kernels.characters import CharacterScratch, count_characters, make_character_scratch
from stages.kernels.given_words import take_words
from stages.kernels.jit import inner, kernel
from stages.kernels.lines import find_newline, hash_bytes, insert, strip
from stages.kernels.ngrams import Scratch, keep_repeated, make_scratch, number_ngrams, sum_characters
from stages.kernels.unicode_classes import decode, previous, unicode_tables
from stages.kernels.words import Words, make_words

COUNTED: Final = (
    "dt_chars", "dt_hashes", "dt_ellipses", "dt_newlines", "dt_chars_in_lines",
    "dt_split_lines", "dt_bullet_lines", "dt_ellipsis_lines",
    "dt_paragraphs", "dt_dup_paragraphs", "dt_dup_paragraph_chars", "dt_lines", "dt_dup_lines", "dt_dup_line_chars",
    "dt_text_lines", "dt_terminal_lines", "dt_short_lines", "dt_dup_text_line_chars",
    "dt_words", "dt_text_words", "dt_text_word_chars", "dt_alpha_words", "dt_stop_words",
    *(f"dt_top_{n}gram_chars" for n in (2, 3, 4)), *(f"dt_dup_{n}gram_chars" for n in (5, 6, 7, 8, 9, 10)),
)  # fmt: skip
_SPLIT, _PARAGRAPHS, _LINES, _TEXT_LINES, _WORDS, _TOP, _DUP = 5, 8, 11, 14, 18, 23, 26
_SHORT: Final = 30
_INVERSE: Final = np.uint64(pow(int(HASH_BASE), -1, 1 << 64))
_STOP, _BULLET, _HYPHEN, _ELLIPSIS, _NEWLINE, _RETURN = 0x2E, 0x2022, 0x2D, 0x2026, 0x0A, 0x0D


class DatatroveScratch(NamedTuple):
    """Scratch for one document after the other; `seen`, `scaled`, `powers`: uint64, the size of ngrams.keys and of words."""

    characters: CharacterScratch
    counts: np.ndarray
    chunk: Chunk
    words: Words
    ngrams: Scratch
    seen: np.ndarray
    scaled: np.ndarray
    powers: np.ndarray


@inner
def _clear(table: Any, entries: Any) -> Any:
    """Empty a hash set for so many entries, at most as many as its scratch was made for; returns its mask."""
    # as `make_scratch`: one entry more, and a text of line feeds alone wrote behind the table
    size = 16
    while size < 2 * entries:
        size *= 2
    table[:size] = np.uint64(0)
    return size - 1


@inner
def _split_lines(text: Any, unicode: Any, out: Any) -> None:
    """Lines as str.splitlines() gives them, those that begin with • or -, those that end in an ellipsis."""
    i, end = 0, text.shape[0]
    while i < end:
        begin = stop = i
        while i < end:
            stop = i
            cp, i = decode(text, i, end)
            if 0x0A <= cp <= 0x0D or 0x1C <= cp <= 0x1E or cp == 0x85 or cp == 0x2028 or cp == 0x2029:
                break
            stop = i
        if i < end and text[i - 1] == _RETURN and text[i] == _NEWLINE:
            i += 1
        first, last = strip(text[begin:stop], unicode)
        line = text[begin + first : begin + last]
        n = line.shape[0]
        out[0] += 1
        if n:
            cp, _ = decode(line, 0, n)
            out[1] += cp == _BULLET
            out[1] += cp == _HYPHEN
            cp, _ = decode(line, previous(line, 0, n), n)
            dots = n >= 3 and line[n - 1] == _STOP and line[n - 2] == _STOP and line[n - 3] == _STOP
            out[2] += cp == _ELLIPSIS or dots


@kernel
def _pieces(text: Any, newlines: Any, seen: Any, out: Any) -> None:
    """What is between runs of at least so many line feeds, empty pieces at the ends included: number, repeats, characters."""
    most = 1
    for k in range(text.shape[0]):
        most += text[k] == _NEWLINE
    mask = _clear(seen, most)
    begin = i = 0
    end = text.shape[0]
    while True:
        stop = find_newline(text, i)
        i = stop
        while i < end and text[i] == _NEWLINE:
            i += 1
        if stop < end and i - stop < newlines:
            continue
        key, chars = hash_bytes(text[begin:stop])
        out[0] += 1
        if insert(seen, mask, key):
            out[1] += 1
            out[2] += chars
        if stop == end:
            break
        begin = i


@inner
def _text_lines(text: Any, newlines: Any, unicode: Any, tables: Any, seen: Any, out: Any) -> None:
    """FineWeb's lines: not blank, white space at their ends kept."""
    mask = _clear(seen, newlines + 1)
    i, end = 0, text.shape[0]
    while i <= end:
        stop = find_newline(text, i)
        line = text[i:stop]
        i = stop + 1
        first, last = strip(line, unicode)
        if first == last:
            continue
        n = line.shape[0]
        key, chars = hash_bytes(line)
        cp, _ = decode(line, previous(line, 0, n), n)
        out[0] += 1
        out[1] += (tables.traits[cp] & ENDS_LINE) != 0
        out[2] += chars <= _SHORT
        if insert(seen, mask, key):
            out[3] += chars


@inner
def _count_words(n: Any, words: Any, stops: Any, out: Any) -> None:
    seen = 0
    for i in range(n):
        kinds = words.kinds[i]
        if kinds & HAS_TEXT:
            out[1] += 1
            out[2] += words.chars[i]
        out[3] += (kinds & HAS_LETTER) != 0
        if words.chars[i] <= 4:
            for s in range(stops.shape[0]):
                seen |= (words.hash[i] == stops[s]) << s
    out[0] = n
    while seen:
        seen &= seen - 1
        out[4] += 1


@inner
def _top_ngrams(n: Any, words: Any, scratch: Any, out: Any) -> None:
    sum_characters(n, words.chars, scratch)
    m, _ = number_ngrams(n, 1, words.hash, scratch)
    for order in range(2, 5):
        if n < order:
            break
        m, distinct = number_ngrams(keep_repeated(m, scratch), order, words.hash, scratch)
        best, place = 1, 0
        for number in range(distinct):
            if scratch.counts[number] > best:
                best, place = scratch.counts[number], scratch.first[number]
        out[order - 2] = best * (scratch.sums[place + order] - scratch.sums[place] + order - 1)


@inner
def _seen_ngrams(n: Any, words: Any, scratch: Any, out: Any) -> None:
    # A word's hash is a polynomial of its characters, so hashes of joined words follow from sums over all words before
    # them, scaled back by the inverse of the base (odd, so it has one modulo 2^64): one subtraction, one multiplication.
    power = inverse = np.uint64(1)
    scratch.scaled[0], scratch.powers[0] = np.uint64(0), power
    for i in range(n):
        for _ in range(words.chars[i]):
            power *= HASH_BASE
            inverse *= _INVERSE
        scratch.scaled[i + 1] = scratch.scaled[i] + words.hash[i] * inverse
        scratch.powers[i + 1] = power
    for order in range(5, 11):
        if n < order:
            break
        mask = _clear(scratch.seen, n)
        i = 0
        while i + order <= n:
            h = (scratch.scaled[i + order] - scratch.scaled[i]) * scratch.powers[i + order]
            # Not `h | 1`: pieces that end in 2 and in 3 have neighbouring hashes.
            if insert(scratch.seen, mask, h if h != np.uint64(0) else np.uint64(1)):
                out[order - 5] += scratch.ngrams.sums[i + order] - scratch.ngrams.sums[i]
                i += order
            else:
                i += 1


@kernel
def _measure(
    offsets: Any, data: Any, apply: Any, pieces: Any, firsts: Any, unicode: Any, tables: Any, scratch: Any, out: Any
) -> None:
    counts = scratch.counts
    for d in range(apply.shape[0]):
        if not apply[d]:
            continue
        text = data[offsets[d] : offsets[d + 1]]
        count_characters(text, unicode, scratch.characters, counts)
        chars, newlines = counts[0], counts[2]
        hashes, ellipses = counts[13], counts[14]
        counts[:] = 0
        counts[0], counts[1], counts[2], counts[3], counts[4] = chars, hashes, ellipses, newlines, chars - newlines
        _split_lines(text, unicode, counts[_SPLIT:])
        first, last = strip(text, unicode)
        _pieces(text[first:last], 2, scratch.seen, counts[_PARAGRAPHS:])
        _pieces(text, 1, scratch.seen, counts[_LINES:])
        _text_lines(text, newlines, unicode, tables, scratch.seen, counts[_TEXT_LINES:])
        if firsts.shape[0]:
            n = take_words(text, pieces[firsts[d] : firsts[d + 1]], tables, scratch.words)
        else:
            n = split_affixes(text, tables, scratch.chunk, scratch.words)
        _count_words(n, scratch.words, tables.stops, counts[_WORDS:])
        _top_ngrams(n, scratch.words, scratch.ngrams, counts[_TOP:])
        _seen_ngrams(n, scratch.words, scratch, counts[_DUP:])
        for k in range(out.shape[0]):
            out[k, d] = counts[k]


class Pieces(NamedTuple):
    """What a dictionary has cut documents into.

    Attributes:
        chars: int32, code points of each piece; the pieces of a document are all of it.
        firsts: int64 (n + 1,), each document's first piece.
        stops: uint64, hashes (`string_hash`) of at most 64 stop words.
    """

    chars: np.ndarray
    firsts: np.ndarray
    stops: np.ndarray


_NO_PIECES: Final = Pieces(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.uint64))
for _view in _NO_PIECES:
    _view.flags.writeable = False


def measure(text: TextBuffers, apply: np.ndarray, pieces: Pieces = _NO_PIECES) -> np.ndarray:
    """int32 (len(COUNTED), n) counts of the documents where `apply` (bool (n,)) holds, 0 elsewhere.

    Words are what spaCy cuts English into, or `pieces` where there are any.
    """
    out = np.zeros((len(COUNTED), len(text.valid)), np.int32)
    room = int(np.diff(text.offsets).max(initial=0)) + 1
    ngrams = make_scratch(room)
    scratch = DatatroveScratch(
        make_character_scratch(),
        np.zeros(max(len(COUNTED), len(CHARACTERS)), np.int64),
        make_chunk(room),
        make_words(room),
        ngrams,
        np.empty(len(ngrams.keys), np.uint64),
        np.empty(room + 1, np.uint64),
        np.empty(room + 1, np.uint64),
    )
    tables = affix_tables()
    if len(pieces.firsts):
        tables = tables._replace(stops=pieces.stops)
    _measure(
        text.offsets, text.data, apply & text.valid, pieces.chars, pieces.firsts, unicode_tables(), tables, scratch, out
    )
    return out
