"""Partitioning and grouping of fixed-width records: the inner work of every external shuffle.

A record is a row of unsigned 64-bit words. The first word is its key: a hash, so that equal slices of the key space hold
about equal numbers of records whatever the data is. All of it is numpy's vectorised sorting: nothing compiles.
"""

from __future__ import annotations

import numpy as np


def partition_order(buckets: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The stable permutation that brings buckets together, and where each starts then.

    Args:
        buckets: integer array of shape (n,), bucket of each record.
        count: number of buckets.

    Returns:
        (order, offsets): int64 (n,); int64 (count + 1,).
    """
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(buckets, minlength=count), out=offsets[1:])
    # numpy sorts 16-bit integers by radix, in linear time
    narrow = buckets.astype(np.uint16) if count <= 1 << 16 else buckets
    return np.argsort(narrow, kind="stable"), offsets


def top_bits(keys: np.ndarray, bits: int) -> np.ndarray:
    """The bucket of each key, its highest `bits` bits, as int64."""
    if bits == 0:
        return np.zeros(len(keys), np.int64)
    return (keys >> np.uint64(64 - bits)).astype(np.int64)


def repeated(keys: np.ndarray) -> np.ndarray:
    """Positions of the keys that occur more than once, equal ones side by side, ascending: int64 array."""
    order = np.argsort(keys)
    ordered = keys[order]
    same = np.zeros(len(keys) + 1, np.bool_)
    same[1:-1] = ordered[1:] == ordered[:-1]
    found: np.ndarray = order[same[1:] | same[:-1]]
    return found


def first_of_groups(records: np.ndarray) -> np.ndarray:
    """Whom each record of a group stands behind.

    Args:
        records: uint64 array of shape (n, words); words 0 and 1 are the key, the others the rank: of a group, the record
            that is smallest in them, compared in turn, wins.

    Returns:
        int64 array of shape (n,): position of the winner of each record's group, its own for the winner.
    """
    winners = np.arange(len(records))
    members = repeated(records[:, 0])
    if len(members):
        members = members[np.lexsort(records[members, ::-1].T)]
        first = starts_of(records[members, :2])
        winners[members] = np.repeat(members[first], np.diff([*first, len(members)]))
    return winners


def starts_of(keys: np.ndarray) -> np.ndarray:
    """Where runs of equal rows start: int64 array, for `keys` of shape (n, words)."""
    if not len(keys):
        return np.zeros(0, np.int64)
    new = np.ones(len(keys), np.bool_)
    new[1:] = np.any(keys[1:] != keys[:-1], axis=1)
    return np.flatnonzero(new)


def find_keys(table: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Row of `table` with each record's key (words 0 and 1), -1 where there is none: int64 array.

    Args:
        table: uint64 array, ascending by word 0, keys distinct.
        records: uint64 array.
    """
    found = np.full(len(records), -1, np.int64)
    if not len(table):
        return found
    at = np.searchsorted(table[:, 0], records[:, 0])
    open_ = np.flatnonzero(at < len(table))
    while len(open_):  # once, unless two keys of the table share their first 64 bits
        same = table[at[open_], 0] == records[open_, 0]
        found[open_] = np.where(same & (table[at[open_], 1] == records[open_, 1]), at[open_], -1)
        at[open_] += 1
        open_ = open_[same & (found[open_] < 0) & (at[open_] < len(table))]
    return found


def smallest_per_key(records: np.ndarray) -> np.ndarray:
    """One (key, smallest value) per key: uint64 (keys, 2), ascending by key, of uint64 (n, 2)."""
    if not len(records):
        return records
    ordered = records[np.argsort(records[:, 0])]
    first = starts_of(ordered[:, :1])
    least: np.ndarray = np.stack([ordered[first, 0], np.minimum.reduceat(ordered[:, 1], first)], axis=1)
    return least


def star_edges(records: np.ndarray) -> np.ndarray:
    """(value, smallest value with its key) for every other value of a key: uint64 (edges, 2) of (key, value) uint64 (n, 2)."""
    members: np.ndarray = records[repeated(records[:, 0])]
    if not len(members):
        return members
    first = starts_of(members[:, :1])
    least = np.repeat(np.minimum.reduceat(members[:, 1], first), np.diff([*first, len(members)]))
    others = members[:, 1] != least
    edges: np.ndarray = np.stack([members[others, 1], least[others]], axis=1)
    return edges
