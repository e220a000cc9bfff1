"""A seeded generator of obfuscated spellings, written before the matcher that must find them.

Operators are in two groups. DEVELOPMENT ones were looked at while the matcher was written; HELD_OUT ones were used for its
measurement only. `spellings` draws terms, applies operators and puts the result into harmless sentences.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Mapping, Sequence

Operator = Callable[[str, random.Random], str]

_LEET = {"a": "@4", "e": "3", "i": "1!", "o": "0", "s": "$5", "t": "7", "l": "1", "b": "8", "g": "9"}
_ACCENTS = {"a": "áàâäã", "e": "éèêë", "i": "íìîï", "o": "óòôöõ", "u": "úùûü", "c": "ç", "n": "ñ", "y": "ý"}
_CYRILLIC = {
    "a": "а",
    "c": "с",
    "e": "е",
    "i": "і",
    "o": "о",
    "p": "р",
    "s": "ѕ",
    "x": "х",
    "y": "у",
    "h": "һ",
    "k": "к",
}
_GREEK = {"a": "α", "i": "ι", "k": "κ", "o": "ο", "p": "ρ", "u": "υ", "v": "ν", "x": "χ"}


def _is_chinese(term: str) -> bool:
    return any("\u4e00" <= c <= "\u9fff" for c in term)


def random_case(term: str, r: random.Random) -> str:
    return "".join(c.upper() if r.random() < 0.5 else c for c in term)


def full_width(term: str, r: random.Random) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in term)


def leet(term: str, r: random.Random) -> str:
    places = [i for i, c in enumerate(term) if c in _LEET]
    chosen = set(r.sample(places, r.randint(1, len(places)))) if places else set()
    return "".join(r.choice(_LEET[c]) if i in chosen else c for i, c in enumerate(term))


def repeat(term: str, r: random.Random) -> str:
    places = [i for i, c in enumerate(term) if c.isalpha()]
    place = r.choice(places)
    return term[:place] + term[place] * r.randint(3, 6) + term[place + 1 :]


def separate(term: str, r: random.Random) -> str:
    return r.choice(".-_*").join(term.replace(" ", ""))


def space_out(term: str, r: random.Random) -> str:
    return " ".join(term.replace(" ", ""))


def accents(term: str, r: random.Random) -> str:
    return "".join(r.choice(_ACCENTS[c]) if c in _ACCENTS and r.random() < 0.7 else c for c in term)


def mask(term: str, r: random.Random) -> str:
    places = [i for i, c in enumerate(term) if c in "aeiou" and i > 0]
    place = r.choice(places) if places else 1
    return term[:place] + "*" + term[place + 1 :]


def homoglyphs(term: str, r: random.Random) -> str:
    table = r.choice((_CYRILLIC, _GREEK))
    return "".join(table[c] if c in table and r.random() < 0.8 else c for c in term)


def zero_width(term: str, r: random.Random) -> str:
    return r.choice("\u200b\u200c\u200d\u2060\xad").join(term)


def mathematical(term: str, r: random.Random) -> str:
    first = r.choice((0x1D41A, 0x1D5BA, 0x1D68A, 0x24D0))
    return "".join(chr(first + ord(c) - 97) if "a" <= c <= "z" else c for c in term)


def strike_through(term: str, r: random.Random) -> str:
    mark = r.choice("\u0336\u0335\u0338\u0332")
    return "".join(c + mark if c != " " else c for c in term)


def doubled(term: str, r: random.Random) -> str:
    places = [i for i, c in enumerate(term) if c.isalpha()]
    place = r.choice(places)
    return term[:place] + term[place] * 2 + term[place + 1 :]


def long_separators(term: str, r: random.Random) -> str:
    return r.choice(("..", "--", "~", "|", "+", "·", " - ", "_ ")).join(term.replace(" ", ""))


def one_separator(term: str, r: random.Random) -> str:
    places = [i for i in range(1, len(term)) if term[i] != " " and term[i - 1] != " "]
    place = r.choice(places)
    return term[:place] + r.choice("*_~|^") + term[place:]


def two_at_once(term: str, r: random.Random) -> str:
    first, second = r.sample((random_case, leet, repeat, accents), 2)
    return second(first(term, r), r)


DEVELOPMENT: Mapping[str, Operator] = {
    f.__name__: f for f in (random_case, full_width, leet, repeat, separate, space_out, accents, mask)
}
HELD_OUT: Mapping[str, Operator] = {
    f.__name__: f
    for f in (
        homoglyphs,
        zero_width,
        mathematical,
        strike_through,
        doubled,
        long_separators,
        one_separator,
        two_at_once,
    )
}
#: Those that mean something for words of Han characters.
CHINESE = ("separate", "space_out", "zero_width", "long_separators", "one_separator", "strike_through")

_ENGLISH_SENTENCES = (
    "The committee read the letter aloud and found the word {} in the second line of it.",
    "We moved the table to the window, and somebody shouted {} from the yard below.",
    "On the wall of the old station {} was written in large letters, beside a drawing of a horse.",
)
_CHINESE_SENTENCES = (
    "昨天下午我们在图书馆看书，墙上写着{}，没有人注意到。",
    "信的第二行里有这样的字：{}，读完以后大家都沉默了。",
    "桌子搬到窗边以后，院子里有人喊了一声{}。",
)


def spellings(
    terms: Sequence[str], operators: Mapping[str, Operator], count: int, seed: int
) -> list[tuple[str, str, str]]:
    """(operator, term, document) triples; a spelling equal to its term is drawn again."""
    r = random.Random(seed)
    names = sorted(operators)
    out: list[tuple[str, str, str]] = []
    while len(out) < count:
        term = r.choice(terms)
        chinese = _is_chinese(term)
        name = r.choice([n for n in names if not chinese or n in CHINESE])
        spelling = operators[name](term, r)
        if spelling == term or unicodedata.normalize("NFC", spelling) == term:
            continue
        sentence = r.choice(_CHINESE_SENTENCES if chinese else _ENGLISH_SENTENCES)
        out.append((name, term, sentence.format(spelling)))
    return out
