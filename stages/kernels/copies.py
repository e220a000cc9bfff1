"""Segments of a document (lines, paragraphs) of which there is more than one copy, all copies counted.

Dolma and DCLM count every copy of a repeated line, the first one included; quality.signals counts from the second on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.jit import inner
from stages.kernels.lines import hash_bytes, strip
from stages.kernels.ngrams import number_ngrams


@inner
def add_segment(text: Any, stripped: Any, unicode: Any, segments: Any, n: Any) -> Any:
    """Append a segment (uint8) to `segments` (words.Words: hash and chars); returns how many there are now.

    Args:
        stripped: leave white space at its ends out, and the segment too if nothing is left.
    """
    if stripped:
        first, last = strip(text, unicode)
        if first == last:
            return n
        text = text[first:last]
    segments.hash[n], segments.chars[n] = hash_bytes(text)
    return n + 1


@inner
def count_copies(n: Any, segments: Any, scratch: Any, out: Any) -> None:
    """Into `out` (int64): segments, their characters, segments with a copy, the characters of these."""
    number_ngrams(n, 1, segments.hash, scratch)
    out[0] = n
    for i in range(n):
        chars = np.int64(segments.chars[i])
        out[1] += chars
        if scratch.counts[scratch.number[i]] > 1:
            out[2] += 1
            out[3] += chars
