"""Stages small enough to be checked by eye: the tests of the engine run pipelines of these, named as a user's file.

Each row function is one line of Python over one document, so that `oracle.py` can apply the same functions document by
document and every difference is the engine's. Texts carry their own faults: ``!`` makes Size raise, ``?`` makes it refuse
the row, ``#`` makes Upper raise, ``~`` makes it refuse, ``%`` makes Codes raise, ``&`` makes Half raise.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

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
    document_score,
    id_hashes,
    param,
    storage_for,
)

TEXT = {"text": pa.large_string()}
Threshold = int | str | tuple[str, ...] | dict[str, int | None] | None


# ---- what each stage does to one document ----


class Refused(Exception):
    """A row that a stage takes out by the `quarantine` column instead of raising."""


def size(text: str | None) -> int | None:
    if text is not None and "!" in text:
        raise ValueError(f"boom: {text}")
    if text is not None and "?" in text:
        raise Refused("asked: too much")
    return None if text is None else len(text)


def digits(text: str | None, modulo: int) -> int:
    return sum(c.isdigit() for c in text or "") % modulo


def half(size: int | None, text: str | None) -> int | None:
    if "&" in (text or ""):
        raise KeyError("half")
    return None if size is None else size // 2


def language(lang: str | None) -> str | None:
    return None if lang is None else lang.lower()


def codes(text: str | None) -> list[int]:
    if "%" in (text or ""):
        raise OverflowError("codes")
    return [ord(c) for c in text or ""]


def upper(text: str | None) -> str | None:
    if text is not None and "#" in text:
        raise RuntimeError("upper: no")
    if text is not None and "~" in text:
        raise Refused("tilde")
    return None if text is None else text.upper()


def cut(text: str | None, n: int) -> str | None:
    return None if text is None else text[:n]


def key(text: str | None) -> int | None:
    return None if not text else sum((i + 1) * ord(c) for i, c in enumerate(text.lower())) % (1 << 31)


def by_row(function: Callable[..., Any], columns: Sequence[pa.Array]) -> tuple[list[Any], list[str | None]]:
    """Values, and why rows were refused."""
    values, why = [], []
    for row in zip(*(c.to_pylist() for c in columns), strict=True):
        try:
            values.append(function(*row))
            why.append(None)
        except Refused as e:
            values.append(None)
            why.append(str(e))
    return values, why


def columns_of(values: list[Any], why: list[str | None], name: str, kind: pa.DataType) -> pa.RecordBatch:
    arrays, names = [pa.array(values, kind)], [name]
    if any(why):
        arrays.append(pa.array(why, pa.string()))
        names.append("quarantine")
    return pa.RecordBatch.from_arrays(arrays, names=names)


# ---- stages ----


@dataclass(frozen=True, kw_only=True)
class Lines(FileSource):
    """JSON lines: text, lang, and `skip` / `bad` where a record is none."""

    batch_rows: int = param(1000, semantic=False, doc="Rows per batch.")
    group_bytes: int = param(0, semantic=False, doc="0: every file is a shard.")
    default_name: ClassVar[str] = "lines"
    adds: ClassVar[Mapping[str, pa.DataType]] = {"lang": pa.string()}

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for file in split.files:
            data = storage_for(file.path).get(file.path)
            rows = [json.loads(line) for line in data.decode().splitlines()]
            for start in range(0, len(rows), self.batch_rows):
                yield self._batch(file.relative_path, start, rows[start : start + self.batch_rows])

    def _batch(self, path: str, start: int, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        n = len(rows)
        columns = {
            "id": pa.array([document_id(self.source_name, path, start + i) for i in range(n)], pa.string()),
            "text": pa.array([r.get("text") for r in rows], pa.large_string()),
            "lang": pa.array([r.get("lang") for r in rows], pa.string()),
            "source": pa.array([self.source_name] * n, pa.string()),
            "offset": pa.array(range(start, start + n), pa.int64()),
            "skipped": pa.array([r.get("skip") for r in rows], pa.string()),
            "quarantine": pa.array([r.get("bad") for r in rows], pa.string()),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@dataclass(frozen=True, kw_only=True)
class Size(Score):
    """Characters of the text."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.size": pa.int32()}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return columns_of(*by_row(size, batch.columns), "toy.size", pa.int32())


@dataclass(frozen=True, kw_only=True)
class Digits(Score):
    """Digits of the text, modulo something."""

    modulo: int = param(1000, doc="Modulus.")
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.digits": pa.int32()}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return columns_of(*by_row(lambda t: digits(t, self.modulo), batch.columns), "toy.digits", pa.int32())


