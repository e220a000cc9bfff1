"""stats.quantile: where each document stands among all documents that got this far, by one signal.

Reads a signal and adds `<column>_pct`, float32 in (0, 1): the share of documents with a smaller value, plus half of those
with the same (so 0.5 is the median, and a value all documents share). Rules threshold on it, which is how "the top tenth by
quality score" and CCNet's head, middle and tail are said::

    - stats.quantile: {column: quality.score, by: language.code}
    - quality.threshold: {column: quality.score_pct, min: 0.9, reason: not_in_top_tenth}

Documents with a null signal get a null. Shares are exact up to 0.1 % of the value (stages/kernels/histograms.py) and do not
depend on shards or their order. Phases: `histogram` (a shard each), `merge` (some hundred histograms each), `total` (all).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Exchange, Phase, PhaseInputs, PhaseTask, param
from stages.kernels.histograms import BUCKETS, add_up, buckets_of, ranks

#: Histograms one merge task adds up.
_MERGED: Final = 256
_HISTOGRAM: Final = pa.schema([("group", pa.string()), ("bucket", pa.int32()), ("weight", pa.int64())])
_RANKS: Final = pa.schema([("group", pa.string()), ("bucket", pa.int32()), ("rank", pa.float64())])


@dataclass(frozen=True, kw_only=True)
class Quantile(Exchange):
    """Adds the share of documents that rank below each document by a signal."""

    column: str = param(doc="The signal to rank by.")
    per: str | None = param(None, doc="Divide `column` by this column first; null where it is 0.")
    by: str | None = param(
        "language.code", doc="Rank only among documents with the same value of this column; null: all."
    )
    weight: str | None = param(
        None, doc="Count a document as often as this column says (tokens, characters); null: once."
    )

    version: ClassVar[int] = 1

    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for c in (self.column, self.per, self.by, self.weight) if c is not None))

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {f"{self.column}_pct": pa.float32()}

    def phases(self) -> tuple[Phase, ...]:
        return (
            Phase("histogram", self._histogram),
            Phase("merge", _merge, lambda inputs: -(-len(inputs.shards) // _MERGED)),
            Phase("total", _total, lambda inputs: 1),
        )

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        (part,) = inputs.parts("total")
        table = inputs.read_parquet(part)
        names = table.column("group").combine_chunks().dictionary_encode()
        number = {name: i for i, name in enumerate(names.dictionary.to_pylist())}
        keys = (
            names.indices.to_numpy(zero_copy_only=False).astype(np.int64) * BUCKETS + table.column("bucket").to_numpy()
        )
        order = np.argsort(keys, kind="stable")
        keys, shares = keys[order], table.column("rank").to_numpy()[order]
        for batch in inputs.survivors(shard, self.inputs()):
            groups, buckets, valid = self._placed(batch)
            codes = np.array([number.get(g, 0) for g in groups.dictionary.to_pylist()] or [0], np.int64)
            places = groups.indices.to_numpy(zero_copy_only=False)
            wanted = codes[places] * BUCKETS + buckets if len(codes) else buckets.astype(np.int64)
            found = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
            values = shares[found].astype(np.float32) if len(keys) else np.zeros(len(wanted), np.float32)
            pct = pa.array(values, pa.float32(), mask=~valid)
            yield pa.RecordBatch.from_arrays([batch.column("row"), pct], names=["row", f"{self.column}_pct"])

    def _histogram(self, task: PhaseTask) -> None:
        pieces: list[pa.Table] = []
        for batch in task.survivors(task.shards[task.index], self.inputs()):
            groups, buckets, valid = self._placed(batch)
            weights = np.ones(batch.num_rows, np.int64)
            if self.weight is not None:
                weights = batch.column(self.weight).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            index = groups.indices.to_numpy(zero_copy_only=False).astype(np.int32)
            g, b, w = add_up(index[valid], buckets[valid], weights[valid])
            pieces.append(pa.table([groups.dictionary.take(pa.array(g)), pa.array(b), pa.array(w)], schema=_HISTOGRAM))
        with task.parquet("histogram.parquet", _HISTOGRAM) as out:
            out.write(_added(pieces))

    def _placed(self, batch: pa.RecordBatch) -> tuple[pa.DictionaryArray, np.ndarray, np.ndarray]:
        """(group of each document, its bucket, whether it has a value)."""
        column = batch.column(self.column)
        valid: np.ndarray = column.is_valid().to_numpy(zero_copy_only=False)
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        if self.per is not None:
            per = batch.column(self.per).cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
            valid = valid & (per > 0)
            values = np.divide(values, per, out=np.zeros(len(values)), where=per > 0)
        by = pa.array([""] * batch.num_rows, pa.string()) if self.by is None else batch.column(self.by)
        return by.cast(pa.string()).fill_null("").dictionary_encode(), buckets_of(values), valid


def _added(pieces: list[pa.Table]) -> pa.Table:
    """One histogram of several: groups by name, buckets ascending."""
    if not pieces:
        return _HISTOGRAM.empty_table()
    table = pa.concat_tables(pieces)
    names = sorted(set(table.column("group").to_pylist()))
    number = {name: i for i, name in enumerate(names)}
    groups = np.array([number[g] for g in table.column("group").to_pylist()], np.int32)
    g, b, w = add_up(groups, table.column("bucket").to_numpy(), table.column("weight").to_numpy())
    return pa.table([pa.array(names, pa.string()).take(pa.array(g)), pa.array(b), pa.array(w)], schema=_HISTOGRAM)


def _merge(task: PhaseTask) -> None:
    first = task.index * _MERGED
    last = min(first + _MERGED, len(task.shards))
    pieces = [task.read_parquet(p) for i in range(first, last) for p in task.parts("histogram", i)]
    with task.parquet("histogram.parquet", _HISTOGRAM) as out:
        out.write(_added(pieces))


def _total(task: PhaseTask) -> None:
    table = _added([task.read_parquet(p) for p in task.parts("merge")])
    names = table.column("group").to_pylist()
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    groups = np.array([number[n] for n in names], np.int32)
    shares = ranks(groups, table.column("weight").to_numpy())
    with task.parquet("ranks.parquet", _RANKS) as out:
        out.write(pa.table([table.column("group"), table.column("bucket"), pa.array(shares)], schema=_RANKS))


STAGE = Quantile
