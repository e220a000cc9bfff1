"""Sorting and grouping of fixed-width records: the inner loops of every external shuffle.

A record is a row of unsigned 64-bit words. The first word is its key: a hash, so that equal slices of the key space hold
about equal numbers of records whatever the data is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stages.kernels.jit import kernel


@kernel
def _count_buckets(buckets: Any, counts: Any) -> Any:
    for i in range(buckets.shape[0]):
        counts[buckets[i] + 1] += 1


@kernel
def _scatter(records: Any, buckets: Any, places: Any, out: Any) -> Any:
    words = records.shape[1]
    for i in range(records.shape[0]):
        at = places[buckets[i]]
        places[buckets[i]] = at + 1
        for w in range(words):
            out[at, w] = records[i, w]


@kernel
def _order(buckets: Any, places: Any, out: Any) -> Any:
    for i in range(buckets.shape[0]):
        out[places[buckets[i]]] = i
        places[buckets[i]] += 1


def bucket_offsets(buckets: np.ndarray, count: int) -> np.ndarray:
    """Where each bucket starts once records are partitioned: int64 array of shape (count + 1,).

    Args:
        buckets: int64 array of shape (n,), bucket of each record.
        count: number of buckets.
    """
    counts = np.zeros(count + 1, np.int64)
    _count_buckets(buckets, counts)
    return np.cumsum(counts)


def partition(records: np.ndarray, buckets: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Records by bucket, those of one bucket in the order given: a counting sort, some 100 M records a second.

    Args:
        records: uint64 array of shape (n, words).
        buckets: int64 array of shape (n,).
        count: number of buckets.

    Returns:
        (records, offsets): uint64 (n, words); int64 (count + 1,).
    """
    offsets = bucket_offsets(buckets, count)
    out = np.empty_like(records)
    _scatter(records, buckets, offsets[:-1].copy(), out)
    return out, offsets


def partition_order(buckets: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(order, offsets): the stable permutation that `partition` would apply, int64 (n,), and int64 (count + 1,)."""
    offsets = bucket_offsets(buckets, count)
    order = np.empty(len(buckets), np.int64)
    _order(buckets, offsets[:-1].copy(), order)
    return order, offsets


def top_bits(keys: np.ndarray, bits: int) -> np.ndarray:
    """The bucket of each key, its highest `bits` bits, as int64."""
    if bits == 0:
        return np.zeros(len(keys), np.int64)
    return (keys >> np.uint64(64 - bits)).astype(np.int64)


@kernel
def _first_of_groups(records: Any, order: Any, winners: Any) -> Any:
    n = order.shape[0]
    words = records.shape[1]
    start = 0
    while start < n:
        key = records[order[start], 0]
        end = start + 1
        while end < n and records[order[end], 0] == key:
            end += 1
        # one pass, unless two 128-bit keys share their first 64 bits
        a = start
        while a < end:
            second = records[order[a], 1]
            best = order[a]
            for b in range(a + 1, end):
                r = order[b]
                if records[r, 1] != second:
                    continue
                for w in range(2, words):
                    if records[r, w] != records[best, w]:
                        if records[r, w] < records[best, w]:
                            best = r
                        break
            for b in range(a, end):
                if records[order[b], 1] == second:
                    winners[order[b]] = best
            while a < end and winners[order[a]] >= 0:
                a += 1
        start = end


def first_of_groups(records: np.ndarray) -> np.ndarray:
    """Whom each record of a group stands behind.

    Args:
        records: uint64 array of shape (n, words); words 0 and 1 are the key, the others the rank: of a group, the record
            that is smallest in them, compared in turn, wins.

    Returns:
        int64 array of shape (n,): position of the winner of each record's group, its own for the winner.
    """
    winners = np.full(len(records), -1, np.int64)
    _first_of_groups(records, np.argsort(records[:, 0]), winners)
    return winners


@kernel
def _find_keys(table: Any, records: Any, found: Any) -> Any:
    for i in range(records.shape[0]):
        key = records[i, 0]
        lo = 0
        hi = table.shape[0]
        while lo < hi:
            middle = (lo + hi) >> 1
            if table[middle, 0] < key:
                lo = middle + 1
            else:
                hi = middle
        found[i] = -1
        while lo < table.shape[0] and table[lo, 0] == key:
            if table[lo, 1] == records[i, 1]:
                found[i] = lo
                break
            lo += 1


def find_keys(table: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Row of `table` with each record's key (words 0 and 1), -1 where there is none: int64 array.

    Args:
        table: uint64 array, ascending by word 0.
        records: uint64 array.
    """
    found = np.empty(len(records), np.int64)
    _find_keys(table, records, found)
    return found


@kernel
def _smallest_per_key(records: Any, order: Any, out: Any) -> Any:
    k = -1
    for i in range(order.shape[0]):
        r = order[i]
        if k < 0 or out[k, 0] != records[r, 0]:
            k += 1
            out[k, 0] = records[r, 0]
            out[k, 1] = records[r, 1]
        elif records[r, 1] < out[k, 1]:
            out[k, 1] = records[r, 1]
    return k + 1


def smallest_per_key(records: np.ndarray) -> np.ndarray:
    """One (key, smallest value) per key: uint64 (keys, 2), ascending by key, of uint64 (n, 2)."""
    out = np.empty_like(records)
    return out[: _smallest_per_key(records, np.argsort(records[:, 0]), out)].copy()


@kernel
def _star_edges(records: Any, order: Any, out: Any) -> Any:
    n = order.shape[0]
    k = 0
    start = 0
    while start < n:
        key = records[order[start], 0]
        end = start + 1
        least = records[order[start], 1]
        while end < n and records[order[end], 0] == key:
            least = min(least, records[order[end], 1])
            end += 1
        if end - start > 1:
            for i in range(start, end):
                value = records[order[i], 1]
                if value != least:
                    out[k, 0] = value
                    out[k, 1] = least
                    k += 1
        start = end
    return k


def star_edges(records: np.ndarray) -> np.ndarray:
    """(value, smallest value with its key) for every other value of a key: uint64 (edges, 2) of (key, value) uint64 (n, 2)."""
    out = np.empty_like(records)
    return out[: _star_edges(records, np.argsort(records[:, 0]), out)].copy()
