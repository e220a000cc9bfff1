"""RefinedWeb's line corrections as DCLM restates them (mlfoundations/dclm, baselines/mappers/modifiers.py).

A line goes if it is mostly capitals, all digits, a counter ("3 likes") or a single word. From lines of at most ten words the
phrases "items in cart" (anywhere), "read more" and three more characters (at the end) and "sign-in" (at the beginning) are
cut, with the space beside them, and a line that was nothing else goes too.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.lines import find_newline, strip
from stages.kernels.unicode_classes import ALPHA, DIGIT, NUMBER, SPACE, UPPER, decode, previous, unicode_tables

COUNTED: Final = ("dclm_words_before", "dclm_words_after", "dclm_removed_lines")
_NEWLINE: Final = 0x0A
_LONGEST_CUT: Final = 10


def _frozen(text: str) -> np.ndarray:
    array = np.frombuffer(text.encode(), np.uint8)
    array.flags.writeable = False
    return array


_CART: Final = _frozen("items in cart")
_MORE: Final = _frozen("read more")
_SIGN: Final = _frozen("sign-in")
_COUNTERS: Final = (
    "likes", "shares", "comments", "retweets", "reposts", "quotes", "bookmarks", "upvotes", "downvotes", "downloads",
    "views", "followers",
)  # fmt: skip
_NAMES: Final = _frozen("".join(_COUNTERS))
_ENDS: Final = np.cumsum([len(c) for c in _COUNTERS])
_ENDS.flags.writeable = False


@inlined
def _same(line: Any, i: Any, phrase: Any) -> Any:
    """Whether the phrase stands at `i`, ASCII case ignored."""
    if i + phrase.shape[0] > line.shape[0]:
        return False
    k = 0
    while k < phrase.shape[0]:
        b = line[i + k]
        if 0x41 <= b <= 0x5A:
            b |= 0x20
        if b != phrase[k]:
            break
        k += 1
    return k == phrase.shape[0]


@inlined
def _is_word(cp: Any, flags: Any) -> Any:
    """What \\w matches."""
    return (flags & (ALPHA | NUMBER)) != 0 or cp == 0x5F


@inner
def _words_of(line: Any, unicode: Any, alphanumeric: Any) -> Any:
    """Words between white space; `alphanumeric`: only those that begin with a letter or number."""
    n = i = 0
    inside = False
    while i < line.shape[0]:
        cp, i = decode(line, i, line.shape[0])
        flags = unicode.flags[unicode.classes[cp]]
        space = (flags & SPACE) != 0
        if not space and not inside:
            n += not alphanumeric or (flags & (ALPHA | NUMBER)) != 0
        inside = not space
    return n


@inner
def _is_counter(line: Any, unicode: Any) -> Any:
    """``^\\W*\\d(,|.|\\d)*[kmb]?\\s+(likes|shares|…)\\W*$``, case ignored."""
    n = line.shape[0]
    i = 0
    while i < n:  # \W*
        cp, after = decode(line, i, n)
        if _is_word(cp, unicode.flags[unicode.classes[cp]]):
            break
        i = after
    digits = 0
    while i < n:
        cp, after = decode(line, i, n)
        digit = (unicode.flags[unicode.classes[cp]] & DIGIT) != 0
        if not (digit or (digits and (cp == 0x2C or cp == 0x2E))):
            break
        digits += 1
        i = after
    if not digits:
        return False
    if i < n and (line[i] | 0x20 == 0x6B or line[i] | 0x20 == 0x6D or line[i] | 0x20 == 0x62):
        i += 1
    spaces = 0
    while i < n:
        cp, after = decode(line, i, n)
        if not unicode.flags[unicode.classes[cp]] & SPACE:
            break
        spaces += 1
        i = after
    if not spaces:
        return False
    start = 0
    for k in range(_ENDS.shape[0]):
        name = _NAMES[start : _ENDS[k]]
        start = _ENDS[k]
        if not _same(line, i, name):
            continue
        j = i + name.shape[0]
        while j < n:
            cp, after = decode(line, j, n)
            if _is_word(cp, unicode.flags[unicode.classes[cp]]):
                break
            j = after
        if j == n:
            return True
    return False


@inner
def _goes(line: Any, unicode: Any) -> Any:
    """Whether a line that is not empty is removed as a whole."""
    chars = upper = digits = i = 0
    while i < line.shape[0]:
        cp, i = decode(line, i, line.shape[0])
        flags = unicode.flags[unicode.classes[cp]]
        chars += 1
        upper += (flags & UPPER) != 0
        digits += (flags & DIGIT) != 0
    if 2 * upper > chars or digits > 0.999999 * chars:
        return True
    return _words_of(line, unicode, False) < 2 or _is_counter(line, unicode)


@inner
def _space_before(out: Any, start: Any, i: Any, unicode: Any) -> Any:
    """Where the white-space character before `i` begins; `i` itself if there is none."""
    if i == start:
        return i
    before = previous(out, start, i)
    cp, _ = decode(out, before, i)
    return before if unicode.flags[unicode.classes[cp]] & SPACE else i


@inner
def _cut_phrases(line: Any, unicode: Any, out: Any, written: Any, at: Any) -> Any:
    """Write a short line without the phrases to `out` from `at`; returns where it ends, -1 if nothing is left."""
    n = line.shape[0]
    if _words_of(line, unicode, False) > _LONGEST_CUT:
        for i in range(n):
            out[at + i] = line[i]
        return at + n
    i = 0
    end = at
    while i < n:
        if _same(line, i, _CART):
            end = _space_before(out, at, end, unicode)
            i += _CART.shape[0]
            continue
        out[end] = line[i]
        end += 1
        i += 1
    # "Read more..." is a regular expression to DCLM: three characters of any kind.
    tail = end
    for _ in range(3):
        tail = previous(out, at, tail) if tail > at else -1
        if tail < 0:
            break
    start = tail - _MORE.shape[0]
    if tail >= 0 and start >= at and _same(written[at:end], start - at, _MORE):
        end = _space_before(out, at, start, unicode)
    if _same(written[at:end], 0, _SIGN):
        first = at + _SIGN.shape[0]
        if first < end:
            cp, after = decode(out, first, end)
            first = after if unicode.flags[unicode.classes[cp]] & SPACE else first
        for k in range(first, end):
            out[at + k - first] = out[k]
        end -= first - at
    first, last = strip(written[at:end], unicode)
    return end if last > first else -1


@kernel
def _clean(
    offsets: Any, data: Any, apply: Any, unicode: Any, out: Any, written: Any, out_offsets: Any, totals: Any
) -> None:
    at: Any = np.int64(0)
    for d in range(apply.shape[0]):
        out_offsets[d] = at
        text = data[offsets[d] : offsets[d + 1]]
        if not apply[d]:
            for i in range(text.shape[0]):
                out[at + i] = text[i]
            at += text.shape[0]
            continue
        totals[0, d] = _words_of(text, unicode, True)
        begin = at
        i = 0
        while i <= text.shape[0]:
            stop = find_newline(text, i)
            line = text[i:stop]
            i = stop + 1
            room = at + 1 if at > begin else at
            finish = room
            if line.shape[0]:
                finish = -1 if _goes(line, unicode) else _cut_phrases(line, unicode, out, written, room)
            if finish < 0:
                totals[2, d] += 1
                continue
            if at == begin and finish == room:
                continue  # a blank line in front
            if room > at:
                out[at] = _NEWLINE
            at = finish
        first, last = strip(written[begin:at], unicode)
        for k in range(first, last):
            out[begin + k - first] = out[begin + k]
        at = begin + last - first
        totals[1, d] = _words_of(written[begin:at], unicode, True)
    out_offsets[apply.shape[0]] = at


def clean_lines(text: TextBuffers, apply: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clean a batch of n documents where `apply` (bool (n,)) holds.

    Returns:
        int64 (n + 1,) offsets and uint8 data of the cleaned texts, and int32 (len(COUNTED), n) counts.
    """
    n = len(text.valid)
    out = np.empty(int(text.offsets[-1] - text.offsets[0]) + 1, np.uint8)
    written = out.view()
    written.flags.writeable = False
    out_offsets = np.zeros(n + 1, np.int64)
    totals = np.zeros((len(COUNTED), n), np.int32)
    _clean(text.offsets, text.data, apply & text.valid, unicode_tables(), out, written, out_offsets, totals)
    return out_offsets, out, totals
