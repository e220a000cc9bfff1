# mypy: allow-untyped-defs, allow-untyped-calls
"""The parts of reading HTML that need no memory: names, attributes, comments, raw text, character references.

Reads UTF-8 bytes; every function takes a position and returns the one behind what it read, or the end. Promises to move on,
so that what calls it is linear.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stages.kernels.html_tables import (
    ATTRIBUTES_AT,
    ENTITIES_AT,
    ENTITY_SHIFT,
    MARK_BIT,
    MULTIPLIER,
    SMALL_SHIFT,
    VALUES_AT,
    WORD_SHIFT,
    WORDS_AT,
)
from stages.kernels.jit import inlined, inner, kernel

#: Entries of `state` that functions here answer in.
ANSWER: Final = 0
HREF: Final = 1
ATTRIBUTES_SEEN: Final = 2
STATE_ENTRIES: Final = 12

_HIDDEN: Final = 1 << MARK_BIT["hidden_attribute"]


@kernel
def find(t, base, shift, key):
    """The value of a key in the table of 1 << (64 - shift) slots that begins at t[base]; 0 if it is not there."""
    slots = 1 << (64 - shift)
    i = np.int64(np.uint64(np.int64(key) * MULTIPLIER) >> np.uint64(shift))
    while t[base + i] != 0:
        if t[base + i] == key:
            return t[base + slots + i]
        i = (i + 1) & (slots - 1)
    return np.int64(0)


@inlined
def is_letter(b):
    return (b | 32) >= 97 and (b | 32) <= 122


@kernel
def name(data, i, end, state):
    """Pack the tag name at i; behind it."""
    key = np.int64(0)
    n = 0
    while i < end:
        b = data[i]
        if is_letter(b):
            code = b & 31
        elif b >= 49 and b <= 57:
            code = 27 + (b - 49) % 5
        elif b <= 32 or b == 62 or b == 47:
            break
        else:
            code = 31
        if n < 12:
            key = key << 5 | code
        n += 1
        i += 1
    state[ANSWER] = key
    return i


@kernel
def _words(data, i, end, t, base, shift):
    """Mask of the words in data[i:end]; words end at what is no letter, and where a capital follows a small letter."""
    mask = np.int64(0)
    key = np.int64(0)
    n = 0
    small = False
    while i < end:
        b = data[i]
        if is_letter(b):
            if b <= 90 and small and n > 0:
                mask |= find(t, base, shift, key)
                key = np.int64(0)
                n = 0
            if n < 12:
                key = key << 5 | (b & 31)
            n += 1
            small = b > 90
        elif n > 0:
            mask |= find(t, base, shift, key)
            key = np.int64(0)
            n = 0
        i += 1
    if n > 0:
        mask |= find(t, base, shift, key)
    return mask


@inner
def _hides(data, i, end):
    """Whether a style attribute says display:none or visibility:hidden."""
    while i + 3 < end:
        if (
            (data[i] | 32) == 110
            and (data[i + 1] | 32) == 111
            and (data[i + 2] | 32) == 110
            and (data[i + 3] | 32) == 101
        ):
            k = i - 1
            while k > 0 and data[k] <= 32:
                k -= 1
            if data[k] == 58:
                k -= 1
                while k > 0 and data[k] <= 32:
                    k -= 1
                if k > 5 and (data[k] | 32) == 121 and (data[k - 6] | 32) == 100:  # d……y:
                    return True
        i += 1
    return False


@kernel
def attributes(data, i, end, t, state):
    """Read attributes up to the tag's end; behind it. `state` gets the mask, whether there is an href, and their number."""
    mask = np.int64(0)
    href = 0
    seen = 0
    while i < end:
        b = data[i]
        if b == 62:
            i += 1
            break
        if b <= 32 or b == 47:
            i += 1
            continue
        key = np.int64(0)
        n = 0
        while i < end:
            b = data[i]
            if b == 61 and n > 0:
                break
            if b <= 32 or b == 62 or b == 47:
                break
            if is_letter(b) and n < 12:
                key = key << 5 | (b & 31)
            n += 1
            i += 1
        while i < end and data[i] <= 32:
            i += 1
        first = last = i
        if i < end and data[i] == 61:
            i += 1
            while i < end and data[i] <= 32:
                i += 1
            if i < end and (data[i] == 34 or data[i] == 39):
                quote = data[i]
                i += 1
                first = i
                while i < end and data[i] != quote:
                    i += 1
                last = i
                i += 1
            else:
                first = i
                while i < end and data[i] > 32 and data[i] != 62:
                    i += 1
                last = i
        seen += 1
        which = find(t, ATTRIBUTES_AT, SMALL_SHIFT, key)
        if which == 0:
            continue
        if which <= 2:
            mask |= _words(data, first, last, t, WORDS_AT, WORD_SHIFT)
        elif which <= 4:
            key = np.int64(0)
            for k in range(first, min(last, first + 12)):
                if is_letter(data[k]):
                    key = key << 5 | (data[k] & 31)
            mask |= find(t, VALUES_AT, SMALL_SHIFT, key)
        elif which == 5:
            if _hides(data, first, last):
                mask |= _HIDDEN
        elif which == 6:
            mask |= _HIDDEN
        elif which == 7:
            if last > first and (data[first] | 32) == 116:  # true
                mask |= _HIDDEN
        else:
            href = 1
    state[ANSWER] = mask
    state[HREF] = href
    state[ATTRIBUTES_SEEN] = seen
    return min(i, end)


