"""Words of documents, from Arrow buffers: where they start and end, their hashes and lengths, per language's word unit.

Units:
    WHITESPACE  what `str.split()` gives: runs without white space, punctuation included
    UNICODE     word boundaries of UAX #29 (but for WB3c, WB15 and WB16, which concern emoji only), keeping the segments
                that hold a letter or a number; an ideograph or a hiragana character is a word by itself, a run of
                katakana is one word; in Thai, Lao, Khmer, Burmese and Tibetan, whose words only a dictionary finds, a
                letter with its vowel and tone marks is one
    NONE        the language is unknown

`split_words` is called by other kernels, once per document, with scratch arrays they own; `word_table` does a whole batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from stages.kernels.buffers import TextBuffers, text_buffers
from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.unicode_classes import (
    ALPHA,
    HAN,
    KANA,
    MARK,
    NUMBER,
    SPACE,
    UNSPACED,
    WB_ALETTER,
    WB_DOUBLE_QUOTE,
    WB_EXTEND,
    WB_EXTEND_NUM_LET,
    WB_FORMAT,
    WB_HEBREW_LETTER,
    WB_KATAKANA,
    WB_MID_LETTER,
    WB_MID_NUM,
    WB_MID_NUM_LET,
    WB_NUMERIC,
    WB_SINGLE_QUOTE,
    WB_ZWJ,
    decode,
    lower_table,
    unicode_tables,
)

NONE: Final = 0
WHITESPACE: Final = 1
UNICODE: Final = 2
UNITS: Final[Mapping[str, int]] = {"none": NONE, "whitespace": WHITESPACE, "unicode": UNICODE}

# Languages written with spaces between words: ISO 639-1, and the three-letter codes of common language identifiers.
_SPACED: Final = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn br bs ca ce ch co cr cs cu cv cy da de dv ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ik io is it iu jv "
    "ka kg ki kj kk kl kn ko kr ks ku kv kw ky la lb lg li ln lt lu lv mg mh mi mk ml mn mr ms mt na nb nd ne ng "
    "nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr "
    "ss st su sv sw ta te tg ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo zu als arz ast azb "
    "bar bcl bpy bxr cbk ceb ckb diq dsb dty eml fil frr gom gsw hif hsb ilo jbo kab krc lez lmo lrc mai mhr min "
    "mrj mwl myv mzn nah nap nds new pam pfl pms pnb rue sah scn sco tyv vec vep vls war xal xmf "
)
# Written without spaces, but every character (with its marks) is a word good enough for n-grams and counts.
_CHARACTERS: Final = "zh ja yue wuu lzh nan hak cmn jpn th lo km my bo dz shn tha lao khm mya bod"

#: Word unit by language code. Codes that are missing (`und`, a label nobody has declared) have none.
LANGUAGE_UNITS: Final[Mapping[str, int]] = dict.fromkeys(_SPACED.split(), WHITESPACE) | dict.fromkeys(
    _CHARACTERS.split(), UNICODE
)


def word_units(languages: pa.Array, otherwise: int = NONE, table: Mapping[str, int] = LANGUAGE_UNITS) -> np.ndarray:
    """Word unit of each document.

    Args:
        languages: string column of language codes, null where unknown.
        otherwise: the unit of codes that are not in the table (null included). Deduplication takes UNICODE here.
        table: code -> unit.

    Returns:
        uint8 (n,).
    """
    encoded = languages.dictionary_encode()
    per_code = [table.get(code, otherwise) for code in encoded.dictionary.to_pylist()]
    lookup = np.array([*per_code, otherwise], np.uint8)
    index: np.ndarray = encoded.indices.fill_null(len(per_code)).to_numpy(zero_copy_only=False)
    units: np.ndarray = lookup[index]
    return units


class Words(NamedTuple):
    """Room for the words of one document, or the words of a batch. All arrays have one length.

    Attributes:
        start: int64, position of the first byte: in the document (`split_words`), in the batch's data (`word_table`).
        end: int64, position after the last byte.
        hash: uint64 of the word's code points (after `fold`), never 0; equal words have equal hashes, in any document.
        chars: int32, code points.
        kinds: uint32, property bits (unicode_classes) that any of its characters has.
    """

    start: np.ndarray
    end: np.ndarray
    hash: np.ndarray
    chars: np.ndarray
    kinds: np.ndarray


def make_words(size: int) -> Words:
    """Uninitialised room for `size` words. A document of b bytes has at most ``b // 2 + 1`` WHITESPACE words, b UNICODE ones."""
    return Words(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.uint64),
        np.empty(size, np.int32),
        np.empty(size, np.uint32),
    )


#: For `fold`: leave characters as they are.
NO_FOLD: Final = np.zeros(0, np.int32)
NO_FOLD.flags.writeable = False


