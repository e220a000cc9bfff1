"""One shard at any point of the plan: which rows are alive, their signals, their documents.

Reads commit records, narrow parts, wide parts, and the source where no wide checkpoint holds the text. Everything that
looks at a run (later stages, exports, `open_run`, `inspect`, what-if) looks through here, so a row has one fate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.checkpoint import NarrowView, iterate_part, read_part
from corpusflow.commit import Dataset
from corpusflow.errors import CorpusflowError, StageError
from corpusflow.plan import SOURCE_BASE, Node, Plan, Shard
from corpusflow.record import Record
from corpusflow.rules import Verdict, evaluate
from corpusflow.schema import (
    DOCUMENT_COLUMNS,
    ID,
    LOCATION_COLUMNS,
    QUARANTINE,
    ROW,
    SKIPPED,
    conform,
    id_hashes,
    is_signal,
)
from corpusflow.stage import FileRange, Source, Split
from corpusflow.takedown.journal import refusals

#: The Source's own checkpoint: everything about a record but its contents.
INDEX_COLUMNS = {
    **{c: DOCUMENT_COLUMNS[c] for c in (ID, "record_id", "url", "source", "date", "content_type")},
    **LOCATION_COLUMNS,
    SKIPPED: pa.string(),
    QUARANTINE: pa.string(),
}
NOT_SAMPLED = "not_sampled"
#: Why a record that was taken down is skipped (corpusflow/takedown).
TAKEDOWN = "takedown"
#: Label of the part that names rows of a wide checkpoint that were taken down: their columns are null, their numbers stay.
REMOVED = "takedown"
ROWS = "rows"  # label of the main part in a commit record
QUARANTINED = "quarantine"  # label of the part that names quarantined rows


@dataclass
class Fate:
    """What became of the rows of a base on the way to some node.

    Attributes:
        alive: bool array over the base's rows.
        lost: folder of a Score -> rows it quarantined that were alive until then, since the last Filter or Transform.
    """

    alive: np.ndarray
    lost: dict[str, int] = field(default_factory=dict)


class ShardReader:
    """The committed data of one shard. Records, views and fates are read once and kept."""

    def __init__(self, plan: Plan, shard: Shard) -> None:
        self.plan = plan
        self.shard = shard
        self.text_bytes_read = 0
        self._records: dict[int, Record] = {}
        self._views: dict[int, NarrowView] = {}
        self._parents: dict[int, np.ndarray] = {}

    # ---- records ----

    def source_node(self) -> Node:
        """The Source this shard reads."""
        return self.plan.nodes[self.shard.source]

    def dataset(self, node: Node) -> Dataset:
        """The dataset of a node."""
        return Dataset(self.plan.root(node), node.fp)

    def record(self, node: Node) -> Record | None:
        """The node's commit record for this shard, None while it is not committed."""
        found = self._records.get(node.index)
        if found is None:
            found = self.dataset(node).record(self.shard.number, self.plan.key(node, self.shard))
            if found is not None:
                self._records[node.index] = found
        return found

    def need(self, node: Node) -> Record:
        """The commit record.

        Raises:
            StageError: not committed yet.
        """
        record = self.record(node)
        if record is None:
            raise StageError(
                f"{node.name} has not finished shard {self.shard.number} yet", hint="corpusflow run  finishes it"
            )
        return record

    def base_record(self, base: int) -> Record:
        """The record of the source index or wide checkpoint that numbers rows."""
        return self.need(self.source_node() if base == SOURCE_BASE else self.plan.nodes[base])

    def rows_in(self, base: int) -> int:
        """Rows of a base, dead ones included."""
        part = self.base_record(base).part(ROWS)
        return part.rows if part is not None else 0

    # ---- columns by row ----

    def view(self, node: Node) -> NarrowView:
        """A node's narrow part."""
        if node.index not in self._views:
            self._views[node.index] = NarrowView(self.dataset(node), self.need(node), node.arrow_adds())
        return self._views[node.index]

    def parents(self, wide: int) -> np.ndarray:
        """For each row of a wide checkpoint, its row in the base before."""
        if wide not in self._parents:
            node = self.plan.nodes[wide]
            part = self.need(node).part(ROWS)
            if part is None:
                raise StageError(f"{node.name} has no rows file for shard {self.shard.number}")
            column = read_part(self.dataset(node), part, [ROW]).column(ROW)
            self._parents[wide] = column.to_numpy().astype(np.int32, copy=False)
        return self._parents[wide]

    def rows_at(self, rows: np.ndarray, base: int, wanted: int) -> np.ndarray:
        """Rows of `base` as rows of `wanted`, a base before it (or itself)."""
        while base != wanted:
            if base == SOURCE_BASE:
                raise StageError(f"rows of the source cannot be found in checkpoint {wanted}")
            rows = self.parents(base)[rows]
            base = self.plan.nodes[base].base
        return rows

    def column(self, name: str, provider: Node, rows: np.ndarray, base: int) -> pa.Array:
        """A signal at rows of `base`; null where it was not measured."""
        return self.view(provider).take(name, self.rows_at(rows, base, provider.base))

    def signals(self, reader: Node, rows: np.ndarray, base: int) -> dict[str, pa.Array]:
        """The signals a node reads, at rows of `base`."""
        return {
            c: self.column(c, self.plan.nodes[i], rows, base) for c, i in reader.providers.items() if c in reader.reads
        }

    def verdict(self, node: Node, rows: np.ndarray, base: int) -> Verdict:
        """What a Filter says of rows of `base`."""
        return evaluate(node.rule_list, self.signals(node, rows, base), len(rows))

    # ---- fates ----

    def fate(self, index: int, base: int, *, gates_only: bool = False) -> Fate:
        """Which rows of `base` reach the node at position `index`.

        Args:
            index: a position in the plan; its own verdict does not count.
            base: a base at or before it.
            gates_only: what a Score measures. Since the last Transform only gates count: neither a soft filter nor another
                Score's quarantine may change what a Score measures, for neither is in its fingerprint.
        """
        plan = self.plan
        fate = Fate(self._documents(base))
        start, settled = plan.unsettled_from(base)
        rewritten = max((n.index for n in plan.nodes[start:index] if n.kind == "transform"), default=-1)
        for node in plan.nodes[start:index]:
            lenient = gates_only and node.index > rewritten
            if node.kind == "filter":
                if not (node.gate and node.index < settled) and (node.gate or not lenient):
                    rows = np.flatnonzero(fate.alive).astype(np.int32)
                    fate.alive[rows[~self.verdict(node, rows, base).kept]] = False
                fate.lost = {}
            elif node.kind == "transform":
                self._bury(node, base, fate)
                fate.lost = {}
            elif node.kind == "score" and not lenient:
                self._bury(node, base, fate)
        return fate

    def _documents(self, base: int) -> np.ndarray:
        """Rows that are documents: all of a wide checkpoint; of a source index, what is not skipped or unreadable."""
        record = self.base_record(base)
        part = record.part(ROWS)
        if part is None:
            return np.zeros(0, np.bool_)
        if base != SOURCE_BASE:
            alive = np.ones(part.rows, np.bool_)
            alive[self.removed(base)] = False
            return alive
        if record.counters["kept"] == part.rows:
            return np.ones(part.rows, np.bool_)
        table = read_part(self.dataset(self.source_node()), part, [SKIPPED, QUARANTINE])
        alive = table.column(SKIPPED).is_null().to_numpy() & table.column(QUARANTINE).is_null().to_numpy()
        return np.asarray(alive)

    def removed(self, wide: int) -> np.ndarray:
        """Rows of a wide checkpoint that were taken down, int32."""
        record = self.base_record(wide)
        part = record.part(REMOVED)
        if part is None:
            return np.empty(0, np.int32)
        return np.asarray(read_part(self.dataset(self.plan.nodes[wide]), part, [ROW]).column(ROW).to_numpy(), np.int32)

    def _bury(self, node: Node, base: int, fate: Fate) -> None:
        """Take out the rows that a node quarantined."""
        record = self.record(node)
        if record is None or not record.counters.get("quarantined"):
            return
        dead = self.quarantined_rows(node, record)
        if node.base != base:  # numbered by an earlier base
            every = np.arange(len(fate.alive), dtype=np.int32)
            dead = np.flatnonzero(np.isin(self.rows_at(every, base, node.base), dead))
        lost = int(fate.alive[dead].sum())
        fate.alive[dead] = False
        if lost:
            fate.lost[node.folder] = fate.lost.get(node.folder, 0) + lost

    def quarantined_rows(self, node: Node, record: Record) -> np.ndarray:
        """Rows of the node's base that it quarantined, int32."""
        part = record.part(QUARANTINED)
        if part is None:
            return np.empty(0, np.int32)
        rows = read_part(self.dataset(node), part, [ROW]).column(ROW).to_numpy()
        return np.asarray(rows, np.int32)

    # ---- documents ----

    def documents(
        self, base: int, columns: Sequence[str], wanted: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """(rows of the base, batch of document columns), in row order, in bounded batches.

        Args:
            base: a wide checkpoint, or SOURCE_BASE.
            columns: document columns; may be empty.
            wanted: bool array over the base's rows.
        """
        if base == SOURCE_BASE:
            yield from self._source_documents(columns, wanted)
            return
        node = self.plan.nodes[base]
        part = self.need(node).part(ROWS)
        if part is None:
            return
        if wanted is None and len(self.removed(base)):
            wanted = self._documents(base)
        for start, batch in iterate_part(self.dataset(node), part, columns, wanted):
            rows = np.arange(start, start + batch.num_rows, dtype=np.int32) if columns else None
            if rows is None:
                continue
            if "text" in columns:
                self.text_bytes_read += batch.column(list(columns).index("text")).nbytes
            if wanted is not None:
                mask = wanted[rows]
                if not mask.all():
                    batch, rows = batch.filter(pa.array(mask)), rows[mask]
            if len(rows):
                yield rows, batch

    def _source_documents(
        self, columns: Sequence[str], wanted: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        if set(columns) <= set(INDEX_COLUMNS):
            node = self.source_node()
            part = self.need(node).part(ROWS)
            if part is None:
                return
            for start, batch in iterate_part(self.dataset(node), part, columns, wanted):
                rows = np.arange(start, start + batch.num_rows, dtype=np.int32)
                if wanted is not None:
                    mask = wanted[rows]
                    batch, rows = batch.filter(pa.array(mask)), rows[mask]
                if len(rows):
                    yield rows, batch
            return
        for rows, batch in self.read_source():
            if "text" in columns:
                self.text_bytes_read += batch.column("text").nbytes
            picked = batch.select(list(columns))
            mask = batch.column(SKIPPED).is_null().to_numpy(zero_copy_only=False)
            mask &= batch.column(QUARANTINE).is_null().to_numpy(zero_copy_only=False)
            if wanted is not None:
                mask &= wanted[rows]
            if mask.any():
                yield rows[mask], picked.filter(pa.array(mask))

    def read_source(self) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """(row numbers, every record of the shard's split) with all document and index columns."""
        node = self.source_node()
        source = node.build()
        if not isinstance(source, Source):
            raise StageError(f"{node.name} is not a Source")
        split = Split(tuple(FileRange(p, r, size, etag, a, b) for p, r, size, etag, a, b in self.shard.files))
        columns = source_columns(self.plan)
        refused = refusals(self.plan.run_dir)
        start = 0
        left = self.shard.limit
        only = pa.array(self.shard.only, pa.string()) if self.shard.only else None
        for batch in source.read(split):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            batch = self._conformed(node, batch, columns)
            if only is not None:
                batch = batch.filter(pc.is_in(batch.column(ID), value_set=only))
            if self.plan.sample is not None:
                batch = _sampled(batch, self.plan.sample, self.plan.seed)
            if refused is not None:
                batch = _refuse(batch, refused.rows(batch))
            batch = _one_verdict(batch)
            if batch.num_rows:
                yield np.arange(start, start + batch.num_rows, dtype=np.int32), batch
            start += batch.num_rows
            if left == 0 or (only is not None and start == len(only)):
                return

    def _conformed(self, node: Node, batch: pa.RecordBatch, columns: Mapping[str, pa.DataType]) -> pa.RecordBatch:
        try:
            return conform(batch, columns)
        except pa.ArrowInvalid as e:
            raise StageError(f"{node.name} yielded a column of another type than the schema's: {e}") from e

    def locate(self, rows: np.ndarray, base: int) -> pa.Table:
        """id, url and where the bytes lie, for rows of `base`."""
        node = self.source_node()
        part = self.need(node).part(ROWS)
        if part is None:
            raise CorpusflowError(f"{node.name} has no index for shard {self.shard.number}")
        table = read_part(self.dataset(node), part, [ID, "url", *LOCATION_COLUMNS])
        return table.take(pa.array(self.rows_at(rows, base, SOURCE_BASE)))

    def survivors(self, node: Node, columns: Sequence[str], rows: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of `row` and `columns` (documents' and signals') for the rows that reach `node`."""
        alive = self.fate(node.index, node.base).alive
        if rows is not None:
            only = np.zeros_like(alive)
            only[rows] = True
            alive &= only
        yield from self.rows_with(node.base, columns, alive, signal_providers(self.plan, node.index))

    def rows_with(
        self, base: int, columns: Sequence[str], alive: np.ndarray, providers: Mapping[str, int]
    ) -> Iterator[pa.RecordBatch]:
        """Batches of `row` and `columns` for the rows of `base` that are set in `alive`."""
        documents = [c for c in columns if not is_signal(c)]
        names = [ROW, *columns]
        if documents:
            stream = self.documents(base, documents, alive)
        else:
            every = np.flatnonzero(alive).astype(np.int32)
            stream = ((every[i : i + 65_536], None) for i in range(0, len(every), 65_536))
        for at, batch in stream:
            arrays = [pa.array(at, pa.int32())]
            for name in columns:
                if is_signal(name):
                    arrays.append(self.column(name, self.plan.nodes[providers[name]], at, base))
                else:
                    arrays.append(batch.column(documents.index(name)))
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def source_columns(plan: Plan) -> dict[str, pa.DataType]:
    """What every Source batch is conformed to: reserved, mapped and index columns."""
    columns = dict(DOCUMENT_COLUMNS)
    for node in plan.sources:
        columns.update({k: v for k, v in node.arrow_adds().items() if not is_signal(k)})
    return {**columns, **LOCATION_COLUMNS, SKIPPED: pa.string(), QUARANTINE: pa.string()}


def signal_providers(plan: Plan, index: int) -> dict[str, int]:
    """Signal -> the last node before position `index` that makes it."""
    return {c: n.index for n in plan.nodes[:index] if n.kind != "wide" for c in n.adds if is_signal(c)}


def _refuse(batch: pa.RecordBatch, taken_down: np.ndarray) -> pa.RecordBatch:
    """The batch with records that were taken down as skipped ones, of which no more than that is known."""
    if not taken_down.any():
        return batch
    kept = pa.array(np.arange(batch.num_rows), pa.int64(), mask=taken_down)
    arrays = [c.take(kept) for c in batch.columns]
    i = batch.schema.get_field_index(SKIPPED)
    arrays[i] = pc.if_else(pa.array(taken_down), TAKEDOWN, arrays[i])
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _one_verdict(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A record that is skipped is not unreadable as well: it is counted once."""
    both = pc.and_(batch.column(SKIPPED).is_valid(), batch.column(QUARANTINE).is_valid())
    if not pc.any(both).as_py():
        return batch
    i = batch.schema.get_field_index(QUARANTINE)
    only = pc.if_else(both, pa.scalar(None, pa.string()), batch.column(QUARANTINE))
    return batch.set_column(i, batch.schema.field(i), only)


def _sampled(batch: pa.RecordBatch, share: float, seed: int) -> pa.RecordBatch:
    """Records outside the sample become skipped ones: they stay counted."""
    first = id_hashes(batch.column(ID), seed)[:, 0]
    outside = first >= np.uint64(min(int(share * 2.0**64), (1 << 64) - 1))
    skipped = batch.column(SKIPPED).to_pylist()
    values = [NOT_SAMPLED if out and s is None else s for out, s in zip(outside, skipped, strict=True)]
    i = batch.schema.get_field_index(SKIPPED)
    return batch.set_column(i, batch.schema.field(i), pa.array(values, pa.string()))
