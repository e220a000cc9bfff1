"""One dataset of a plan without some documents: which shards change, their new records, and the seal.

Reads and writes one PlanDataset at a time, in plan order: what a later one counts depends on those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from corpusflow.checkpoint import NarrowView, PartWriter
from corpusflow.commit import Attempt, Dataset
from corpusflow.datasets import PlanDataset
from corpusflow.errors import StageError
from corpusflow.phases import Inputs, perform
from corpusflow.plan import SOURCE_BASE, Node, Plan
from corpusflow.reader import QUARANTINED, ROWS, TAKEDOWN, ShardReader
from corpusflow.record import PartFile, Record
from corpusflow.stage import Phase, Sink
from corpusflow.takedown import parts
from corpusflow.takedown.request import Found
from corpusflow.task import filter_counters

_MARK: Final = "takedown"


class Remover:
    """Takes documents out of the datasets of one plan.

    Args:
        plan: any that the folder has seen.
        found: the documents.
        number: of the takedown; a record that carries it is done.
    """

    def __init__(self, plan: Plan, found: Found, number: int) -> None:
        self.plan = plan
        self.number = number
        self.names = found.names
        self._cited = pa.array(sorted(found.names), pa.string())
        sources = {s.source: plan.nodes[s.source].folder for s in plan.shards}
        #: shard -> rows of its Source's index, int32.
        self.gone = {
            s.number: rows for s in plan.shards if (rows := found.rows.get((sources[s.source], s.number))) is not None
        }

    def remove(self, item: PlanDataset) -> dict[int, tuple[Record, Record]]:
        """Write the new records of a dataset and its seal; returns old and new ones by shard or task.

        What an earlier attempt at this takedown has done is found and left alone.
        """
        records = item.dataset.records(item.keys)
        changed: dict[int, tuple[Record, Record]] = {}
        for shard in self._concerned(item, records):
            old = records[shard]
            if old.advice.get(_MARK) == self.number:
                changed[shard] = old, old
                continue
            new = self._phase_task(item, old) if item.phase else self._shard(item, old)
            if new is not None:
                changed[shard] = old, new
        if changed:
            item.dataset.seal_again({(new.shard, new.key): new for _, new in changed.values()})
        return changed

    def _concerned(self, item: PlanDataset, records: Mapping[int, Record]) -> list[int]:
        """Shards or tasks that may hold something of the documents."""
        if not self.gone:
            return []
        if item.phase and item.node.kind == "sink":
            return self._sink_tasks(item, records)
        if item.node.kind == "exchange":
            return sorted(records)  # any shard may cite any other's documents
        return sorted(n for n in records if n in self.gone)

    # ---- shards ----

    def _shard(self, item: PlanDataset, old: Record) -> Record | None:
        reader = ShardReader(self.plan, self.plan.by_number[old.shard])
        attempt = item.dataset.attempt(old.shard, old.key)
        node = item.node
        gone = self._rows(reader, node)
        counters: dict[str, Any] | None
        if node.kind == "source":
            counters = self._index(item.dataset, attempt, old, gone)
        elif node.kind == "filter":
            counters = filter_counters(reader, node)
        elif node.kind == "wide":
            counters = self._wide(item.dataset, attempt, old, gone)
        else:
            counters = self._narrow(item.dataset, attempt, old, gone, reader, node)
        return self._commit(attempt, old, counters, old.info)

    def _rows(self, reader: ShardReader, node: Node) -> np.ndarray:
        """The documents' rows as the node numbers its own: int32, ascending."""
        gone = self.gone.get(reader.shard.number, np.empty(0, np.int32))
        base = node.index if node.kind == "wide" else SOURCE_BASE if node.kind == "source" else node.base
        if base == SOURCE_BASE or not len(gone):
            return gone
        every = np.arange(reader.rows_in(base), dtype=np.int32)
        return every[np.isin(reader.rows_at(every, base, SOURCE_BASE), gone)]

    def _index(self, dataset: Dataset, attempt: Attempt, old: Record, gone: np.ndarray) -> dict[str, Any]:
        counters = dict(old.counters)
        for part in old.parts:
            if part.label != ROWS:
                attempt.carry(part)
                continue
            before = parts.blank_index(dataset, attempt, part, gone)
            counters["kept"] = counters["kept"] - parts.total(before["kept"])
            dropped = parts.subtracted(counters.get("dropped", {}), before["dropped"])
            dropped[TAKEDOWN] = dropped.get(TAKEDOWN, 0) + sum(map(parts.total, before.values()))
            counters["dropped"] = dropped
            if "quarantined" in counters:
                counters["quarantined"] = parts.subtracted(counters["quarantined"], before["quarantined"])
        return counters

    def _wide(self, dataset: Dataset, attempt: Attempt, old: Record, gone: np.ndarray) -> dict[str, Any] | None:
        part, removed = old.part(ROWS), old.part(TAKEDOWN)
        before = np.empty(0, np.int32)
        if removed is not None:
            before = NarrowView(dataset, old, {}, TAKEDOWN).rows
        fresh = np.setdiff1d(gone, before)
        if part is None or not len(fresh):
            return None
        left = parts.blank_wide(dataset, attempt, part, fresh, before)
        return {**old.counters, "kept": old.counters["kept"] - len(fresh), "text_bytes": left}

    def _narrow(
        self, dataset: Dataset, attempt: Attempt, old: Record, gone: np.ndarray, reader: ShardReader, node: Node
    ) -> dict[str, Any]:
        """A Score, a Transform, or the columns of an Exchange."""
        cites = node.kind == "exchange"
        measured = 0
        refused: dict[str, int] = {}
        for part in old.parts:
            if part.label == QUARANTINED:
                refused = parts.quarantine_reasons(dataset, part, gone)
                parts.without_rows(dataset, attempt, part, gone, lambda table: None)
            else:
                edit = partial(parts.cited, names=self._cited, others=False) if cites else (lambda table: None)
                measured = parts.without_rows(dataset, attempt, part, gone, edit)
        counters = dict(old.counters)
        if node.kind == "score":
            counters["in"] -= measured + parts.total(refused)
            counters["kept"] -= measured
        else:
            fate = reader.fate(node.index, node.base)
            counters["in"] = counters["kept"] = int(fate.alive.sum())
            if node.kind == "transform":
                left = parts.total(parts.subtracted(counters.get("quarantined", {}), refused))
                counters["kept"] -= left
            if "lost" in counters:
                counters["lost"] = fate.lost
        if refused:
            counters["quarantined"] = parts.subtracted(counters["quarantined"], refused)
        return counters

    # ---- phases ----

    def _phase_task(self, item: PlanDataset, old: Record) -> Record | None:
        return self._evidence(item, old) if item.node.kind == "exchange" else self._again(item, old)

    def _evidence(self, item: PlanDataset, old: Record) -> Record | None:
        """What an Exchange's phase has left: tables and texts that cite the documents; its shuffle files go."""
        attempt = item.dataset.attempt(old.shard, old.key)
        for part in old.parts:
            if part.path.endswith(".parquet"):
                self._table(item.dataset, attempt, part)
            else:
                self._text(item.dataset, attempt, part)
        counters = dict(old.counters)
        if "in" in counters:  # of a first phase over shards
            shard = self.plan.shards[old.shard]
            alive = ShardReader(self.plan, shard).fate(item.node.index, item.node.base).alive
            counters["in"] = counters["kept"] = int(alive.sum())
        return self._commit(attempt, old, counters, old.info)

    def _table(self, dataset: Dataset, attempt: Attempt, part: PartFile) -> None:
        tables = list(parts.groups(dataset, part))
        edited = [parts.cited(t, self._cited, others=True) for t in tables]
        if all(e is None for e in edited):
            attempt.carry(part)
            return
        with PartWriter(attempt, part.label, tables[0].schema) as writer:
            for table, new in zip(tables, edited, strict=True):
                writer.write(table if new is None else new)

    def _text(self, dataset: Dataset, attempt: Attempt, part: PartFile) -> None:
        extension = part.path.rpartition(".")[2]
        if extension == "bin":
            return
        try:
            edited = parts.as_text(dataset.storage.get(dataset.path(part.path)), self.names)
        except UnicodeDecodeError:
            return
        if edited is None:
            attempt.carry(part)
            return
        path, upload = attempt.create(extension)
        with upload:
            upload.write(edited)
        attempt.add(part.label, path, upload, part.rows)

    def recut(self, item: PlanDataset) -> bool:
        """Whether a Sink's phase, without the documents, would have another number of tasks than it had.

        Only where the Sink does not say which files hold what: it has to be made from nothing then.
        """
        sink, phase = _phase(item)
        if not self.gone or phase.tasks is None or not item.keys:
            return False
        inputs = Inputs(self.plan, item.node)
        return sink.holding(inputs, item.phase, self._cited) is None and phase.tasks(inputs) != len(item.keys)

    def _sink_tasks(self, item: PlanDataset, records: Mapping[int, Record]) -> list[int]:
        sink, phase = _phase(item)
        if phase.tasks is None:
            shards = [s.number for s in self.plan.shards]
            return [n for n in sorted(records) if shards[n] in self.gone]
        holding = sink.holding(Inputs(self.plan, item.node), item.phase, self._cited)
        done = {n for n, r in records.items() if r.advice.get(_MARK) == self.number}
        return sorted(records if holding is None else (holding | done) & set(records))

    def _again(self, item: PlanDataset, old: Record) -> Record | None:
        """A task of a Sink, run over what is left."""
        sink, _ = _phase(item)
        task = perform(self.plan, item.node, item.phase, old.shard)
        info = old.info if item.phase in sink.layout_phases else task.notes
        return self._commit(task.attempt, old, task.counters, info)

    # ---- both ----

    def _commit(
        self, attempt: Attempt, old: Record, counters: Mapping[str, Any] | None, info: Mapping[str, Any]
    ) -> Record | None:
        """Publish the next generation, unless it says what the old one does."""
        if counters is None:
            return None
        made = replace(old, parts=attempt.parts, counters=counters, info=info)
        if made.same_as(old):
            return None
        return attempt.commit(
            counters,
            info,
            old.libraries,
            {**old.advice, _MARK: self.number},
            generation=old.generation + 1,
        )


def _phase(item: PlanDataset) -> tuple[Sink, Phase]:
    sink = item.node.build()
    if not isinstance(sink, Sink):
        raise StageError(f"{item.node.name} is not a Sink")
    return sink, next(p for p in sink.phases() if p.name == item.phase)
