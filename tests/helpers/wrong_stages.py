"""Stages that each break one clause of the contract, for the tests of the checks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import toy_stages as toy

from corpusflow import (
    Composite,
    Exchange,
    FileSource,
    Filter,
    Phase,
    PhaseInputs,
    PhaseTask,
    Published,
    Rule,
    Score,
    Sink,
    Split,
    Stage,
    Transform,
    document_id,
    param,
)

N = {"my.n": pa.int32()}


def batch(values: Any, name: str = "my.n", kind: pa.DataType = N["my.n"]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=[name])


@dataclass(frozen=True, kw_only=True)
class Base(Score):
    """What the wrong ones would be if they were right."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = N

    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch([len(t or "") for t in batch_.column("text").to_pylist()])


@dataclass(frozen=True, kw_only=True)
class NoPlanHoldsIt(Base):
    adds: ClassVar[Mapping[str, pa.DataType]] = {"my.n": pa.map_(pa.string(), pa.int32())}


@dataclass(frozen=True, kw_only=True)
class CountsTheBatch(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch([batch_.num_rows] * batch_.num_rows)


@dataclass(frozen=True, kw_only=True)
class ComparesWithTheRowBefore(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch_.column("text").to_pylist()
        return batch([int(a == b) for a, b in zip(texts, [None, *texts], strict=False)])


@dataclass(frozen=True, kw_only=True)
class IgnoresTheOffset(Base):
    """Reads Arrow's buffers from their start, though a slice starts later."""

    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        offsets = np.frombuffer(batch_.column("text").buffers()[1], np.int64)
        return batch(np.diff(offsets)[: batch_.num_rows].astype(np.int32))


@dataclass(frozen=True, kw_only=True)
class WrongType(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch([0.5] * batch_.num_rows, kind=pa.float64())


@dataclass(frozen=True, kw_only=True)
class MissingColumn(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch([0] * batch_.num_rows, "my.other")


@dataclass(frozen=True, kw_only=True)
class ExtraColumn(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return super().score(batch_).append_column("my.extra", pa.nulls(batch_.num_rows, pa.int8()))


@dataclass(frozen=True, kw_only=True)
class DropsRows(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return super().score(batch_.filter(pc.is_valid(batch_.column("text"))))


@dataclass(frozen=True, kw_only=True)
class ReadsMore(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch([len(u or "") for u in batch_.column("url").to_pylist()])


SEEN: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class KeepsState(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        out = []
        for text in batch_.column("text").to_pylist():
            SEEN[str(text)] = SEEN.get(str(text), 0) + 1
            out.append(SEEN[str(text)])
        return batch(out)


@dataclass(frozen=True, kw_only=True)
class Random(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch([int.from_bytes(os.urandom(3), "big") for _ in range(batch_.num_rows)])


@dataclass(frozen=True, kw_only=True)
class WritesIntoItsInput(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        made = super().score(batch_)
        data = batch_.column("text").buffers()[2]
        if data is not None and data.size:
            np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * data.size).from_address(data.address))[0] ^= 32
        return made


@dataclass(frozen=True, kw_only=True)
class RaisesOnNull(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch([len(t) for t in batch_.column("text").to_pylist()])


@dataclass(frozen=True, kw_only=True)
class FailsWhenEmpty(Base):
    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        made = super().score(batch_)
        return made if made.num_rows else batch([0])


@dataclass(frozen=True, kw_only=True)
class NoSignal(Base):
    adds: ClassVar[Mapping[str, pa.DataType]] = {"n": pa.int32()}


@dataclass(frozen=True, kw_only=True)
class Unpicklable(Base):
    rule: Any = param(factory=lambda: lambda: 3, doc="A function.")


@dataclass(frozen=True, kw_only=True)
class NoDoc(Base):
    n: int = 3


@dataclass(frozen=True, kw_only=True)
class EmptyDoc(Base):
    n: int = param(3, doc="")


@dataclass(frozen=True, kw_only=True)
class NotYaml(Base):
    words: frozenset[str] = param(frozenset({"a"}), doc="A set.")
    plain: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class SaysNaN(Base):
    """Right, although NaN is no number."""

    adds: ClassVar[Mapping[str, pa.DataType]] = {"my.n": pa.float32()}

    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch([float("nan") if t is None else 0.5 for t in batch_.column("text").to_pylist()], kind=pa.float32())


@dataclass(frozen=True, kw_only=True)
class RefusesSome(Base):
    """Right: names some rows in `quarantine`, and only where there are any."""

    def score(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch_.column("text").to_pylist()
        made = batch([None if t is None else len(t) for t in texts])
        why = ["null" if t is None else None for t in texts]
        return made.append_column("quarantine", pa.array(why, pa.string())) if any(why) else made


@dataclass(frozen=True, kw_only=True)
class DropsInATransform(Transform):
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"text": pa.large_string()}

    def transform(self, batch_: pa.RecordBatch) -> pa.RecordBatch:
        return batch_.filter(pc.is_valid(batch_.column("text")))


@dataclass(frozen=True, kw_only=True)
class TwoReasonsAlike(Filter):
    def rules(self) -> tuple[Rule, ...]:
        return (Rule("short", "my.n", ">=", 1), Rule("short", "my.n", "<=", 9))


@dataclass(frozen=True, kw_only=True)
class ShoutingReason(Filter):
    def rules(self) -> tuple[Rule, ...]:
        return (Rule("Too-Short", "my.n", ">=", 1),)


@dataclass(frozen=True, kw_only=True)
class Nested(Composite):
    def expand(self) -> tuple[Stage, ...]:
        return (toy.Unique(),)


@dataclass(frozen=True, kw_only=True)
class SameIdTwice(FileSource):
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([document_id("x", "y", 0)] * 2)], names=["id"])


READS = iter(range(1_000_000))


@dataclass(frozen=True, kw_only=True)
class ReadsDifferently(FileSource):
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([str(next(READS))])], names=["id"])


# ---- stages that need all shards ----


@dataclass(frozen=True, kw_only=True)
class FirstComes(Exchange):
    """Keeps the first in shard order, whatever the ids."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"my.place": pa.int32()}

    def phases(self) -> tuple[Phase, ...]:
        return (Phase("nothing", lambda task: None),)

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        for rows in inputs.survivors(shard, []):
            place = pa.array(rows.column("row").to_numpy() + 1000 * inputs.shards.index(shard), pa.int32())
            yield pa.RecordBatch.from_arrays([rows.column("row"), place], names=["row", "my.place"])


@dataclass(frozen=True, kw_only=True)
class ForgetsRows(FirstComes):
    """Gives columns for the first batch's first row only."""

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        for made in super().apply(shard, inputs):
            yield made.slice(0, 1)


@dataclass(frozen=True, kw_only=True)
class FilePerShard(Sink):
    """Its files are named and filled by shards."""

    reads: ClassVar[tuple[str, ...]] = ("id",)

    def phases(self) -> tuple[Phase, ...]:
        return (Phase("write", self.write),)

    def write(self, task: PhaseTask) -> None:
        with task.file("ids.txt") as out:
            for rows in task.survivors(task.shards[task.index], ["id"]):
                out.write("\n".join(rows.column("id").to_pylist()).encode())

    def publish(self, inputs: PhaseInputs) -> Published:
        return Published({f"{i}.txt": p for i, p in enumerate(inputs.parts("write"))})


@dataclass(frozen=True, kw_only=True)
class WritesOutside(FilePerShard):
    def publish(self, inputs: PhaseInputs) -> Published:
        return Published({f"../{i}.txt": p for i, p in enumerate(inputs.parts("write"))})
