"""Kernels in front of which something must be looked at: text to be put in NFC, and added tokens that are found in text.

Documents that are in NFC already (nearly all of the web's English and Chinese) are not touched; the others are normalised by
the tokenizer's own library. Documents that hold an added token go to the library whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.kernels.buffers import text_buffers
from stages.kernels.nfc import flag_doubtful, inert_characters
from stages.kernels.token_memo import Memo

from ._score import Encoder
from ._spm_exact import KernelEncoder


class Guarded:
    """An encoder.

    Args:
        kernels: for all documents but those that hold one of `found`.
        library: for these; it normalises by itself.
        normalize: the library's NFC, or None.
        found: added tokens that the library finds in text, in text as it came or normalised, as each token says; the tokens
            are normalised, too, then.
    """

    def __init__(
        self, kernels: KernelEncoder, library: Encoder, normalize: Callable[[str], str] | None, found: Sequence[str]
    ) -> None:
        self._kernels = kernels
        self._library = library
        self._normalize = normalize
        # RE2, the engine of Arrow, reads what re.escape writes
        either = dict.fromkeys([*found, *map(normalize, found)] if normalize else found)
        self._found = "|".join(re.escape(t) for t in either)

    @property
    def memo(self) -> Memo:
        """The kernels' table, for counts of hits."""
        return self._kernels.memo

    def encode(self, text: pa.Array, before: int | None, after: int | None) -> tuple[np.ndarray, np.ndarray]:
        """See `Encoder`."""
        ready, changed = self._in_nfc(text)
        if not self._found:
            return self._kernels.encode(ready, before, after)
        holds = self._holds(ready)
        holds[changed] |= self._holds(text.take(pa.array(changed)))
        if not holds.any():
            return self._kernels.encode(ready, before, after)
        mask = pa.array(holds)
        nothing = pa.scalar(None, text.type)
        ours = self._kernels.encode(pc.if_else(mask, nothing, ready), before, after)
        theirs = self._library.encode(pc.if_else(mask, text, nothing), before, after)
        return _either(ours, theirs)

    def _holds(self, text: pa.Array) -> np.ndarray:
        """Which texts hold one of the tokens, bool."""
        found = pc.match_substring_regex(text, self._found).fill_null(False)
        return np.array(found.to_numpy(zero_copy_only=False), np.bool_)

    def _in_nfc(self, text: pa.Array) -> tuple[pa.Array, np.ndarray]:
        """The texts, normalised, and the rows (int64) of those that may have changed."""
        if self._normalize is None:
            return text, np.zeros(0, np.int64)
        offsets, data, valid = text_buffers(text)
        doubtful = np.zeros(len(text), np.bool_)
        if not flag_doubtful(inert_characters(), offsets, data, valid, doubtful):
            return text, np.zeros(0, np.int64)
        rows = np.flatnonzero(doubtful)
        normalized = pa.array([self._normalize(t) for t in text.take(pa.array(rows)).to_pylist()], text.type)
        return pc.replace_with_mask(text, pa.array(doubtful), normalized), rows


def _either(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Two encodings of the same rows, each row empty in one of them, as one."""
    lengths = np.diff(a[0]) + np.diff(b[0])
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = np.empty(int(ends[-1]), np.int32)
    for offsets, values in (a, b):
        where = np.repeat(ends[:-1] - offsets[:-1], np.diff(offsets)) + np.arange(len(values))
        ids[where] = values
    return ends, ids