def case_fold() -> np.ndarray:
    """For `fold`: simple lower case."""
    return lower_table()


_SEED: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)
_FNV: Final = np.uint64(0x100000001B3)
_WORDLIKE: Final = ALPHA | NUMBER | HAN | KANA | UNSPACED


@inlined
def mix(h: Any, value: Any) -> Any:
    """uint64: `h` with one more value in it. Not a polynomial modulo 2^64: those collide on short made-up strings."""
    h = (h ^ np.uint64(value)) * _PRIME
    return h ^ (h >> np.uint64(32))


@inlined
def _step(h: Any, value: Any) -> Any:
    """FNV-1a on code points: half the latency of `mix`, which finishes the hash of a word."""
    return (h ^ np.uint64(value)) * _FNV


@inlined
def _finish(h: Any, chars: Any) -> Any:
    return mix(h, chars) | np.uint64(1)


@inner
def split_words(text: Any, unit: Any, unicode: Any, fold: Any, words: Any) -> Any:
    """Words of a document into `words`, from index 0; positions count from the document's first byte.

    Args:
        text: uint8, UTF-8; malformed bytes count as U+FFFD. A slice of the batch's data: with positions that begin at 0
            numba drops its checks for negative ones, and loops become twice as fast, or vectors.
        unit: NONE, WHITESPACE or UNICODE.
        unicode: `unicode_tables()`.
        fold: int32, code point -> code point, applied before hashing; positions beyond it stay (NO_FOLD, `case_fold()`).
        words: room enough, see `make_words`.

    Returns:
        How many words, int64.
    """
    if unit == WHITESPACE:
        return _split_spaces(text, unicode, fold, words)
    if unit == UNICODE:
        return _split_boundaries(text, unicode, fold, words)
    return 0


@inner
def _split_spaces(text: Any, unicode: Any, fold: Any, words: Any) -> Any:
    n = 0
    i, end = 0, text.shape[0]
    while i < end:
        cp, after = decode(text, i, end)
        flags = unicode.flags[unicode.classes[cp]]
        if flags & SPACE:
            i = after
            continue
        begin, h, chars, kinds = i, _SEED, 0, np.uint32(0)
        while not flags & SPACE:
            h = _step(h, fold[cp] if cp < fold.shape[0] else cp)
            kinds |= flags
            chars += 1
            i = after
            if i == end:
                break
            cp, after = decode(text, i, end)
            flags = unicode.flags[unicode.classes[cp]]
        words.start[n], words.end[n], words.hash[n] = begin, i, _finish(h, chars)
        words.chars[n], words.kinds[n] = chars, kinds
        n += 1
    return n


_LETTER: Final = 1 << WB_ALETTER | 1 << WB_HEBREW_LETTER
_IGNORED: Final = 1 << WB_EXTEND | 1 << WB_FORMAT | 1 << WB_ZWJ  # WB4: they belong to what is before them
_AFTER_LETTER: Final = _LETTER | 1 << WB_NUMERIC | 1 << WB_EXTEND_NUM_LET
_MID_NUM_LET: Final = 1 << WB_MID_NUM_LET | 1 << WB_SINGLE_QUOTE
_MID_LETTER: Final = _MID_NUM_LET | 1 << WB_MID_LETTER
_MID_NUM: Final = _MID_NUM_LET | 1 << WB_MID_NUM


@inlined
def _joins(left: Any, right: Any) -> Any:
    """Whether UAX #29 keeps two neighbouring characters together: WB5, WB7a, WB8-WB10, WB13-WB13b."""
    bit = 1 << right
    if left == WB_ALETTER or left == WB_NUMERIC:  # noqa: SIM109
        return bit & _AFTER_LETTER
    if left == WB_HEBREW_LETTER:
        return bit & (_AFTER_LETTER | 1 << WB_SINGLE_QUOTE)
    if left == WB_SINGLE_QUOTE:  # only ever in a word after a Hebrew letter
        return bit & _LETTER
    if left == WB_KATAKANA:
        return bit & (1 << WB_KATAKANA | 1 << WB_EXTEND_NUM_LET)
    if left == WB_EXTEND_NUM_LET:
        return bit & (_AFTER_LETTER | 1 << WB_KATAKANA)
    return 0


@inlined
def _bridges(left: Any, mid: Any, right: Any) -> Any:
    """Whether `mid` joins its neighbours: WB6/WB7 (can't), WB7b/WB7c (Hebrew abbreviations), WB11/WB12 (3.2)."""
    if left == WB_NUMERIC:
        return right == WB_NUMERIC and (1 << mid) & _MID_NUM
    if not ((1 << left) & _LETTER and (1 << right) & _LETTER):
        return False
    if mid == WB_DOUBLE_QUOTE:
        return left == WB_HEBREW_LETTER and right == WB_HEBREW_LETTER
    return (1 << mid) & _MID_LETTER


