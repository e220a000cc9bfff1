"""Repeated spans of text, found over files: the Exchange behind dedup.substring.

Reads text; adds the spans to cut. Phases: `seeds` (shards -> seeds by hash range), `matches` (one range -> seeds that a
better-ranked place has), `chains` (a group of shards -> chains of matches, sent to their sources), `contexts` (sources -> the
bytes around each chain, sent back), `extend` (exact spans, and what they need to stay in their sources), `lists` (spans of each
shard without what must stay). 40 bytes travel per seed, one seed per some 85 bytes of text; text travels only around the ends of
repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Exchange, Phase, PhaseInputs, PhaseTask, Resources, id_hashes, param
from stages.dedup import _chains, _shards
from stages.dedup._chains import Span, pack, unpack
from stages.dedup._keyed import salt
from stages.dedup._outbox import Outbox, inbox
from stages.dedup._runs import Held, Run, bucket_counts, chunks, held, slices
from stages.kernels.buffers import text_buffers
from stages.kernels.cut import SPANS, merged, spans_column
from stages.kernels.sortruns import repeated
from stages.kernels.winnow import equal_after, equal_before, seeds

PREFIX: Final = "dedup.substring"
#: Shards of a group: a task holds the matches of all of them.
MOST: Final = 8
#: Better-ranked places that a seed is held against.
PLACES: Final = 3
_WIDTH: Final = 32
_TASK_RECORDS: Final = 16 << 20
_SLICE_RECORDS: Final = 1 << 20

EVIDENCE: Final = pa.schema(
    [
        ("id", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("source_id", pa.string()),
        ("source_start", pa.int32()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class RepeatedSpans(Exchange):
    """Finds spans of at least `min_bytes` that a better-ranked place has."""

    min_bytes: int = param(200, doc="Least length of a span.")
    within: str | None = param(None, doc="Compare only documents with the same value of this column; none: all.")

    version: ClassVar[int] = 1
    resources: ClassVar[Resources] = Resources(memory=2000 << 20)

    @property
    def width(self) -> int:
        """Bytes under a seed's hash."""
        return min(_WIDTH, self.min_bytes // 2)

    @property
    def window(self) -> int:
        """Neighbouring hashes of which one is a seed: a repeat of `min_bytes` has one."""
        return self.min_bytes - self.width + 1

    def inputs(self) -> tuple[str, ...]:
        return ("id", "text") if self.within is None else ("id", "text", self.within)

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {f"{PREFIX}.spans": SPANS}

    def phases(self) -> tuple[Phase, ...]:
        groups = partial(_shards.group_count, most=MOST)
        reach = self.window + self.width
        return (
            Phase("seeds", self._seeds, groups),
            Phase("matches", _matches, _range_tasks),
            Phase("chains", _chain, groups),
            Phase("contexts", partial(_contexts, width=self.width, reach=reach), groups),
            Phase("extend", partial(_extend, width=self.width, reach=reach, least=self.min_bytes), groups),
            Phase("lists", _lists, groups),
        )

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        position = inputs.shards.index(shard)
        group, member = divmod(position, _shards.group_size(inputs, MOST))
        parts = [p for p in inputs.parts("lists", group) if p.name == "spans.parquet"]
        table = inputs.read_parquet(parts[0])
        table = table.filter(pa.compute.equal(table.column("member"), member))
        row, start, end = (table.column(c).to_numpy() for c in ("row", "start", "end"))
        for batch in inputs.survivors(shard, ()):
            rows = batch.column("row").to_numpy(zero_copy_only=False)
            mine = np.flatnonzero(np.isin(row, rows))
            documents = np.searchsorted(rows, row[mine])
            spans = spans_column(
                *merged(start[mine].astype(np.int64), end[mine].astype(np.int64), documents), len(rows)
            )  # fmt: skip
            yield pa.RecordBatch.from_arrays([batch.column("row"), spans], names=["row", *self.outputs()])

    def warm(self) -> None:
        seeds(*text_buffers(pa.array(["ab"], pa.large_string()))[1::-1], np.ones(1, np.bool_), self.width, self.window)

    def _seeds(self, task: PhaseTask) -> None:
        out = Outbox(task, "seeds", _shards.bucket_bits(task) + 4)
        for position, shard in _shards.group_shards(task, task.index, MOST):
            epoch = np.uint64(task.epoch(shard)) << np.uint64(48)
            for batch in task.survivors(shard, self.inputs()):
                offsets, data, valid = text_buffers(batch.column("text"))
                hashes, documents, at, gaps = seeds(data, offsets, valid, self.width, self.window)
                if self.within is not None:
                    hashes = hashes ^ salt(batch.column(self.within))[documents, 0]
                ranks = epoch | id_hashes(batch.column("id"))[:, 0] >> np.uint64(16)
                numbers = _shards.documents(position, batch.column("row").to_numpy(zero_copy_only=False))
                length = np.zeros(len(at), np.int64)
                length[:-1] = np.where(documents[1:] == documents[:-1], at[1:] - at[:-1], 0)
                columns = [hashes, ranks[documents], numbers[documents], pack(at, length), gaps]
                out.add_hashed(np.stack(columns, axis=1))
        task.note(records=out.close())


def _range_tasks(inputs: PhaseInputs) -> int:
    records = sum(int(n["records"]) for n in inputs.info("seeds").values())
    return min(1 << _shards.bucket_bits(inputs), max(1, -(-records // _TASK_RECORDS)))


def _matches(task: PhaseTask) -> None:
    """Seeds of one hash range that a better-ranked place has, by shard group."""
    out = Outbox(task, "matches")
    buckets, tasks = 1 << (_shards.bucket_bits(task) + 4), _range_tasks(task)
    lo, hi = task.index * buckets // tasks, (task.index + 1) * buckets // tasks
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(task, part)) for part in task.parts("seeds")]
        near = held(runs, 0, lo, hi, 2 * _TASK_RECORDS)
        for a, b in slices(bucket_counts(near, 0, lo, hi), _SLICE_RECORDS):
            for found in _matches_of(near, lo + a, lo + b):
                out.add_documents(found, found[:, 0], MOST)
    out.close()


def _matches_of(runs: Sequence[Run | Held], lo: int, hi: int) -> Iterator[np.ndarray]:
    """Matches of buckets [lo, hi). A bucket with a seed too common to hold is read twice."""
    pieces = _pieces(runs, lo, hi)
    first, second = next(pieces, None), next(pieces, None)
    if first is None:
        return
    if second is None:
        first = first[repeated(first[:, 0])]
        yield _chains.matches(first, _chains.best_places(first, PLACES), PLACES)
        return
    places = _chains.best_places(np.concatenate([first, second]), PLACES)
    for piece in pieces:
        places = _chains.best_places(np.concatenate([places, piece]), PLACES)
    for piece in _pieces(runs, lo, hi):
        yield _chains.matches(piece, places, PLACES)


def _pieces(runs: Sequence[Run | Held], lo: int, hi: int) -> Iterator[np.ndarray]:
    for part in chunks(runs, 0, lo, hi, 2 * _SLICE_RECORDS):
        yield np.concatenate([records for _, records in part])


def _chain(task: PhaseTask) -> None:
    """Chains of this group's matches, sent to their sources."""
    found, _ = inbox(task, "matches", task.index)
    requests = _chains.chains(found.reshape(-1, 4))
    out = Outbox(task, "chains")
    out.add_documents(requests, requests[:, 0], MOST)
    out.close()


def _contexts(task: PhaseTask, *, width: int, reach: int) -> None:
    """The bytes before, in and behind each chain in its source, sent to the document that repeats them."""
    requests, _ = inbox(task, "chains", task.index)
    out = Outbox(task, "contexts")
    for document, text, name, mine in _by_document(task, requests.reshape(-1, 4), 0):
        first, last = unpack(mine[:, 1])
        left = [text[max(0, a - reach) : a + width] for a in first.tolist()]
        right = [text[a : a + width + reach] for a in last.tolist()]
        columns = pa.record_batch(
            [pa.array(left, pa.binary()), pa.array(right, pa.binary()), pa.array([name] * len(mine), pa.string())],
            names=["left", "right", "id"],
        )
        words = np.stack(
            [mine[:, 2], mine[:, 3], np.full(len(mine), document, np.uint64), first.astype(np.uint64)], axis=1
        )
        out.add_documents(words, words[:, 0], MOST, columns)
    out.close()


def _by_document(task: PhaseTask, records: np.ndarray, word: int) -> Iterator[tuple[int, bytes, str, np.ndarray]]:
    """(document, text, id, its records) for the documents of this group that records name in a word; ascending."""
    order = np.argsort(records[:, word], kind="stable")
    records = records[order]
    numbers = records[:, word]
    for position, shard in _shards.group_shards(task, task.index, MOST):
        start, end = np.searchsorted(numbers, np.array([position, position + 1], np.uint64) << np.uint64(32))
        rows = np.unique(_shards.rows(numbers[start:end]))
        if not len(rows):
            continue
        for batch in task.survivors(shard, ("id", "text"), rows):
            offsets, data, _ = text_buffers(batch.column("text"))
            names = batch.column("id").to_pylist()
            for i, row in enumerate(batch.column("row").to_pylist()):
                document = position << 32 | row
                a, b = np.searchsorted(numbers, np.array([document, document + 1], np.uint64))
                yield document, data[offsets[i] : offsets[i + 1]].tobytes(), names[i], records[a:b]


def _extend(task: PhaseTask, *, width: int, reach: int, least: int) -> None:
    """Exact spans of this group's documents, and what must stay in their sources."""
    records, columns = inbox(task, "contexts", task.index)
    spans, stays = Outbox(task, "spans"), Outbox(task, "stays")
    records = records.reshape(-1, 4)
    numbered = np.concatenate([records, np.arange(len(records), dtype=np.uint64)[:, None]], axis=1)
    if columns is None:
        return
    around = [columns.column(c).combine_chunks() for c in ("left", "right", "id")]
    rank = id_hashes(around[2])
    for document, text, name, mine in _by_document(task, numbered, 0):
        found = []
        for record in mine.tolist():
            left, right, source = (c[record[4]].as_py() for c in around)
            extent = _extent(text, record[1], left, right, width, reach)
            if extent is not None:
                start, end = extent
                epoch = task.epoch(task.shards[record[2] >> 32])
                at = record[3] - ((record[1] >> 32) - start)
                found.append(Span(start, end, (epoch, int(rank[record[4], 0])), source, record[2], at))
        long = [s for s in _chains.joined(found) if s.end - s.start >= least]
        cut = _chains.chosen([t for s in long if (t := _on_borders(text, s)) is not None])
        if cut:
            place = pack(np.array([s.start for s in cut]), np.array([s.end for s in cut]))
            words = np.stack([np.full(len(cut), document, np.uint64), place], axis=1)
            info = pa.record_batch(
                [
                    pa.array([name] * len(cut), pa.string()),
                    pa.array([s.source for s in cut], pa.string()),
                    pa.array([s.at for s in cut], pa.int32()),
                ],
                names=["id", "source_id", "source_start"],
            )
            spans.add_documents(words, words[:, 0], MOST, info)
            kept = pack(np.array([s.at for s in cut]), np.array([s.at + s.end - s.start for s in cut]))
            sources = np.stack([np.array([s.document for s in cut], np.uint64), kept], axis=1)
            stays.add_documents(sources, sources[:, 0], MOST)
    spans.close()
    stays.close()


def _extent(text: bytes, seeds_at: int, left: bytes, right: bytes, width: int, reach: int) -> tuple[int, int] | None:
    """Where a chain's equal bytes start and end; None if its seeds only have a hash in common."""
    first, last = seeds_at >> 32, seeds_at & 0xFFFFFFFF
    before = equal_before(text[max(0, first - reach) : first + width], left)
    after = equal_after(text[last : last + width + reach], right)
    return (first + width - before, last + after) if before >= width and after >= width else None


def _on_borders(text: bytes, span: Span) -> Span | None:
    """The span without the parts of characters at its ends."""
    start, end = span.start, span.end
    while start < end and text[start] & 0xC0 == 0x80:
        start += 1
    while end > start and end < len(text) and text[end] & 0xC0 == 0x80:
        end -= 1
    return span.part(start, end) if start < end else None


def _lists(task: PhaseTask) -> None:
    """Spans of this group's documents without what must stay for others, and the evidence for them."""
    words, info = inbox(task, "extend", task.index, "spans")
    stays, _ = inbox(task, "extend", task.index, "stays")
    protected: dict[int, list[tuple[int, int]]] = {}
    for document, place in stays.reshape(-1, 2).tolist():
        protected.setdefault(document, []).append((place >> 32, place & 0xFFFFFFFF))
    spans: dict[tuple[int, str], list[Span]] = {}
    rows: list[dict[str, Any]] = [] if info is None else info.to_pylist()
    for (document, place), row in zip(words.reshape(-1, 2).tolist(), rows, strict=True):
        span = Span(place >> 32, place & 0xFFFFFFFF, (0, 0), row["source_id"], 0, row["source_start"])
        spans.setdefault((document, row["id"]), []).append(span)
    cut = [
        (document, name, span)
        for (document, name), found in sorted(spans.items())
        for span in sorted(_chains.without(found, protected.get(document, [])))
    ]
    size = _shards.group_size(task, MOST)
    schema = pa.schema([("member", pa.int32()), ("row", pa.int32()), ("start", pa.int32()), ("end", pa.int32())])
    columns = [
        pa.array([(d >> 32) % size for d, _, _ in cut], pa.int32()),
        pa.array([d & 0xFFFFFFFF for d, _, _ in cut], pa.int32()),
        pa.array([s.start for _, _, s in cut], pa.int32()),
        pa.array([s.end for _, _, s in cut], pa.int32()),
    ]
    with task.parquet("spans.parquet", schema) as writer:
        writer.write(pa.Table.from_arrays(columns, schema=schema))
    proof = [
        pa.array([n for _, n, _ in cut], pa.string()),
        *columns[2:],
        pa.array([s.source for _, _, s in cut], pa.string()),
        pa.array([s.at for _, _, s in cut], pa.int32()),
    ]
    with task.parquet("evidence.parquet", EVIDENCE) as writer:
        writer.write(pa.Table.from_arrays(proof, schema=EVIDENCE))
    task.count("spans", len(cut))
    task.count("bytes_cut", sum(s.end - s.start for _, _, s in cut))
