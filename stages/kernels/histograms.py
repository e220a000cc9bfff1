"""Histograms of numbers that merge exactly: integer weights in buckets that do not depend on the data.

A number's bucket is its float32 pattern, made monotone and cut to its upper 19 bits: 1 of sign, 8 of exponent, 10 of
mantissa. So buckets are 0.1 % wide relative to the number, at any scale, and any number of histograms add up to the same
one in any order.
"""

from __future__ import annotations

from typing import Final

import numpy as np

#: Bits of a float32 that are dropped.
_DROPPED: Final = 13
BUCKETS: Final = 1 << (32 - _DROPPED)


def buckets_of(values: np.ndarray) -> np.ndarray:
    """int32 bucket of each float64, ascending with the number; NaN and -0.0 go with the 0s."""
    numbers = np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=np.inf, neginf=-np.inf) + np.float32(0.0)
    bits = numbers.view(np.uint32)
    monotone = np.where(bits >> 31 != 0, ~bits, bits | np.uint32(1 << 31))
    found: np.ndarray = (monotone >> _DROPPED).astype(np.int32)
    return found


def add_up(groups: np.ndarray, buckets: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum weights by (group, bucket).

    Args:
        groups, buckets: int32 (n,).
        weights: int64 (n,).

    Returns:
        Groups, buckets and sums of the pairs that occur, sorted.
    """
    keys = groups.astype(np.int64) * BUCKETS + buckets
    distinct, place = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, weights)
    return (distinct // BUCKETS).astype(np.int32), (distinct % BUCKETS).astype(np.int32), sums


def ranks(groups: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """float64 (n,): for each bucket of a sorted histogram, the share of its group's weight below it plus half its own."""
    if len(groups) == 0:
        return np.zeros(0)
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    lengths = np.diff(np.r_[starts, len(groups)])
    total = np.repeat(np.add.reduceat(sums, starts), lengths)
    before = np.cumsum(sums) - sums
    below = before - np.repeat(before[starts], lengths)
    shares: np.ndarray = (2 * below + sums) / (2 * np.maximum(total, 1))
    return shares
