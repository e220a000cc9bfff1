"""Text as plain lower-case words, the way small classifiers read it: one line a segment, on Arrow buffers.

Case, width and accents are folded away by table; Han, kana, Thai and emoji characters are words of their own; addresses and
@names are left out, punctuation parts words. The table is built when first asked for.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined, kernel
from stages.kernels.script import SCRIPTS, script_table
from stages.kernels.utf8 import put

GAP, WORD, ALONE, PASSED = 0, 1, 2, 3
_TABLE_SIZE: Final = 0x20000
_ALONE: Final = ("Hani", "Kana", "Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Bopo", "Yiii")


@cache
def plain_table() -> np.ndarray:
    """uint32 (0x20000,): bits 0-1 what a character is, the rest its folded code point."""
    table = np.zeros(_TABLE_SIZE, np.uint32)
    alone = np.isin(script_table()[:_TABLE_SIZE], [i for i, (name, _) in enumerate(SCRIPTS) if name in _ALONE])
    codes = np.arange(_TABLE_SIZE, dtype=np.uint32)
    for first, last in ((0x20, 0x3041), (0x30FB, 0x3400), (0xA000, 0xAC00), (0xF900, 0x10000), (0x1D400, 0x1D800)):
        for code in range(first, last):
            char = chr(code)
            folded = unicodedata.normalize("NFKD", char.lower())
            base = "".join(c for c in folded if not unicodedata.combining(c))
            category = unicodedata.category(char)
            if category in ("Mn", "Me", "Cf"):
                kind = PASSED
            elif category[0] in "LN" or char == "_":
                kind = WORD
            else:
                kind = ALONE if 0x2600 <= code < 0x27C0 else GAP
            table[code] = (ord(base) if len(base) == 1 else code) << 2 | kind
    table[0xAC00:0xD7A4] = codes[0xAC00:0xD7A4] << 2 | WORD
    table[0x1F000:0x1FB00] = codes[0x1F000:0x1FB00] << 2 | ALONE
    table[alone] = codes[alone] << 2 | ALONE
    return table


@inlined
def _address_end(data: Any, i: Any, end: Any) -> Any:
    """End of the address that begins at i (http://…, https://…, www.…), i if none does."""
    web = (
        i + 4 < end
        and data[i] | 32 == 104
        and data[i + 1] | 32 == 116
        and data[i + 2] | 32 == 116
        and data[i + 3] | 32 == 112
    )
    colon = i + 7 < end and web and (data[i + 4] == 58 or (data[i + 4] | 32 == 115 and data[i + 5] == 58))
    www = (
        i + 4 < end
        and data[i] | 32 == 119
        and data[i + 1] | 32 == 119
        and data[i + 2] | 32 == 119
        and data[i + 3] == 46
    )
    if not (colon or www):
        return i
    while i < end and data[i] > 32 and data[i] < 0x7F:
        i += 1
    return i


@kernel
def plain_lines(data: Any, starts: Any, ends: Any, table: Any, out: Any, out_offsets: Any) -> None:
    """Plain words of n segments, parted by single spaces.

    Args:
        data, starts, ends: uint8 (bytes,), int64 (n,), int64 (n,).
        table: of `plain_table`.
        out, out_offsets: uint8 (at least twice the segments' bytes and a few), int64 (n + 1,): the lines.
    """
    o: Any = 0
    out_offsets[0] = 0
    for k in range(starts.shape[0]):
        i = starts[k]
        end = ends[k]
        first: Any = o
        before: Any = GAP
        while i < end:
            b = data[i]
            if before != WORD and (b | 32 == 104 or b | 32 == 119):
                stop = _address_end(data, i, end)
                if stop > i:
                    i = stop
                    before = GAP
                    continue
            if b == 64:  # @name
                i += 1
                while i < end and (48 <= data[i] <= 57 or 97 <= data[i] | 32 <= 122 or data[i] == 95):
                    i += 1
                before = GAP
                continue
            size = 1 if b < 0x80 else 2 if b < 0xE0 else 3 if b < 0xF0 else 4
            code: Any = np.int64(b)
            if size > 1:
                code = np.int64(b & (0x7F >> size))
                for j in range(1, size):
                    code = code << 6 | (data[i + j] & 0x3F)
            i += size
            info = np.int64(table[code]) if code < table.shape[0] else code << 2 | ALONE
            kind = info & 3
            if kind == PASSED:
                continue
            if kind != GAP:
                if o > first and (kind == ALONE or before != WORD):
                    out[o] = 32
                    o += 1
                o = put(out, o, info >> 2)
            before = kind
        out_offsets[k + 1] = o
