"""Repetition inside a document: distinct words, their entropy, and characters covered by repeated n-grams.

Works on the word hashes of `words.split_words`. An n-gram can only repeat where both (n-1)-grams inside it repeat, so each
order looks at the few positions the one before left over, and names an n-gram by the pair of their numbers: beyond the
64-bit word hash nothing is hashed twice and nothing can collide.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import inlined, inner, kernel

#: Orders measured: the most frequent n-gram of 2-4 words, repeated n-grams of 5-10 words (Rae et al. 2021, table A1).
TOP_ORDERS: Final = (2, 3, 4)
REPEATED_ORDERS: Final = (5, 6, 7, 8, 9, 10)
_LAST_TOP: Final = TOP_ORDERS[-1]
_LAST: Final = REPEATED_ORDERS[-1]

_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)


class Scratch(NamedTuple):
    """Arrays that `repetition` uses for one document after the other.

    Attributes:
        keys, slots: uint64 and int32 (a power of two >= 2 * words): open-addressing table from n-gram to its number.
        counts, first: int32 (words,): by number, occurrences and first position.
        position, number: int32 (words,): the n-grams still looked at.
        sums: int64 (words + 1,): characters of the words before each position.
    """

    keys: np.ndarray
    slots: np.ndarray
    counts: np.ndarray
    first: np.ndarray
    position: np.ndarray
    number: np.ndarray
    sums: np.ndarray


def make_scratch(words: int) -> Scratch:
    """Room for documents of up to `words` words."""
    size = 1 << max(4, (2 * words - 1).bit_length())
    return Scratch(
        np.empty(size, np.uint64),
        np.empty(size, np.int32),
        np.empty(words, np.int32),
        np.empty(words, np.int32),
        np.empty(words, np.int32),
        np.empty(words, np.int32),
        np.empty(words + 1, np.int64),
    )


def _log2(x: float) -> float:
    """log2 of a float >= 1 from IEEE additions, multiplications and divisions: the C library's last bit varies by CPU."""
    exponent = 0
    while x >= 2.0:
        x *= 0.5
        exponent += 1
    z = (x - 1.0) / (x + 1.0)
    total, power = 0.0, z
    for k in range(1, 60, 2):
        total += power / k
        power *= z * z
    return exponent + 2.8853900817779268 * total  # 2 / ln 2


_log2_compiled: Final = kernel(_log2)


def _table() -> np.ndarray:
    table = np.array([0.0] + [_log2(float(n)) for n in range(1, 2048)])
    table.flags.writeable = False
    return table


#: float64 (2048,): log2 of small counts, which nearly all are.
_LOG2: Final = _table()


@inlined
def log2(n: Any) -> Any:
    """log2 of an integer >= 1, the same bits on every machine."""
    return _LOG2[n] if n < _LOG2.shape[0] else _log2_compiled(np.float64(n))


@inner
def number_ngrams(m: Any, order: Any, hashes: Any, scratch: Any) -> Any:
    """Give equal n-grams of `order` one number, in order of first occurrence; returns (n-grams, distinct ones)."""
    size = 16
    bits = 4
    while size < 2 * m:
        size *= 2
        bits += 1
    shift = np.uint64(64 - bits)
    scratch.keys[:size] = np.uint64(0)
    kept = distinct = 0
    for j in range(m):
        if order == 1:
            key = hashes[j]
            place = j
        else:
            place = scratch.position[j]
            if j + 1 == m or scratch.position[j + 1] != place + 1:
                continue
            left, right = np.uint64(scratch.number[j]), np.uint64(scratch.number[j + 1])
            key = ((left << np.uint64(32)) | right) + np.uint64(1)
        slot = np.int64((key * _PRIME) >> shift)
        found = scratch.keys[slot]
        while found != np.uint64(0) and found != key:
            slot = (slot + 1) & (size - 1)
            found = scratch.keys[slot]
        # Whether an n-gram is new is a coin toss to the branch predictor: both cases write the same places.
        new = found == np.uint64(0)
        number = distinct if new else scratch.slots[slot]
        scratch.keys[slot] = key
        scratch.slots[slot] = number
        scratch.counts[number] = 1 if new else scratch.counts[number] + 1
        scratch.first[number] = place if new else scratch.first[number]
        distinct += new
        scratch.position[kept] = place
        scratch.number[kept] = number
        kept += 1
    return kept, distinct


@inner
def keep_repeated(m: Any, scratch: Any) -> Any:
    """Drop the n-grams that occur once from the `m` looked at; returns how many are left."""
    kept = 0
    for j in range(m):
        number = scratch.number[j]
        scratch.position[kept], scratch.number[kept] = scratch.position[j], number
        kept += scratch.counts[number] > 1
    return kept


@inner
def sum_characters(n: Any, chars: Any, scratch: Any) -> None:
    """Fill `scratch.sums`."""
    scratch.sums[0] = 0
    for i in range(n):
        scratch.sums[i + 1] = scratch.sums[i] + chars[i]


@inner
def _covered(m: Any, order: Any, only: Any, scratch: Any) -> Any:
    """Characters under n-grams numbered `only`; -1: under every n-gram that occurred before. Overlaps count once."""
    total = 0
    until = 0
    for j in range(m):
        number, place = scratch.number[j], np.int64(scratch.position[j])
        if number == only or (only < 0 and scratch.first[number] != place):
            total += scratch.sums[place + order] - scratch.sums[max(place, until)]
            until = place + order
    return total


@inner
def _most_frequent(distinct: Any, order: Any, scratch: Any) -> Any:
    """The n-gram that occurs most often (of those the longest, of those the first), -2 if none occurs twice."""
    best = -2
    best_count = 1
    best_chars = 0
    for number in range(distinct):
        count, place = scratch.counts[number], scratch.first[number]
        if count > 1 and count >= best_count:
            chars = scratch.sums[place + order] - scratch.sums[place]
            if count > best_count or chars > best_chars:
                best, best_count, best_chars = number, count, chars
    return best


@kernel
def repetition(n: Any, hashes: Any, chars: Any, scratch: Any, top: Any, repeated: Any) -> Any:
    """Measure one document of `n` words.

    Args:
        n: words.
        hashes: uint64, see Words.hash.
        chars: int32, see Words.chars.
        scratch: `make_scratch` of at least `n` words.
        top: int64 (3,), written: characters inside the most frequent 2-, 3-, 4-gram (0 where none occurs twice).
        repeated: int64 (6,), written: characters inside 5- ... 10-grams that occurred before in the document.

    Returns:
        (distinct words, entropy of the words in bits).
    """
    top[:] = 0
    repeated[:] = 0
    if n == 0:
        return 0, 0.0
    sum_characters(n, chars, scratch)
    m, words = number_ngrams(n, 1, hashes, scratch)
    weighted = 0.0
    for number in range(words):
        if scratch.counts[number] > 1:
            weighted += scratch.counts[number] * log2(scratch.counts[number])
    entropy = max(0.0, log2(n) - weighted / n)
    for order in range(2, _LAST + 1):
        m, distinct = number_ngrams(keep_repeated(m, scratch), order, hashes, scratch)
        if m == 0:
            break
        if order <= _LAST_TOP:
            top[order - 2] = _covered(m, order, _most_frequent(distinct, order, scratch), scratch)
        else:
            repeated[order - _LAST_TOP - 1] = _covered(m, order, -1, scratch)
    return words, entropy
