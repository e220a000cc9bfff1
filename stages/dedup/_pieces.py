"""Pieces of text (lines, paragraphs) that many documents have: the Exchange behind dedup.lines.

Reads text; adds the spans to cut. Records of 32 bytes travel, one per piece: hash, rank of its document, document, and where
in it the piece is. The rank is the epoch and 48 bits of the id's hash.

Phases: `runs` (shards -> records by hash range), `groups` (one range of all runs -> pieces to cut, by shard), `lists`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final, Literal

import numpy as np
import pyarrow as pa

from corpusflow import Exchange, Phase, PhaseInputs, PhaseTask, Resources, id_hashes, param
from stages.dedup import _shards, _verdicts
from stages.dedup._keyed import salt
from stages.dedup._outbox import Outbox
from stages.dedup._runs import Held, Run, bucket_counts, chunks, held, slices
from stages.dedup.url import hosts
from stages.kernels.buffers import text_buffers
from stages.kernels.cut import SPANS, merged, spans_column
from stages.kernels.line_hashes import line_hashes
from stages.kernels.shingles import DIGITS_ALIKE
from stages.kernels.sortruns import repeated, starts_of

PREFIX: Final = "dedup.lines"
_TASK_RECORDS: Final = 32 << 20
_SLICE_RECORDS: Final = 2 << 20
_LENGTH_BITS: Final = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class RepeatedPieces(Exchange):
    """Finds pieces that more than `max_documents` documents have."""

    unit: Literal["lines", "paragraphs"] = param("lines", doc="What a piece is.")
    max_documents: int = param(1, doc="Documents that may have a piece.")
    keep: Literal["first", "none"] = param("first", doc="Whether one copy stays.")
    min_words: int = param(5, doc="Pieces with fewer words are left alone.")
    digits_alike: bool = param(True, doc="Count every digit as 0.")
    within: str | None = param(None, doc="Count only documents with the same value of this column, or `site`.")

    version: ClassVar[int] = 1
    resources: ClassVar[Resources] = Resources(memory=2000 << 20)

    def inputs(self) -> tuple[str, ...]:
        within = () if self.within is None else ("url",) if self.within == "site" else (self.within,)
        return ("id", "text", *(c for c in within if c not in ("id", "text")))

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {f"{PREFIX}.spans": SPANS}

    def phases(self) -> tuple[Phase, ...]:
        groups = partial(_groups, limit=self.max_documents, keep_first=self.keep == "first")
        return (
            Phase("runs", self._runs, _shards.group_count),
            Phase("groups", groups, _range_tasks),
            Phase("lists", partial(_verdicts.collect, phase="groups"), _shards.group_count),
        )

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        listed = _verdicts.shard_list(shard, inputs, "lists", _VERDICT)
        known = listed.column("row").to_numpy()
        places = listed.column("place").to_numpy()
        for batch in inputs.survivors(shard, ()):
            rows = batch.column("row").to_numpy(zero_copy_only=False)
            first, last = np.searchsorted(known, rows), np.searchsorted(known, rows, side="right")
            documents = np.repeat(np.arange(len(rows)), last - first)
            mine = places[first[0] : last[-1]] if len(rows) else places[:0]
            # between two rows of this batch there may be rows that have not survived
            mine = mine[np.isin(known[first[0] : last[-1]], rows)] if len(rows) else mine
            starts = (mine >> _LENGTH_BITS).astype(np.int64)
            ends = starts + (mine & np.uint64(0xFFFFFFFF)).astype(np.int64)
            spans = spans_column(*merged(starts, ends, documents), len(rows))
            yield pa.RecordBatch.from_arrays([batch.column("row"), spans], names=["row", *self.outputs()])

    def warm(self) -> None:
        offsets, data, valid = text_buffers(pa.array(["a b"], pa.large_string()))
        line_hashes(data, offsets, valid, 0, paragraphs=False, least=1)

    def _runs(self, task: PhaseTask) -> None:
        out = Outbox(task, "runs", _bits(task))
        for position, shard in _shards.group_shards(task, task.index):
            epoch = np.uint64(task.epoch(shard)) << np.uint64(48)
            for batch in task.survivors(shard, self.inputs()):
                offsets, data, valid = text_buffers(batch.column("text"))
                site = hosts(batch.column("url")) if self.within == "site" else None
                if site is not None:  # a document without an address is of no site
                    valid = valid & site.is_valid().to_numpy(zero_copy_only=False)
                hashes, documents, starts, lengths = line_hashes(
                    data,
                    offsets,
                    valid,
                    DIGITS_ALIKE if self.digits_alike else 0,
                    paragraphs=self.unit == "paragraphs",
                    least=self.min_words,
                )
                if self.within is not None:
                    hashes = hashes ^ salt(batch.column(self.within) if site is None else site)[documents, 0]
                ranks = epoch | id_hashes(batch.column("id"))[:, 0] >> np.uint64(16)
                rows = batch.column("row").to_numpy(zero_copy_only=False)
                places = starts.astype(np.uint64) << _LENGTH_BITS | lengths.astype(np.uint64)
                numbers = _shards.documents(position, rows)
                out.add_hashed(np.stack([hashes, ranks[documents], numbers[documents], places], axis=1))
        task.note(records=out.close())


_VERDICT: Final = pa.schema([("place", pa.uint64())])


def _bits(inputs: PhaseInputs) -> int:
    """Key bits that number the buckets: documents have some tens of pieces."""
    return _shards.bucket_bits(inputs) + 4


def _range_tasks(inputs: PhaseInputs) -> int:
    records = sum(int(n["records"]) for n in inputs.info("runs").values())
    return min(1 << _bits(inputs), max(1, -(-records // _TASK_RECORDS)))


def _groups(task: PhaseTask, *, limit: int, keep_first: bool) -> None:
    """Pieces of one hash range that are to be cut."""
    verdicts = _verdicts.Verdicts(task)
    buckets, tasks = 1 << _bits(task), _range_tasks(task)
    lo, hi = task.index * buckets // tasks, (task.index + 1) * buckets // tasks
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(task, part)) for part in task.parts("runs")]
        near = held(runs, 0, lo, hi, 2 * _TASK_RECORDS)
        for a, b in slices(bucket_counts(near, 0, lo, hi), _SLICE_RECORDS):
            for records in _repeats(near, lo + a, lo + b, limit, keep_first):
                task.count("cut", len(records))
                columns = pa.RecordBatch.from_arrays([pa.array(np.ascontiguousarray(records[:, 3]))], schema=_VERDICT)
                verdicts.add(records[:, 2], columns)
    verdicts.flush()


def _repeats(runs: Sequence[Run | Held], lo: int, hi: int, limit: int, keep_first: bool) -> Iterator[np.ndarray]:
    """Records of buckets [lo, hi) to be cut. A bucket with a piece too common to hold is read twice."""
    pieces = _pieces(runs, lo, hi)
    first, second = next(pieces, None), next(pieces, None)
    if first is None:
        return
    if second is None:
        first = first[repeated(first[:, 0])]
        best, documents = _summary(first)
        again: Iterator[np.ndarray] = iter([first])
    else:
        best, documents = _merge(_summary(first), _summary(second))
        for piece in pieces:
            best, documents = _merge((best, documents), _summary(piece))
        again = _pieces(runs, lo, hi)
    best = best[documents > limit]
    if not len(best):
        return
    for records in again:
        at = np.minimum(np.searchsorted(best[:, 0], records[:, 0]), len(best) - 1)
        cut = best[at, 0] == records[:, 0]
        if keep_first:
            cut &= np.any(best[at, 2:] != records[:, 2:], axis=1)
        yield records[cut]


def _pieces(runs: Sequence[Run | Held], lo: int, hi: int) -> Iterator[np.ndarray]:
    for part in chunks(runs, 0, lo, hi, 2 * _SLICE_RECORDS):
        yield np.concatenate([records for _, records in part])


def _summary(records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the best-ranked first occurrence of each hash, ascending by hash; documents that have it)."""
    ordered = records[np.lexsort(records[:, ::-1].T)]
    first = starts_of(ordered[:, :1])
    by_document = starts_of(ordered[:, :3])
    documents = np.diff(np.searchsorted(by_document, [*first, len(ordered)]))
    return ordered[first], documents


def _merge(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Two summaries of different documents as one."""
    records, counts = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    order = np.lexsort(records[:, ::-1].T)
    records, counts = records[order], counts[order]
    first = starts_of(records[:, :1])
    return records[first], np.add.reduceat(counts, first) if len(counts) else counts