@inner
def comment_end(data, i, end):
    """Behind the markup declaration or comment at i (`<!`)."""
    if i + 3 < end and data[i + 2] == 45 and data[i + 3] == 45:
        i += 4
        if i < end and data[i] == 62:
            return i + 1
        while i + 2 < end:
            if data[i] == 45 and data[i + 1] == 45:
                if data[i + 2] == 62:
                    return i + 3
                if data[i + 2] == 33 and i + 3 < end and data[i + 3] == 62:
                    return i + 4
            i += 1
        return end
    while i < end and data[i] != 62:
        i += 1
    return min(i + 1, end)


@inner
def raw_end(data, i, end, key, state):
    """Where the end tag of a raw text element starts, whose packed name is `key`."""
    while i + 2 < end:
        if data[i] == 60 and data[i + 1] == 47:
            name(data, i + 2, end, state)
            if state[ANSWER] == key:
                return i
        i += 1
    return end


@inner
def entity(data, i, end, t, state):
    """The character of the reference at i (`&`) into state[ANSWER], 38 if it is none; behind it."""
    k = i + 1
    if k < end and data[k] == 35:
        k += 1
        base = 10
        if k < end and (data[k] | 32) == 120:
            base = 16
            k += 1
        first = k
        code = np.int64(0)
        while k < end:
            d = data[k]
            if d >= 48 and d <= 57:
                digit = d - 48
            elif base == 16 and (d | 32) >= 97 and (d | 32) <= 102:
                digit = (d | 32) - 87
            else:
                break
            if code < 0x110000:
                code = code * base + digit
            k += 1
        if k == first:
            state[ANSWER] = 38
            return i + 1
        if k < end and data[k] == 59:
            k += 1
        if code == 0 or code >= 0x110000 or (code >= 0xD800 and code < 0xE000):
            code = np.int64(0xFFFD)
        if k - i < 4 and code > 127:  # cannot be: a reference is never shorter than its character
            code = np.int64(38)
        state[ANSWER] = code
        return k
    h = np.uint64(0xCBF29CE484222325)
    found = np.int64(0)
    found_end = i + 1
    while k < end and k - i < 34:
        b = data[k]
        if not (is_letter(b) or (b >= 48 and b <= 57)):
            break
        h = (h ^ np.uint64(b)) * np.uint64(0x100000001B3)
        k += 1
        key = np.int64(h >> np.uint64(1))
        closed = k < end and data[k] == 59
        # Only the names of old may stand without a semicolon, and none of those is longer than six letters.
        if closed or k - i <= 7:
            value = find(t, ENTITIES_AT, ENTITY_SHIFT, key)
            if value != 0 and (closed or (value >> 30) & 1):
                found = value & 0x1FFFFF
                found_end = k + 1 if closed else k
    state[ANSWER] = found if found else 38
    return found_end


@inner
def windows(code):
    """Numeric references to 128-159 mean windows-1252; the commonest of them."""
    if code == 0x91 or code == 0x92:
        return 0x2018 + code - 0x91
    if code == 0x93 or code == 0x94:
        return 0x201C + code - 0x93
    if code == 0x96 or code == 0x97:
        return 0x2013 + code - 0x96
    if code == 0x85:
        return 0x2026
    if code == 0x80:
        return 0x20AC
    if code == 0x99:
        return 0x2122
    if code == 0x95:
        return 0x2022
    return code
