"""A seeded order of n things in which any position can be asked for without making the others.

A permutation by a Feistel network over the next even number of bits, walked until it falls below n (Black and Rogaway 2002,
"Ciphers with arbitrary finite domains"): no table, so that the order of a billion sequences takes no memory, and a resumed
run needs to know one number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

_ROUNDS: Final = 6
_WORD: Final = (1 << 64) - 1
_A: Final = 0x9E3779B97F4A7C15
_B: Final = 0xBF58476D1CE4E5B9
_C: Final = 0x94D049BB133111EB
#: Below this many positions Python's own integers are faster than arrays of them.
_FEW: Final = 48


def _mix(x: int) -> int:
    """splitmix64's finaliser."""
    x = (x ^ (x >> 30)) * _B & _WORD
    x = (x ^ (x >> 27)) * _C & _WORD
    return x ^ (x >> 31)


def _mix_array(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_B)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_C)
    out: np.ndarray = x ^ (x >> np.uint64(31))
    return out


@lru_cache(maxsize=64)
def _keys(seed: int, epoch: int) -> tuple[int, ...]:
    key = _mix((seed + _A * (epoch + 1)) & _WORD)
    return tuple(_mix((key + _A * (r + 1)) & _WORD) for r in range(_ROUNDS))


def permuted(positions: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
    """Which of `count` things stand at positions (int64, each below count) in the order of an epoch, int64."""
    if count <= 1:
        return np.zeros(len(positions), np.int64)
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    keys = _keys(seed, epoch)
    if len(positions) < _FEW:
        return np.array([_walk(p, count, half, keys) for p in positions.tolist()], np.int64)
    mask, shift = np.uint64((1 << half) - 1), np.uint64(half)
    out = positions.astype(np.uint64)
    walking = np.arange(len(out))
    while len(walking):
        x = out[walking]
        left, right = x >> shift, x & mask
        for key in keys:
            left, right = right, left ^ (_mix_array(right + np.uint64(key)) & mask)
        out[walking] = left << shift | right
        walking = walking[out[walking] >= np.uint64(count)]
    return out.astype(np.int64)


def _walk(x: int, count: int, half: int, keys: tuple[int, ...]) -> int:
    mask = (1 << half) - 1
    while True:
        left, right = x >> half, x & mask
        for key in keys:
            left, right = right, left ^ (_mix((right + key) & _WORD) & mask)
        x = left << half | right
        if x < count:
            return x
