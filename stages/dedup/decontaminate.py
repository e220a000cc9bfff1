"""Benchmark items in the training text: finds n-grams that a document shares with test sets, and removes it or the spans.

Items are compared as word n-grams that ignore case, punctuation and spacing (a Han or kana character counts as a word); an
item with fewer than `ngram` but at least `min_ngram` words is looked for as a whole. Shorter ones cannot be told from
chance and are not looked for; the log of `open` says how many.

Adds:
    dedup.decontaminate.hits         int32, n-grams of the document that benchmarks have, repetitions counted
    dedup.decontaminate.item         string, the item with most of its n-grams here: file#id
    dedup.decontaminate.item_hits    int32, distinct n-grams of that item found here
    dedup.decontaminate.item_ngrams  int32, of how many it has
    dedup.decontaminate.spans        list<int32>, byte offsets of what was found; only with ``remove: spans``
    dedup.decontaminate.documents    int32, documents in which that item is the one
    text                             without the spans; only with ``remove: spans``
Reasons: contaminated.
Source: Brown et al. 2020 (GPT-3), appendix C: 13-grams, 200 characters around a match removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import pyarrow as pa

from corpusflow import (
    Composite,
    ConfigError,
    Exchange,
    Filter,
    Phase,
    PhaseInputs,
    PhaseTask,
    Rule,
    Score,
    Stage,
    param,
)
from stages.dedup import _shards
from stages.dedup._benchmarks import BenchmarkIndex, build_index
from stages.dedup._cutting import CutSpans
from stages.kernels.buffers import text_buffers
from stages.kernels.cut import SPANS, merged, spans_column
from stages.kernels.overlap import find_ngrams, ngram_table, unit_ends

PREFIX: Final = "dedup.decontaminate"
_MODE: Final = 0


@dataclass(frozen=True, kw_only=True)
class Overlap(Score):
    """Finds n-grams of benchmark items."""

    benchmarks: str = param(doc="File or folder of test sets: JSON lines (.gz, .zst) or Parquet.", model="")
    fields: tuple[str, ...] = param((), doc="Fields of an item that are looked for; none: all that hold text.")
    ngram: int = param(13, doc="Words in an n-gram.")
    min_ngram: int = param(8, doc="Least words of an item that is shorter than an n-gram.")
    max_items: int = param(10, doc="N-grams that more items share are part of a template and not looked for.")
    spans: bool = param(False, doc="Say where they are, too.")
    margin: int = param(200, doc="Bytes on both sides of what was found that belong to its span.")

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text",)

    def outputs(self) -> Mapping[str, pa.DataType]:
        columns = {
            f"{PREFIX}.hits": pa.int32(),
            f"{PREFIX}.item": pa.string(),
            f"{PREFIX}.item_hits": pa.int32(),
            f"{PREFIX}.item_ngrams": pa.int32(),
        }
        return columns | ({f"{PREFIX}.spans": SPANS} if self.spans else {})

    def open(self) -> BenchmarkIndex:
        return build_index(self.benchmarks, self.fields, self.ngram, self.min_ngram, self.max_items, _MODE)

    def warm(self) -> None:
        offsets, data, valid = text_buffers(pa.array(["a b"], pa.large_string()))
        find_ngrams(data, offsets, valid, _MODE, ngram_table(np.ones(1, np.uint64), np.array([2])))
        if self.spans:
            unit_ends(data, 0, 3, _MODE)

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        index: BenchmarkIndex = self.opened
        offsets, data, valid = text_buffers(batch.column("text"))
        n = batch.num_rows
        document, entry, unit, size = find_ngrams(data, offsets, valid, _MODE, index.table)
        hits = np.bincount(document, minlength=n).astype(np.int32)
        item = np.full(n, -1, np.int64)
        item_hits = np.zeros(n, np.int32)
        starts: list[np.ndarray] = []
        ends: list[np.ndarray] = []
        for d in np.unique(document).tolist():
            of = document == d
            item[d], item_hits[d] = index.most(np.unique(entry[of]))
            if self.spans:
                bounds = unit_ends(data, int(offsets[d]), int(offsets[d + 1]), _MODE)
                text = data[offsets[d] : offsets[d + 1]]
                start = np.where(unit[of] > 0, bounds[unit[of] - 1], 0)
                starts.append(_on_border(text, np.maximum(start - self.margin, 0), -1))
                ends.append(_on_border(text, np.minimum(bounds[unit[of] + size[of] - 1] + self.margin, len(text)), 1))
        found = item >= 0
        columns = [
            pa.array(hits, mask=~valid),
            index.names.take(pa.array(np.maximum(item, 0), mask=~found)),
            pa.array(item_hits, mask=~found),
            pa.array(index.sizes[np.maximum(item, 0)], pa.int32(), mask=~found),
        ]
        if self.spans:
            first, last = (np.concatenate([np.zeros(0, np.int64), *part]) for part in (starts, ends))
            columns.append(spans_column(*merged(first, last, np.sort(document)), n))
        return pa.RecordBatch.from_arrays(columns, names=list(self.outputs()))


def _on_border(text: np.ndarray, at: np.ndarray, step: int) -> np.ndarray:
    """Offsets moved by `step` until they are between two characters of UTF-8."""
    at = at.astype(np.int64)
    while len(
        inside := np.flatnonzero((at > 0) & (at < len(text)) & (text[np.minimum(at, len(text) - 1)] & 0xC0 == 0x80))
    ):
        at[inside] += step
    return at


@dataclass(frozen=True, kw_only=True)
class ItemReport(Exchange):
    """Counts per benchmark item in how many documents it is found; its file `items.parquet` lists them with examples."""

    version: ClassVar[int] = 1

    def inputs(self) -> tuple[str, ...]:
        return ("id", f"{PREFIX}.item", f"{PREFIX}.item_hits", f"{PREFIX}.item_ngrams")

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {f"{PREFIX}.documents": pa.int32()}

    def phases(self) -> tuple[Phase, ...]:
        return (Phase("found", self._found, _shards.group_count), Phase("items", _count, _one))

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        (part,) = inputs.parts("items")
        table = inputs.read_parquet(part, columns=["item", "documents"])
        items, documents = table.column("item").combine_chunks(), table.column("documents").combine_chunks()
        for batch in inputs.survivors(shard, (f"{PREFIX}.item",)):
            at = pa.compute.index_in(batch.column(f"{PREFIX}.item"), value_set=items)
            yield pa.RecordBatch.from_arrays(
                [batch.column("row"), documents.take(at)], names=["row", f"{PREFIX}.documents"]
            )

    def _found(self, task: PhaseTask) -> None:
        schema = pa.schema([("id", pa.string()), ("item", pa.string()), ("hits", pa.int32()), ("ngrams", pa.int32())])
        with task.parquet("found.parquet", schema) as writer:
            for _, shard in _shards.group_shards(task, task.index):
                for batch in task.survivors(shard, self.inputs()):
                    hit = batch.filter(batch.column(f"{PREFIX}.item").is_valid())
                    writer.write(pa.RecordBatch.from_arrays(hit.columns[1:], schema=schema))


#: One row per item that was found anywhere.
ITEMS: Final = pa.schema(
    [
        ("item", pa.string()),
        ("documents", pa.int32()),
        ("ngrams", pa.int32()),
        ("most_hits", pa.int32()),
        ("examples", pa.list_(pa.string())),
    ]
)
_EXAMPLES: Final = 5


def _count(task: PhaseTask) -> None:
    rows: dict[str, tuple[int, int, int, list[str]]] = {}
    for part in task.parts("found"):
        for row in task.read_parquet(part).to_pylist():
            documents, most, ngrams, examples = rows.get(row["item"], (0, 0, row["ngrams"], []))
            # examples by id, not by shard
            examples = sorted([*examples, row["id"]])[:_EXAMPLES]
            rows[row["item"]] = (documents + 1, max(most, row["hits"]), ngrams, examples)
    names = sorted(rows)
    columns = [
        pa.array(names, pa.string()),
        pa.array([rows[n][0] for n in names], pa.int32()),
        pa.array([rows[n][2] for n in names], pa.int32()),
        pa.array([rows[n][1] for n in names], pa.int32()),
        pa.array([rows[n][3] for n in names], pa.list_(pa.string())),
    ]
    with task.parquet("items.parquet", ITEMS) as writer:
        writer.write(pa.Table.from_arrays(columns, schema=ITEMS))
    task.count("items_found", len(names))


def _one(_: PhaseInputs) -> int:
    return 1


@dataclass(frozen=True, kw_only=True)
class ContaminationFilter(Filter):
    """Drops documents with too much of a benchmark."""

    max_hits: int = param(0, doc="N-grams of benchmarks that a document may have.")
    max_share: float | None = param(None, doc="Instead: share of one item's n-grams that it may have.")

    def rules(self) -> tuple[Rule, ...]:
        if self.max_share is None:
            return (Rule("contaminated", f"{PREFIX}.hits", "<=", self.max_hits),)
        return (Rule("contaminated", f"{PREFIX}.item_hits", "<=", self.max_share, per=f"{PREFIX}.item_ngrams"),)


@dataclass(frozen=True, kw_only=True)
class Decontaminate(Composite):
    """Removes documents, or spans, that share n-grams with benchmarks."""

    benchmarks: str = param(doc="File or folder of test sets: JSON lines (.gz, .zst) or Parquet.", model="")
    fields: tuple[str, ...] = param((), doc="Fields of an item that are looked for; none: all that hold text.")
    ngram: int = param(13, doc="Words in an n-gram.")
    min_ngram: int = param(8, doc="Least words of an item that is shorter than an n-gram.")
    max_items: int = param(10, doc="N-grams that more items share are part of a template and not looked for.")
    remove: Literal["documents", "spans"] = param("documents", doc="What goes.")
    max_hits: int = param(0, doc="N-grams of benchmarks that a document may have.")
    max_share: float | None = param(None, doc="Instead of max_hits: share of one item's n-grams that it may have.")
    margin: int = param(200, doc="With spans: bytes on both sides of what was found that go, too.")

    def __post_init__(self) -> None:
        if not 1 <= self.min_ngram <= self.ngram <= 100:
            raise ConfigError(
                f"{PREFIX}: min_ngram {self.min_ngram} and ngram {self.ngram}", hint="1 <= min_ngram <= ngram <= 100"
            )

    def expand(self) -> tuple[Stage, ...]:
        score = Overlap(
            benchmarks=self.benchmarks,
            fields=self.fields,
            ngram=self.ngram,
            min_ngram=self.min_ngram,
            max_items=self.max_items,
            spans=self.remove == "spans",
            margin=self.margin,
        )
        if self.remove == "spans":
            return score, ItemReport(), CutSpans(prefix=PREFIX)
        return score, ItemReport(), ContaminationFilter(max_hits=self.max_hits, max_share=self.max_share)


STAGE = Decontaminate
