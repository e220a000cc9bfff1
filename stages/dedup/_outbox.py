"""Records sent from the tasks of one phase to those of the next: written as they come, partitioned by who reads them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs, PhaseTask
from stages.dedup import _shards
from stages.dedup._runs import Run, RunWriter
from stages.kernels.sortruns import partition_order, top_bits

#: Bytes held before they are written; three times that while they are partitioned.
_FLUSH_BYTES: Final = 256 << 20


class Outbox:
    """What one task sends.

    Args:
        task: the sender.
        label: of its files.
        bits: of the hash that records are partitioned by, for `add_hashed`.
    """

    def __init__(self, task: PhaseTask, label: str, bits: int = 0) -> None:
        self._task = task
        self._label = label
        self._bits = bits
        self._records: list[np.ndarray] = []
        self._buckets: list[np.ndarray] = []
        self._columns: list[pa.RecordBatch] = []
        self._count = 1 << bits
        self._held = self._files = self._total = 0

    def add_hashed(self, records: np.ndarray) -> None:
        """Send records to the ranges of their first word, a hash."""
        self._add(records, top_bits(records[:, 0], self._bits), None)

    def add_documents(
        self, records: np.ndarray, documents: np.ndarray, most: int, columns: pa.RecordBatch | None = None
    ) -> None:
        """Send records to the shard groups of documents."""
        self._count = _shards.group_count(self._task, most)
        self._add(records, _shards.group_of(self._task, documents, most), columns)

    def add_buckets(self, records: np.ndarray, buckets: np.ndarray, count: int) -> None:
        """Send records to the tasks that `buckets` (of `count`) number."""
        self._count = max(1, count)
        self._add(records, buckets, None)

    def close(self) -> int:
        """Write what is held; the number of records sent."""
        self._flush()
        return self._total

    def _add(self, records: np.ndarray, buckets: np.ndarray, columns: pa.RecordBatch | None) -> None:
        if not len(records):
            return
        self._records.append(records)
        self._buckets.append(buckets)
        self._held += records.nbytes
        if columns is not None:
            self._columns.append(columns)
            self._held += columns.nbytes
        if self._held >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._records:
            return
        records, buckets = np.concatenate(self._records), np.concatenate(self._buckets)
        order, offsets = partition_order(buckets, self._count)
        columns = None
        if self._columns:
            table = pa.Table.from_batches(self._columns).take(pa.array(order)).combine_chunks()
            columns = table.to_batches()[0]
        with self._task.file(f"{self._label}-{self._files:03d}.bin") as stream:
            run = RunWriter(stream)
            run.add(records[order], offsets, columns)
            run.close()
        self._total += len(records)
        self._records, self._buckets, self._columns, self._held = [], [], [], 0
        self._files += 1


def inbox(inputs: PhaseInputs, phase: str, bucket: int, label: str = "") -> tuple[np.ndarray, pa.Table | None]:
    """(records, columns) of one bucket from all tasks of a phase; a flat empty array where there are none."""
    records: list[np.ndarray] = []
    tables: list[pa.Table] = []
    for part in inputs.parts(phase):
        if not part.name.startswith(label):
            continue
        with Run(inputs, part) as run:
            found = run.records(0, bucket, bucket + 1)
            if len(found):
                records.append(found)
                if (table := run.columns(0, bucket, bucket + 1)) is not None:
                    tables.append(table)
    if not records:
        return np.zeros(0, np.uint64), None
    return np.concatenate(records), pa.concat_tables(tables) if tables else None
