"""One pass over UTF-8 text that makes its layout plain and says which documents need more than that.

Reads Arrow buffers of valid UTF-8; writes new ones, never longer. What is edited here is decided character by character:
line ends, control and invisible characters, trailing spaces, blank lines. What cannot be (mojibake, HTML entities,
normalisation) is only *flagged*, on the edited text, so that the slow repair is called for the few documents that may
need it. Promise: a document without a flag is left unchanged by ftfy (with the settings of `clean.unicode`) and by NFC.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined, kernel
from stages.kernels.unicode_tables import (
    ESCAPE,
    JOINER,
    MARK,
    NEWLINE,
    REMOVE,
    REPAIRABLE,
    RETURN,
    SELECTOR,
    SEMICOLON,
    SPACE,
    TAG,
    UNCOMPOSED,
)
from stages.kernels.utf8 import code_point

#: Bits of the flags.
REPAIR: Final = 1  # may hold mojibake, an HTML entity, a Latin ligature or a C1 control
COMPOSE: Final = 2  # may not be in NFC

#: UAX #15 (stream-safe text): no writing system needs more combining marks in a row; canonical ordering of longer runs
#: takes quadratic time.
MAX_MARKS: Final = 30


@inlined
def _keeps_joiner(joiner: Any, before: Any, after: Any) -> Any:
    """Whether an invisible joiner between two characters means something there (Unicode 16, sections 9.2, 12, 23.2)."""
    if joiner == 0x200B:  # word borders of scripts without spaces: Thai, Lao, Myanmar, Khmer, Tai
        return _is_south_east_asian(before) and _is_south_east_asian(after)
    if joiner == 0x200C:  # Persian, Urdu, Indic half forms
        return _is_joining(before) and _is_joining(after)
    return 0x2190 <= after < 0x2C00 or 0x1F000 <= after < 0x1FB00  # inside an emoji


@inlined
def _is_south_east_asian(code: Any) -> Any:
    return (
        0x0E00 <= code < 0x0F00
        or 0x1000 <= code < 0x10A0
        or 0x1780 <= code < 0x1800
        or 0x1950 <= code < 0x1AB0
        or 0xA9E0 <= code < 0xAA80
    )


@inlined
def _is_joining(code: Any) -> Any:
    return (
        0x0600 <= code < 0x0E00
        or 0x0F00 <= code < 0x10A0
        or 0x1780 <= code < 0x18B0
        or 0x1B00 <= code < 0x1C50
        or 0xA840 <= code < 0xAA80
        or 0xFB50 <= code < 0xFE00
        or 0xFE70 <= code < 0xFEFF
        or 0x10A00 <= code < 0x12000
        or 0x1E900 <= code < 0x1E960
    )


@inlined
def _opens_joiner(joiner: Any, before: Any) -> Any:
    """Whether the joiner can be kept after `before`; what follows decides."""
    if joiner == 0x200B:
        return _is_south_east_asian(before)
    if joiner == 0x200C:
        return _is_joining(before)
    return 0x2190 <= before < 0x2C00 or 0x1F000 <= before < 0x1FB00 or before == 0xFE0F


@inlined
def _takes_selector(selector: Any, before: Any) -> Any:
    """Whether a variation selector may follow `before`: one only, the supplementary ones after ideographs."""
    if before <= 32 or 0xFE00 <= before < 0xFE10 or 0xE0100 <= before < 0xE01F0:
        return False
    if selector < 0xE0100:
        return True
    return 0x3400 <= before < 0xA000 or 0xF900 <= before < 0xFB00 or 0x20000 <= before < 0x40000


@inlined
def _after_escape(data: Any, i: Any, end: Any) -> Any:
    """Where a terminal's escape sequence ends, i being after the ESC: ``[``, digits and semicolons, a letter."""
    if i == end or data[i] != 91:
        return i
    j = i + 1
    while j < end and (48 <= data[j] <= 57 or data[j] == 59):
        j += 1
    if j < end and (65 <= data[j] <= 90 or 97 <= data[j] <= 122):
        return j + 1
    return i


@inlined
def _ends_entity(out: Any, start: Any, end: Any) -> Any:
    """Whether out[start:end], which ends before a semicolon, ends like an HTML entity: ``&#?[0-9A-Za-z]{1,24}``."""
    j = end - 1
    low = max(start, end - 26)
    while j >= low:
        b = out[j]
        if b == 38:
            return j < end - 1
        if not (48 <= b <= 57 or 65 <= b <= 90 or 97 <= b <= 122 or b == 35):
            return False
        j -= 1
    return False


