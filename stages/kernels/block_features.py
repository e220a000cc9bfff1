# mypy: allow-untyped-defs, allow-untyped-calls
"""What is known of each block before it is decided whether it is main text: one row of numbers a block.

Reads the blocks of a page, what was counted in them and where they are (`blocks`, `block_measures`, `block_places`), writes
float32 features of the block's own text and links, its place, its neighbours, and the names around it. Promises that a
page's features depend on the page alone, and that each is a count or one quotient of counts: nothing depends on the CPU.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stages.kernels.block_measures import (
    BYTES,
    CAPITALS,
    CJK,
    COMMAS,
    DIGITS,
    ENDS,
    FIRST_KIND,
    FURNITURE,
    GOOD,
    HASH,
    IN_TITLE,
    KIND,
    LAST_KIND,
    LETTERS,
    LINES,
    PIECES,
    SIGNS,
    STOPS,
    WORDS,
)
from stages.kernels.block_places import (
    AFTER_H1,
    AROUND,
    BEST,
    BEST_SCORE,
    COMMON,
    FIRST_GOOD,
    HEADINGS,
    LAST_GOOD,
    MASK,
    SCORE,
    SINCE_HEADING,
    STEPS,
    SUM_BYTES,
    SUM_GOOD,
    SUM_LINK_BYTES,
    SUM_WORDS,
    TITLED,
    TOTAL_GOOD,
)
from stages.kernels.blocks import DEPTH, ELEMENT, FIRST, LAST, LINK_BYTES, LINKS, NAME, PARENT, SEPARATOR
from stages.kernels.html_tables import BLOCK, MASK_NAMES
from stages.kernels.jit import inner, kernel

_TEXT: Final = [
    "words",
    "letters",
    "link_share",
    "links",
    "stop_share",
    "furniture",
    "furniture_share",
    "ends",
    "commas_share",
    "capital_share",
    "digit_share",
    "cjk_share",
    "last_kind",
    "first_kind",
    "signs",
    "lines",
    "word_length",
    "kind",
    "separator",
]
_PLACE: Final = [
    "index",
    "share_before",
    "depth",
    "after_h1",
    "since_heading",
    "headings_before",
    "from_first_good",
    "to_last_good",
    "in_good_range",
    "good_near",
    "good_around",
    "repeated",
    "in_best",
    "score_to_best",
    "parent_is_best",
    "parent_blocks",
    "parent_words",
    "parent_link_share",
    "grand_words",
    "grand_link_share",
    "from_best",
    "sibling_kind_share",
    "title_match",
    "from_title",
    "title_up",
    "title_down",
    "title_steps",
    "title_good_share",
]
_SIDES: Final = ("words", "link_share", "stop_share", "kind", "last_kind", "furniture_share")
_NEIGHBOURS: Final = (-3, -2, -1, 1, 2, 3)
FEATURES: Final = (
    *_TEXT,
    *_PLACE,
    *(f"{side}{offset:+d}" for offset in _NEIGHBOURS for side in _SIDES),
    *(f"in_{name}" for name in MASK_NAMES),
    *(f"near_{name}" for name in MASK_NAMES),
)
N_FEATURES: Final = len(FEATURES)
_SIDES_AT: Final = len(_TEXT) + len(_PLACE)
_MASKS_AT: Final = _SIDES_AT + len(_SIDES) * len(_NEIGHBOURS)
_N_MASKS: Final = len(MASK_NAMES)
_N_SIDES: Final = len(_SIDES)
_AFTER_H1: Final = FEATURES.index("after_h1")
_CAPITAL_SHARE: Final = FEATURES.index("capital_share")
_CJK_SHARE: Final = FEATURES.index("cjk_share")
_COMMAS_SHARE: Final = FEATURES.index("commas_share")
_DEPTH: Final = FEATURES.index("depth")
_DIGIT_SHARE: Final = FEATURES.index("digit_share")
_ENDS: Final = FEATURES.index("ends")
_FIRST_KIND: Final = FEATURES.index("first_kind")
_FROM_BEST: Final = FEATURES.index("from_best")
_FROM_FIRST_GOOD: Final = FEATURES.index("from_first_good")
_FROM_TITLE: Final = FEATURES.index("from_title")
_FURNITURE: Final = FEATURES.index("furniture")
_FURNITURE_SHARE: Final = FEATURES.index("furniture_share")
_GOOD_AROUND: Final = FEATURES.index("good_around")
_GOOD_NEAR: Final = FEATURES.index("good_near")
_GRAND_LINK_SHARE: Final = FEATURES.index("grand_link_share")
_GRAND_WORDS: Final = FEATURES.index("grand_words")
_HEADINGS_BEFORE: Final = FEATURES.index("headings_before")
_IN_BEST: Final = FEATURES.index("in_best")
_IN_GOOD_RANGE: Final = FEATURES.index("in_good_range")
_INDEX: Final = FEATURES.index("index")
_KIND: Final = FEATURES.index("kind")
_LAST_KIND: Final = FEATURES.index("last_kind")
_LETTERS: Final = FEATURES.index("letters")
_LINES: Final = FEATURES.index("lines")
_LINK_SHARE: Final = FEATURES.index("link_share")
_LINKS: Final = FEATURES.index("links")
_PARENT_BLOCKS: Final = FEATURES.index("parent_blocks")
_PARENT_IS_BEST: Final = FEATURES.index("parent_is_best")
_PARENT_LINK_SHARE: Final = FEATURES.index("parent_link_share")
_PARENT_WORDS: Final = FEATURES.index("parent_words")
_REPEATED: Final = FEATURES.index("repeated")
_SCORE_TO_BEST: Final = FEATURES.index("score_to_best")
_SEPARATOR: Final = FEATURES.index("separator")
_SHARE_BEFORE: Final = FEATURES.index("share_before")
_SIBLING_KIND_SHARE: Final = FEATURES.index("sibling_kind_share")
_SIGNS: Final = FEATURES.index("signs")
_SINCE_HEADING: Final = FEATURES.index("since_heading")
_STOP_SHARE: Final = FEATURES.index("stop_share")
_TITLE_DOWN: Final = FEATURES.index("title_down")
_TITLE_GOOD_SHARE: Final = FEATURES.index("title_good_share")
_TITLE_MATCH: Final = FEATURES.index("title_match")
_TITLE_STEPS: Final = FEATURES.index("title_steps")
_TITLE_UP: Final = FEATURES.index("title_up")
_TO_LAST_GOOD: Final = FEATURES.index("to_last_good")
_WORD_LENGTH: Final = FEATURES.index("word_length")
_WORDS: Final = FEATURES.index("words")


@inner
def _log(x):
    """Order of magnitude, four steps an octave, without the C library, whose logarithms differ in the last bit."""
    steps = 0
    while x >= 16:
        x >>= 1
        steps += 4
    return np.float32(steps + (x if x < 8 else 8 + (x - 8) // 2))


@inner
def _share(a, b):
    return np.float32(a) / np.float32(b) if b > 0 else np.float32(0)


@inner
def _sides(blocks, measures, n, k, o):
    """The features that are those of the blocks before and after."""
    for side in range(6):
        j = k + (side - 3 if side < 3 else side - 2)
        at = _SIDES_AT + side * _N_SIDES
        if j < 0 or j >= n:
            for c in range(_N_SIDES):
                o[at + c] = -1
        else:
            m = measures[j]
            o[at] = _log(m[WORDS])
            o[at + 1] = _share(blocks[j, LINK_BYTES], m[BYTES])
            o[at + 2] = _share(m[STOPS], m[WORDS])
            o[at + 3] = m[KIND]
            o[at + 4] = m[LAST_KIND]
            o[at + 5] = _share(m[FURNITURE], m[WORDS])


@kernel
def describe(blocks, n, elements, masks, measures, properties, sums, places, facts, start, stop, out):
    """Fill out[:stop - start] (float32, N_FEATURES columns) for blocks [start, stop); ranges must follow one another.

    Args:
        blocks, n, elements, masks: as `blocks.scan` left them.
        measures, sums, places, facts: as `block_places.survey` left them.
        properties: int32 per tag.
    """
    total_words = sums[n, SUM_WORDS]
    total_good = facts[TOTAL_GOOD]
    first_good = facts[FIRST_GOOD]
    last_good = facts[LAST_GOOD]
    best = facts[BEST]
    best_score = facts[BEST_SCORE]
    titled = facts[TITLED]
    best_first = elements[best, FIRST] if best >= 0 else 0
    best_last = elements[best, LAST] if best >= 0 else n
    after_h1 = facts[AFTER_H1]
    since_heading = facts[SINCE_HEADING]
    headings = facts[HEADINGS]
    for k in range(start, stop):
        m = measures[k]
        o = out[k - start]
        words = m[WORDS]
        kind = m[KIND]
        o[_WORDS] = _log(words)
        o[_LETTERS] = _log(m[LETTERS])
        o[_LINK_SHARE] = _share(blocks[k, LINK_BYTES], m[BYTES])
        o[_LINKS] = min(blocks[k, LINKS], 20)
        o[_STOP_SHARE] = _share(m[STOPS], words)
        o[_FURNITURE] = min(m[FURNITURE], 20)
        o[_FURNITURE_SHARE] = _share(m[FURNITURE], words)
        o[_ENDS] = min(m[ENDS], 20)
        o[_COMMAS_SHARE] = _share(m[COMMAS], words)
        o[_CAPITAL_SHARE] = _share(m[CAPITALS], words)
        o[_DIGIT_SHARE] = _share(m[DIGITS], m[LETTERS])
        o[_CJK_SHARE] = _share(m[CJK], m[LETTERS])
        o[_LAST_KIND] = m[LAST_KIND]
        o[_FIRST_KIND] = m[FIRST_KIND]
        o[_SIGNS] = min(m[SIGNS], 20)
        o[_LINES] = min(m[LINES], 20)
        o[_WORD_LENGTH] = _share(m[LETTERS], words)
        o[_KIND] = kind
        o[_SEPARATOR] = blocks[k, SEPARATOR]

        e = blocks[k, ELEMENT]
        inner = e
        while e >= 0 and not (properties[elements[e, NAME]] & BLOCK):
            e = elements[e, PARENT]
        parent = places[e, AROUND] if e >= 0 else -1
        grand = places[parent, AROUND] if parent >= 0 else -1
        if kind >= 2 and kind <= 4:
            if kind == 2:
                after_h1 = 1
            since_heading = 0
            headings += 1
        else:
            since_heading += 1
        good_near = sums[min(n, k + 4), SUM_GOOD] - sums[max(0, k - 3), SUM_GOOD] - m[GOOD]
        good_around = sums[min(n, k + 9), SUM_GOOD] - sums[max(0, k - 8), SUM_GOOD] - m[GOOD]
        same_kind = repeated = 0
        low, high = max(0, k - 4), min(n, k + 5)
        for j in range(low, high):
            same_kind += measures[j, KIND] == kind
        for j in range(max(0, k - 12), min(n, k + 13)):
            repeated += measures[j, HASH] == m[HASH]
        o[_INDEX] = _share(k, n)
        o[_SHARE_BEFORE] = _share(sums[k, SUM_WORDS], total_words)
        o[_DEPTH] = elements[e, DEPTH] if e >= 0 else 0
        o[_AFTER_H1] = after_h1
        o[_SINCE_HEADING] = min(since_heading, 30)
        o[_HEADINGS_BEFORE] = min(headings, 30)
        o[_FROM_FIRST_GOOD] = max(-30, min(k - first_good, 30)) if first_good >= 0 else 31
        o[_TO_LAST_GOOD] = max(-30, min(last_good - k, 30)) if first_good >= 0 else 31
        o[_IN_GOOD_RANGE] = first_good >= 0 and k >= first_good and k <= last_good
        o[_GOOD_NEAR] = good_near
        o[_GOOD_AROUND] = good_around
        o[_REPEATED] = min(repeated, 5)
        o[_IN_BEST] = best >= 0 and k >= best_first and k < best_last
        o[_SCORE_TO_BEST] = _share(places[parent, SCORE], best_score) if parent >= 0 else 0
        o[_PARENT_IS_BEST] = parent == best
        o[_PARENT_BLOCKS] = _log(elements[parent, LAST] - elements[parent, FIRST]) if parent >= 0 else 0
        o[_PARENT_WORDS] = _words_in(sums, elements, parent, total_words)
        o[_PARENT_LINK_SHARE] = _links_in(sums, elements, parent)
        o[_GRAND_WORDS] = _words_in(sums, elements, grand, total_words)
        o[_GRAND_LINK_SHARE] = _links_in(sums, elements, grand)
        o[_FROM_BEST] = (
            min(30, best_first - k) if k < best_first else min(30, k - best_last + 1) if k >= best_last else 0
        )
        o[_SIBLING_KIND_SHARE] = _share(same_kind, high - low)
        o[_TITLE_MATCH] = _share(m[IN_TITLE], m[PIECES])
        o[_FROM_TITLE] = max(-30, min(k - titled, 60)) if titled >= 0 else 0
        o[_TITLE_UP] = o[_TITLE_DOWN] = o[_TITLE_STEPS] = o[_TITLE_GOOD_SHARE] = -1
        common = places[inner, COMMON] if inner >= 0 else -1
        if common >= 0:
            o[_TITLE_UP] = elements[blocks[titled, ELEMENT], DEPTH] - elements[common, DEPTH]
            o[_TITLE_DOWN] = elements[inner, DEPTH] - elements[common, DEPTH]
            o[_TITLE_STEPS] = min(places[inner, STEPS], 10)
            o[_TITLE_GOOD_SHARE] = _share(
                sums[elements[common, LAST], SUM_GOOD] - sums[elements[common, FIRST], SUM_GOOD], total_good
            )

        mask = places[inner, MASK] if inner >= 0 else np.int64(0)
        near = np.int64(0)
        if inner >= 0:
            near = masks[inner] | (masks[e] if e >= 0 else 0) | (masks[parent] if parent >= 0 else 0)
        for bit in range(_N_MASKS):
            o[_MASKS_AT + bit] = (mask >> bit) & 1
            o[_MASKS_AT + _N_MASKS + bit] = (near >> bit) & 1
        _sides(blocks, measures, n, k, o)
    facts[AFTER_H1] = after_h1
    facts[SINCE_HEADING] = since_heading
    facts[HEADINGS] = headings


@inner
def _words_in(sums, elements, e, total):
    if e < 0:
        return np.float32(1)
    return _share(sums[elements[e, LAST], SUM_WORDS] - sums[elements[e, FIRST], SUM_WORDS], total)


@inner
def _links_in(sums, elements, e):
    if e < 0:
        return np.float32(0)
    a, b = elements[e, FIRST], elements[e, LAST]
    return _share(sums[b, SUM_LINK_BYTES] - sums[a, SUM_LINK_BYTES], sums[b, SUM_BYTES] - sums[a, SUM_BYTES])
