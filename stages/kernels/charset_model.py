"""How much a text looks like a language: the commonest pairs of characters of 45 languages, most of them written in more
than one legacy encoding.

Reads text as some encoding gives it, says how far its pairs are from those of the nearest language that is written in that
encoding. Made for one question: of several readings of the same bytes, which is text. `charset_pairs.txt` holds, for each
language, the pairs with a letter beyond ASCII (Chinese, Japanese, Korean: single characters) by falling frequency, counted in
the training sentences of lingua (CC BY); 60 kB, no text can be read from it.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np

#: Languages by the encodings they are found in. Encodings that agree on a language's letters decode it alike.
LANGUAGES: Final = {
    "cp1252": "da de es et eu fi fr ga is it nb nl nn pt sq sv ca af cy",
    "iso8859_15": "fr fi et",
    "cp1250": "cs hr hu pl ro sk sl bs",
    "iso8859_2": "cs hr hu pl ro sk sl bs",
    "iso8859_16": "ro",
    "cp1251": "ru uk be bg sr mk kk mn",
    "koi8_r": "ru bg",
    "koi8_u": "uk be",
    "iso8859_5": "ru uk be bg sr mk",
    "cp866": "ru uk be bg",
    "mac_cyrillic": "ru uk be bg sr mk",
    "cp1253": "el",
    "iso8859_7": "el",
    "cp1254": "tr az",
    "cp1255": "he",
    "cp1256": "ar fa ur",
    "iso8859_6": "ar",
    "cp1257": "lt lv et",
    "iso8859_13": "lt lv et",
    "iso8859_4": "lt lv et",
    "cp874": "th",
    "mac_roman": "de es fr it pt sv da nb",
    "gb18030": "zh",
    "big5hkscs": "zh-Hant",
    "cp932": "ja",
    "euc_jp": "ja",
    "cp949": "ko",
}
#: Written without spaces, or with thousands of characters: single characters are counted.
_SINGLE: Final = frozenset({"zh", "zh-Hant", "ja", "ko"})
#: What a pair that is not in a language's list counts: letters that were not seen together in 100,000 pairs, signs that hardly
#: occur in running text, control characters and what could not be decoded at all.
_UNSEEN: Final = -11.0
_SIGN: Final = -15.0
_CONTROL: Final = -20.0
#: Beyond ASCII, signs that running text has: « » · ° º ª ¿ ¡ … † • ′ ″ № ™ € and dashes.
_PUNCTUATION: Final = np.array([ord(c) for c in "«»·°ºª¿¡…†•′″№™€§"], np.uint64)
_CONTROLS: Final = re.compile("[\x80-\x9f\ufffd\ue000-\uf8ff]")


class _Language(NamedTuple):
    codes: np.ndarray  # uint64, sorted
    values: np.ndarray  # log frequency of each
    usual: float  # mean log frequency over text of the language


@cache
def _languages() -> dict[str, _Language]:
    data = (pkgutil.get_data("stages.kernels", "charset_pairs.txt") or b"").decode("utf-8")
    found = {}
    for line in data.split("\n")[:-1]:
        name, usual, characters = line.split("\t")
        points = np.array([ord(c) for c in characters], np.uint64)
        codes = points if name in _SINGLE else points[0::2] << np.uint64(21) | points[1::2]
        # Zipf: the n-th commonest has a frequency of about 1 / (n + 5), relative to all.
        ranks = np.arange(len(codes))
        values = -np.log(ranks + 5.0) - np.log(np.sum(1.0 / (ranks + 5.0)))
        order = np.argsort(codes)
        found[name] = _Language(codes[order], values[order], float(usual))
    return found


def units(text: str, single: bool) -> np.ndarray:
    """uint64 codes of the pairs with a character beyond ASCII (or of such characters); what is no letter becomes a space."""
    points = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
    ascii_letter = ((points | 32) >= 97) & ((points | 32) <= 122)
    points = np.where((points < 128) & ~ascii_letter, np.uint64(32), points)
    if single:
        return points[points >= 128]
    first, second = points[:-1], points[1:]
    return (first << np.uint64(21) | second)[(first >= 128) | (second >= 128)]


def likeness(text: str, codec: str) -> float:
    """Log frequency per unit, less what is usual for the language that fits best: 0 for text, about -6 for what is none.

    Args:
        text: as decoded by `codec`, U+FFFD for what it cannot decode.
        codec: a key of LANGUAGES.
    """
    best = -np.inf
    for single in (False, True):
        names = [n for n in LANGUAGES.get(codec, "").split() if (n in _SINGLE) == single]
        if names:
            found = units(text, single)
            if len(found):
                unseen = _unseen(found)
                best = max(best, *(_mean(found, unseen, _languages()[n]) for n in names))
    return float(best)


def _mean(found: np.ndarray, unseen: np.ndarray, language: _Language) -> float:
    at = np.minimum(np.searchsorted(language.codes, found), len(language.codes) - 1)
    values = np.where(language.codes[at] == found, language.values[at], unseen)
    return float(values.mean()) - language.usual


def _unseen(found: np.ndarray) -> np.ndarray:
    """What units count that a language does not have, by the odder of their characters."""
    first, second = found >> np.uint64(21), found & np.uint64((1 << 21) - 1)
    value = np.full(len(found), _UNSEEN)
    for c in (first, second):
        latin = (c >= 0xA1) & (c <= 0xBF) & ~np.isin(c, _PUNCTUATION)
        other = ((c >= 0x2020) & (c <= 0x2FFF)) & ~np.isin(c, _PUNCTUATION)
        value[latin | other | (c == 0xD7) | (c == 0xF7)] = _SIGN
    for c in (first, second):
        value[((c >= 0x80) & (c < 0xA0)) | (c == 0xFFFD) | ((c >= 0xE000) & (c < 0xF900))] = _CONTROL
    return value


def train(texts: Mapping[str, Sequence[str]], pairs: int = 500, characters: int = 2_500) -> str:
    """The contents of charset_pairs.txt from sentences by language."""
    lines = []
    for name, sentences in sorted(texts.items()):
        single = name in _SINGLE
        # Corpora have sentences of their own that were decoded wrongly; control characters give them away.
        clean = [s for s in sentences if not _CONTROLS.search(s)]
        codes, counts = np.unique(np.concatenate([units(s, single) for s in clean]), return_counts=True)
        order = np.argsort(-counts, kind="stable")[: characters if single else pairs]
        kept = codes[order]
        points = kept if single else np.stack((kept >> np.uint64(21), kept & np.uint64((1 << 21) - 1)), 1).ravel()
        ranks = np.arange(len(kept))
        values = -np.log(ranks + 5.0) - np.log(np.sum(1.0 / (ranks + 5.0)))
        usual = (values * counts[order]).sum() + _UNSEEN * (counts.sum() - counts[order].sum())
        lines.append(f"{name}\t{usual / counts.sum():.3f}\t{''.join(chr(int(p)) for p in points)}\n")
    return "".join(lines)
