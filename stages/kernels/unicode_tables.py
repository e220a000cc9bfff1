"""Tables of characters for the kernel of `clean.unicode`.

What a character is to the edit (from this Python's Unicode data), and which pairs of neighbours mojibake must hold (from
the character classes that ftfy's badness heuristic publishes). Built when first asked for, in a tenth of a second.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

import numpy as np

# Classes of characters, as the edit sees them.
PLAIN, SPACE, NEWLINE, RETURN, REMOVE, REPAIRABLE, SEMICOLON, ESCAPE = 0, 1, 2, 3, 4, 5, 6, 7
MARK, UNCOMPOSED, JOINER, SELECTOR, TAG = 8, 9, 10, 11, 12

_ZWSP, _ZWNJ, _ZWJ = 0x200B, 0x200C, 0x200D

# C0 without \t \n \v \f \r ESC, DEL; soft hyphen; bidirectional controls; word joiner, invisible operators, deprecated
# format characters; BOM; interlinear annotation, object replacement; noncharacters.
_REMOVED = (
    (0x00, 0x08), (0x0E, 0x1A), (0x1C, 0x1F), (0x7F, 0x7F), (0xAD, 0xAD), (0x61C, 0x61C), (0x200E, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0xFDD0, 0xFDEF), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFC), (0xFFFE, 0xFFFF),
    (0xE0000, 0xE001F),
)  # fmt: skip
_SPACES = "\t \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
#: What ftfy's `fix_latin_ligatures` takes apart.
_LIGATURES = "ĲĳŉǱǲǳǄǅǆǇǈǉǊǋǌﬀﬁﬂﬃﬄﬅﬆ"


@cache
def character_classes() -> np.ndarray:
    """uint8 array of shape (0x110000,): the class of every code point, by this Python's Unicode data."""
    table = np.zeros(0x110000, np.uint8)
    for first, last in ((0x300, 0x33FF), (0xA000, 0xABFF), (0xF900, 0x1FFFF), (0x2F800, 0x2FA1F)):
        for code in range(first, last + 1):
            char = chr(code)
            if unicodedata.combining(char):
                table[code] = MARK
            elif not unicodedata.is_normalized("NFC", char) or _composes_backwards(code):
                table[code] = UNCOMPOSED
    for first, last in _REMOVED:
        table[first : last + 1] = REMOVE
    table[0x80:0xA0] = REPAIRABLE
    for group, kind in ((_SPACES, SPACE), ("\n\v\f\u2028\u2029", NEWLINE), ("\r", RETURN), (";", SEMICOLON)):
        table[[ord(c) for c in group]] = kind
    table[[ord(c) for c in _LIGATURES]] = REPAIRABLE
    table[0x1B] = ESCAPE
    table[[_ZWSP, _ZWNJ, _ZWJ]] = JOINER
    table[0xFE00:0xFE10] = SELECTOR
    table[0xE0100:0xE01F0] = SELECTOR
    table[0xE0020:0xE0080] = TAG
    return table


def _composes_backwards(code: int) -> bool:
    """Starters that may join the character before them: NFC_Quick_Check=Maybe with combining class 0 (UAX #15)."""
    return (
        0x1161 <= code <= 0x1175  # Hangul vowels and finals
        or 0x11A8 <= code <= 0x11C2
        or code in (0x9BE, 0x9D7, 0xB3E, 0xB56, 0xB57, 0xBBE, 0xBD7, 0xCC2, 0xCD5, 0xCD6, 0xD3E, 0xD57, 0xDCF, 0xDDF)
        or code in (0x102E, 0x1B35, 0x11127, 0x1133E, 0x11357, 0x114B0, 0x114BA, 0x114BD, 0x115AF, 0x11930)
        or code in (0x113B8, 0x113BB, 0x113C2, 0x113C5, 0x113C7, 0x113C8, 0x113C9, 0x16D63, 0x16D67, 0x1611E)
        or 0x1611E <= code <= 0x1612F
    )


