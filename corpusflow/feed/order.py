"""A seeded order of n things in which any position can be asked for without making the others.

A permutation by a Feistel network over the next even number of bits, walked until it falls below n (Black and Rogaway 2002,
"Ciphers with arbitrary finite domains"): no table, so that the order of a billion sequences takes no memory, and a resumed
run needs to know one number.
"""

from __future__ import annotations

from typing import Final

import numpy as np

_ROUNDS: Final = 6
_A: Final = np.uint64(0x9E3779B97F4A7C15)
_B: Final = np.uint64(0xBF58476D1CE4E5B9)
_C: Final = np.uint64(0x94D049BB133111EB)


def _mix(x: np.ndarray) -> np.ndarray:
    """splitmix64's finaliser, uint64 (n,)."""
    x = (x ^ (x >> np.uint64(30))) * _B
    x = (x ^ (x >> np.uint64(27))) * _C
    out: np.ndarray = x ^ (x >> np.uint64(31))
    return out


def permuted(positions: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
    """Which of `count` things stand at positions (int64, each below count) in the order of an epoch, int64."""
    if count <= 1:
        return np.zeros(len(positions), np.int64)
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = np.uint64((1 << half) - 1)
    shift = np.uint64(half)
    with np.errstate(over="ignore"):
        key = _mix(np.array([seed & 0xFFFF_FFFF_FFFF_FFFF], np.uint64) + _A * np.uint64(epoch + 1))[0]
        keys = [_mix(np.array([key + _A * np.uint64(r + 1)], np.uint64))[0] for r in range(_ROUNDS)]
        out = positions.astype(np.uint64)
        walking = np.arange(len(out))
        while len(walking):
            x = out[walking]
            left, right = x >> shift, x & mask
            for k in keys:
                left, right = right, left ^ (_mix(right + k) & mask)
            out[walking] = left << shift | right
            walking = walking[out[walking] >= np.uint64(count)]
    return out.astype(np.int64)
