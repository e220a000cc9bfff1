# mypy: allow-untyped-defs, allow-untyped-calls
"""Where things are on a page: its main container, the block that repeats its title, what elements say about themselves.

Reads what `stages.kernels.blocks.scan` and `block_measures.measure` left, writes sums over blocks, one row of numbers an
element, and a few facts about the page, for `block_features.describe` to build on.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stages.kernels.block_measures import BYTES, COMMAS, ENDS, GOOD, IN_TITLE, KIND, PIECES, WORDS
from stages.kernels.blocks import ELEMENT, FIRST, LAST, LINK_BYTES, NAME, PARENT
from stages.kernels.html_tables import BLOCK, MARK_BIT, MASK_NAMES, TAG
from stages.kernels.jit import inner, kernel

#: Columns of `sums`: over the blocks before each block.
SUM_WORDS: Final = 0
SUM_LINK_BYTES: Final = 1
SUM_BYTES: Final = 2
SUM_GOOD: Final = 3
SUMS: Final = 4

#: Columns of `places`, a row an element.
SCORE: Final = 0  # votes of the paragraphs in it
AROUND: Final = 1  # the block-level element around it
MASK: Final = 2  # what it and all around it say about themselves, where that tells something
COMMON: Final = 3  # the smallest element that holds it and the title
STEPS: Final = 4  # how far out from the title that is
PLACES: Final = 5

#: Entries of `facts`.
TOTAL_GOOD: Final = 0
FIRST_GOOD: Final = 1
LAST_GOOD: Final = 2
BEST: Final = 3  # the element with the most votes
BEST_SCORE: Final = 4
TITLED: Final = 5  # the block that repeats the title
AFTER_H1: Final = 6  # these three run on from block to block
SINCE_HEADING: Final = 7
HEADINGS: Final = 8
FACTS: Final = 9

_KINDS: Final = (
    ("p",),
    ("h1",),
    ("h2", "h3"),
    ("h4", "h5", "h6"),
    ("li",),
    ("td", "th"),
    ("dt", "dd"),
    ("pre", "listing"),
    ("blockquote",),
    ("figcaption", "caption"),
    ("div",),
    ("section", "article", "main"),
    ("header", "footer", "nav", "aside", "form", "label", "legend", "summary"),
)


def tag_kinds() -> np.ndarray:
    """int32 (tags,): 1 + the number of the group in _KINDS, 0 for others."""
    kinds = np.zeros(len(TAG) + 1, np.int32)
    for i, names in enumerate(_KINDS):
        for name in names:
            kinds[TAG[name]] = i + 1
    return kinds


#: Groups and elements whose paragraphs hardly count when the page's main container is looked for.
_APART: Final = sum(
    1 << MASK_NAMES.index(name)
    for name in [
        "nav",
        "footer",
        "side",
        "related",
        "comment",
        "social",
        "ad",
        "subscribe",
        "consent",
        "legal",
        "hidden_attribute",
        "tag_nav",
        "tag_footer",
        "tag_aside",
        "role_other",
    ]
)
_HIDDEN_MASK: Final = 1 << MARK_BIT["hidden_attribute"]


@inner
def _title_block(measures, blocks, elements, kinds, n):
    """The block that repeats the page's title, a heading if there is one; -1 if none does."""
    best = -1
    best_match = 0
    title_pieces = measures[n, PIECES]
    if title_pieces == 0:
        return best
    for k in range(n):
        m = measures[k]
        if m[IN_TITLE] == 0 or m[PIECES] > 60:
            continue
        # Twice the common words over all words, in percent; headings are preferred to links and lines.
        match = 200 * m[IN_TITLE] // (m[PIECES] + title_pieces)
        e = blocks[k, ELEMENT]
        kind = kinds[elements[e, NAME]] if e >= 0 else 0
        if kind >= 2 and kind <= 4:
            match += 30 - 5 * kind
        if blocks[k, LINK_BYTES] * 2 > m[BYTES]:
            match -= 15
        if match > best_match and match >= 45:
            best_match = match
            best = k
    return best


@inner
def _mark_title(blocks, elements, sums, places, made, titled):
    """Per element, the smallest element that holds it and the title, and how far out that is.

    Going out from the title, each element that holds more running text than the one before is one step further: the text
    of an article is the first that is met, the teasers and comments around it come later.
    """
    if titled < 0 or blocks[titled, ELEMENT] < 0:
        return
    e = blocks[titled, ELEMENT]
    steps = 0
    good_before = 0
    while e >= 0:
        good = sums[elements[e, LAST], SUM_GOOD] - sums[elements[e, FIRST], SUM_GOOD]
        if good > good_before:
            steps += 1
        good_before = good
        places[e, COMMON] = e
        places[e, STEPS] = steps
        e = elements[e, PARENT]
    for e in range(made):
        parent = elements[e, PARENT]
        if places[e, COMMON] < 0 and parent >= 0:
            places[e, COMMON] = places[parent, COMMON]
            places[e, STEPS] = places[parent, STEPS]


