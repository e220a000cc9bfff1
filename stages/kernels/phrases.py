"""English phrases that mark boilerplate (C4): javascript notices, placeholder text, terms and policies; case ignored."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined, inner

JAVASCRIPT: Final = 1
LOREM_IPSUM: Final = 2
POLICY: Final = 4

PHRASES: Final = (
    ("javascript", JAVASCRIPT),
    ("lorem ipsum", LOREM_IPSUM),
    ("terms of use", POLICY),
    ("privacy policy", POLICY),
    ("cookie policy", POLICY),
    ("uses cookies", POLICY),
    ("use of cookies", POLICY),
    ("use cookies", POLICY),
)
# Three letters of each phrase that are rare in text, and where they stand in it.
_RARE: Final = ("vas", "psu", "rms", "iva", "kie", "kie", "kie", "kie")


def _frozen(values: Any, dtype: Any) -> np.ndarray:
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array


_TEXT: Final = _frozen(list("".join(p for p, _ in PHRASES).encode()), np.uint8)
_LENGTH: Final = _frozen([len(p) for p, _ in PHRASES], np.int64)
_START: Final = _frozen(np.cumsum([0, *(len(p) for p, _ in PHRASES[:-1])]), np.int64)
_OFFSET: Final = _frozen([p.index(r) for (p, _), r in zip(PHRASES, _RARE, strict=True)], np.int64)
_KIND: Final = _frozen([k for _, k in PHRASES], np.int64)


@inlined
def _three(text: Any, i: Any) -> Any:
    """Whether one of _RARE stands at `i`; written so that a loop over it becomes vector instructions."""
    a, b, c = text[i] | 0x20, text[i + 1] | 0x20, text[i + 2] | 0x20
    return (
        ((a == 0x76) & (b == 0x61) & (c == 0x73))  # vas
        | ((a == 0x70) & (b == 0x73) & (c == 0x75))  # psu
        | ((a == 0x72) & (b == 0x6D) & (c == 0x73))  # rms
        | ((a == 0x69) & (b == 0x76) & (c == 0x61))  # iva
        | ((a == 0x6B) & (b == 0x69) & (c == 0x65))  # kie
    )


@inner
def may_hold_phrases(text: Any) -> Any:
    """False only if no phrase is in `text` (uint8): 4 GB/s."""
    found = False
    for i in range(text.shape[0] - 2):
        found |= _three(text, i)
    return found


@inner
def find_phrases(text: Any) -> Any:
    """Kinds (bits) of the phrases in `text` (uint8)."""
    kinds = 0
    for i in range(text.shape[0] - 2):
        if _three(text, i):
            kinds |= _phrases_at(text, i)
    return kinds


@inner
def _phrases_at(text: Any, i: Any) -> Any:
    """Kinds of the phrases whose rare letters stand at `i`."""
    found = 0
    for p in range(_LENGTH.shape[0]):
        begin = i - _OFFSET[p]
        if begin < 0 or begin + _LENGTH[p] > text.shape[0]:
            continue
        k = 0
        while k < _LENGTH[p]:
            b = text[begin + k]
            if 0x41 <= b <= 0x5A:
                b |= 0x20
            if b != _TEXT[_START[p] + k]:
                break
            k += 1
        if k == _LENGTH[p]:
            found |= _KIND[p]
    return found
