"""Phases of Exchanges and Sinks: tasks over committed files, committed like any shard.

Each phase is a dataset of its own below the stage's folder (``dedup.exact/exchange-<fp>/runs/``); its task number takes the
place of the shard number.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from corpusflow.checkpoint import PartWriter, read_part
from corpusflow.commit import Attempt, Dataset
from corpusflow.errors import StageError
from corpusflow.fingerprint import fingerprint
from corpusflow.plan import Node, Plan
from corpusflow.reader import ShardReader, signal_providers
from corpusflow.record import PartFile, Record
from corpusflow.schema import is_signal
from corpusflow.stage import BatchWriter, Exchange, Part, Phase, PhaseInputs, PhaseTask, Sink, Stage
from corpusflow.task import TaskResult

_MAX_NOTE_BYTES = 2_048


def phase_dataset(plan: Plan, node: Node, phase: str) -> Dataset:
    """Where a phase's tasks commit."""
    return Dataset(f"{plan.root(node)}/{phase}", fingerprint(node.fp, phase))


def phase_key(node: Node, phase: str, task: int) -> str:
    """What identifies a task's output; the node's fingerprint covers the whole input."""
    return fingerprint(node.fp, phase, task)[:32]


def phases_of(node: Node) -> tuple[Phase, ...]:
    """The phases of an Exchange or a Sink.

    Raises:
        StageError: it is neither, or names a phase twice.
    """
    stage = node.build()
    if not isinstance(stage, (Exchange, Sink)):
        raise StageError(f"{node.name} has no phases")
    phases = stage.phases()
    names = [p.name for p in phases]
    if len(set(names)) != len(names):
        raise StageError(f"{node.name} names a phase twice: {', '.join(names)}")
    return phases


