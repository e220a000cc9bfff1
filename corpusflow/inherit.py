"""Rows that another fingerprint of a stage has made already.

When a gate or a filter in front of a Transform changes, the rows that reach a stage change, and so does its fingerprint; what the
stage makes of one row does not. So the new dataset takes such rows from an earlier one in the same run folder and only the rest
runs: a tightened gate measures nothing, a loosened one the rows it lets in. The part that results has the bytes that making
it from nothing would have given.

Reads PLAN files and commit records of the stage's other folders; a donor is one whose `content` fingerprint (what a row's value
depends on, see planner.py) is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.checkpoint import NarrowView, PartWriter, iterate_part, read_part
from corpusflow.commit import Dataset
from corpusflow.fingerprint import fingerprint
from corpusflow.plan import SOURCE_BASE, Node, Plan
from corpusflow.reader import ROWS, ShardReader
from corpusflow.record import Record
from corpusflow.schema import ROW, is_signal
from corpusflow.storage import storage_for


@dataclass(frozen=True)
class _Donor:
    """A dataset of the same stage: what its rows are numbered by is the source, or a wide checkpoint over the source."""

    root: str
    fp: str
    base_root: str
    base_fp: str


@dataclass
class Inheritance:
    """What a pending node need not make.

    Attributes:
        inherited: bool array over the rows of the node's base: rows whose results the donor has.
        missing: bool array: rows that reach the node and have to be made.
    """

    inherited: np.ndarray
    missing: np.ndarray
    _reader: ShardReader
    _node: Node
    _dataset: Dataset
    _record: Record
    _at: np.ndarray  # for each inherited row, its row in the donor's part
    text_bytes: int = 0  # of the inherited rows that `batches` has given so far

    @property
    def count(self) -> int:
        """Rows inherited."""
        return int(self.inherited.sum())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The inherited rows as batches of `row` and the node's columns, in row order."""
        part = self._record.part(ROWS)
        if part is None:
            return
        rows = np.flatnonzero(self.inherited).astype(np.int32)
        columns = [c for c in self._node.adds if self._node.kind == "wide" or is_signal(c)]
        wanted = np.zeros(part.rows, np.bool_)
        wanted[self._at] = True
        done = 0
        for start, batch in iterate_part(self._dataset, part, columns, wanted):
            mask = wanted[start : start + batch.num_rows]
            chosen = batch if mask.all() else batch.filter(pa.array(mask))
            numbers = pa.array(rows[done : done + chosen.num_rows])
            done += chosen.num_rows
            if "text" in columns:
                self.text_bytes += int(pc.sum(pc.binary_length(chosen.column("text"))).as_py() or 0)
            yield pa.RecordBatch.from_arrays([numbers, *chosen.columns], names=[ROW, *columns])


def inheritance(reader: ShardReader, node: Node) -> Inheritance | None:
    """What a pending Transform, Score or wide checkpoint of this shard can take from earlier datasets; None if nothing.

    Only where it is known beforehand which rows reach the node: everything before it that decides so is committed.
    """
    if node.kind not in ("transform", "score", "wide") or node.index <= reader.source_node().index:
        return None
    if node.kind == "transform" and not any(is_signal(c) for c in node.adds):
        return None  # it leaves no part that says which rows it saw
    donors = _donors(reader.plan.run_dir, node)
    gates_only = node.kind in ("score", "wide") and not node.survivors_only
    if not donors or not _decided(reader, node, gates_only):
        return None
    need = reader.fate(node.index, node.base, gates_only=gates_only).alive
    rows = np.flatnonzero(need).astype(np.int32)
    at_source = reader.rows_at(rows, node.base, SOURCE_BASE)
    best: Inheritance | None = None
    for donor in donors:
        found = _taken(reader, node, donor, need, rows, at_source)
        if found is not None and (best is None or found.count > best.count):
            best = found
    return best


def _taken(
    reader: ShardReader, node: Node, donor: _Donor, need: np.ndarray, rows: np.ndarray, at_source: np.ndarray
) -> Inheritance | None:
    shard = reader.shard
    dataset = Dataset(donor.root, donor.fp)
    record = dataset.record(shard.number, fingerprint(donor.fp, shard.key)[:32])
    part = record.part(ROWS) if record is not None else None
    if record is None or part is None or record.libraries != node.libraries:
        return None
    theirs = NarrowView(dataset, record, {}).rows
    if donor.base_root:
        base = Dataset(donor.base_root, donor.base_fp)
        base_record = base.record(shard.number, fingerprint(donor.base_fp, shard.key)[:32])
        base_part = base_record.part(ROWS) if base_record is not None else None
        if base_part is None:
            return None
        theirs = read_part(base, base_part, [ROW]).column(ROW).to_numpy()[theirs]
    if not len(theirs):
        return None
    at = np.searchsorted(theirs, at_source)
    at[at == len(theirs)] = 0
    shared = theirs[at] == at_source
    if not shared.any():
        return None
    inherited = np.zeros_like(need)
    inherited[rows[shared]] = True
    return Inheritance(inherited, need & ~inherited, reader, node, dataset, record, at[shared])