#: Sides of the pairs below. Letters of a key are one class; `ftfy.badness` names and lists the same characters.
_SUSPECTS: Final = {
    "b": "¦¤¨¬¯¸ƒˆˇ˘˛˜†‡‰⌐◊\ufffdªº",
    "w": "¶§",
    "c": "¢£¥₧€",
    "s": "¡«¿©΄΅‘‚“„•‹\uf8ff",
    "e": "®»˝”›™",
    "n": "²³¹±¼½¾×µ÷⁄∂∆∏∑√∞∩∫≈≠≡≤≥№",
    "k": "Ò-ÖÙ-Ûò-öø-ûŐŌŪŲ°",
    "U": "À-ÑØÜÝĂĀĄĆČĎĐĘĚĒĖĞĢİĪĶĹĽŁĻŃŇŅŒŘŚŞŠŢŤŮŰŸŹŻŽҐ",
    "L": "ßà-ñăąāćčďđęěēėğģįīķĺľłļœŕśşšťüźżžґﬁﬂ",
    "G": "ÞΑ-ΡΣ-ΩΆΈΉΊΌΎΏΪΫЁ-Я",
    "g": "α-ωάέήίΰа-џ",
    "x": "│┌┐┘├┤┬┼═-╬▀▄█▌▐░▒▓",
    "o": "\xa0\xad·´–—―…’",
}
#: Two neighbours that a match of ftfy's badness expression must hold, whatever surrounds them: left classes, right ones.
_PAIRS: Final = (
    ("bLUxsecnw", "b"), ("Gg", "b"), ("b", "LUxsecnw"), ("Lgxecn", "U"), ("xecn", "L"), ("Lxe", "c"), ("U", "c"),
    ("Ux", "nw"), ("s", "n"), ("e", "s"), ("cnx", "s"), ("U", "sc"), ("x", "k"), ("LUcnsew", "x"), ("x", "e"),
    ("LU", "se"), ("n", "n"), ("L", "n"),
)  # fmt: skip
#: The same for single characters that the expression names by themselves.
_NAMED: Final = (
    ("Œœ", "\t\n !\"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`{|}~"), ("ÂÃ", " "), (_SUSPECTS["U"], "°"),
    ("√≈‚", "±∂†≠®™´≤≥¥µø°¢Äâó"), ("β", "€"), ("ā", "€"), ("В", "Ђ"), ("в", "Ђ"),
    ("ВГРСΒΓΞΟ", "¡«¿©΄΅‘‚“„•‹®»˝”›™¢£¥₧€°µ\uf8ff"),
)  # fmt: skip
#: Left sides after which any non-ASCII neighbour is suspect, and right sides for œ (not followed by a Latin letter).
_ANY_AFTER: Final = "ÂÃÎÐØÙŒœ"


def _expand(ranges: str) -> str:
    out: list[str] = []
    for i, char in enumerate(ranges):
        if char == "-" and 0 < i < len(ranges) - 1:
            out.extend(chr(c) for c in range(ord(ranges[i - 1]) + 1, ord(ranges[i + 1])))
        else:
            out.append(char)
    return "".join(out)


@cache
def suspect_pairs() -> tuple[np.ndarray, np.ndarray]:
    """(kinds, pairs): uint8 (0x10000,) kind of every BMP character, 0 for most; bool (m, m) which neighbours are suspect.

    Derived from the characters alone: those with the same row and column share a kind.
    """
    group = {char: key for key, chars in _SUSPECTS.items() for char in _expand(chars)}
    named = [(_expand(left), right) for left, right in _NAMED]
    characters = sorted({*group, *(c for sides in named for side in sides for c in side), *_ANY_AFTER})
    signature = {
        c: (
            group.get(c, ""),
            tuple(c in left for left, _ in named),
            tuple(c in right for _, right in named),
            c in _ANY_AFTER,
            c.isascii(),
        )
        for c in characters
    }
    numbers = {s: i + 1 for i, s in enumerate(sorted(set(signature.values())))}
    kinds = np.zeros(0x10000, np.uint8)
    kinds[0x80:] = len(numbers) + 1  # any other non-ASCII character
    for char, sign in signature.items():
        kinds[ord(char)] = numbers[sign]
    pairs = np.zeros((len(numbers) + 2, len(numbers) + 2), np.bool_)
    for left, i in numbers.items():
        pairs[i, -1] = left[3]
        for right, j in numbers.items():
            pairs[i, j] = (
                any(left[0] and right[0] and left[0] in a and right[0] in b for a, b in _PAIRS)
                or any(x and y for x, y in zip(left[1], right[2], strict=True))
                or (left[3] and not right[4])
            )
    return kinds, pairs
