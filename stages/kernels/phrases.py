"""English phrases that mark boilerplate (C4): javascript notices, placeholder text, terms and policies.

Matched anywhere, case ignored, in one look per character: each phrase is tried only where its rarest letter stands.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import kernel

JAVASCRIPT: Final = 1
LOREM_IPSUM: Final = 2
POLICY: Final = 4

_PHRASES: Final = (
    ("javascript", "j", JAVASCRIPT),
    ("lorem ipsum", "p", LOREM_IPSUM),
    ("terms of use", "f", POLICY),
    ("privacy policy", "v", POLICY),
    ("cookie policy", "k", POLICY),
    ("uses cookies", "k", POLICY),
    ("use of cookies", "k", POLICY),
    ("use cookies", "k", POLICY),
)


def _frozen(values: Any, dtype: Any) -> np.ndarray:
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array


_TEXT: Final = _frozen(list("".join(p for p, _, _ in _PHRASES).encode()), np.uint8)
_LENGTH: Final = _frozen([len(p) for p, _, _ in _PHRASES], np.int64)
_START: Final = _frozen(np.cumsum([0, *(len(p) for p, _, _ in _PHRASES[:-1])]), np.int64)
_LETTER: Final = _frozen([ord(c) for _, c, _ in _PHRASES], np.uint8)
_OFFSET: Final = _frozen([p.index(c) for p, c, _ in _PHRASES], np.int64)
_KIND: Final = _frozen([k for _, _, k in _PHRASES], np.int64)
#: bool (256,): bytes at which `phrases_at` may find something.
PHRASE_LETTERS: Final = _frozen([bytes([b]).lower() in b"jpfvk" for b in range(256)], np.bool_)


@kernel
def phrases_at(data: Any, i: Any, start: Any, end: Any) -> Any:
    """Kinds (bits) of the phrases within ``data[start:end]`` whose rarest letter is at `i`."""
    found = 0
    letter = data[i] | 0x20
    for p in range(_LETTER.shape[0]):
        begin = i - _OFFSET[p]
        if letter != _LETTER[p] or begin < start or begin + _LENGTH[p] > end:
            continue
        k = 0
        while k < _LENGTH[p]:
            b = data[begin + k]
            if 0x41 <= b <= 0x5A:
                b |= 0x20
            if b != _TEXT[_START[p] + k]:
                break
            k += 1
        if k == _LENGTH[p]:
            found |= _KIND[p]
    return found
