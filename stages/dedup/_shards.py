"""How a dedup stage numbers documents and cuts its work, from the number of shards alone.

Inside one Exchange a document is a 64-bit number: position of its shard among the plan's shards, then its row. It never
leaves the stage and never decides which document is kept.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from corpusflow import PhaseInputs

#: A shard is cut at 64k rows (sources of very small documents may exceed it).
_ROWS: Final = 65_536
#: One bucket holds about this many records of all runs together.
_BUCKET_RECORDS: Final = 1 << 20
_ROW_BITS: Final = 32
#: Shards that one task reads together, at most.
MOST: Final = 96


def documents(position: int, rows: np.ndarray) -> np.ndarray:
    """Numbers of a shard's rows: uint64 array like `rows`."""
    return np.uint64(position << _ROW_BITS) | rows.astype(np.uint64)


def positions(numbers: np.ndarray) -> np.ndarray:
    """Position of each document's shard: int64 array."""
    return (numbers >> np.uint64(_ROW_BITS)).astype(np.int64)


def rows(numbers: np.ndarray) -> np.ndarray:
    """Row of each document in its shard: int32 array."""
    return (numbers & np.uint64(0xFFFFFFFF)).astype(np.int32)


def group_size(inputs: PhaseInputs, most: int = MOST) -> int:
    """Shards that one task reads together, at most `most`: few files at scale, one shard a task in small runs."""
    return group_size_of(len(inputs.shards), most)


def group_size_of(shards: int, most: int = MOST) -> int:
    """The same, from the number of shards."""
    return int(min(most, max(1, shards // 64)))


def group_count(inputs: PhaseInputs, most: int = MOST) -> int:
    """Tasks of a phase over groups of shards."""
    return -(-len(inputs.shards) // group_size(inputs, most))


def group_shards(inputs: PhaseInputs, group: int, most: int = MOST) -> list[tuple[int, int]]:
    """(position, shard number) of the shards in a group."""
    size = group_size(inputs, most)
    return [(p, inputs.shards[p]) for p in range(group * size, min((group + 1) * size, len(inputs.shards)))]


def group_of(inputs: PhaseInputs, numbers: np.ndarray, most: int = MOST) -> np.ndarray:
    """The group in which each document's shard is: int64 array."""
    return positions(numbers) // group_size(inputs, most)


def bucket_bits(inputs: PhaseInputs) -> int:
    """Key bits that number the buckets of a run: the same for all runs of a stage."""
    return bucket_bits_of(len(inputs.shards))


def bucket_bits_of(shards: int) -> int:
    """The same, from the number of shards."""
    wanted = max(16, shards * _ROWS // _BUCKET_RECORDS)
    return (wanted - 1).bit_length()


def range_of(inputs: PhaseInputs, task: int, tasks: int) -> tuple[int, int]:
    """Buckets [lo, hi) of one of `tasks` equal slices of the key space."""
    buckets = 1 << bucket_bits(inputs)
    return task * buckets // tasks, (task + 1) * buckets // tasks