@kernel
def survey(blocks, n, elements, masks, made, measures, properties, kinds, sums, places, facts):
    """Fill `sums` (int64 (n + 1, SUMS)), `places` (int64 (made, PLACES)), `facts` (int64), and KIND and GOOD of `measures`.

    Args:
        blocks, n, elements, masks, made: as `blocks.scan` left them (`made` elements).
        measures: int32 (n + 1, MEASURES) as `measure` left it.
        properties, kinds: int32 per tag.
    """
    total_good = 0
    sums[0, SUM_WORDS] = sums[0, SUM_LINK_BYTES] = sums[0, SUM_BYTES] = sums[0, SUM_GOOD] = 0
    for k in range(n):
        good = measures[k, WORDS] >= 10 and measures[k, ENDS] > 0 and blocks[k, LINK_BYTES] * 3 < measures[k, BYTES]
        measures[k, GOOD] = good
        sums[k + 1, SUM_GOOD] = sums[k, SUM_GOOD] + good
        sums[k + 1, SUM_WORDS] = sums[k, SUM_WORDS] + measures[k, WORDS]
        sums[k + 1, SUM_LINK_BYTES] = sums[k, SUM_LINK_BYTES] + blocks[k, LINK_BYTES]
        sums[k + 1, SUM_BYTES] = sums[k, SUM_BYTES] + measures[k, BYTES]
        if good:
            total_good += 1
    total_bytes = sums[n, SUM_BYTES]

    # What an element says about itself tells nothing if nearly all of the page is in it.
    for e in range(made):
        parent = elements[e, PARENT]
        inside = sums[elements[e, LAST], SUM_BYTES] - sums[elements[e, FIRST], SUM_BYTES]
        around = places[parent, MASK] if parent >= 0 else np.int64(0)
        own = masks[e] if inside * 10 < total_bytes * 9 or (masks[e] & _HIDDEN_MASK) else np.int64(0)
        places[e, MASK] = around | own
        places[e, SCORE] = 0
        places[e, COMMON] = -1
        places[e, STEPS] = 0
        while parent >= 0 and not (properties[elements[parent, NAME]] & BLOCK):
            parent = elements[parent, PARENT]
        places[e, AROUND] = parent

    titled = _title_block(measures, blocks, elements, kinds, n)
    _mark_title(blocks, elements, sums, places, made, titled)

    first_good = last_good = -1
    for k in range(n):
        e = blocks[k, ELEMENT]
        while e >= 0 and not (properties[elements[e, NAME]] & BLOCK):
            e = elements[e, PARENT]
        measures[k, KIND] = kinds[elements[e, NAME]] if e >= 0 else 0
        if measures[k, GOOD]:
            if first_good < 0:
                first_good = k
            last_good = k
            # Readability's idea: paragraphs vote for what holds them, with half a vote for what holds that.
            points = 4 + 4 * measures[k, COMMAS] + min(measures[k, BYTES] // 25, 12)
            inner = blocks[k, ELEMENT]
            if inner >= 0 and (places[inner, MASK] & _APART):
                points //= 4
            parent = places[e, AROUND] if e >= 0 else -1
            if parent >= 0:
                places[parent, SCORE] += points
                grand = places[parent, AROUND]
                if grand >= 0:
                    places[grand, SCORE] += points // 2
    best = -1
    best_score = np.int64(0)
    for e in range(made):
        score = places[e, SCORE]
        if score > 0:
            inside = sums[elements[e, LAST], SUM_BYTES] - sums[elements[e, FIRST], SUM_BYTES]
            linked = sums[elements[e, LAST], SUM_LINK_BYTES] - sums[elements[e, FIRST], SUM_LINK_BYTES]
            score = score * max(inside - linked, 0) // max(inside, 1)
            places[e, SCORE] = score
            if score > best_score:
                best_score = score
                best = e
    facts[TOTAL_GOOD] = total_good
    facts[FIRST_GOOD] = first_good
    facts[LAST_GOOD] = last_good
    facts[BEST] = best
    facts[BEST_SCORE] = best_score
    facts[TITLED] = titled
    facts[AFTER_H1] = facts[SINCE_HEADING] = facts[HEADINGS] = 0
