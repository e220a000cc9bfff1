"""fastText classifiers of two classes, as what they are: a sum of one number per word and n-gram, divided by their count.

With two classes and a softmax the probability of one is ``sigmoid(mean over rows of (row . (output1 - output0)))``, so the
product is taken once a row when the model is loaded. The numbers are kept as integers of a common scale, which makes their
sum exact in any order: the row of a word and all its character n-grams are added up once and remembered, and that changes no
result. Agrees with the library to about 1e-6, at five to ten times the speed of `FastText.probabilities`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stages.kernels.fasttext import SOFTMAX, FastText, read_only
from stages.kernels.fasttext_math import MEMO, MEMO_BYTES, find_word, hash_byte, memo_slot, packed, sigmoid
from stages.kernels.jit import inlined, kernel

_ABSENT: Final = np.iinfo(np.int32).min  # a bucket that pruning removed
_BITS: Final = 28  # of the largest weight


@dataclass(frozen=True)
class Linear:
    """A model of two classes.

    Attributes:
        shape, table, words, word_offsets: as of `FastText`.
        word_weights, bucket_weights: int32 (words,), int32 (buckets,): times `scale`; _ABSENT where there is no row.
        eos: index of the end of line in `word_weights`, -1 where the model has none.
        scale: a power of two.
    """

    shape: np.ndarray
    table: np.ndarray
    words: np.ndarray
    word_offsets: np.ndarray
    word_weights: np.ndarray
    bucket_weights: np.ndarray
    eos: int
    scale: float

    def probabilities(self, data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """float32 (n,): probability of the class for n single-line texts (uint8 bytes, int64 offsets (n + 1,)); 0 for empty ones
        that the model says nothing of."""
        out = np.empty(len(offsets) - 1, np.float32)
        data, offsets = read_only(data), read_only(offsets)
        longest = int(np.diff(offsets).max(initial=0))
        hashes = np.empty(longest // 2 + 3 if self.shape[4] > 1 else 1, np.int32)
        score_lines(
            data, offsets, self.shape, self.table, self.words, self.word_offsets, self.word_weights, self.bucket_weights,
            self.eos, self.scale, np.zeros((MEMO, 5), np.int64), hashes, out,
        )  # fmt: skip
        return out


def linear(model: FastText, label: str) -> Linear | None:
    """The model as one of the probability of `label`, None if it has not two classes and a softmax."""
    if model.loss != SOFTMAX or len(model.labels) != 2:
        return None
    own = model.labels.index(label)
    difference = model.output[own].astype(np.float64) - model.output[1 - own].astype(np.float64)
    exact = np.zeros(len(model.rows), np.float64)
    for column, factor in enumerate(difference.tolist()):  # in a fixed order: a matrix product's depends on the CPU
        exact += model.rows[:, column].astype(np.float64) * factor
    scale = 2.0 ** (_BITS - np.ceil(np.log2(max(float(np.abs(exact).max(initial=0)), 1e-30))))
    weights = np.rint(exact * scale).astype(np.int32)
    words, buckets = int(model.shape[0]), int(model.shape[1])
    bucket_weights = weights[words:]
    if len(model.buckets):
        bucket_weights = np.full(buckets, _ABSENT, np.int32)
        used = model.buckets[model.buckets[:, 0] >= 0]
        bucket_weights[used[:, 0]] = weights[used[:, 1]]
    return Linear(
        shape=model.shape,
        table=model.table,
        words=model.words,
        word_offsets=model.word_offsets,
        word_weights=read_only(weights[:words]),
        bucket_weights=read_only(bucket_weights),
        eos=model.eos,
        scale=float(scale),
    )


@inlined
def _characters(data: Any, start: Any, end: Any, shape: Any, weights: Any) -> Any:
    """(sum, count) over the character n-grams of a word, with fastText's borders around it: ``<word>``."""
    minn, maxn = shape[2], shape[3]
    buckets = np.uint32(shape[1])
    total: Any = np.int64(0)
    count: Any = np.int64(0)
    for i in range(start - 1, end + 1):
        if start <= i < end and (data[i] & 0xC0) == 0x80:
            continue
        h = np.uint32(2166136261)
        j = i
        n = 1
        while j <= end and n <= maxn:
            h = hash_byte(h, np.uint8(60) if j < start else np.uint8(62) if j == end else data[j])
            j += 1
            while j < end and (data[j] & 0xC0) == 0x80:
                h = hash_byte(h, data[j])
                j += 1
            if n >= minn and not (n == 1 and (i < start or j > end)):
                weight = weights[np.int64(h % buckets)]
                if weight != _ABSENT:
                    total += weight
                    count += 1
            n += 1
    return total, count


@kernel
def score_lines(
    data: Any, offsets: Any, shape: Any, table: Any, words: Any, word_offsets: Any, word_weights: Any, bucket_weights: Any,
    eos: Any, scale: Any, memo: Any, hashes: Any, out: Any,
) -> None:  # fmt: skip
    """Probabilities of n lines; see `Linear`.

    Words are what lies between spaces; tabs and line ends must not occur.

    Args:
        memo: int64 (MEMO, 5), zeros: the bytes and size of a word, its sum and count.
        hashes: int32 scratch (words of the longest line + 1,).
    """
    buckets = np.uint64(shape[1])
    end_hash = np.uint32(2166136261)
    for byte in (60, 47, 115, 62):
        end_hash = hash_byte(end_hash, np.uint8(byte))
    for d in range(offsets.shape[0] - 1):
        total: Any = np.int64(0)
        count: Any = np.int64(0)
        number = 0
        i = offsets[d]
        end = offsets[d + 1]
        while i < end:
            if data[i] == 32:
                i += 1
                continue
            start = i
            h = np.uint32(2166136261)
            while i < end and data[i] != 32:
                h = hash_byte(h, data[i])
                i += 1
            hashes[number if shape[4] > 1 else 0] = np.int32(h)
            number += 1
            first, second, third = packed(data, start, i)
            slot = memo_slot(h)
            short = i - start <= MEMO_BYTES
            if short and memo[slot, 0] == first and memo[slot, 1] == second and memo[slot, 2] == third:
                total += memo[slot, 3]
                count += memo[slot, 4]
                continue
            of_word: Any = np.int64(0)
            rows: Any = np.int64(0)
            word = find_word(data, start, i, h, table, words, word_offsets)
            if word >= 0:
                of_word += word_weights[word]
                rows += 1
            if shape[3] > 0:
                added, more = _characters(data, start, i, shape, bucket_weights)
                of_word += added
                rows += more
            total += of_word
            count += rows
            if short:
                memo[slot, 0] = first
                memo[slot, 1] = second
                memo[slot, 2] = third
                memo[slot, 3] = of_word
                memo[slot, 4] = rows
        if eos >= 0:
            total += word_weights[eos]
            count += 1
        if shape[4] > 1:
            hashes[number] = np.int32(end_hash)
            number += 1
            for a in range(number):
                wide = np.uint64(np.int64(hashes[a]))
                for b in range(a + 1, min(number, a + shape[4])):
                    wide = wide * np.uint64(116049371) + np.uint64(np.int64(hashes[b]))
                    weight = bucket_weights[np.int64(wide % buckets)]
                    if weight != _ABSENT:
                        total += weight
                        count += 1
        out[d] = sigmoid(np.float64(total) / (np.float64(count) * scale)) if count else 0.0