class Inputs(PhaseInputs):
    """What a task may read of the run."""

    def __init__(self, plan: Plan, node: Node) -> None:
        self.plan = plan
        self.node = node
        self.shards = tuple(s.number for s in plan.shards)
        self.seed = plan.seed
        self.text_bytes_read = 0
        self._records: dict[str, dict[int, Record]] = {}
        self._reader: ShardReader | None = None
        self._providers = signal_providers(plan, node.index)

    def has(self, column: str) -> bool:
        return column in self.node.reads

    def epoch(self, shard: int) -> int:
        return self.plan.by_number[shard].epoch

    def survivors(self, shard: int, columns: Sequence[str], rows: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        for column in columns:
            if is_signal(column) and column not in self._providers:
                raise StageError(f"{self.node.name} reads {column}, which no stage before it makes")
        reader = self.reader(shard)
        before = reader.text_bytes_read
        try:
            yield from reader.survivors(self.node, columns, rows)
        finally:
            self.text_bytes_read += reader.text_bytes_read - before

    def reader(self, shard: int) -> ShardReader:
        """The shard's committed data; the last one asked for is kept."""
        if self._reader is None or self._reader.shard.number != shard:
            self._reader = ShardReader(self.plan, self.plan.by_number[shard])
        return self._reader

    def records(self, phase: str) -> dict[int, Record]:
        """Commit records of a phase by task."""
        if phase not in self._records:
            dataset = phase_dataset(self.plan, self.node, phase)
            sealed = dataset.sealed_records(0)
            if sealed is not None:
                self._records[phase] = sealed
                return sealed
            tasks = dataset.storage.list(dataset.path("_commits"))
            numbers = {int(i.path.rpartition("/")[2].partition("-")[0]) for i in tasks}
            found = dataset.records({n: phase_key(self.node, phase, n) for n in numbers})
            self._records[phase] = found
        return self._records[phase]

    def parts(self, phase: str, task: int | None = None) -> tuple[Part, ...]:
        root = phase_dataset(self.plan, self.node, phase).root
        return tuple(
            Part(number, p.label, f"{root}/{p.path}", p.size, p.rows, p.digest)
            for number, record in sorted(self.records(phase).items())
            if task is None or number == task
            for p in record.parts
        )

    def info(self, phase: str) -> Mapping[int, Mapping[str, Any]]:
        return {n: r.info for n, r in sorted(self.records(phase).items())}

    def facts(self, column: str) -> Mapping[str, Any]:
        maker = self._providers.get(column)
        return {} if maker is None else self.plan.nodes[maker].build().facts()

    def maker(self, column: str) -> Stage | None:
        index = self._providers.get(column)
        if index is None:
            return None
        node = self.plan.nodes[index]
        same_text = node.text_version == self.node.text_version
        return node.build() if same_text else None

    def _committed(self, part: Part) -> tuple[Dataset, PartFile]:
        for phase in {p.name for p in phases_of(self.node)}:
            dataset = phase_dataset(self.plan, self.node, phase)
            if part.path.startswith(dataset.root + "/"):
                for p in self.records(phase)[part.task].parts:
                    if f"{dataset.root}/{p.path}" == part.path:
                        return dataset, p
        raise StageError(f"{part.path} is not a committed file of {self.node.name}")

    def open(self, part: Part) -> IO[bytes]:
        dataset, file = self._committed(part)
        return dataset.storage.open(dataset.path(file.path))

    def read_parquet(
        self, part: Part, columns: Sequence[str] | None = None, row_groups: Sequence[int] | None = None
    ) -> pa.Table:
        dataset, file = self._committed(part)
        return read_part(dataset, file, columns, row_groups)


class Task(Inputs, PhaseTask):
    """One running task of a phase."""

    def __init__(self, plan: Plan, node: Node, phase: str, index: int) -> None:
        super().__init__(plan, node)
        self.index = index
        self.dataset = phase_dataset(plan, node, phase)
        self.attempt: Attempt = self.dataset.attempt(index, phase_key(node, phase, index))
        self.counters: dict[str, Any] = {}
        self.notes: dict[str, Any] = {}
        self._open: list[PartWriter | _FileWriter] = []

    def parquet(
        self, name: str, schema: pa.Schema, *, row_group_rows: int = 65_536
    ) -> AbstractContextManager[BatchWriter]:
        writer = PartWriter(self.attempt, name, schema, row_group_rows=row_group_rows)
        self._open.append(writer)
        return writer

    def file(self, name: str) -> AbstractContextManager[IO[bytes]]:
        writer = _FileWriter(self.attempt, name)
        self._open.append(writer)
        return writer

    def count(self, counter: str, n: int) -> None:
        self.counters[counter] = self.counters.get(counter, 0) + int(n)

    def note(self, **info: Any) -> None:
        self.notes.update(info)
        size = len(json.dumps(self.notes))
        if size > _MAX_NOTE_BYTES:
            raise StageError(
                f"{self.node.name} notes {size} bytes in a commit record; {_MAX_NOTE_BYTES} fit", hint="write a file"
            )

    def abort(self) -> None:
        """Forget files that are still open."""
        for writer in self._open:
            writer.abort()


class _FileWriter:
    """A file of bytes of an attempt, named in the record when the ``with`` block ends well."""

    def __init__(self, attempt: Attempt, label: str) -> None:
        self._attempt = attempt
        self._label = label
        extension = label.rpartition(".")[2] if "." in label else "bin"
        if not extension.isalnum():
            raise StageError(f"file name {label!r} has an odd extension")
        self._path, self._upload = attempt.create(extension)

    def __enter__(self) -> IO[bytes]:
        return cast(IO[bytes], self._upload)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._upload.abort()
            return
        self._upload.close()
        self._attempt.add(self._label, self._path, self._upload, 0)

    def abort(self) -> None:
        """Forget the file."""
        self._upload.abort()


def run_phase_task(plan: Plan, node: Node, phase_name: str, index: int) -> TaskResult:
    """Do one task of a phase, unless it is committed already."""
    result = TaskResult(index)
    dataset = phase_dataset(plan, node, phase_name)
    record = dataset.record(index, phase_key(node, phase_name, index))
    if record is None:
        started = time.perf_counter()
        task = perform(plan, node, phase_name, index)
        seconds = time.perf_counter() - started
        record = task.attempt.commit(
            task.counters, task.notes, libraries=node.libraries, advice={"seconds": round(seconds, 3)}
        )
        result.text_bytes = task.text_bytes_read
    result.counters[node.index] = record.counters
    result.advice[node.index] = record.advice
    return result


def perform(plan: Plan, node: Node, phase_name: str, index: int) -> Task:
    """Run one task of a phase; its attempt is the caller's to commit."""
    phases = phases_of(node)
    phase = next(p for p in phases if p.name == phase_name)
    task = Task(plan, node, phase_name, index)
    try:
        phase.run(task)
    except BaseException:
        task.abort()
        raise
    if phase is phases[0] and phase.tasks is None:
        _count_survivors(task)
    return task


def _count_survivors(task: Task) -> None:
    """The first phase over shards counts what came in, so that a Sink's documents are accounted for like any stage's."""
    fate = task.reader(task.shards[task.index]).fate(task.node.index, task.node.base)
    n = int(fate.alive.sum())
    task.counters.update({"in": n, "kept": n})
    if fate.lost:
        task.counters["lost"] = fate.lost


def phase_records(plan: Plan, node: Node, phase: str) -> list[Record]:
    """What a phase has committed so far."""
    return list(Inputs(plan, node).records(phase).values())