@kernel
def edit(
    data: Any,
    offsets: Any,
    valid: Any,
    classes: Any,
    kinds: Any,
    pairs: Any,
    max_blank_lines: Any,
    out: Any,
    out_offsets: Any,
    flags: Any,
    hits: Any,
) -> Any:
    """Edit n documents.

    Args:
        data, offsets: uint8 (bytes,), int64 (n + 1,): valid UTF-8.
        valid: bool (n,): False for null, which becomes empty.
        classes: of `character_classes`.
        kinds, pairs: of `suspect_pairs`.
        max_blank_lines: runs of blank lines are cut to this many.
        out, out_offsets: uint8 (at least as long as the text), int64 (n + 1,): the result.
        flags: uint8 (n,): REPAIR | COMPOSE of every document, about the result.
        hits: int64: a position in `out` for every line that may need repair, ascending, as many as there is room for.

    Returns:
        How many lines may need repair.
    """
    found = 0
    o = 0
    out_offsets[0] = 0
    other = pairs.shape[0] - 1
    for d in range(offsets.shape[0] - 1):
        i = offsets[d]
        end = offsets[d + 1] if valid[d] else i
        start = o
        solid = o  # end of the last character that is not white space
        newlines = 0  # since then
        before = np.int64(0)  # the last character kept, and its kind
        before_kind = 0
        pending: Any = 0  # a joiner that waits for the character after it
        marks = 0
        flag = 0
        hit = False  # this line
        while i < end:
            first = i
            code, size = code_point(data, i)
            i += size
            c = classes[code]
            kind = kinds[code] if code < 0x10000 else other
            if c in (NEWLINE, RETURN):
                if c == RETURN and i < end and data[i] == 10:
                    i += 1
                newlines += 1
                if solid == start:
                    o = start
                elif newlines <= max_blank_lines + 1:
                    o = solid + newlines
                    out[o - 1] = 10
                else:
                    o = solid + max_blank_lines + 1
                if pairs[before_kind, kinds[10]] and not hit and newlines == 1:
                    flag |= REPAIR
                    if found < hits.shape[0]:
                        hits[found] = solid - 1
                    found += 1
                hit = False
                before = np.int64(10)
                before_kind = kinds[10]
                pending = 0
                marks = 0
                continue
            suspect = pairs[before_kind, kind]
            if c == JOINER:
                pending = 0
                if code != 0x200D or not _is_joining(before):
                    if _opens_joiner(code, before):
                        pending = code
                    continue
                # A ZWJ shows the joined form of the letter before it, whatever follows.
            elif c == MARK:
                marks += 1
                if marks > MAX_MARKS:
                    continue
                flag |= COMPOSE
            elif c == UNCOMPOSED:
                flag |= COMPOSE
            elif c == REPAIRABLE:
                suspect = True
            elif c == SEMICOLON:
                suspect = suspect or _ends_entity(out, start, o)
            elif c == SELECTOR:
                if not _takes_selector(code, before):
                    continue
            elif c == TAG:
                # Only the flags of England, Scotland and Wales need them; elsewhere they hide text from the reader.
                if before != 0x1F3F4 and classes[before] != TAG:
                    continue
            elif c == REMOVE:
                continue
            elif c == ESCAPE:
                i = _after_escape(data, i, end)
                continue
            if pending:
                if c != SPACE and _keeps_joiner(pending, before, code):
                    out[o] = 0xE2
                    out[o + 1] = 0x80
                    out[o + 2] = (pending & 0x3F) | 0x80
                    o += 3
                    before_kind = other
                pending = 0
            if c != MARK:
                marks = 0
            if suspect and not hit:
                hit = True
                flag |= REPAIR
                if found < hits.shape[0]:
                    hits[found] = o if c != SPACE else solid - 1
                found += 1
            for k in range(first, i):
                out[o] = data[k]
                o += 1
            before = code
            before_kind = kind
            if c == SPACE:
                continue
            solid = o
            newlines = 0
            if code < 0x80:
                # A run of printable ASCII: no rule above can apply inside it, but the spaces at its end may be trailing.
                first = i
                while i < end and 32 <= data[i] < 0x7F and data[i] != 59:
                    i += 1
                while i > first and data[i - 1] == 32:
                    i -= 1
                for k in range(first, i):
                    out[o] = data[k]
                    o += 1
                if i > first:
                    before = np.int64(data[i - 1])
                    before_kind = kinds[before]
                    solid = o
        o = solid
        out_offsets[d + 1] = o
        flags[d] = flag
    return found
