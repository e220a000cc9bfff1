"""From signatures to edges: who shares a band with whom, as phases over committed files.

`write_bands` makes of a group of shards one run with a segment per band, records (64-bit band key, document) by key range: 16
bytes per document and band. `write_edges` takes some bands, or one key range of one band, of all runs and writes a star per
key: every document with that key beside the smallest one. Two documents without a common shingle share a key by accident
once in 2**64 pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs, PhaseTask
from stages.dedup import _shards
from stages.dedup._keyed import salt
from stages.dedup._outbox import Outbox
from stages.dedup._runs import Held, Run, RunWriter, bucket_counts, chunks, held, slices
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import band_keys
from stages.kernels.sortruns import partition_order, smallest_per_key, star_edges, top_bits

#: Records a task of `edges` takes; it holds a slice of them at a time.
_TASK_RECORDS: Final = 96 << 20
_SLICE_RECORDS: Final = 4 << 20
#: Edges held before they are written: 16 bytes each.
_FLUSH_EDGES: Final = 4 << 20


def minima(column: pa.Array, permutations: int) -> np.ndarray:
    """Signatures as stored: uint16 or uint32 array of shape (n, permutations); the column has no nulls."""
    width = column.type.byte_width // permutations
    offsets, data, _ = text_buffers(column.cast(pa.binary()))
    stored: np.ndarray = data[offsets[0] : offsets[-1]].view("<u2" if width == 2 else "<u4")
    return stored.reshape(-1, permutations)


def write_bands(task: PhaseTask, *, signature: str, length: str, within: str | None, bands: int, rows: int) -> None:
    """A phase's body, one task per shard group."""
    columns = [signature, length] if within is None else [signature, length, within]
    text_bytes = 0
    held: list[np.ndarray] = []
    numbers: list[np.ndarray] = []
    salts: list[np.ndarray] = []
    extents: list[int] = []
    for position, shard in _shards.group_shards(task, task.index):
        extent = 0
        for batch in task.survivors(shard, columns):
            usable = batch.filter(batch.column(signature).is_valid())
            at = usable.column("row").to_numpy(zero_copy_only=False)
            if not len(at):
                continue
            extent = int(at[-1]) + 1
            text_bytes += int(usable.column(length).to_numpy(zero_copy_only=False).sum())
            held.append(minima(usable.column(signature), bands * rows).copy())
            numbers.append(_shards.documents(position, at))
            if within is not None:
                salts.append(salt(usable.column(within))[:, 0])
        extents.append(extent)
    documents = np.concatenate([np.zeros(0, np.uint64), *numbers])
    bits = _shards.bucket_bits(task)
    with task.file("bands.bin") as stream:
        run = RunWriter(stream)
        for band in range(bands):
            keys = np.concatenate([np.zeros(0, np.uint64), *(band_keys(m, band, rows) for m in held)])
            if salts:
                keys ^= np.concatenate(salts)
            order, offsets = partition_order(top_bits(keys, bits), 1 << bits)
            run.add(np.stack([keys[order], documents[order]], axis=1), offsets)
        run.close()
    task.note(records=len(documents), extents=extents, text_bytes=text_bytes)


def documents_of(inputs: PhaseInputs) -> int:
    """Documents that have a signature."""
    return sum(int(n["records"]) for n in inputs.info("bands").values())


def text_bytes_of(inputs: PhaseInputs) -> int:
    """Bytes of their texts."""
    return sum(int(n["text_bytes"]) for n in inputs.info("bands").values())


class KnownKeys(Protocol):
    """Band keys of earlier runs; see `_known`."""

    def pairs(self, records: np.ndarray) -> np.ndarray:
        """(indexed document, document) of the (key, document) records whose key is known."""


@dataclass(frozen=True)
class Earlier:
    """How edges to earlier runs are found.

    Args:
        documents: of earlier runs.
        files: that their signatures lie in.
        keys: band, buckets lo and hi, bits of the buckets -> the keys of that range.
    """

    documents: int
    files: int
    keys: Callable[[int, int, int, int], KnownKeys]


