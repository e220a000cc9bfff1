"""An in-memory engine for Sinks: runs their phases over documents given as tables, one per shard."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from corpusflow import Part, PhaseTask, Published, Sink


class _Unclosed(io.BytesIO):
    def close(self) -> None:
        pass


class MemoryTask(PhaseTask):
    """One task over shards in memory; `store` and `notes` are shared by all tasks of a run."""

    def __init__(self, run: MemoryRun, phase: str, index: int) -> None:
        self.run, self.phase, self.index = run, phase, index
        self.shards, self.seed = run.shard_numbers, run.seed
        self.written: list[Part] = []

    def has(self, column: str) -> bool:
        return True

    def epoch(self, shard: int) -> int:
        return 0

    def survivors(self, shard: int, columns: Sequence[str], rows: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        table = self.run.shards[self.shards.index(shard)]
        table = table.select(list(columns)).add_column(0, "row", pa.array(np.arange(table.num_rows, dtype=np.int32)))
        if rows is not None:
            table = table.take(pa.array(rows))
        yield from table.combine_chunks().to_batches(max_chunksize=self.run.batch_rows)

    def parts(self, phase: str, task: int | None = None) -> tuple[Part, ...]:
        return tuple(p for p in self.run.parts.get(phase, ()) if task is None or p.task == task)

    def info(self, phase: str) -> Mapping[int, Mapping[str, Any]]:
        return self.run.notes.get(phase, {})

    def facts(self, column: str) -> Mapping[str, Any]:
        return {"eos_id": 2} if column == "tokenize.tokens" else {}

    def open(self, part: Part) -> IO[bytes]:
        return io.BytesIO(self.run.files[part.path])

    def read_parquet(
        self, part: Part, columns: Sequence[str] | None = None, row_groups: Sequence[int] | None = None
    ) -> pa.Table:
        self.run.ranges_read += 1
        file = pq.ParquetFile(self.open(part), page_checksum_verification=True)
        if row_groups is None:
            return file.read(columns)
        return file.read_row_groups(list(row_groups), columns)

    @contextmanager
    def parquet(self, name: str, schema: pa.Schema, *, row_group_rows: int = 65_536) -> Iterator[Any]:
        tables: list[pa.Table] = []

        class Writer:
            def write(self, batch: pa.RecordBatch | pa.Table) -> None:
                table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
                assert table.schema == schema
                tables.append(table)

        yield Writer()
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        out = io.BytesIO()
        pq.write_table(table, out, row_group_size=row_group_rows, compression="zstd", write_page_checksum=True)
        self._keep(name, out.getvalue(), table.num_rows)

    @contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        out = _Unclosed()
        yield out
        self._keep(name, out.getvalue(), 0)

    def _keep(self, name: str, data: bytes, rows: int) -> None:
        path = f"{self.phase}/{self.index}/{name}"
        assert path not in self.run.files, "a name must not be used twice"
        self.run.files[path] = data
        self.written.append(Part(self.index, name, path, len(data), rows, xxhash.xxh3_128_hexdigest(data)))

    def count(self, counter: str, n: int) -> None:
        self.run.counters[counter] = self.run.counters.get(counter, 0) + n

    def note(self, **info: Any) -> None:
        self.run.notes.setdefault(self.phase, {}).setdefault(self.index, {}).update(info)


class MemoryRun:
    """All phases of one Sink; `published` maps stable names to bytes."""

    def __init__(self, sink: Sink, shards: Sequence[pa.Table], *, seed: int = 7, batch_rows: int = 1_000) -> None:
        self.shards, self.seed, self.batch_rows = list(shards), seed, batch_rows
        self.shard_numbers = tuple(range(10, 10 + len(shards)))
        self.files: dict[str, bytes] = {}
        self.parts: dict[str, list[Part]] = {}
        self.notes: dict[str, dict[int, dict[str, Any]]] = {}
        self.counters: dict[str, int] = {}
        self.ranges_read = 0
        self.tasks: dict[str, int] = {}
        for phase in sink.phases():
            count = len(shards) if phase.tasks is None else phase.tasks(MemoryTask(self, phase.name, -1))
            self.tasks[phase.name] = count
            self.parts[phase.name] = []
            self.notes.setdefault(phase.name, {})
            done = []
            for index in reversed(range(count)):  # tasks may run in any order
                task = MemoryTask(self, phase.name, index)
                phase.run(task)
                self.notes[phase.name].setdefault(index, {})
                done.append(task)
            self.notes[phase.name] = dict(sorted(self.notes[phase.name].items()))
            self.parts[phase.name] = [p for task in reversed(done) for p in task.written]
        result: Published = sink.publish(self.inputs())
        self.published = {name: self.files[part.path] for name, part in result.parts.items()}
        self.texts = dict(result.texts)

    def inputs(self) -> MemoryTask:
        """What `publish` and `verify` are given."""
        return MemoryTask(self, "publish", -1)


@pytest.fixture
def run_sink() -> Callable[..., MemoryRun]:
    return MemoryRun
