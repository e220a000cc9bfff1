"""What only Chinese text needs measured: rare characters, simplified and traditional forms, characters in sentences.

Which characters are common comes from two national standards that ordered them by use, through Python's own codecs:
GB 2312 level 1 (3,755 characters) and Big5 level 1 (5,401). In ordinary text of either script, old or new, nearly every
character is in one of them; in text decoded with the wrong charset most are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.jit import kernel
from stages.kernels.script import SIMPLIFIED, TRADITIONAL, variant_table
from stages.kernels.unicode_classes import HAN, TERMINAL, decode, unicode_tables

COUNTED: Final = ("zh_rare_chars", "zh_simplified_chars", "zh_traditional_chars", "zh_sentence_chars", "zh_separators")

COMMON: Final = 64
SEPARATOR: Final = 128
_NEWLINE: Final = ord("\n")
# What stands between the items of menus, tag clouds and breadcrumbs, and round the keywords of title spam.
_SEPARATORS: Final = "|｜/／>＞»›·•_＿【】〖〗\u3000★☆■◆●"


@cache
def character_table() -> np.ndarray:
    """uint8 (0x10000,): SIMPLIFIED or TRADITIONAL (script.py) where a character tells, with COMMON and SEPARATOR bits."""
    table = variant_table() & np.uint8(SIMPLIFIED | TRADITIONAL)  # it has other bits too
    pairs = [(lead, trail) for lead in range(0xB0, 0xD8) for trail in range(0xA1, 0xFF)]
    table[_characters("gb2312", pairs)] |= COMMON
    pairs = [(lead, trail) for lead in range(0xA4, 0xC7) for trail in (*range(0x40, 0x7F), *range(0xA1, 0xFF))]
    table[_characters("big5", pairs)] |= COMMON
    table[[ord(c) for c in _SEPARATORS]] |= SEPARATOR
    table.flags.writeable = False
    return table


def _characters(codec: str, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Code points of the Chinese characters among the byte pairs."""
    decoded = (bytes(pair).decode(codec, "ignore") for pair in pairs)
    return sorted({ord(c) for c in decoded if len(c) == 1 and 0x4E00 <= ord(c) <= 0x9FFF})


@kernel
def _count(offsets: Any, data: Any, apply: Any, unicode: Any, table: Any, out: Any) -> None:
    for d in range(apply.shape[0]):
        if not apply[d]:
            continue
        rare = simplified = traditional = sentence = separators = in_line = 0
        ended = False
        text = data[offsets[d] : offsets[d + 1]]
        i = 0
        while i < text.shape[0]:
            cp, i = decode(text, i, text.shape[0])
            flags = unicode.flags[unicode.classes[cp]]
            bits = table[cp] if cp < table.shape[0] else 0
            separators += (bits & SEPARATOR) != 0
            if flags & HAN:
                in_line += 1
                rare += (bits & COMMON) == 0
                simplified += (bits & SIMPLIFIED) != 0
                traditional += (bits & TRADITIONAL) != 0
            elif cp == _NEWLINE:
                sentence += in_line if ended else 0
                in_line, ended = 0, False
            elif flags & TERMINAL:
                ended = True
        sentence += in_line if ended else 0
        out[0, d], out[1, d], out[2, d], out[3, d], out[4, d] = rare, simplified, traditional, sentence, separators


def count_chinese(text: TextBuffers, apply: np.ndarray) -> np.ndarray:
    """int32 (len(COUNTED), n) counts of the documents where `apply` (bool (n,)) holds, 0 elsewhere.

    zh_rare_chars: Chinese characters outside both standards' first levels; zh_simplified_chars, zh_traditional_chars:
    those only one script's standard has; zh_sentence_chars: Chinese characters in lines that hold terminal punctuation;
    zh_separators: characters that separate the items of menus and the keywords of spam.
    """
    out = np.zeros((len(COUNTED), len(text.valid)), np.int32)
    _count(text.offsets, text.data, apply & text.valid, unicode_tables(), character_table(), out)
    return out