def edge_tasks(inputs: PhaseInputs, bands: int, earlier: Callable[[], Earlier] | None = None) -> int:
    """How many tasks `write_edges` has: several bands each in a small run, several tasks a band in a large one."""
    per_band, bands_per_task = _edge_plan(inputs, bands, earlier and earlier())
    return per_band * -(-bands // bands_per_task)


def _edge_plan(inputs: PhaseInputs, bands: int, earlier: Earlier | None) -> tuple[int, int]:
    """(tasks per band, bands per task); one of them is 1."""
    n = documents_of(inputs) + (earlier.documents if earlier else 0)
    if n > _TASK_RECORDS:
        return min(1 << _shards.bucket_bits(inputs), -(-n // _TASK_RECORDS)), 1
    return 1, min(bands, max(1, _TASK_RECORDS // max(1, n)))


def write_edges(task: PhaseTask, *, bands: int, earlier: Callable[[], Earlier] | None = None) -> None:
    """A phase's body; see `edge_tasks`."""
    before = earlier and earlier()
    per_band, bands_per_task = _edge_plan(task, bands, before)
    first = task.index // per_band * bands_per_task
    lo, hi = _shards.range_of(task, task.index % per_band, per_band)
    edges, known = _Edges(task), Outbox(task, "known")
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(task, part)) for part in task.parts("bands")]
        for band in range(first, min(first + bands_per_task, bands)):
            near = held(runs, band, lo, hi, 2 * _TASK_RECORDS)
            keys = before and before.keys(band, lo, hi, _shards.bucket_bits(task))
            for a, b in slices(bucket_counts(near, band, lo, hi), _SLICE_RECORDS):
                _link(near, band, lo + a, lo + b, edges)
                if before and keys:
                    for records in _chunks(near, band, lo + a, lo + b):
                        pairs = keys.pairs(records)
                        known.add_buckets(pairs, (pairs[:, 0] >> np.uint64(32)).astype(np.int64), before.files)
    edges.flush()
    known.close()


def _link(runs: Sequence[Run | Held], band: int, lo: int, hi: int, edges: _Edges) -> None:
    """Stars of buckets [lo, hi) of a band. A bucket too large for memory has few keys: they are found in a first pass."""
    parts = _chunks(runs, band, lo, hi)
    first, second = next(parts, None), next(parts, None)
    if first is None:
        return
    if second is None:
        edges.add(star_edges(first))
        return
    centres = smallest_per_key(np.concatenate([smallest_per_key(first), smallest_per_key(second)]))
    for part in parts:
        centres = smallest_per_key(np.concatenate([centres, smallest_per_key(part)]))
    for part in _chunks(runs, band, lo, hi):
        centre = centres[np.searchsorted(centres[:, 0], part[:, 0]), 1]
        linked = centre != part[:, 1]
        edges.add(np.stack([part[linked, 1], centre[linked]], axis=1))


def _chunks(runs: Sequence[Run | Held], band: int, lo: int, hi: int) -> Iterator[np.ndarray]:
    for part in chunks(runs, band, lo, hi, 2 * _SLICE_RECORDS):
        yield np.concatenate([records for _, records in part])


class _Edges:
    """Edges of one task, written as they come: (document, smallest document with its key)."""

    def __init__(self, task: PhaseTask) -> None:
        self._task = task
        self._held: list[np.ndarray] = []
        self._rows = 0
        self._files = 0

    def add(self, edges: np.ndarray) -> None:
        if len(edges):
            self._held.append(edges)
            self._rows += len(edges)
        if self._rows >= _FLUSH_EDGES:
            self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        edges = np.concatenate(self._held)
        with self._task.file(f"edges-{self._files:03d}.bin") as stream:
            run = RunWriter(stream)
            run.add(edges, np.array([0, len(edges)], np.int64))
            run.close()
        self._task.count("edges", len(edges))
        self._held, self._rows = [], 0
        self._files += 1
