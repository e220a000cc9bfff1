"""The beginning of each document on one line, as text classifiers are fed."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.jit import inner, kernel

#: White space and control characters become spaces.
PLAIN: Final = 0
#: Also: ASCII letters lower case, digits 0, and every line feed a word of its own, ``¶``: layout tells quality.
MARKED: Final = 1

_NEWLINE: Final = ord("\n")


@inner
def _head(text: Any, most: Any) -> Any:
    """Bytes of the longest beginning of at most `most` bytes that cuts no character."""
    if text.shape[0] <= most:
        return text.shape[0]
    end = most
    while end > 0 and text[end] & 0xC0 == 0x80:
        end -= 1
    return end


@kernel
def _room(offsets: Any, data: Any, valid: Any, most: Any) -> Any:
    total = 0
    for d in range(valid.shape[0]):
        if valid[d]:
            text = data[offsets[d] : offsets[d + 1]]
            end = _head(text, most)
            total += end
            for i in range(end):
                total += 3 * (text[i] == _NEWLINE)
    return total


@kernel
def _flatten(offsets: Any, data: Any, valid: Any, most: Any, marked: Any, out: Any, out_offsets: Any) -> None:
    at = 0
    for d in range(valid.shape[0]):
        out_offsets[d] = at
        if not valid[d]:
            continue
        text = data[offsets[d] : offsets[d + 1]]
        for i in range(_head(text, most)):
            b = text[i]
            if b == _NEWLINE and marked:
                out[at], out[at + 1], out[at + 2], out[at + 3] = 0x20, 0xC2, 0xB6, 0x20
                at += 4
                continue
            if b < 0x20 or b == 0x7F:
                b = np.uint8(0x20)
            elif marked and 0x41 <= b <= 0x5A:
                b |= 0x20
            elif marked and 0x30 <= b <= 0x39:
                b = np.uint8(0x30)
            out[at] = b
            at += 1
    out_offsets[valid.shape[0]] = at


def flatten(text: TextBuffers, most: int, form: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents on one line each.

    Args:
        text: from `text_buffers`; nulls become empty.
        most: bytes of each document that are looked at.
        form: PLAIN or MARKED.

    Returns:
        uint8 data and int64 (n + 1,) offsets.
    """
    out = np.empty(_room(text.offsets, text.data, text.valid, most) + 1, np.uint8)
    offsets = np.zeros(len(text.valid) + 1, np.int64)
    _flatten(text.offsets, text.data, text.valid, most, form == MARKED, out, offsets)
    return out[: offsets[-1]], offsets