@dataclass(frozen=True, kw_only=True)
class Half(Score):
    """Half of another Score's signal; looks at the text only to raise."""

    reads: ClassVar[tuple[str, ...]] = ("toy.size", "text")
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.half": pa.int64()}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return columns_of(*by_row(half, batch.columns), "toy.half", pa.int64())


@dataclass(frozen=True, kw_only=True)
class Language(Score):
    """Reads no text, so no Transform retires it."""

    reads: ClassVar[tuple[str, ...]] = ("lang",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.lang": pa.string()}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return columns_of(*by_row(language, batch.columns), "toy.lang", pa.string())


@dataclass(frozen=True, kw_only=True)
class Codes(Score):
    """As costly as tokens: measures only what filters kept."""

    survivors_only: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.codes": pa.list_(pa.int32())}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return columns_of(*by_row(codes, batch.columns), "toy.codes", pa.list_(pa.int32()))


@dataclass(frozen=True, kw_only=True)
class Keep(Filter):
    """One rule of any form; `gate` is the engine's own parameter."""

    column: str = param(doc="Column.")
    op: str = param(doc="Operator.")
    value: Threshold = param(None, doc="Threshold.")
    per: str | None = param(None, doc="Denominator.")
    by: str | None = param(None, doc="Picks from a table.")
    reason: str = param("toy_reason", doc="Drop reason.")

    def rules(self) -> tuple[Rule, ...]:
        return (Rule(self.reason, self.column, self.op, self.value, self.per, self.by),)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Upper(Transform):
    """Upper case, a signal besides."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {**TEXT, "toy.changed": pa.bool_()}

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = batch.column("text")
        values, why = by_row(upper, [text])
        changed = [a != b for a, b in zip(text.to_pylist(), values, strict=True)]
        made = columns_of(values, why, "text", pa.large_string())
        return made.append_column("toy.changed", pa.array(changed, pa.bool_()))


@dataclass(frozen=True, kw_only=True)
class Cut(Transform):
    """The first characters; what was cut is a new document column."""

    n: int = param(5, doc="Characters kept.")
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {**TEXT, "rest": pa.string()}

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch.column("text").to_pylist()
        rest = pa.array([None if t is None else t[self.n :] for t in texts], pa.string())
        made = columns_of([cut(t, self.n) for t in texts], [], "text", pa.large_string())
        return made.append_column("rest", rest)


@dataclass(frozen=True, kw_only=True)
class Key(Score):
    """What Unique compares."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.unique.key": pa.int64()}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return columns_of(*by_row(key, batch.columns), "toy.unique.key", pa.int64())


_KEYS = pa.schema(
    [
        ("key", pa.int64()),
        ("shard", pa.int32()),
        ("row", pa.int32()),
        ("epoch", pa.int32()),
        ("order", pa.string()),
        ("id", pa.string()),
    ]
)
_LOSERS = pa.schema([("shard", pa.int32()), ("row", pa.int32()), ("twin", pa.string())])


@dataclass(frozen=True, kw_only=True)
class Groups(Exchange):
    """Of the documents with one key, the first by (epoch, hash of id) stays."""

    tasks: int = param(2, semantic=False, doc="Tasks of the second phase.")
    reads: ClassVar[tuple[str, ...]] = ("id", "toy.unique.key")
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.unique.twin": pa.string()}

    def phases(self) -> tuple[Phase, ...]:
        return (Phase("keys", self.keys), Phase("losers", self.losers, lambda _: self.tasks))

    def keys(self, task: PhaseTask) -> None:
        shard = task.shards[task.index]
        with task.parquet("keys", _KEYS, row_group_rows=3) as out:
            for batch in task.survivors(shard, ["id", "toy.unique.key"]):
                n = batch.num_rows
                order = [f"{a:016x}{b:016x}" for a, b in id_hashes(batch.column("id"))]
                columns = [
                    batch.column("toy.unique.key"),
                    pa.array([shard] * n, pa.int32()),
                    batch.column("row"),
                    pa.array([task.epoch(shard)] * n, pa.int32()),
                    pa.array(order, pa.string()),
                    batch.column("id"),
                ]
                table = pa.RecordBatch.from_arrays(columns, schema=_KEYS)
                out.write(table.filter(table.column("key").is_valid()))
                task.count("keyed", table.num_rows)
        task.note(shard=shard)

    def losers(self, task: PhaseTask) -> None:
        groups: dict[int, list[dict[str, Any]]] = {}
        for part in task.parts("keys"):
            for row in task.read_parquet(part).to_pylist():
                if row["key"] % self.tasks == task.index:
                    groups.setdefault(row["key"], []).append(row)
        losers = []
        for rows in groups.values():
            rows.sort(key=lambda r: (r["epoch"], r["order"], r["id"]))
            losers += [{"shard": r["shard"], "row": r["row"], "twin": rows[0]["id"]} for r in rows[1:]]
        losers.sort(key=lambda r: (r["shard"], r["row"]))
        with task.parquet("losers", _LOSERS) as out:
            out.write(pa.Table.from_pylist(losers, schema=_LOSERS))

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        twins = {}
        for part in inputs.parts("losers"):
            for row in inputs.read_parquet(part).to_pylist():
                if row["shard"] == shard:
                    twins[row["row"]] = row["twin"]
        for batch in inputs.survivors(shard, []):
            rows = batch.column("row")
            values = pa.array([twins.get(r) for r in rows.to_pylist()], pa.string())
            yield pa.RecordBatch.from_arrays([rows, values], names=["row", "toy.unique.twin"])


