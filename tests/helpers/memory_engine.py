"""A tiny engine for Exchanges: phases run task by task in a folder, shards are tables in memory.

It keeps the promises stages rely on (row order, bounded batches, parts ordered by task) and nothing else, so that a test
can put the same documents into any shards it likes.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpusflow import Composite, Exchange, Filter, Part, Phase, PhaseInputs, PhaseTask, Score, Stage, Transform
from corpusflow.rules import evaluate
from corpusflow.stage import require_columns


class MemoryRun(PhaseInputs):
    """Shards of documents and what phases have written about them."""

    def __init__(
        self, folder: Path, shards: Mapping[int, pa.Table], epochs: Mapping[int, int], batch_rows: int
    ) -> None:
        self.folder = folder
        self.tables = {s: self._with_rows(t) for s, t in sorted(shards.items())}
        self.shards = tuple(self.tables)
        self.seed = 7
        self.epochs = epochs
        self.batch_rows = batch_rows
        self.committed: dict[str, dict[int, tuple[list[Part], dict[str, Any], dict[str, int]]]] = {}

    @staticmethod
    def _with_rows(table: pa.Table) -> pa.Table:
        # as after a filter: rows of the base with gaps
        return table.add_column(0, "row", pa.array(np.arange(len(table), dtype=np.int32) * 3 + 1))

    def has(self, column: str) -> bool:
        return column in next(iter(self.tables.values())).column_names

    def epoch(self, shard: int) -> int:
        return self.epochs.get(shard, 0)

    def survivors(self, shard: int, columns: Sequence[str], rows: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        table = self.tables[shard].select(list(dict.fromkeys(["row", *columns])))
        if rows is not None:
            assert np.all(np.diff(rows) > 0)
            table = table.filter(pa.array(np.isin(table.column("row").to_numpy(), rows)))
        for start in range(0, len(table), self.batch_rows):
            yield table.slice(start, self.batch_rows).combine_chunks().to_batches()[0]

    def parts(self, phase: str, task: int | None = None) -> tuple[Part, ...]:
        done = self.committed[phase]
        return tuple(p for t in sorted(done) if task in (None, t) for p in done[t][0])

    def info(self, phase: str) -> Mapping[int, Mapping[str, Any]]:
        return {t: note for t, (_, note, _) in sorted(self.committed[phase].items())}

    def open(self, part: Part) -> IO[bytes]:
        return Path(part.path).open("rb")

    def read_parquet(
        self, part: Part, columns: Sequence[str] | None = None, row_groups: Sequence[int] | None = None
    ) -> pa.Table:
        file = pq.ParquetFile(part.path)
        groups = range(file.num_row_groups) if row_groups is None else row_groups
        return file.read_row_groups(list(groups), columns=columns)

    def counters(self, phase: str) -> dict[str, int]:
        total: dict[str, int] = {}
        for _, _, counts in self.committed[phase].values():
            for name, n in counts.items():
                total[name] = total.get(name, 0) + n
        return total


class _Buffer(io.RawIOBase):
    """Write-only, as the engine's files are: no seek, no read."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("xb")

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self.file.write(data)


class _Rows:
    def __init__(self, path: Path, schema: pa.Schema, row_group_rows: int) -> None:
        self.path, self.schema, self.group, self.tables = path, schema, row_group_rows, list[pa.Table]()

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        self.tables.append(table.cast(self.schema))

    def close(self) -> int:
        table = pa.concat_tables([self.schema.empty_table(), *self.tables])
        pq.write_table(table, self.path, row_group_size=self.group)
        return len(table)


