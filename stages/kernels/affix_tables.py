"""Tables for affix_words.py: what each character does at the ends of words, contractions, abbreviations, units.

Restates the published rules and exceptions of spaCy 3.8's English tokenizer, contractions by how English builds them.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from stages.kernels.unicode_classes import (
    ALPHA,
    CODE_POINTS,
    LOWER,
    PUNCTUATION,
    SPACE,
    TERMINAL,
    UPPER,
    unicode_tables,
)
from stages.kernels.unicode_classes import ICON as ICON_FLAG

# Bits of `traits`.
PREFIX: Final = 1 << 0  # a prefix by itself
SUFFIX: Final = 1 << 1  # a suffix by itself
QUOTE: Final = 1 << 2
MARKS: Final = 1 << 3  # punctuation after which a full stop is a suffix
LOWERCASE: Final = 1 << 4  # lower case or without case, of spaCy's alphabets
UPPERCASE: Final = 1 << 5  # upper case or without case, of spaCy's alphabets
ICON: Final = 1 << 6
CURRENCY: Final = 1 << 7
WHITE: Final = 1 << 8
IS_DIGIT: Final = 1 << 9  # 0-9
IS_PUNCTUATION: Final = 1 << 10  # category P*
PERIOD: Final = 1 << 11  # ends a sentence when a word of its own
NOT_SYMBOL: Final = 1 << 12  # not among the characters datatrove calls punctuation
LETTER: Final = 1 << 13  # str.isalpha()
ENDS_LINE: Final = 1 << 14  # one of datatrove's terminal marks
LETTERS: Final = LOWERCASE | UPPERCASE

_MARKS: Final = "…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪"
_QUOTES: Final = "'\"”“`‘´’‚,„»«「」『』（）〔〕【】《》〈〉⟦⟧"
_CURRENCY: Final = "$£€¥฿₽﷼₴₠₡₢₣₤₥₦₧₨₩₪₫₭₮₯₰₱₲₳₵₶₷₸₹₺₻₼₾₿"
#: What datatrove's `PUNCTUATION_SET` holds besides terminal marks.
_SYMBOLS: Final = "!/—”:％１〈&(、━\\【#%「」，】；+^]~“《„';’{|∶´[=-`*．（–？！：$～«〉,><》)?）。…@_.\"}►»"
# spaCy's alphabets: whole blocks for scripts without case (CJK with its brackets and punctuation), of Greek and Cyrillic the
# letters of five languages; no Khmer, Thai, Georgian, Armenian, whose words are not cut at hyphens, slashes or full stops.
_UNCASED: Final = (
    "591-5f4 620-64a 66e-6d5 6e5-6ff 750-77f 8a0-8bd 900-9ff b80-cff d80-dff 1100-137f 2e80-2fdf 2ff0-30ff 31c0-31ef "
    "3200-4dbf 4e00-9fff ac00-d7af f900-faff fb1d-fbb1 fbd3-fd3d fd50-fdc7 fdf0-fdfb fe30-fe4f fe70-fefc 1ee00-1eebb "
    "1f200-1f2ff 20000-2a6df 2a700-2ebef 2f800-2fa1f"
)
_CASED: Final = (
    "41-7a c0-1c4 1c6-1c7 1c9-1ca 1cc-1f1 1f3-293 295-2af 386-38f 391-3a9 3ac-3af 3b1-3c9 3cc-3ce 400-401 403-40a 40c-40d "
    "410-451 453-45a 45c-45d 490-491 496-497 4a2-4a3 4ae-4af 4ba-4bb 4d8-4d9 4e8-4e9 1d00-1d25 1d6b-1d77 1d79-1d9a 1e00-1eff "
    "2c60-2c7b 2c7e-2c7f a722-a76f a771-a787 a78b-a7b9 a7fa-a7fa ab30-ab5a ab60-ab64 ff21-ff5a"
)
# Terminal marks of Unicode's property since the version that spaCy and datatrove took theirs from; the last two lists: marks
# that are terminal to one of the two only.
_NEWER_MARKS: Final = "1b4e-1b4f 1b7f-1b7f 2024-2024 2cf9-2cfb 2e60-2e61 fe12-fe12 fe15-fe16 113d4-113d5 16d6e-16d6f"
_NOT_PERIODS: Final = (
    "61d-61e 2e3c-2e3c 837-837 839-839 83d-83e 17d4-17d5 1b7d-1b7e 2e53-2e54 10f55-10f59 10f86-10f89 11944-11944 11946-11946 "
    "11ef7-11ef8 11f43-11f44 16e98-16e98"
)
_LINE_MARKS: Final = "17d6-17d6 17d9-17da"
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
HASH_PRIME: Final = np.uint64(0xD6E8FEB86659FD93)
LONGEST_SPECIAL: Final = 14


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
        slot = ((h * int(HASH_PRIME)) % (1 << 64) >> 32) & (size - 1)
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
    cased = _members(_CASED)
    traits[cased & letter & (flags & LOWER != 0)] |= LOWERCASE
    traits[cased & letter & (flags & UPPER != 0)] |= UPPERCASE
    traits[_members(_UNCASED)] |= LOWERCASE | UPPERCASE
    traits[letter] |= LETTER
    traits[flags & SPACE != 0] |= WHITE
    traits[flags & PUNCTUATION != 0] |= IS_PUNCTUATION
    terminal = (flags & TERMINAL != 0) & ~_members(_NEWER_MARKS)
    traits[terminal & ~_members(_NOT_PERIODS)] |= PERIOD
    terminal |= _members(_LINE_MARKS)
    traits[terminal] |= ENDS_LINE
    traits[0x30:0x3A] |= IS_DIGIT
    for bits, chars in (
        (PREFIX | SUFFIX | MARKS, _MARKS), (PREFIX | SUFFIX | QUOTE | MARKS, _QUOTES), (PREFIX | CURRENCY, _CURRENCY),
        (PREFIX, "§%="), (PREFIX | SUFFIX, "—–"), (MARKS, _BEFORE_STOP),
    ):  # fmt: skip
        traits[[ord(c) for c in chars]] |= bits
    traits[flags & ICON_FLAG != 0] |= PREFIX | SUFFIX | ICON
    symbol = terminal
    symbol[[ord(c) for c in _SYMBOLS]] = True
    symbol[[*range(9), *range(11, 32), *range(127, 160)]] = True
    traits[~symbol] |= NOT_SYMBOL
    return traits


def _members(ranges: str) -> np.ndarray:
    """bool (0x110000,): which code points lie in ranges as `_CASED` has them."""
    found = np.zeros(CODE_POINTS, np.bool_)
    for piece in ranges.split():
        first, last = (int(x, 16) for x in piece.split("-"))
        found[first : last + 1] = True
    return found