@inner
def _split_boundaries(text: Any, unicode: Any, fold: Any, words: Any) -> Any:
    n = 0
    chars = 0  # of the open segment up to `stop`
    kinds = np.uint32(0)
    h = _SEED
    begin = stop = 0
    last = 0  # Word_Break value of the open segment's last character that is not Extend, Format or ZWJ
    # A Mid* character after a letter or digit belongs to the word only if another follows: until then it waits here.
    mid = 0
    mid_chars = 0
    mid_h = _SEED
    i, end = 0, text.shape[0]
    while i < end:
        cp, after = decode(text, i, end)
        c = unicode.classes[cp]
        flags = unicode.flags[c]
        wb = unicode.breaks[c]
        folded = fold[cp] if cp < fold.shape[0] else cp
        if chars and (1 << wb) & _IGNORED:
            if mid:
                mid_h = _step(mid_h, folded)
                mid_chars += 1
            else:
                h = _step(h, folded)
                chars += 1
                stop = after
        elif chars and mid and _bridges(last, mid, wb):
            h = _step(mid_h, folded)
            kinds |= flags
            chars += mid_chars + 1
            stop, last, mid = after, wb, 0
        elif chars and not mid and _joins(last, wb):
            h = _step(h, folded)
            kinds |= flags
            chars += 1
            stop, last = after, wb
        elif chars and not mid and WB_SINGLE_QUOTE <= wb <= WB_MID_NUM:
            mid, mid_chars, mid_h = wb, 1, _step(h, folded)
        else:
            if chars and kinds & _WORDLIKE:
                words.start[n], words.end[n], words.hash[n] = begin, stop, _finish(h, chars)
                words.chars[n], words.kinds[n] = chars, kinds
                n += 1
            # White space and plain punctuation open nothing: no word can begin with them.
            opens = (flags & _WORDLIKE and not flags & MARK) or wb == WB_EXTEND_NUM_LET
            chars = 1 if opens else 0
            begin, stop, kinds, last, mid = i, after, flags, wb, 0
            h = _step(_SEED, folded)
        i = after
    if chars and kinds & _WORDLIKE:
        words.start[n], words.end[n], words.hash[n] = begin, stop, _finish(h, chars)
        words.chars[n], words.kinds[n] = chars, kinds
        n += 1
    return n


@kernel
def _fill(
    data: Any, offsets: Any, valid: Any, units: Any, d: Any, unicode: Any, fold: Any, words: Any, first: Any
) -> Any:
    """Words of documents from `d` on, until the next one might not fit into `words`. Returns the first one not done."""
    n = first[d]
    while d < valid.shape[0]:
        if offsets[d + 1] - offsets[d] + 1 > words.start.shape[0] - n:
            break
        if valid[d]:
            room = Words(words.start[n:], words.end[n:], words.hash[n:], words.chars[n:], words.kinds[n:])
            found = split_words(data[offsets[d] : offsets[d + 1]], units[d], unicode, fold, room)
            for k in range(found):
                room.start[k] += offsets[d]
                room.end[k] += offsets[d]
            n += found
        d += 1
        first[d] = n
    return d


def word_table(text: TextBuffers, units: np.ndarray, fold: np.ndarray = NO_FOLD) -> tuple[np.ndarray, Words]:
    """Words of a batch of documents.

    Args:
        text: from `text_buffers`.
        units: uint8 (n,), from `word_units`.
        fold: see `split_words`.

    Returns:
        int64 (n + 1,) index of each document's first word, and the words of all documents.
    """
    documents = len(text.valid)
    first = np.zeros(documents + 1, np.int64)
    longest = int(np.diff(text.offsets).max(initial=0)) + 1
    words = make_words(longest + int(text.offsets[-1] - text.offsets[0]) // 6)
    done = 0
    while True:
        done = _fill(text.data, text.offsets, text.valid, units, done, unicode_tables(), fold, words, first)
        if done == documents:
            return first, Words(*(a[: first[-1]] for a in words))
        larger = make_words(longest + 2 * len(words.start))
        for old, new in zip(words, larger, strict=True):
            new[: first[done]] = old[: first[done]]
        words = larger


def hash_words(words: Iterable[str], unit: int, fold: np.ndarray = NO_FOLD) -> np.ndarray:
    """uint64 hashes of single words, as `split_words` gives them, in order."""
    text = text_buffers(pa.array(list(words), pa.large_string()))
    hashes = word_table(text, np.full(len(text.valid), unit, np.uint8), fold)[1].hash
    hashes.flags.writeable = False
    return hashes