class MemoryTask(PhaseTask):
    """One task; its files count once `run` returned."""

    def __init__(self, run: MemoryRun, phase: str, index: int) -> None:
        self.run, self.phase, self.index = run, phase, index
        self.shards, self.seed = run.shards, run.seed
        self.written: list[Part] = []
        self.noted: dict[str, Any] = {}
        self.counted: dict[str, int] = {}
        for name in ("has", "epoch", "survivors", "parts", "info", "open", "read_parquet"):
            setattr(self, name, getattr(run, name))

    def _path(self, name: str) -> Path:
        path = self.run.folder / f"{self.phase}-{self.index}-{name}"
        assert not path.exists(), path
        return path

    @contextmanager
    def parquet(self, name: str, schema: pa.Schema, *, row_group_rows: int = 65_536) -> Iterator[_Rows]:
        path = self._path(name)
        rows = _Rows(path, schema, row_group_rows)
        yield rows
        self._commit(name, path, rows.close())

    @contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        path = self._path(name)
        buffer = _Buffer(path)
        yield buffer  # type: ignore[misc]
        buffer.file.close()
        self._commit(name, path, 0)

    def _commit(self, name: str, path: Path, rows: int) -> None:
        self.written.append(Part(self.index, name, str(path), path.stat().st_size, rows))

    def count(self, counter: str, n: int) -> None:
        self.counted[counter] = self.counted.get(counter, 0) + n

    def note(self, **info: Any) -> None:
        self.noted |= info
        assert len(repr(self.noted)) < 2_000


for _name in ("has", "epoch", "survivors", "parts", "info", "open", "read_parquet"):
    # bound per instance above; these only satisfy the abstract base
    setattr(MemoryTask, _name, None)
MemoryTask.__abstractmethods__ = frozenset()


