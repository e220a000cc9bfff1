"""Characters out of UTF-8 that is known to be valid, and into it. Where bytes may be anything: `unicode_classes.decode`."""

from __future__ import annotations

import numpy as np

from stages.kernels.jit import inlined
from stages.kernels.token_tables import Int


@inlined
def code_point(data: np.ndarray, p: Int) -> tuple[Int, Int]:
    """(code point, bytes) of the character at p, both int64; all its bytes are there."""
    b = np.int64(data[p])
    if b < 0x80:
        return b, np.int64(1)
    c = np.int64(data[p + 1]) & 0x3F
    if b < 0xE0:
        return (b & 0x1F) << 6 | c, np.int64(2)
    d = np.int64(data[p + 2]) & 0x3F
    if b < 0xF0:
        return (b & 0xF) << 12 | c << 6 | d, np.int64(3)
    return (b & 7) << 18 | c << 12 | d << 6 | np.int64(data[p + 3]) & 0x3F, np.int64(4)


@inlined
def put(out: np.ndarray, at: Int, code: Int) -> Int:
    """Write a code point; where the next one goes."""
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | code >> 6
        out[at + 1] = 0x80 | code & 0x3F
        return at + 2
    if code < 0x10000:
        out[at] = 0xE0 | code >> 12
        out[at + 1] = 0x80 | (code >> 6) & 0x3F
        out[at + 2] = 0x80 | code & 0x3F
        return at + 3
    out[at] = 0xF0 | code >> 18
    out[at + 1] = 0x80 | (code >> 12) & 0x3F
    out[at + 2] = 0x80 | (code >> 6) & 0x3F
    out[at + 3] = 0x80 | code & 0x3F
    return at + 4
