"""Scripts of characters (ISO 15924), and the two forms of Chinese told apart by their characters.

Tables only; built when first asked for, in milliseconds.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

#: Letters of the scripts that are written today, as ranges of code points (Unicode 17, Scripts.txt; blocks where a whole
#: block is one script). Han, kana and Hangul come first: the kernel knows them by number.
SCRIPTS: Final[tuple[tuple[str, tuple[tuple[int, int], ...]], ...]] = (
    ("Zyyy", ()),
    ("Hani", ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))),
    ("Kana", ((0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9D))),
    ("Kore", ((0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97C), (0xAC00, 0xD7A3), (0xD7B0, 0xD7FB))),
    (
        "Latn",
        ((0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA), (0xBA, 0xBA), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x2B8),
         (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA722, 0xA7FF), (0xAB30, 0xAB64), (0xFB00, 0xFB06),
         (0xFF21, 0xFF3A), (0xFF41, 0xFF5A)),
    ),
    ("Cyrl", ((0x400, 0x481), (0x48A, 0x52F), (0x1C80, 0x1C8A), (0x1D2B, 0x1D2B), (0xA640, 0xA66E), (0xA680, 0xA69D))),
    ("Grek", ((0x370, 0x373), (0x376, 0x37D), (0x37F, 0x37F), (0x386, 0x386), (0x388, 0x3E1), (0x3F0, 0x3FF), (0x1F00, 0x1FFE))),
    ("Arab", ((0x620, 0x64A), (0x66E, 0x6D3), (0x6D5, 0x6EF), (0x6FA, 0x6FF), (0x750, 0x77F), (0x870, 0x8C9),
              (0xFB50, 0xFDFB), (0xFE70, 0xFEFC))),
    ("Hebr", ((0x5D0, 0x5F2), (0xFB1D, 0xFB4F))),
    ("Armn", ((0x531, 0x588), (0xFB13, 0xFB17))),
    ("Geor", ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2D))),
    ("Syrc", ((0x710, 0x74F), (0x860, 0x86A))),
    ("Thaa", ((0x780, 0x7B1),)),
    ("Nkoo", ((0x7C0, 0x7FA),)),
    ("Deva", ((0x900, 0x963), (0x970, 0x97F), (0xA8E0, 0xA8FF))),
    ("Beng", ((0x980, 0x9E3), (0x9F0, 0x9F1))),
    ("Guru", ((0xA01, 0xA5E), (0xA70, 0xA75))),
    ("Gujr", ((0xA81, 0xAE3), (0xAF9, 0xAFF))),
    ("Orya", ((0xB01, 0xB63), (0xB71, 0xB71))),
    ("Taml", ((0xB82, 0xBD7),)),
    ("Telu", ((0xC00, 0xC63),)),
    ("Knda", ((0xC80, 0xCE3), (0xCF1, 0xCF3))),
    ("Mlym", ((0xD00, 0xD63), (0xD7A, 0xD7F))),
    ("Sinh", ((0xD81, 0xDDF), (0xDF2, 0xDF3))),
    ("Thai", ((0xE01, 0xE3A), (0xE40, 0xE4E))),
    ("Laoo", ((0xE81, 0xECE), (0xEDC, 0xEDF))),
    ("Tibt", ((0xF00, 0xF00), (0xF40, 0xFBC))),
    ("Mymr", ((0x1000, 0x103F), (0x1050, 0x108F), (0xA9E0, 0xA9FE), (0xAA60, 0xAA7F))),
    ("Ethi", ((0x1200, 0x135F), (0x1380, 0x138F), (0x2D80, 0x2DDE), (0xAB01, 0xAB2E))),
    ("Cher", ((0x13A0, 0x13FD), (0xAB70, 0xABBF))),
    ("Cans", ((0x1401, 0x166C), (0x166F, 0x167F), (0x18B0, 0x18F5))),
    ("Khmr", ((0x1780, 0x17D3), (0x17DC, 0x17DD))),
    ("Mong", ((0x1820, 0x1878), (0x1880, 0x18AA))),
    ("Tfng", ((0x2D30, 0x2D7F),)),
    ("Yiii", ((0xA000, 0xA48C),)),
    ("Lisu", ((0xA4D0, 0xA4FD),)),
    ("Vaii", ((0xA500, 0xA62B),)),
    ("Java", ((0xA980, 0xA9C0),)),
    ("Bali", ((0x1B00, 0x1B4C),)),
    ("Sund", ((0x1B80, 0x1BAF), (0x1BBA, 0x1BBF))),
    ("Olck", ((0x1C50, 0x1C7D),)),
    ("Lepc", ((0x1C00, 0x1C36), (0x1C4D, 0x1C4F))),
    ("Limb", ((0x1900, 0x193B),)),
    ("Mtei", ((0xABC0, 0xABEA), (0xAAE0, 0xAAEF))),
    ("Copt", ((0x3E2, 0x3EF), (0x2C80, 0x2CEE))),
    ("Bopo", ((0x3105, 0x312F), (0x31A0, 0x31BF))),
    ("Adlm", ((0x1E900, 0x1E94B),)),
    ("Cakm", ((0x11100, 0x11134), (0x11144, 0x11147))),
    ("Rohg", ((0x10D00, 0x10D27),)),
)  # fmt: skip
HANI: Final = 1
KANA: Final = 2
KORE: Final = 3
LATN: Final = 4

SIMPLIFIED: Final = 1
TRADITIONAL: Final = 2
CANTONESE: Final = 4
MODERN: Final = 8
CLASSICAL: Final = 16
#: Function words that one kind of written Chinese uses all the time and the others hardly ever.
_PARTICLES: Final = (
    (CANTONESE, "嘅咗喺唔冇佢哋嚟啲睇嗰咁乜嘢咩啱攞瞓諗揾搵畀咪喇啦囉噃嗌嬲"),
    (MODERN, "的了们們吗嗎呢吧着着这這那么麼很都还還没把被给給让讓跟和"),
    (CLASSICAL, "之乎者也矣焉哉兮曰耳欤歟邪弗勿莫孰吾汝爾尔乃遂其於于以而"),
)


@cache
def script_table() -> np.ndarray:
    """uint8 array of shape (0x110000,): index into SCRIPTS of every letter, 0 for what is no letter."""
    table = np.zeros(0x110000, np.uint8)
    for number, (_, ranges) in enumerate(SCRIPTS):
        for first, last in ranges:
            table[first : last + 1] = number
    return table


@cache
def lower_table() -> np.ndarray:
    """uint16 array of shape (0x800,): lower case of every character of two UTF-8 bytes, itself where that is longer."""
    table = np.arange(0x800, dtype=np.uint16)
    for code in range(0x80, 0x800):
        small = chr(code).lower()
        if len(small) == 1 and 0x80 <= ord(small) < 0x800:
            table[code] = ord(small)
    return table


@cache
def variant_table() -> np.ndarray:
    """uint8 array of shape (0x10000,): what a Chinese character tells: bits SIMPLIFIED, TRADITIONAL, and of particles.

    From the repertoires of the national standards: GB 2312 (1980) encodes what the People's Republic writes, Big5 (1984)
    what Taiwan does. A character of one that the other does not have is its form; 后, 里, 台 … are in both and tell nothing.
    Of Big5 only the frequently used 5,401 (lead bytes A4 to C6) count: its rare half is full of characters that simply are
    not in a 6,763-character standard.
    """
    simplified = _repertoire("gb2312", range(0xB0, 0xF8), range(0xA1, 0xFF))
    big5 = _repertoire("big5", range(0xA4, 0xFA), (*range(0x40, 0x7F), *range(0xA1, 0xFF)))
    frequent = _repertoire("big5", range(0xA4, 0xC7), (*range(0x40, 0x7F), *range(0xA1, 0xFF)))
    table = np.zeros(0x10000, np.uint8)
    table[[ord(c) for c in simplified - big5]] = SIMPLIFIED
    table[[ord(c) for c in frequent - simplified]] = TRADITIONAL
    for kind, characters in _PARTICLES:
        table[[ord(c) for c in characters]] |= kind
    return table


def _repertoire(encoding: str, leads: range, trails: range | tuple[int, ...]) -> set[str]:
    """Han characters that the byte pairs decode to."""
    decoded = (bytes((a, b)).decode(encoding, "ignore") for a in leads for b in trails)
    return {c for c in decoded if len(c) == 1 and "\u4e00" <= c <= "\u9fff"}
