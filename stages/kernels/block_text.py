# mypy: allow-untyped-defs, allow-untyped-calls
"""The blocks that are kept, joined into readable text.

Reads the text and blocks of a page and a score per block. Paragraphs are parted by an empty line, list items and lines by a
line feed, cells of a table row by a bar.
"""

from __future__ import annotations

from typing import Final

from stages.kernels.block_features import describe
from stages.kernels.block_measures import WORDS, measure
from stages.kernels.block_places import survey
from stages.kernels.blocks import END, N_BLOCKS, N_ELEMENTS, SEPARATOR, START, TITLE_END, TITLE_START, scan
from stages.kernels.jit import inner, kernel
from stages.kernels.trees import evaluate

#: A page of which fewer words than this are kept is looked at again, with a lower threshold.
FEW_WORDS: Final = 20


@kernel
def main_text(
    data,
    names,
    text,
    blocks,
    elements,
    masks,
    stack,
    state,
    hashes,
    title,
    measures,
    properties,
    kinds,
    sums,
    places,
    facts,
    features,
    roots,
    node,
    threshold,
    bias,
    keep_above,
    keep_above_if_few,
    scores,
    out,
):
    """All of it in one call, for a call from Python costs as much as a short page; bytes written to `out`.

    The arrays are those of `scan`, `measure`, `survey`, `describe`, `evaluate` and `join`; `features` may have fewer rows
    than the page has blocks.
    """
    scan(data, names, text, blocks, elements, masks, stack, state)
    n = state[N_BLOCKS]
    measure(text, blocks, n, state[TITLE_START], state[TITLE_END], hashes, title, measures)
    survey(blocks, n, elements, masks, state[N_ELEMENTS], measures, properties, kinds, sums, places, facts)
    first = 0
    while first < n:
        last = min(n, first + len(features))
        describe(blocks, n, elements, masks, measures, properties, sums, places, facts, first, last, features)
        evaluate(features, last - first, roots, node, threshold, bias, keep_above, scores[first:])
        first = last
    return join(text, blocks, n, scores, choose(measures, n, scores, keep_above, keep_above_if_few), out)


@inner
def choose(measures, n, scores, threshold, second):
    """The threshold to go by (`second` if too little passes the first) and the words that pass it."""
    words = 0
    for k in range(n):
        if scores[k] > threshold:
            words += measures[k, WORDS]
    return threshold if words >= FEW_WORDS else second


@kernel
def join(text, blocks, n, scores, threshold, out):
    """Write the blocks whose score passes into `out` (uint8, len(text) + 3 * n); bytes written."""
    at = 0
    border = 0
    before = -1
    for k in range(n):
        if blocks[k, SEPARATOR] > border:
            border = blocks[k, SEPARATOR]
        if scores[k] <= threshold:
            continue
        if at > 0:
            if border == 1 and before == k - 1:
                out[at] = 32
                out[at + 1] = 124
                out[at + 2] = 32
                at += 3
            else:
                out[at] = 10
                at += 1
                if border == 3:
                    out[at] = 10
                    at += 1
        for i in range(blocks[k, START], blocks[k, END]):
            out[at] = text[i]
            at += 1
        border = 0
        before = k
    return at