class Dedup:
    """Runs a dedup stage (Composite or Exchange) over shards and gives back every column of every document."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count()
        self.last: MemoryRun

    def __call__(
        self,
        stage: Stage,
        shards: Mapping[int, pa.Table] | Sequence[pa.Table],
        *,
        epochs: Mapping[int, int] | None = None,
        batch_rows: int = 1000,
        on_phase: Callable[[Phase], None] = lambda _: None,
    ) -> pa.Table:
        if not isinstance(shards, Mapping):
            shards = dict(enumerate(shards))
        parts = stage.expand() if isinstance(stage, Composite) else (stage,)
        tables = dict(shards)
        rules = []
        for part in parts:
            if isinstance(part, Score):
                tables = {s: self._score(part, t) for s, t in tables.items()}
            elif isinstance(part, Exchange):
                tables = self._exchange(part, tables, epochs or {}, batch_rows, on_phase)
            elif isinstance(part, Transform):
                tables = {s: self._transform(part, t) for s, t in tables.items()}
            elif isinstance(part, Filter):
                rules.extend(part.rules())
        done = pa.concat_tables([t for _, t in sorted(tables.items())]).combine_chunks()
        columns = {n: done.column(n).combine_chunks() for n in done.column_names}
        verdict = evaluate(rules, columns, len(done))
        return done.append_column("kept", pa.array(verdict.kept))

    @staticmethod
    def _score(part: Score, table: pa.Table) -> pa.Table:
        for batch in table.combine_chunks().to_batches() or []:
            scored = part.score(batch.select(list(part.inputs())))
            require_columns(type(part).__name__, scored.schema, part.outputs())
            for name in scored.schema.names:
                table = table.append_column(name, scored.column(name))
            return table
        for name, kind in part.outputs().items():
            table = table.append_column(name, pa.array([], kind))
        return table

    @staticmethod
    def _transform(part: Transform, table: pa.Table) -> pa.Table:
        for batch in table.combine_chunks().to_batches() or []:
            there = {*batch.schema.names, *(c.rstrip("?") for c in part.inputs() if not c.endswith("?"))}
            changed = part.transform(batch.select([c for n in part.inputs() if (c := n.rstrip("?")) in there]))
            made = {c: kind for n, kind in part.outputs().items() if (c := n.rstrip("?")) in there or n == c}
            require_columns(type(part).__name__, changed.schema, made)
            for name in changed.schema.names:
                table = table.set_column(table.schema.get_field_index(name), name, changed.column(name))
        return table

    def _exchange(
        self,
        part: Exchange,
        tables: Mapping[int, pa.Table],
        epochs: Mapping[int, int],
        batch_rows: int,
        on_phase: Callable[[Phase], None],
    ) -> dict[int, pa.Table]:
        folder = self.folder / str(next(self.numbers))
        folder.mkdir(parents=True)
        known = next(iter(tables.values())).column_names
        wanted = [c.rstrip("?") for c in part.inputs() if not c.endswith("?") or c.rstrip("?") in known]
        reads = {s: t.select(list(dict.fromkeys(wanted))) for s, t in tables.items()}
        run = self.last = MemoryRun(folder, reads, epochs, batch_rows)
        for phase in part.phases():
            on_phase(phase)
            count = len(run.shards) if phase.tasks is None else phase.tasks(run)
            run.committed[phase.name] = {}
            done = {}
            for index in reversed(range(count)):  # tasks of a phase may run in any order
                task = MemoryTask(run, phase.name, index)
                phase.run(task)
                done[index] = (task.written, task.noted, task.counted)
            run.committed[phase.name] = done
        out = {}
        for shard, table in tables.items():
            batches = list(part.apply(shard, run))
            applied = pa.Table.from_batches(batches) if batches else None
            if applied is None:
                assert not len(table)
                for name, kind in part.outputs().items():
                    table = table.append_column(name, pa.array([], kind))
                out[shard] = table
                continue
            require_columns(type(part).__name__, applied.schema, {"row": pa.int32(), **part.outputs()})
            assert applied.column("row").equals(pa.chunked_array([run.tables[shard].column("row").combine_chunks()]))
            for name in part.outputs():
                table = table.append_column(name, applied.column(name).combine_chunks())
            out[shard] = table
        return out


class Synthetic(MemoryRun):
    """Documents without text: three of ten are copies of others with 6 % of the minima changed."""

    def __init__(self, folder: Path, documents: int, per_shard: int = 65_536) -> None:
        self.folder, self.documents, self.per_shard = folder, documents, per_shard
        self.shards = tuple(range(-(-documents // per_shard)))
        self.seed, self.epochs, self.committed = 1, {}, {}
        self.factors = np.random.default_rng(5).integers(0, 2**63, 112, dtype=np.uint64)

    def _minima(self, of: np.ndarray) -> np.ndarray:
        z = (of[:, None].astype(np.uint64) + np.uint64(1)) * self.factors
        z ^= z >> np.uint64(29)
        return ((z * np.uint64(0xBF58476D1CE4E5B9)) >> np.uint64(40)).astype(np.uint16)

    def _signatures(self, number: np.ndarray) -> np.ndarray:
        copy = (number * 2_654_435_761 >> 7) % 10 >= 7
        original = np.where(copy, (number * 40_503) % self.documents // 7 % max(1, self.documents // 9), number)
        changed = (self._minima(number + self.documents) & np.uint16(1023)) < 60
        own = self._minima(number + 2 * self.documents)
        return np.ascontiguousarray(np.where(changed & copy[:, None], own, self._minima(original)))

    def survivors(self, shard: int, columns: Sequence[str], rows: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        count = min(self.per_shard, self.documents - shard * self.per_shard)
        every = np.arange(count, dtype=np.int32) if rows is None else rows
        for start in range(0, len(every), 8_192):
            at = every[start : start + 8_192]
            yield pa.RecordBatch.from_arrays(
                [pa.array(at), *(self._column(c, shard, at) for c in columns)], names=["row", *columns]
            )

    def has(self, column: str) -> bool:
        return column != "language.code"

    def _column(self, name: str, shard: int, at: np.ndarray) -> pa.Array:
        number = shard * self.per_shard + at.astype(np.int64)
        if name.endswith("signature"):
            stored = pa.py_buffer(self._signatures(number))
            return pa.FixedSizeBinaryArray.from_buffers(pa.binary(224), len(at), [None, stored])
        if name == "id":
            return pa.array([f"web/CC-MAIN-2024-10/part-{shard:05d}.warc.gz#{r * 1013}" for r in at.tolist()])
        if name == "source":
            return pa.array(["web"] * len(at))
        if name == "url":
            return pa.array([f"https://www.example{r % 977}.org/path/{shard}/{r}" for r in at.tolist()])
        return pa.array(number if name.endswith("content") else np.full(len(at), 500, np.int32))
