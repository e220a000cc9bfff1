"""Lines and paragraphs of a document: how they begin and end, how long they are, which repeat.

A line is what lies between ``\\n``, white space at its ends taken off; blank lines are not lines but end a paragraph. White
space before a bullet or after a full stop therefore never matters, unlike in most published filters.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import inlined, kernel
from stages.kernels.phrases import JAVASCRIPT, LOREM_IPSUM, PHRASE_LETTERS, POLICY, phrases_at
from stages.kernels.unicode_classes import CLOSING, SPACE, TERMINAL, decode
from stages.kernels.words import mix

#: What `measure_lines` counts, by position in its result.
COUNTED: Final = (
    "lines", "line_chars", "longest_line", "short_lines", "bullet_lines", "ellipsis_lines", "terminal_lines", "dup_lines",
    "dup_line_chars", "paragraphs", "dup_paragraphs", "dup_paragraph_chars", "javascript_lines", "policy_lines",
    "lorem_ipsum_lines",
)  # fmt: skip
#: Lines of at most so many characters are short (FineWeb).
SHORT_LINE: Final = 30

_SEED: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)
_NEWLINE, _STOP, _ELLIPSIS = ord("\n"), ord("."), 0x2026


class LineScratch(NamedTuple):
    """Hash sets (uint64, a power of two >= 2 * lines) for the lines and of the paragraphs seen in a document."""

    lines: np.ndarray
    paragraphs: np.ndarray


def make_line_scratch(lines: int) -> LineScratch:
    """Room for documents of up to `lines` lines."""
    size = 1 << max(4, (2 * lines - 1).bit_length())
    return LineScratch(np.empty(size, np.uint64), np.empty(size, np.uint64))


@inlined
def is_bullet(cp: Any) -> Any:
    """Characters that begin a list item wherever they begin a line."""
    return (
        cp == 0x2022  # •
        or cp == 0x2023  # ‣
        or cp == 0x2043  # ⁃
        or cp == 0x25E6  # ◦
        or 0x25A0 <= cp <= 0x25A3  # ■ □ ▢ ▣
        or cp == 0x25AA  # ▪
        or cp == 0x25AB  # ▫
        or 0x25B6 <= cp <= 0x25BB  # ▶ ▷ ▸ ▹ ► ▻
        or cp == 0x25C6  # ◆
        or cp == 0x25C7  # ◇
        or cp == 0x25CB  # ○
        or cp == 0x25CF  # ●
        or cp == 0x2605  # ★
        or cp == 0x2606  # ☆
        or cp == 0x27A2  # ➢
        or cp == 0x27A4  # ➤
        or cp == 0x00B7  # ·
        or cp == 0x30FB  # ・
    )


@inlined
def _is_dash_bullet(cp: Any) -> Any:
    """Characters that begin a list item if a space follows: without one it is a number, an option, emphasis."""
    return cp == 0x2D or cp == 0x2A or cp == 0x2B or cp == 0x2013  # - * + –


@inlined
def _insert(table: Any, mask: Any, key: Any) -> Any:
    """Whether `key` was in the set already; it is now."""
    slot = np.int64((key * _PRIME) >> np.uint64(20)) & mask
    while table[slot] != np.uint64(0):
        if table[slot] == key:
            return True
        slot = (slot + 1) & mask
    table[slot] = key
    return False


@kernel
def measure_lines(data: Any, start: Any, end: Any, unicode: Any, scratch: Any, out: Any) -> None:
    """Counts of the document ``data[start:end]`` into `out`, int64, ordered as COUNTED.

    Repeats count from the second copy on. A paragraph is a run of lines without a blank one between them.

    Args:
        scratch: room for all lines of the document, see `make_line_scratch`.
    """
    out[:] = 0
    if start == end:
        return
    mask = _table_size(data, start, end) - 1
    scratch.lines[: mask + 1] = np.uint64(0)
    scratch.paragraphs[: mask + 1] = np.uint64(0)
    paragraph_hash = _SEED
    paragraph_chars = 0
    i = start
    while i <= end:
        # One line: i moves behind its newline (or behind the end of the document).
        line_start = i
        h = kept_hash = _SEED
        chars = kept_chars = dots = phrases = 0
        first = np.int64(-1)
        bullet = ended = ellipsis = False
        while i < end:
            b = data[i]
            if b == _NEWLINE:
                break
            if PHRASE_LETTERS[b]:
                phrases |= phrases_at(data, i, line_start, end)  # no phrase holds a newline
            cp, i = decode(data, i, end)
            flags = unicode.flags[unicode.classes[cp]]
            if flags & SPACE:
                if chars:
                    bullet |= chars == 1 and _is_dash_bullet(first)
                    h = mix(h, cp)
                    chars += 1
                continue
            if chars == 0:
                first = cp
                bullet = is_bullet(cp)
            h = mix(h, cp)
            chars += 1
            kept_hash, kept_chars = h, chars
            dots = dots + 1 if cp == _STOP else 0
            ellipsis = cp == _ELLIPSIS or dots >= 3
            ended = (flags & TERMINAL) != 0 or (ended and (flags & CLOSING) != 0)
        i += 1
        if kept_chars:
            line = kept_hash | np.uint64(1)
            out[0] += 1
            out[1] += kept_chars
            out[2] = max(out[2], kept_chars)
            out[3] += kept_chars <= SHORT_LINE
            out[4] += bullet
            out[5] += ellipsis
            out[6] += ended
            if _insert(scratch.lines, mask, line):
                out[7] += 1
                out[8] += kept_chars
            out[12] += (phrases & JAVASCRIPT) != 0
            out[13] += (phrases & POLICY) != 0
            out[14] += (phrases & LOREM_IPSUM) != 0
            paragraph_hash = mix(paragraph_hash, line)
            paragraph_chars += kept_chars
        if paragraph_chars and (kept_chars == 0 or i > end):
            out[9] += 1
            if _insert(scratch.paragraphs, mask, paragraph_hash | np.uint64(1)):
                out[10] += 1
                out[11] += paragraph_chars
            paragraph_hash = _SEED
            paragraph_chars = 0


@kernel
def _table_size(data: Any, start: Any, end: Any) -> Any:
    """Slots that the lines of ``data[start:end]`` can need."""
    most = 1
    for i in range(start, end):
        most += data[i] == _NEWLINE
    size = 16
    while size < 2 * most:
        size *= 2
    return size