def _decided(reader: ShardReader, node: Node, gates_only: bool) -> bool:
    """Whether all that decides which rows reach the node is committed for this shard."""
    plan = reader.plan
    if node.base != SOURCE_BASE and (
        plan.nodes[node.base].base != SOURCE_BASE or reader.record(plan.nodes[node.base]) is None
    ):
        return False
    if reader.record(reader.source_node()) is None:
        return False
    makers = set(node.providers.values())
    start, _ = plan.unsettled_from(node.base)
    rewritten = max((n.index for n in plan.nodes[start : node.index] if n.kind == "transform"), default=-1)
    for before in plan.nodes[start : node.index]:
        if before.kind == "filter" and (before.gate or not gates_only or before.index < rewritten):
            makers |= set(before.providers.values())
        elif before.kind == "transform":
            makers.add(before.index)
    return all(reader.record(plan.nodes[i]) is not None for i in makers)


def _donors(run_dir: str, node: Node) -> tuple[_Donor, ...]:
    home = f"{run_dir}/{node.folder.rpartition('/')[0]}"
    return _find_donors(home, node.label, node.content, node.fp)


@lru_cache(maxsize=256)
def _find_donors(home: str, label: str, content: str, own_fp: str) -> tuple[_Donor, ...]:
    """Other datasets of the stage with the same content, by name. Kept per process: a run makes no new ones."""
    storage = storage_for(home)
    found = {}
    for folder in storage.folders(home):
        if not folder.rpartition("/")[2].startswith(label + "-"):
            continue
        for info in storage.list(folder):
            if not info.path.rpartition("/")[2].startswith("PLAN-"):
                continue
            try:
                plan = json.loads(storage.get(info.path))
            except ValueError:  # torn, where there are no hard links; its own config's next run writes it again
                continue
            if plan.get("content") == content and plan["fp"] != own_fp and plan.get("base") is not None:
                base = plan["base"]
                found[plan["fp"]] = _Donor(folder, plan["fp"], base.get("root", ""), base.get("fp", ""))
    return tuple(found[fp] for fp in sorted(found))


def base_of(plan: Plan, node: Node) -> dict[str, str] | None:
    """What a PLAN file says of the base of a node, for later donors; None where rows cannot be found from the source."""
    if node.base == SOURCE_BASE:
        return {}
    base = plan.nodes[node.base]
    return {"root": plan.root(base), "fp": base.fp} if base.base == SOURCE_BASE else None


class MergingWriter:
    """Writes new rows among inherited ones, by row number, as a PartWriter writes rows that come in order."""

    def __init__(self, writer: PartWriter, inherited: Iterator[pa.RecordBatch]) -> None:
        self._writer = writer
        self._inherited = inherited
        self._waiting: pa.RecordBatch | None = None

    @property
    def schema(self) -> pa.Schema:
        """Of the part."""
        return self._writer.schema

    def write(self, batch: pa.RecordBatch) -> None:
        """New rows, in order."""
        if batch.num_rows:
            last = batch.column(ROW)[-1].as_py()
            before = [*self._up_to(last), batch.select(self.schema.names)]
            table = pa.Table.from_batches(before, schema=self.schema)
            self._writer.write(table.sort_by(ROW) if len(before) > 1 else table)

    def _up_to(self, row: int | None) -> Iterator[pa.RecordBatch]:
        """Inherited rows below `row`; all that are left for None."""
        while True:
            if self._waiting is None:
                self._waiting = next(self._inherited, None)
                if self._waiting is None:
                    return
            numbers = self._waiting.column(ROW).to_numpy()
            n = len(numbers) if row is None else int(np.searchsorted(numbers, row))
            if n:
                yield self._waiting.slice(0, n).select(self.schema.names)
            if n < len(numbers):
                self._waiting = self._waiting.slice(n)
                return
            self._waiting = None

    def drain(self) -> None:
        """The inherited rows that are left; no new ones come."""
        for batch in self._up_to(None):
            self._writer.write(batch)

    def close(self) -> None:
        """The part."""
        self.drain()
        self._writer.close()

    def abort(self) -> None:
        """Forget the part."""
        self._writer.abort()
