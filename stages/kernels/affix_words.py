# ruff: noqa: SIM109 - comparisons are cheaper to compile than membership in a tuple
"""Words as spaCy's English tokenizer cuts them, punctuation marks included: the word unit of datatrove's filters.

What white space separates is peeled from both ends (punctuation, quotes, currency, symbols, units after digits, 's), unless
what is left is a known contraction or abbreviation; the rest is kept whole if it is a web address, else cut inside (at
ellipses, at hyphens, colons, slashes and commas between letters). This restates the published rules of spaCy 3.8 for
English on code points; on web pages it cuts like spaCy in all but about one word in a thousand.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.jit import kernel
from stages.kernels.lines import find_newline
from stages.kernels.unicode_classes import (
    ALPHA,
    CODE_POINTS,
    LOWER,
    MARK,
    PUNCTUATION,
    SPACE,
    TERMINAL,
    UPPER,
    decode,
    unicode_tables,
)
from stages.kernels.unicode_classes import ICON as ICON_FLAG
from stages.kernels.words import make_words

# Bits of `traits`.
PREFIX: Final = 1 << 0  # a prefix by itself
SUFFIX: Final = 1 << 1  # a suffix by itself
QUOTE: Final = 1 << 2
MARKS: Final = 1 << 3  # punctuation after which a full stop is a suffix
LOWERCASE: Final = 1 << 4  # lower case or of a script without case
UPPERCASE: Final = 1 << 5  # upper case or of a script without case
ICON: Final = 1 << 6
CURRENCY: Final = 1 << 7
WHITE: Final = 1 << 8
IS_DIGIT: Final = 1 << 9  # 0-9
IS_PUNCTUATION: Final = 1 << 10  # category P*
PERIOD: Final = 1 << 11  # ends a sentence when a word of its own
NOT_SYMBOL: Final = 1 << 12  # not among the characters datatrove calls punctuation
LETTER: Final = 1 << 13  # str.isalpha()
LETTERS: Final = LOWERCASE | UPPERCASE

_MARKS: Final = "…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"
_QUOTES: Final = "'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉⟦⟧"
_CURRENCY: Final = "$£€¥฿₽﷼₴₠₡₢₣₤₥₦₧₨₩₪₫₭₮₯₰₱₲₳₵₶₷₸₹₺₻₼₾₿"
#: What datatrove's `PUNCTUATION_SET` holds besides terminal marks.
_SYMBOLS: Final = "!/—”:％１〈&(、━\\【#%「」，】；+^]~“《„';’{|∶´[=-`*．（–？！：$～«〉,><》)?）。…@_.\"}►»"
_NOT_PERIODS: Final = "\u061d\u061e\u2e3c"  # terminal in Unicode; the sentence cutter does not know them
# A full stop followed by nothing else ends a word after one of these.
_BEFORE_STOP: Final = "%²-+|()?:"

_UNITS: Final = (
    "km km² km³ m m² m³ dm dm² dm³ cm cm² cm³ mm mm² mm³ ha µm nm yd in ft kg g mg µg t lb oz m/s km/h kmh mph hPa Pa mbar "
    "mb MB kb KB gb GB tb TB T G M K % км км² км³ м м² м³ дм дм² дм³ см см² см³ мм мм² мм³ нм кг г мг м/с км/ч кПа Па мбар "
    "Кб КБ кб Мб МБ мб Гб ГБ гб Тб ТБ"
)


class Affixes(NamedTuple):
    """Tables, as kernels take them.

    Attributes:
        traits: uint16 (0x110000,), bits of each code point.
        keys: uint64 (a power of two), hashes of strings that are cut in a known way or not at all; 0 is empty.
        cuts: int8 (len(keys), 3), where (code points from the start), 0 where no further.
        units: uint64, sorted hashes of units of measurement.
        stops: uint64, hashes of datatrove's stop words.
    """

    traits: np.ndarray
    keys: np.ndarray
    cuts: np.ndarray
    units: np.ndarray
    stops: np.ndarray


HASH_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
_PRIME: Final = np.uint64(0xD6E8FEB86659FD93)
_LONGEST: Final = 14


def string_hash(text: str) -> int:
    """The hash kernels give these code points: a polynomial, so that hashes of joined words follow from theirs."""
    h = 0
    for c in text:
        h = (h * int(HASH_BASE) + ord(c) + 1) % (1 << 64)
    return h


_NEGATED: Final = (
    "could", "do", "does", "did", "had", "may", "might", "must", "need", "ought", "sha", "should", "wo", "would", "ca",
)  # fmt: skip


def _contractions() -> dict[str, tuple[int, ...]]:
    """Contractions by how English builds them, with and without the apostrophe: string -> where it is cut."""
    found: dict[str, tuple[int, ...]] = {}

    def add(*pieces: str) -> None:
        for first in (pieces[0], pieces[0][:1].upper() + pieces[0][1:]):
            for mark in ("'", "’"):
                parts = [first, *(p.replace("'", mark) for p in pieces[1:])]
                found["".join(parts)] = tuple(itertools.accumulate(map(len, parts[:-1])))

    def both(*pieces: str) -> None:
        add(*pieces)
        add(*(p.replace("'", "") for p in pieces))

    pronouns = ["i", "you", "he", "she", "it", "we", "they"]
    questions = ["who", "what", "when", "where", "why", "how", "there", "that", "this", "these", "those"]
    for subject in pronouns + questions:
        for ending in ("'ll", "'d"):
            both(subject, ending)
            both(subject, ending, "'ve")
    for subject in ["i", "you", "we", "they", *(q for q in questions if q not in ("that", "this"))]:
        both(subject, "'ve")
    for subject in ["you", "we", "they", *(q for q in questions if q not in ("that", "this"))]:
        both(subject, "'re")
    for subject in ["he", "she", "it", *(q for q in questions if q not in ("these", "those"))]:
        both(subject, "'s")
    both("i", "'m")
    both("i", "'m", "a")
    for verb in _NEGATED:
        both(verb, "n't")
        both(verb, "n't", "'ve")
    for verb in ("ai", "are", "is", "was", "were", "has", "have", "dare"):
        both(verb, "n't")
    for verb in ("could", "might", "must", "should", "would", "not"):
        both(verb, "'ve")
    for pieces in (("let", "'s"), ("can", "not"), ("gon", "na"), ("got", "ta"), ("c'm", "on")):
        add(*pieces)
    for word in ("ill", "its", "hell", "shell", "shed", "were", "well", "whore"):  # words in their own right
        found.pop(word, None)
        found.pop(word.title(), None)
    for hour, half in itertools.product(range(1, 13), ("am", "pm", "a.m.", "p.m.")):
        found[f"{hour}{half}"] = (len(str(hour)),)
    return found


_ABBREVIATIONS: Final = (
    "Adm. Ak. Ala. Apr. Ariz. Ark. Aug. Bros. Calif. Co. Colo. Conn. Corp. D.C. Dec. Del. Dr. E.G. E.g. Feb. Fla. Ga. Gen. "
    "Gov. I.E. I.e. Ia. Id. Ill. Inc. Ind. Jan. Jr. Jul. Jun. Kan. Kans. Ky. La. Ltd. Mar. Mass. Md. Messrs. Mich. Minn. "
    "Miss. Mo. Mont. Mr. Mrs. Ms. Mt. N.C. N.D. N.H. N.J. N.M. N.Y. Neb. Nebr. Nev. Nov. Oct. Okla. Ore. Pa. Ph.D. Prof. "
    "Rep. Rev. S.C. Sen. Sep. Sept. St. Tenn. Va. Wash. Wis. a.m. p.m. e.g. i.e. co. vs. v.s. and/or w/o C++ <space> '' "
    "' 'S 's 'd 'll 're 'em 'cause 'bout o'clock O'clock ma'am Ma'am ol' goin' doin' somethin' nothin' "
    "): :) :-) :( :-( ;) ;-) :D :-D :P :-P :p :/ :-/ :| :O :-O :* <3 </3 =) =( =D xD XD ^_^ -_- (: (; ): 8) 8-) :o :x :3 :1 :0 "
    "o_O O_o o.O O.o 0.0 0_0 >.< ._. @_@ v.v V.V [: [= ]= =| :] :} :> >:( :'( :') ;D"
)


@cache
def affix_tables() -> Affixes:
    """The tables; built once per process."""
    special = _contractions()
    whole = [*_ABBREVIATIONS.split(), *(f"{c}." for c in "abcdefghijklmnopqrstuvwxyzäöü"), "—"]
    for text in whole:
        for form in (text, text.replace("'", "’")):
            special[form] = ()
    size = 1 << (4 * len(special)).bit_length()
    keys, cuts = np.zeros(size, np.uint64), np.zeros((size, 3), np.int8)
    for text, where in special.items():
        h = string_hash(text)
        slot = ((h * int(_PRIME)) % (1 << 64) >> 32) & (size - 1)
        while keys[slot] not in (0, h):
            slot = (slot + 1) & (size - 1)
        keys[slot] = h
        cuts[slot, : len(where)] = where
    units = np.array(sorted(string_hash(u) for u in _UNITS.split()), np.uint64)
    stops = np.array([string_hash(w) for w in ("the", "be", "to", "of", "and", "that", "have", "with")], np.uint64)
    tables = Affixes(_traits(), keys, cuts, units, stops)
    for table in tables:
        table.flags.writeable = False
    return tables


def _traits() -> np.ndarray:
    unicode = unicode_tables()
    flags = unicode.flags[unicode.classes]
    traits = np.zeros(CODE_POINTS, np.uint16)
    letter = (flags & ALPHA) != 0
    uncased = letter & (flags & (UPPER | LOWER) == 0)
    traits[(letter & (flags & LOWER != 0)) | uncased] |= LOWERCASE
    traits[(letter & (flags & UPPER != 0)) | uncased] |= UPPERCASE
    # Marks inside words of Indic and Semitic scripts belong to their alphabets.
    traits[(flags & MARK != 0) & (np.arange(CODE_POINTS) > 0x36F)] |= LOWERCASE | UPPERCASE
    traits[letter] |= LETTER
    traits[flags & SPACE != 0] |= WHITE
    traits[flags & PUNCTUATION != 0] |= IS_PUNCTUATION
    traits[flags & TERMINAL != 0] |= PERIOD
    traits[[ord(c) for c in _NOT_PERIODS]] &= ~np.uint16(PERIOD)
    traits[0x30:0x3A] |= IS_DIGIT
    for bits, chars in (
        (PREFIX | SUFFIX | MARKS, _MARKS), (PREFIX | SUFFIX | QUOTE | MARKS, _QUOTES), (PREFIX | CURRENCY, _CURRENCY),
        (PREFIX, "§%="), (PREFIX | SUFFIX, "—–"), (MARKS, _BEFORE_STOP),
    ):  # fmt: skip
        traits[[ord(c) for c in chars]] |= bits
    traits[flags & ICON_FLAG != 0] |= PREFIX | SUFFIX | ICON
    symbol = (flags & TERMINAL) != 0
    symbol[[ord(c) for c in _SYMBOLS]] = True
    symbol[[*range(9), *range(11, 32), *range(127, 160)]] = True
    traits[~symbol] |= NOT_SYMBOL
    return traits


class Chunk(NamedTuple):
    """What white space separates, as code points; scratch for one after the other.

    Attributes:
        points: int32, code points.
        traits: uint16, their bits.
        at: int64, positions in the document; one more than points.
        suffixes: int32, where suffixes begin, outermost first.
    """

    points: np.ndarray
    traits: np.ndarray
    at: np.ndarray
    suffixes: np.ndarray


def make_chunk(size: int) -> Chunk:
    """Room for chunks of up to `size` bytes."""
    return Chunk(
        np.empty(size, np.int32), np.empty(size, np.uint16), np.empty(size + 1, np.int64), np.empty(size, np.int32)
    )


# What `Words.kinds` holds here.
HAS_LETTER: Final = 1
HAS_TEXT: Final = 2  # a character datatrove does not call punctuation
ALL_PUNCTUATION: Final = 4
ENDS_SENTENCE: Final = 8

_DOT, _PLUS, _DOLLAR, _COMMA, _HYPHEN, _TILDE = 0x2E, 0x2B, 0x24, 0x2C, 0x2D, 0x7E
_EN_DASH, _EM_DASH, _ELLIPSIS, _APOSTROPHE, _CURLY_APOSTROPHE = 0x2013, 0x2014, 0x2026, 0x27, 0x2019


@kernel
def split_affixes(text: Any, tables: Any, chunk: Any, words: Any) -> Any:
    """Words of a document (uint8, UTF-8) into `words`, from index 0; returns how many.

    `Words.hash` is the polynomial of `string_hash`, `Words.kinds` are HAS_LETTER and the like.
    """
    n = size = 0
    i, end = 0, text.shape[0]
    while i < end:
        cp, after = decode(text, i, end)
        traits = tables.traits[cp]
        if not traits & WHITE:
            chunk.points[size], chunk.traits[size], chunk.at[size] = cp, traits, i
            size += 1
        if size and (traits & WHITE or after == end):
            chunk.at[size] = i if traits & WHITE else after
            n = _split_chunk(size, tables, chunk, words, n)
            size = 0
        i = after
    return n


@kernel
def _emit(start: Any, end: Any, chunk: Any, words: Any, n: Any) -> Any:
    h = np.uint64(0)
    seen = np.uint16(0)
    common = np.uint16(0xFFFF)
    for k in range(start, end):
        h = h * HASH_BASE + np.uint64(chunk.points[k] + 1)
        seen |= chunk.traits[k]
        common &= chunk.traits[k]
    kinds = HAS_LETTER if seen & LETTER else 0
    kinds |= HAS_TEXT if seen & NOT_SYMBOL else 0
    kinds |= ALL_PUNCTUATION if common & IS_PUNCTUATION else 0
    kinds |= ENDS_SENTENCE if end - start == 1 and common & PERIOD else 0
    words.start[n], words.end[n], words.hash[n] = chunk.at[start], chunk.at[end], h
    words.chars[n], words.kinds[n] = end - start, kinds
    return n + 1


@kernel
def _special(start: Any, end: Any, tables: Any, chunk: Any) -> Any:
    """Slot of the string in the table, -1 if it is not there."""
    if not 0 < end - start <= _LONGEST:
        return -1
    h = np.uint64(0)
    for k in range(start, end):
        h = h * HASH_BASE + np.uint64(chunk.points[k] + 1)
    return _find(h, tables)


@kernel
def _find(h: Any, tables: Any) -> Any:
    """Slot of a hash in the table, -1 if it is not there."""
    mask = tables.keys.shape[0] - 1
    slot = np.int64((h * _PRIME) >> np.uint64(32)) & mask
    while tables.keys[slot] != np.uint64(0):
        if tables.keys[slot] == h:
            return slot
        slot = (slot + 1) & mask
    return -1


@kernel
def _split_chunk(size: Any, tables: Any, chunk: Any, words: Any, n: Any) -> Any:
    """Words of one chunk, appended; returns how many words there are now."""
    first = n
    start, end = 0, size
    suffixes = 0
    special = -1
    while start < end:
        special = _special(start, end, tables, chunk)
        if special >= 0:
            break
        prefix = _prefix(start, end, chunk)
        if prefix:
            special = _special(start + prefix, end, tables, chunk)
            if special >= 0:
                n = _emit(start, start + prefix, chunk, words, n)
                start += prefix
                break
        suffix = _suffix(start + prefix, end, tables, chunk)
        if suffix:
            special = _special(start, end - suffix, tables, chunk)
            if special >= 0:
                chunk.suffixes[suffixes] = end - suffix
                suffixes += 1
                end -= suffix
                break
        if not prefix and not suffix:
            break
        if prefix:
            n = _emit(start, start + prefix, chunk, words, n)
            start += prefix
        if suffix and start < end:
            chunk.suffixes[suffixes] = end - suffix
            suffixes += 1
            end -= suffix
    if start < end:
        if special >= 0:
            begin = start
            for k in range(3):
                if tables.cuts[special, k]:
                    n = _emit(begin, start + tables.cuts[special, k], chunk, words, n)
                    begin = start + tables.cuts[special, k]
            n = _emit(begin, end, chunk, words, n)
        elif _is_address(start, end, chunk):
            n = _emit(start, end, chunk, words, n)
        else:
            n = _split_inside(start, end, chunk, words, n)
    for k in range(suffixes - 1, -1, -1):
        begin = chunk.suffixes[k]
        n = _emit(begin, chunk.suffixes[k - 1] if k else size, chunk, words, n)
    return _join_pairs(first, n, tables, words)


@kernel
def _join_pairs(first: Any, n: Any, tables: Any, words: Any) -> Any:
    """Put together neighbours of one character that are known as a pair, as ``)`` and ``:`` are."""
    kept = k = first
    while k < n:
        joined = False
        if k + 1 < n and words.chars[k] == 1 and words.chars[k + 1] == 1:
            h = words.hash[k] * HASH_BASE + words.hash[k + 1]
            slot = _find(h, tables)
            if slot >= 0 and tables.cuts[slot, 0] == 0:
                words.start[kept], words.end[kept], words.hash[kept] = words.start[k], words.end[k + 1], h
                kinds = (words.kinds[k] | words.kinds[k + 1]) & (HAS_LETTER | HAS_TEXT)
                words.kinds[kept] = kinds | (words.kinds[k] & words.kinds[k + 1] & ALL_PUNCTUATION)
                words.chars[kept] = 2
                joined = True
        if not joined and kept < k:
            words.start[kept], words.end[kept], words.hash[kept] = words.start[k], words.end[k], words.hash[k]
            words.chars[kept], words.kinds[kept] = words.chars[k], words.kinds[k]
        kept += 1
        k += 2 if joined else 1
    return kept


@kernel
def _prefix(start: Any, end: Any, chunk: Any) -> Any:
    """Code points of the prefix of the string, 0 if it has none."""
    c = chunk.points[start]
    if chunk.traits[start] & PREFIX:
        return 1
    if c == _DOT:
        k = start + 1
        while k < end and chunk.points[k] == _DOT:
            k += 1
        return k - start if k - start > 1 else 0
    if c == _PLUS:
        return 0 if start + 1 < end and chunk.traits[start + 1] & IS_DIGIT else 1
    if (c == 0x41 or c == 0x43) and start + 1 < end and chunk.points[start + 1] == _DOLLAR:  # A$ C$
        return 2
    us = c == 0x55 and start + 2 < end and chunk.points[start + 1] == 0x53
    return 3 if us and chunk.points[start + 2] == _DOLLAR else 0


@kernel
def _suffix(start: Any, end: Any, tables: Any, chunk: Any) -> Any:
    """Code points of the suffix of the string, 0 if it has none."""
    if start >= end:
        return 0
    c = chunk.points[end - 1]
    if c == _DOT:
        return _stop_suffix(start, end, chunk)
    before = chunk.traits[end - 2] if end - start > 1 else np.uint16(0)
    if c == _ELLIPSIS and end - start > 1 and chunk.points[end - 2] == _ELLIPSIS:
        return 2
    if (c == 0x73 or c == 0x53) and before:  # 's
        apostrophe = chunk.points[end - 2]
        if apostrophe == _APOSTROPHE or apostrophe == _CURLY_APOSTROPHE:
            return 2
    if chunk.traits[end - 1] & SUFFIX:
        return 1
    if (c == _PLUS or chunk.traits[end - 1] & CURRENCY) and before & IS_DIGIT:
        return 1
    return _unit_suffix(start, end, tables, chunk)


@kernel
def _stop_suffix(start: Any, end: Any, chunk: Any) -> Any:
    """The suffix of a string that ends in a full stop."""
    k = end - 1
    while k > start and chunk.points[k - 1] == _DOT:
        k -= 1
    if end - k > 1:
        return end - k
    if k == start:
        return 0
    before = chunk.traits[k - 1]
    if before & (IS_DIGIT | LOWERCASE | MARKS):
        return 1
    capitals = before & UPPERCASE and k - 1 > start
    if capitals and (chunk.traits[k - 2] & UPPERCASE or chunk.points[k - 2] == 0xB0):  # °C.
        return 1
    return 0


@kernel
def _unit_suffix(start: Any, end: Any, tables: Any, chunk: Any) -> Any:
    """Code points of the unit of measurement behind a digit."""
    for length in range(min(4, end - start - 1), 0, -1):
        if not chunk.traits[end - length - 1] & IS_DIGIT:
            continue
        h = np.uint64(0)
        for k in range(end - length, end):
            h = h * HASH_BASE + np.uint64(chunk.points[k] + 1)
        for u in range(tables.units.shape[0]):
            if tables.units[u] == h:
                return length
    return 0


@kernel
def _is_address(start: Any, end: Any, chunk: Any) -> Any:
    """Whether the string is a web or mail address: [scheme://][user@]host.tld[:port][/path]."""
    dots = 0
    host = start
    for k in range(start, end):
        c = chunk.points[k]
        if c == _DOT:
            dots += 1
        elif (
            c == 0x3A and k + 2 < end and chunk.points[k + 1] == 0x2F and chunk.points[k + 2] == 0x2F and k - start > 1
        ):
            host = k + 3
        elif c == 0x2F or c == 0x3F or c == 0x23:
            if k >= host:
                break
        elif c == 0x40:
            host = k + 1
    if dots == 0:
        return False
    k = host
    last_dot = np.int64(-1)
    label = 0
    while k < end:
        c = chunk.points[k]
        if c == _DOT:
            if label == 0 or chunk.points[k - 1] == _HYPHEN or chunk.points[k - 1] == 0x5F:
                return False
            last_dot, label = k, 0
        elif (
            0x30 <= c <= 0x39 or 0x41 <= c <= 0x5A or 0x61 <= c <= 0x7A or 0xA1 <= c <= 0xFFFF
            or ((c == _HYPHEN or c == 0x5F) and label)
        ):  # fmt: skip
            label += 1
        else:
            break
        k += 1
    if last_dot < 0 or label < 2:
        return False
    for t in range(last_dot + 1, k):
        if not chunk.traits[t] & LOWERCASE:
            return False
    if k < end and chunk.points[k] == 0x3A:
        port = k + 1
        while port < end and chunk.traits[port] & IS_DIGIT:
            port += 1
        if not 2 <= port - k - 1 <= 5:
            return False
        k = port
    return k == end or chunk.points[k] == 0x2F or chunk.points[k] == 0x3F or chunk.points[k] == 0x23


@kernel
def _split_inside(start: Any, end: Any, chunk: Any, words: Any, n: Any) -> Any:
    begin = k = start
    while k < end:
        length = _infix(start, k, end, chunk)
        if length == 0:
            k += 1
            continue
        if k != begin:
            n = _emit(begin, k, chunk, words, n)
            n = _emit(k, k + length, chunk, words, n)
            begin = k + length
        k += length
    if begin < end:
        n = _emit(begin, end, chunk, words, n)
    return n


@kernel
def _infix(start: Any, k: Any, end: Any, chunk: Any) -> Any:
    """Code points of the infix at `k`, 0 if there is none."""
    c = chunk.points[k]
    if c == _ELLIPSIS or chunk.traits[k] & ICON:
        return 1
    before = chunk.traits[k - 1] if k > start else np.uint16(0)
    after = chunk.traits[k + 1] if k + 1 < end else np.uint16(0)
    if c == _DOT:
        run = k + 1
        while run < end and chunk.points[run] == _DOT:
            run += 1
        if run - k > 1:
            return run - k
        return 1 if before & (LOWERCASE | QUOTE) and after & (UPPERCASE | QUOTE) else 0
    arithmetic = c == _PLUS or c == _HYPHEN or c == 0x2A or c == 0x5E  # + - * ^
    if arithmetic and before & IS_DIGIT and (after & IS_DIGIT or (k + 1 < end and chunk.points[k + 1] == _HYPHEN)):
        return 1
    if c == _COMMA:
        return 1 if before & LETTERS and after & LETTERS else 0
    if not before & (LETTERS | IS_DIGIT):
        return 0
    if c == 0x3A or c == 0x3C or c == 0x3E or c == 0x3D or c == 0x2F:  # : < > = /
        return 1 if after & LETTERS else 0
    if c == _HYPHEN or c == _EN_DASH or c == _EM_DASH or c == _TILDE:
        run = k + 1
        longest = 3 if c == _HYPHEN else (2 if c == _EM_DASH else 1)
        while run < end and run - k < longest and chunk.points[run] == c:
            run += 1
        return run - k if run < end and chunk.traits[run] & LETTERS else 0
    return 0


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
