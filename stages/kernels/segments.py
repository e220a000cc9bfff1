"""Paragraphs long enough to judge: lines gathered until a blank line or a size, on Arrow buffers."""

from __future__ import annotations

from typing import Any

from stages.kernels.jit import kernel


@kernel
def find_segments(data: Any, offsets: Any, valid: Any, least: Any, most: Any, rows: Any, starts: Any, ends: Any) -> Any:
    """Segments of n documents, cut at line ends only.

    Args:
        data, offsets, valid: uint8 (bytes,), int64 (n + 1,), bool (n,).
        least: bytes from which a blank line ends a segment.
        most: bytes from which any line end does.
        rows, starts, ends: int64 (m,): document, first byte and end of each segment.

    Returns:
        How many there are; if more than m, the rest was not written.
    """
    found = 0
    for d in range(offsets.shape[0] - 1):
        start = offsets[d]
        end = offsets[d + 1] if valid[d] else start
        i = start
        while start < end:
            j = min(i, end)
            while j < end and data[j] != 10:
                j += 1
            stop = i if j == i else j  # of the text; j == i is a blank line
            if i < end and j == i and start == i:
                start = j + 1
            elif j >= end or (j == i and stop - start >= least) or stop - start >= most:
                if found < rows.shape[0]:
                    rows[found] = d
                    starts[found] = start
                    ends[found] = min(stop, end)
                found += 1
                start = j + 1
            i = j + 1
    return found
