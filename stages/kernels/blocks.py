# mypy: allow-untyped-defs, allow-untyped-calls
"""HTML taken apart into blocks of text, in one pass, without a tree.

Reads UTF-8, writes the visible text with white space collapsed, and for every block (what stands between two block-level
borders) its place, the element around it, the groups of words in the class and id attributes of all elements around it, and
how much of it is links. Promises linear time on any input, and never more text than there was markup. Tags are handled by
the rules of the HTML standard that matter for where text begins and ends: raw text, void elements, implied end tags of
paragraphs, list items and table cells, scopes. Misnested formatting is not repaired, for it does not move text.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stages.kernels.html_scan import (
    ANSWER,
    ATTRIBUTES_SEEN,
    HREF,
    attributes,
    comment_end,
    entity,
    find,
    is_letter,
    name,
    raw_end,
    windows,
)
from stages.kernels.html_tables import (
    BLOCK,
    BOUNDS_AT,
    CELL,
    CLOSES_P,
    FAMILY_AT,
    LINE,
    MASKS_AT,
    PROPERTIES_AT,
    RAW,
    SCOPE,
    SKIP,
    TAG,
    TAG_SHIFT,
    TAGS_AT,
    VOID,
)
from stages.kernels.jit import kernel
from stages.kernels.utf8 import put

#: Columns of `blocks`.
START: Final = 0  # text[START:END] is the block
END: Final = 1
ELEMENT: Final = 2  # row of `elements`
SEPARATOR: Final = 3  # border to the block before: 1 cell, 2 line, 3 paragraph
LINK_BYTES: Final = 4
LINKS: Final = 5
BLOCK_COLUMNS: Final = 6

#: Columns of `elements`, in document order.
PARENT: Final = 0  # row of the element around it, -1 for none
NAME: Final = 1  # number of the tag
FIRST: Final = 2  # blocks[FIRST:LAST] are in it
LAST: Final = 3
DEPTH: Final = 4
ELEMENT_COLUMNS: Final = 5

#: Entries of `state` when done. The title, its references not resolved, is text[TITLE_START:TITLE_END].
N_BLOCKS: Final = 3
N_ELEMENTS: Final = 4
N_TEXT: Final = 5
TITLE_START: Final = 6
TITLE_END: Final = 7
MOST_ATTRIBUTES: Final = 8  # of one tag
TOO_DEEP: Final = 9  # elements beyond MAX_DEPTH, taken for their parent

#: Elements nested deeper are taken for their parent (browsers stop at 512 too).
MAX_DEPTH: Final = 512
#: An end tag looks so far up for its start.
_REACH: Final = 128

_P: Final = TAG["p"]
_A: Final = TAG["a"]
_BR: Final = TAG["br"]
_PRE: Final = TAG["pre"]
_TITLE: Final = TAG["title"]


@kernel
def scan(data, t, text, blocks, elements, masks, stack, state):
    """Take a page apart.

    Args:
        data: uint8, the page as UTF-8.
        t: html_tables.name_tables().
        text: uint8 (len(data) + 8,), written.
        blocks: int32 (n, BLOCK_COLUMNS), written; n at least the number of '<' in `data` + 2.
        elements: int32 (n, ELEMENT_COLUMNS), written; `masks`: int64 (n,), what each says of itself (MASK_NAMES).
        stack: int64 (MAX_DEPTH, 2), scratch.
        state: int64 (STATE_ENTRIES,), written.
    """
    end = len(data)
    i = 0
    at = first = 0  # the present block is text[first:at]
    n = 0
    border = 3
    pending = 0  # 1: a space, 2: a line break, before the next character
    depth = 0
    made = 0
    link = False
    link_depth = 0
    link_bytes = links = 0
    skip = 0
    pre = 0
    state[TITLE_START] = state[TITLE_END] = state[MOST_ATTRIBUTES] = state[TOO_DEEP] = 0

    while i <= end:
        strength = 0  # of the border that what is read here makes
        pop_to = depth
        push = -1
        own = np.int64(0)
        if i == end:
            i += 1
            strength = 3
            pop_to = 0
        else:
            b = data[i]
            c = data[i + 1] if i + 1 < end else np.uint8(0)
            if b == 60 and (is_letter(c) or c == 47 or c == 33 or c == 63):
                if c == 33 or c == 63:
                    i = comment_end(data, i, end)
                    continue
                closing = c == 47
                if closing and not (i + 2 < end and is_letter(data[i + 2])):
                    i = comment_end(data, i, end)
                    continue
                i = name(data, i + 2 if closing else i + 1, end, state)
                key = state[ANSWER]
                tag = find(t, TAGS_AT, TAG_SHIFT, key)
                kind = t[PROPERTIES_AT + tag]
                i = attributes(data, i, end, t, state)
                own = state[ANSWER] | t[MASKS_AT + tag]
                if state[ATTRIBUTES_SEEN] > state[MOST_ATTRIBUTES]:
                    state[MOST_ATTRIBUTES] = state[ATTRIBUTES_SEEN]
                href = state[HREF] == 1
                if closing and tag != _BR:
                    if tag == _A:
                        link = False
                    k = depth - 1
                    lowest = max(0, depth - _REACH)
                    while k >= lowest:
                        if stack[k, 0] == tag:
                            pop_to = k
                            break
                        around = t[PROPERTIES_AT + stack[k, 0]]
                        if (around & SCOPE) and not (kind & SCOPE) and t[FAMILY_AT + tag] == 0:
                            break
                        k -= 1
                    if tag == 0:
                        pop_to = depth
                    if (kind & BLOCK) and (pop_to < depth or tag == _P):  # </p> alone makes an empty paragraph
                        strength = 1 if kind & CELL else 2 if kind & LINE else 3
                elif kind & RAW:
                    last = raw_end(data, i, end, key, state)
                    if tag == _TITLE and state[TITLE_END] == 0 and skip == 0:
                        state[TITLE_START] = i
                        state[TITLE_END] = last
                    i = last
                    continue
                elif tag == _A:
                    link = href
                    link_depth = depth
                    if href:
                        links += 1
                    continue
                elif tag == _BR:
                    if skip == 0:
                        if pre > 0:
                            if at > first:
                                text[at] = 10
                                at += 1
                        elif pending == 2 and at > first:
                            strength = 3
                        elif at > first:
                            pending = 2
                elif kind & VOID:
                    if kind & BLOCK:
                        strength = 3
                else:
                    if kind & CLOSES_P:
                        k = depth - 1
                        while k >= 0 and k >= depth - 16:
                            if stack[k, 0] == _P:
                                pop_to = k
                                break
                            if t[PROPERTIES_AT + stack[k, 0]] & BLOCK:
                                break
                            k -= 1
                    family = t[FAMILY_AT + tag]
                    if family:
                        k = depth - 1
                        lowest = max(0, depth - _REACH)
                        while k >= lowest:
                            if t[FAMILY_AT + stack[k, 0]] == family:
                                pop_to = k
                                break
                            if (t[BOUNDS_AT + stack[k, 0]] >> family) & 1:
                                break
                            k -= 1
                    if kind & BLOCK:
                        strength = 1 if kind & CELL else 2 if kind & LINE else 3
                    if (kind & (BLOCK | SKIP)) or own != 0:
                        push = tag
                if strength == 0 and push < 0 and pop_to == depth:
                    continue
            else:
                # ---- text ----
                code = np.int64(0)
                if b == 38:
                    i = entity(data, i, end, t, state)
                    code = state[ANSWER]
                    if code >= 0x80 and code < 0xA0:
                        code = windows(code)
                    blank = code == 32 or code == 160 or code == 9 or code == 10 or code == 13 or code == 12
                    b = np.uint8(32) if blank else np.uint8(1)
                else:
                    blank = b <= 32
                    if b == 0xC2 and c == 0xA0:
                        blank = True
                        i += 1
                    elif b == 0xE3 and c == 0x80 and i + 2 < end and data[i + 2] == 0x80:
                        blank = True
                        i += 2
                    i += 1
                if skip > 0:
                    continue
                if blank:
                    if pre == 0:
                        if pending == 0:
                            pending = 1
                    elif b != 13 and (at > first or b != 10):
                        text[at] = 10 if b == 10 else 32
                        at += 1
                    continue
                if pending and at > first:
                    text[at] = 32 if pending == 1 else 10
                    at += 1
                pending = 0
                before = at
                if code:
                    at = put(text, at, code)
                else:
                    text[at] = b
                    at += 1
                if link:
                    link_bytes += at - before
                continue

        # ---- a border, or elements that end or begin ----
        if strength:
            stop = at
            while stop > first and text[stop - 1] <= 32:
                stop -= 1
            if stop > first:
                blocks[n, START] = first
                blocks[n, END] = stop
                blocks[n, ELEMENT] = stack[depth - 1, 1] if depth > 0 else -1
                blocks[n, SEPARATOR] = border
                blocks[n, LINK_BYTES] = link_bytes
                blocks[n, LINKS] = links
                n += 1
                border = 0
                links = 0
            at = first = stop
            link_bytes = 0
            pending = 0
            if strength > border:
                border = strength
        while depth > pop_to:
            depth -= 1
            elements[stack[depth, 1], LAST] = n
            if skip > depth:
                skip = 0
            if stack[depth, 0] == _PRE:
                pre -= 1
        if link and depth < link_depth:
            link = False
        if push >= 0 and depth == MAX_DEPTH:
            state[TOO_DEEP] += 1
        elif push >= 0:
            elements[made, PARENT] = stack[depth - 1, 1] if depth > 0 else -1
            elements[made, NAME] = push
            elements[made, FIRST] = n
            elements[made, LAST] = n
            elements[made, DEPTH] = depth
            masks[made] = own
            stack[depth, 0] = push
            stack[depth, 1] = made
            made += 1
            depth += 1
            if push == _PRE:
                pre += 1
            if skip == 0 and (t[PROPERTIES_AT + push] & SKIP):
                skip = depth
    # The title is not part of the text, so there is room for it behind.
    size = state[TITLE_END] - state[TITLE_START]
    for k in range(size):
        text[at + k] = data[state[TITLE_START] + k]
    state[TITLE_START] = at
    state[TITLE_END] = at + size
    state[N_BLOCKS] = n
    state[N_ELEMENTS] = made
    state[N_TEXT] = at
