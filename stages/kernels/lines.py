"""Lines and paragraphs of a document: how they begin and end, how long they are, which repeat.

A line is what lies between ``\\n``, white space at its ends taken off; blank lines are not lines but end a paragraph. White
space before a bullet or after a full stop therefore never matters, unlike in most published filters.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.phrases import JAVASCRIPT, LOREM_IPSUM, POLICY, find_phrases, may_hold_phrases
from stages.kernels.unicode_classes import CLOSING, SPACE, TERMINAL, decode, previous
from stages.kernels.words import mix

#: What `measure_lines` counts, by position in its result.
COUNTED: Final = (
    "lines", "line_chars", "longest_line", "short_lines", "bullet_lines", "ellipsis_lines", "terminal_lines", "dup_lines",
    "dup_line_chars", "paragraphs", "dup_paragraphs", "dup_paragraph_chars", "javascript_lines", "policy_lines",
    "lorem_ipsum_lines", "code_lines",
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


_ONES: Final = np.uint64(0x0101010101010101)
_HIGHS: Final = np.uint64(0x8080808080808080)
_NEWLINES: Final = np.uint64(0x0A0A0A0A0A0A0A0A)


@inlined
def load8(text: Any, i: Any) -> Any:
    """Eight bytes as a little-endian uint64; one instruction once compiled."""
    word = np.uint64(0)
    for k in range(8):
        word |= np.uint64(text[i + k]) << np.uint64(8 * k)
    return word


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
def insert(table: Any, mask: Any, key: Any) -> Any:
    """Whether `key` was in the set already; it is now."""
    slot = np.int64((key * _PRIME) >> np.uint64(20)) & mask
    while table[slot] != np.uint64(0):
        if table[slot] == key:
            return True
        slot = (slot + 1) & mask
    table[slot] = key
    return False


@inner
def measure_lines(text: Any, newlines: Any, unicode: Any, scratch: Any, out: Any) -> None:
    """Counts of a document (uint8, UTF-8) into `out`, int64, ordered as COUNTED.

    Repeats count from the second copy on. A paragraph is a run of lines without a blank one between them.

    Args:
        newlines: line feeds in the document.
        scratch: room for all lines of the document, see `make_line_scratch`.
    """
    out[:] = 0
    end = text.shape[0]
    most = min(newlines + 1, end - newlines)  # lines that are not blank: each has a byte of its own
    size = 16
    while size < 2 * most:
        size *= 2
    mask = size - 1
    scratch.lines[: mask + 1] = np.uint64(0)
    scratch.paragraphs[: mask + 1] = np.uint64(0)
    has_phrases = may_hold_phrases(text)
    paragraph_hash = _SEED
    paragraph_chars = 0
    i = 0
    while i <= end:
        line_end = find_newline(text, i)
        begin, stop = strip(text[i:line_end], unicode)
        line = text[i + begin : i + stop]
        i = line_end + 1
        if line.shape[0]:
            key, chars = hash_bytes(line)
            out[0] += 1
            out[1] += chars
            out[2] = max(out[2], chars)
            out[3] += chars <= SHORT_LINE
            out[4] += _starts_with_bullet(line, unicode)
            out[5] += _ends_with_ellipsis(line)
            out[6] += _ends_terminal(line, unicode)
            out[15] += _looks_like_code(line)
            if insert(scratch.lines, mask, key):
                out[7] += 1
                out[8] += chars
            if has_phrases:
                phrases = find_phrases(line)
                out[12] += (phrases & JAVASCRIPT) != 0
                out[13] += (phrases & POLICY) != 0
                out[14] += (phrases & LOREM_IPSUM) != 0
            paragraph_hash = mix(paragraph_hash, key)
            paragraph_chars += chars
        if paragraph_chars and (line.shape[0] == 0 or i > end):
            out[9] += 1
            if insert(scratch.paragraphs, mask, paragraph_hash | np.uint64(1)):
                out[10] += 1
                out[11] += paragraph_chars
            paragraph_hash = _SEED
            paragraph_chars = 0


@inner
def find_newline(text: Any, i: Any) -> Any:
    """Position of the next line feed from `i`, or the end; eight bytes at a time."""
    end = text.shape[0]
    while i + 8 <= end:
        differs = load8(text, i) ^ _NEWLINES
        if (differs - _ONES) & ~differs & _HIGHS:  # a byte of it is 0
            break
        i += 8
    while i < end and text[i] != _NEWLINE:
        i += 1
    return i


@kernel
def strip(text: Any, unicode: Any) -> Any:
    """Where `text` (uint8) without the white space at its ends begins and ends."""
    start, end = 0, text.shape[0]
    while start < end:
        cp, after = decode(text, start, end)
        if not unicode.flags[unicode.classes[cp]] & SPACE:
            break
        start = after
    while end > start:
        before = previous(text, start, end)
        cp, _ = decode(text, before, end)
        if not unicode.flags[unicode.classes[cp]] & SPACE:
            break
        end = before
    return start, end


@inner
def hash_bytes(text: Any) -> Any:
    """(uint64 hash, never 0; code points) of `text` (uint8), eight bytes at a time: the loads below become one."""
    h = _SEED
    chars = end = text.shape[0]
    i = 0
    while i + 8 <= end:
        word = load8(text, i)
        h = mix(h, word)
        continues = (word >> np.uint64(7)) & ~(word >> np.uint64(6)) & _ONES  # a 1 for every byte 10xxxxxx
        chars -= np.int64((continues * _ONES) >> np.uint64(56))
        i += 8
    word = np.uint64(end)
    while i < end:
        word = (word << np.uint64(8)) | np.uint64(text[i])
        chars -= (text[i] & 0xC0) == 0x80
        i += 1
    return mix(h, word) | np.uint64(1), chars


@inner
def _starts_with_bullet(line: Any, unicode: Any) -> Any:
    cp, after = decode(line, 0, line.shape[0])
    if _is_dash_bullet(cp) and after < line.shape[0]:
        cp, _ = decode(line, after, line.shape[0])
        return (unicode.flags[unicode.classes[cp]] & SPACE) != 0
    return is_bullet(cp)


@inner
def _ends_with_ellipsis(line: Any) -> Any:
    end = line.shape[0]
    if end < 3:
        return False
    if line[end - 1] == _STOP:
        return line[end - 2] == _STOP and line[end - 3] == _STOP
    cp, _ = decode(line, previous(line, 0, end), end)
    return cp == _ELLIPSIS


@inner
def _looks_like_code(line: Any) -> Any:
    """Ends as statements and blocks do, or begins as comments do."""
    n = line.shape[0]
    last = line[n - 1]
    if last == 0x3B or last == 0x7B or last == 0x7D:  # ; { }
        return True
    return n > 1 and line[0] == 0x2F and (line[1] == 0x2F or line[1] == 0x2A)  # // /*


@inner
def _ends_terminal(line: Any, unicode: Any) -> Any:
    end = line.shape[0]
    while end > 0:
        before = previous(line, 0, end)
        cp, _ = decode(line, before, end)
        flags = unicode.flags[unicode.classes[cp]]
        if not flags & CLOSING:
            return (flags & TERMINAL) != 0
        end = before
    return False
