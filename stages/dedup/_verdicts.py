"""Verdicts back to their shards: from tasks over key ranges to one sorted list per shard.

A verdict is a document number and a few columns. A range task writes its verdicts as runs partitioned by shard group;
`collect` makes of one group's slices a Parquet file sorted by document, with a note of where each shard starts; `joined`
reads one shard's rows of it beside the shard's survivors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs, PhaseTask
from stages.dedup import _shards
from stages.dedup._runs import Run, RunWriter
from stages.kernels.sortruns import partition_order

_LABEL: Final = "verdicts"
#: Verdicts a task holds before it writes them: some 100 bytes each, twice while they are being ordered.
_FLUSH_ROWS: Final = 2 << 20
#: Rows of a row group of the lists: what `apply` reads at least.
_ROW_GROUP: Final = 65_536


class Verdicts:
    """What one range task decides; written as it grows, so that one key shared by a billion documents fits."""

    def __init__(self, task: PhaseTask) -> None:
        self._task = task
        self._documents: list[np.ndarray] = []
        self._columns: list[pa.RecordBatch] = []
        self._rows = 0
        self._files = 0

    def add(self, documents: np.ndarray, columns: pa.RecordBatch) -> None:
        """Append verdicts.

        Args:
            documents: uint64 array of shape (n,), numbers as `_shards.documents` makes them.
            columns: n rows.
        """
        self._documents.append(documents)
        self._columns.append(columns)
        self._rows += len(documents)
        if self._rows >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is held; must be called at the end."""
        if not self._rows:
            return
        documents = np.concatenate(self._documents)
        columns = pa.Table.from_batches(self._columns)
        order, offsets = partition_order(_shards.group_of(self._task, documents), _shards.group_count(self._task))
        with self._task.file(f"{_LABEL}-{self._files:03d}.bin") as stream:
            run = RunWriter(stream)
            run.add(documents[order][:, None], offsets, columns.take(pa.array(order)).combine_chunks().to_batches()[0])
            run.close()
        self._documents, self._columns, self._rows = [], [], 0
        self._files += 1


def collect(task: PhaseTask, *, phase: str, and_phase: str | None = None) -> None:
    """A phase's body, one task per shard group: its verdicts of all runs of a phase (or two), sorted by document."""
    documents: list[np.ndarray] = []
    tables: list[pa.Table] = []
    for part in [*task.parts(phase), *(task.parts(and_phase) if and_phase else ())]:
        if not part.name.startswith(_LABEL):
            continue
        with Run(task, part) as run:
            table = run.columns(0, task.index, task.index + 1)
            if table is not None:
                documents.append(run.records(0, task.index, task.index + 1)[:, 0])
                tables.append(table)
    positions = [p for p, _ in _shards.group_shards(task, task.index)]
    if not documents:
        task.note(starts=[0] * (len(positions) + 1))
        return
    everything = np.concatenate(documents)
    order = np.argsort(everything, kind="stable")
    everything = everything[order]
    bounds = np.array([*positions, positions[-1] + 1], np.uint64) << np.uint64(32)
    task.note(starts=np.searchsorted(everything, bounds).tolist())
    table = pa.concat_tables(tables).take(pa.array(order))
    table = table.add_column(0, "row", pa.array(_shards.rows(everything)))
    with task.parquet("lists.parquet", table.schema, row_group_rows=_ROW_GROUP) as writer:
        writer.write(table)


def joined(shard: int, inputs: PhaseInputs, phase: str, schema: pa.Schema) -> Iterator[tuple[pa.Array, pa.Table]]:
    """A shard's survivors beside their verdicts, in batches.

    Args:
        shard: a number from `inputs.shards`.
        inputs: of the Exchange.
        phase: the one whose body is `collect`.
        schema: the verdicts' columns.

    Returns:
        pairs of `row` (int32) and the verdicts' columns, null where there is no verdict.
    """
    listed = shard_list(shard, inputs, phase, schema)
    known = listed.column("row").to_numpy()
    columns = listed.select(schema.names)
    for batch in inputs.survivors(shard, ()):
        rows = batch.column("row")
        wanted = rows.to_numpy(zero_copy_only=False)
        at = np.searchsorted(known, wanted)
        absent = np.ones(len(wanted), np.bool_)
        inside = at < len(known)
        absent[inside] = known[at[inside]] != wanted[inside]
        yield rows, columns.take(pa.array(at, mask=absent))


def shard_list(shard: int, inputs: PhaseInputs, phase: str, schema: pa.Schema) -> pa.Table:
    """`row` and verdicts of one shard, ascending by row; a row may have several."""
    position = inputs.shards.index(shard)
    group, member = divmod(position, _shards.group_size(inputs))
    parts = inputs.parts(phase, group)
    start, end = inputs.info(phase)[group]["starts"][member : member + 2]
    if not parts or start == end:
        return pa.schema([("row", pa.int32()), *schema]).empty_table()
    first, last = start // _ROW_GROUP, (end - 1) // _ROW_GROUP
    table = inputs.read_parquet(parts[0], row_groups=range(first, last + 1))
    return table.slice(start - first * _ROW_GROUP, end - start)