@dataclass(frozen=True, kw_only=True)
class UniqueFilter(Filter):
    """Drops what another document stands for."""

    def rules(self) -> tuple[Rule, ...]:
        return (Rule("toy_duplicate", "toy.unique.twin", "is null"),)


@dataclass(frozen=True, kw_only=True)
class Unique(Composite):
    """Score + Exchange + Filter, as the dedup stages are."""

    gate: bool = param(False, semantic=False, doc="Whether the Filter is a gate.")

    def expand(self) -> tuple[Stage, ...]:
        return (Key(), Groups(), UniqueFilter(gate=self.gate))


@dataclass(frozen=True, kw_only=True)
class Tidy(Composite):
    """Transform + Score + Filter, as ingest.extract is."""

    n: int = param(6, doc="Characters kept.")
    least: int = param(2, doc="Smallest size kept.")

    def expand(self) -> tuple[Stage, ...]:
        return (Cut(n=self.n), Size(), Keep(column="toy.size", op=">=", value=self.least, reason="toy_short"))


@dataclass(frozen=True, kw_only=True)
class Dump(Sink):
    """JSON lines of survivors, a file per shard."""

    columns: tuple[str, ...] = param(("id", "text"), doc="Columns written; `?` where they may be missing.")

    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def phases(self) -> tuple[Phase, ...]:
        return (Phase("dump", self.dump), Phase("total", self.total, lambda _: 1))

    def dump(self, task: PhaseTask) -> None:
        names = [c.removesuffix("?") for c in self.columns]
        names = [c for c in names if task.has(c)]
        n = 0
        with task.file("rows.jsonl") as out:
            for batch in task.survivors(task.shards[task.index], names):
                for row in batch.drop_columns(["row"]).to_pylist():
                    out.write(json.dumps(row, sort_keys=True).encode() + b"\n")
                n += batch.num_rows
        task.note(rows=n)

    def total(self, task: PhaseTask) -> None:
        with task.file("total.txt") as out:
            out.write(str(sum(i["rows"] for i in task.info("dump").values())).encode())

    def publish(self, inputs: PhaseInputs) -> Published:
        parts = {f"part-{i:05d}.jsonl": p for i, p in enumerate(inputs.parts("dump"))}
        (total,) = inputs.parts("total")
        return Published({**parts, "total.txt": total}, {"readme.txt": "toy\n"})


@document_score(adds={"toy.vowels": "int32"})
def vowels(text: str) -> int:
    """As a newcomer writes it; it raises on null texts."""
    return sum(c in "aeiou" for c in text.lower())


@dataclass(frozen=True, kw_only=True)
class Counted(Score):
    """For tests that count how often the engine calls a stage: every call appends to a file."""

    log: str = param(doc="File that gets one byte per row.", semantic=False)
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.counted": pa.int8()}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        with open(self.log, "ab") as f:
            f.write(b"x" * batch.num_rows)
        return pa.RecordBatch.from_arrays([pa.array(np.ones(batch.num_rows), pa.int8())], names=["toy.counted"])


@dataclass(frozen=True, kw_only=True)
class Slow(Score):
    """For tests that interrupt a run: sleeps at every batch."""

    seconds: float = param(0.2, semantic=False, doc="Seconds per batch.")
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"toy.slow": pa.int8()}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows:
            time.sleep(self.seconds)
        return pa.RecordBatch.from_arrays([pa.array(np.ones(batch.num_rows), pa.int8())], names=["toy.slow"])
