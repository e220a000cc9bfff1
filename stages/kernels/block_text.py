# mypy: allow-untyped-defs, allow-untyped-calls
"""The blocks that are kept, joined into readable text.

Reads the text and blocks of a page and a score per block. Paragraphs are parted by an empty line, list items and lines by a
line feed, cells of a table row by a bar.
"""

from __future__ import annotations

from typing import Final

from stages.kernels.block_measures import WORDS
from stages.kernels.blocks import END, SEPARATOR, START
from stages.kernels.jit import kernel

#: A page of which fewer words than this are kept is looked at again, with a lower threshold.
FEW_WORDS: Final = 20


@kernel
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
