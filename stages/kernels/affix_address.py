"""Whether a string without white space is a web or mail address, as spaCy's tokenizer decides it."""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.affix_tables import IS_DIGIT, LETTER, LOWERCASE
from stages.kernels.jit import inner

_DOT, _HYPHEN = 0x2E, 0x2D


@inner
def is_address(start: Any, end: Any, chunk: Any) -> Any:
    """Whether the string is a web or mail address: [scheme://][user@]host.tld[:port][/path]."""
    dots = 0
    host = start
    scheme = True  # only letters, digits, _ + - . so far
    for k in range(start, end):
        c = chunk.points[k]
        if c == _DOT:
            dots += 1
        elif (
            c == 0x3A and k + 2 < end and chunk.points[k + 1] == 0x2F and chunk.points[k + 2] == 0x2F and k - start > 1
        ):
            if not scheme:
                return False
            host = k + 3
        elif c == 0x2F or c == 0x3F or c == 0x23:
            if k >= host:
                break
        elif c == 0x40:
            host = k + 1
        elif not (chunk.traits[k] & (LETTER | IS_DIGIT) or c == _HYPHEN or c == 0x2B or c == 0x5F):
            scheme = False
    if dots == 0:
        return False
    k = host
    last_dot = np.int64(-1)
    label = 0
    while k < end:
        c = chunk.points[k]
        if c == _DOT:
            if label == 0 or chunk.points[k - 1] == _HYPHEN or chunk.points[k - 1] == 0x5F:
                return False
            last_dot, label = k, 0
        elif (
            0x30 <= c <= 0x39 or 0x41 <= c <= 0x5A or 0x61 <= c <= 0x7A or 0xA1 <= c <= 0xFFFF
            or ((c == _HYPHEN or c == 0x5F) and label)
        ):  # fmt: skip
            label += 1
        else:
            break
        k += 1
    if last_dot < 0 or label < 2:
        return False
    for t in range(last_dot + 1, k):
        if not chunk.traits[t] & LOWERCASE:
            return False
    if k < end and chunk.points[k] == 0x3A:
        port = k + 1
        while port < end and chunk.traits[port] & IS_DIGIT:
            port += 1
        if not 2 <= port - k - 1 <= 5:
            return False
        k = port
    return k == end or chunk.points[k] == 0x2F or chunk.points[k] == 0x3F or chunk.points[k] == 0x23
