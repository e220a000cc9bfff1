"""One pass over the documents of a shard for all pending stages that need them.

Reads the source or the last stored text, in batches; each batch goes through the stages in plan order, and what a pending stage
makes goes into its part. Filters act as masks here; their counts are made afterwards, from the signals as committed (task.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from corpusflow.checkpoint import WIDE_ROW_GROUP_ROWS
from corpusflow.errors import CorpusflowError, StageError
from corpusflow.inherit import Inheritance, MergingWriter
from corpusflow.output import Output, byte_length, reason_of
from corpusflow.plan import SOURCE_BASE, Node, Step
from corpusflow.reader import INDEX_COLUMNS, ShardReader, source_columns
from corpusflow.rules import evaluate
from corpusflow.schema import ID, LOCATION_COLUMNS, QUARANTINE, ROW, SKIPPED, is_signal
from corpusflow.stage import Score, Stage, Transform, require_columns


class Flow:
    """A batch on its way through the stages.

    Attributes:
        rows: int32 array, their numbers in `base`.
        documents: document columns, one row per row.
        signals: node -> the columns it measured on these rows, null where it did not.
        dropped: bool array: rows that soft filters dropped or a Score quarantined. Scores measure them all the same.
    """

    def __init__(self, rows: np.ndarray, base: int, documents: pa.RecordBatch | None) -> None:
        self.rows = rows
        self.base = base
        self.documents = documents
        self.signals: dict[int, dict[str, pa.Array]] = {}
        self.dropped = np.zeros(len(rows), np.bool_)
        self.rows_before: dict[int, np.ndarray] = {}

    def keep(self, mask: np.ndarray) -> None:
        """Let only some rows go on."""
        if mask.all():
            return
        chosen = pa.array(mask)
        self.rows = self.rows[mask]
        self.dropped = self.dropped[mask]
        self.rows_before = {b: r[mask] for b, r in self.rows_before.items()}
        self.signals = {i: {c: a.filter(chosen) for c, a in d.items()} for i, d in self.signals.items()}
        if self.documents is not None:
            self.documents = self.documents.filter(chosen)

    def renumber(self, base: int, rows: np.ndarray) -> None:
        """Rows are numbered by a new base from here on."""
        self.rows_before[self.base] = self.rows
        self.base, self.rows = base, rows

    def rows_at(self, reader: ShardReader, base: int) -> np.ndarray:
        """The rows as numbered by an earlier base."""
        if base == self.base:
            return self.rows
        if base in self.rows_before:
            return self.rows_before[base]
        return reader.rows_at(self.rows, self.base, base)


class Stream:
    """One pass over the documents of a shard for all pending stages that need them."""

    def __init__(
        self, reader: ShardReader, step: Step, pending: list[Node], inheritance: Inheritance | None = None
    ) -> None:
        self.reader = reader
        self.plan = reader.plan
        #: Rows that Scores measured.
        self.measured = 0
        self.inheritance = inheritance
        self.outputs = {n.index: Output(reader, n, inheritance) for n in pending}
        self.start = self._start(pending)
        first, self.settled = self.plan.unsettled_from(self.start)
        last = max(n.index for n in pending)
        self.nodes = [
            n
            for n in self.plan.nodes[first : last + 1]
            if n.step <= step.index and n.kind in ("transform", "score", "filter", "wide")
        ]
        if inheritance is not None:  # which rows go through is settled, and nobody else is waiting for them
            self.nodes = [n for n in self.nodes if n.index > self.start and self._runs(n)]
        self.stages: dict[int, Stage] = {}

    def _start(self, pending: list[Node]) -> int:
        """The latest stored text that every pending stage can be reached from."""
        earliest = min(n.index for n in pending)
        if any(n.kind == "source" for n in pending):
            return SOURCE_BASE
        stored = [w.index for w in self.plan.wides if w.index < earliest and self.reader.record(w) is not None]
        return max(stored, default=SOURCE_BASE)

    def run(self) -> None:
        """Stream, then commit in plan order."""
        try:
            self._open()
            for flow in self._flows():
                self._through(flow)
            for index in sorted(self.outputs):
                output = self.outputs[index]
                self._finish(output)
                output.commit(self.reader)
        except BaseException:
            for output in self.outputs.values():
                output.abort()
            raise

    def _open(self) -> None:
        for output in self.outputs.values():
            node = output.node
            if node.kind == "source":
                output.counters = {"in": 0, "kept": 0, "dropped": {}}
                output.open(pa.schema(list(INDEX_COLUMNS.items())))
            elif node.kind == "wide":
                output.counters = {"kept": 0, "text_bytes": 0}
                schema = pa.schema([(ROW, pa.int32()), *node.arrow_adds().items()])
                output.open(schema, row_group_rows=WIDE_ROW_GROUP_ROWS, sized_by="text")
            else:
                output.counters = {"in": 0, "kept": 0}
                signals = [(c, t) for c, t in node.arrow_adds().items() if is_signal(c)]
                if signals:
                    output.open(pa.schema([(ROW, pa.int32()), *signals]))

    def _flows(self) -> Iterator[Flow]:
        if self.start == SOURCE_BASE:
            yield from self._source_flows()
            return
        columns = self._document_columns()
        for rows, batch in self.reader.documents(self.start, columns, self._wanted()):
            yield Flow(rows, self.start, batch)

    def _document_columns(self) -> list[str]:
        """Document columns that the pass will look at, or store, or rewrite, from the wide checkpoint it starts from."""
        stored = list(self.plan.nodes[self.start].adds)
        if any(n.kind == "wide" for n in self.nodes if n.index > self.start):
            return stored
        needed = {c for n in self.nodes if n.index > self.start and self._runs(n) for c in n.reads if not is_signal(c)}
        return [c for c in stored if c in needed] or [ID]

    def _wanted(self) -> np.ndarray | None:
        """Rows worth reading, where that is known beforehand: what survives up to the first pending stage."""
        if self.inheritance is not None:
            return self.inheritance.missing
        earliest = min(self.outputs.values(), key=lambda o: o.node.index).node
        gates_only = any(o.node.kind in ("score", "wide") and not o.node.survivors_only for o in self.outputs.values())
        known = all(
            self.reader.record(self.plan.nodes[i]) is not None
            for n in self.plan.filters_before(earliest.index, self.start)
            if n.gate or not gates_only
            for i in n.providers.values()
        )
        return self.reader.fate(earliest.index, self.start, gates_only=gates_only).alive if known else None

    def _source_flows(self) -> Iterator[Flow]:
        node = self.reader.source_node()
        output = self.outputs.get(node.index)
        documents = [c for c in source_columns(self.plan) if c not in (*LOCATION_COLUMNS, SKIPPED, QUARANTINE)]
        mark = time.perf_counter()
        wanted = self._wanted() if output is None else None
        if wanted is not None and not wanted.any():
            return
        for rows, batch in self.reader.read_source():
            mask = self._index(output, batch)
            if wanted is not None:
                mask &= wanted[rows]
            self.reader.text_bytes_read += batch.column("text").nbytes
            flow = Flow(rows, SOURCE_BASE, batch.select(documents))
            flow.keep(mask)
            if output is not None:
                output.seconds += time.perf_counter() - mark
            if len(flow.rows):
                yield flow
            mark = time.perf_counter()

    def _index(self, output: Output | None, batch: pa.RecordBatch) -> np.ndarray:
        """Which records are documents; writes and counts them where the source is pending."""
        skipped, bad = batch.column(SKIPPED), batch.column(QUARANTINE)
        mask = skipped.is_null().to_numpy(zero_copy_only=False) & bad.is_null().to_numpy(zero_copy_only=False)
        if output is None:
            return np.asarray(mask)
        output.part.write(batch.select(list(INDEX_COLUMNS)))
        output.add("in", batch.num_rows)
        output.add("kept", int(mask.sum()))
        dropped = output.counters["dropped"]
        for value in skipped.drop_null().value_counts().to_pylist():
            dropped[value["values"]] = dropped.get(value["values"], 0) + value["counts"]
        if bad.null_count < batch.num_rows:
            reasons = output.counters.setdefault("quarantined", {})
            for why in bad.drop_null().to_pylist():
                reasons[reason_of(why)] = reasons.get(reason_of(why), 0) + 1
        return np.asarray(mask)

    def _runs(self, node: Node) -> bool:
        """Whether the pass calls the stage: it is pending, or its new text is needed behind it."""
        return node.index in self.outputs or (node.kind == "transform" and node.index > self.start)

    def _through(self, flow: Flow) -> None:
        for node in self.nodes:
            if not len(flow.rows):
                return
            if node.kind == "filter":
                self._filter(node, flow)
            elif node.kind == "score" and not self._runs(node):
                self._bury(node, flow)  # also where it stands before the text this pass starts from
            elif node.index <= self.start:
                continue
            elif node.kind == "wide":
                self._wide(node, flow)
            elif node.kind == "transform":
                self._transform(node, flow)
            else:
                self._score(node, flow)

    def _signals(self, node: Node, flow: Flow) -> dict[str, pa.Array]:
        out = {}
        for column, provider in node.providers.items():
            in_flight = flow.signals.get(provider)
            if in_flight is not None and column in in_flight:
                out[column] = in_flight[column]
            else:
                maker = self.plan.nodes[provider]
                out[column] = self.reader.view(maker).take(column, flow.rows_at(self.reader, maker.base))
        return out

    def _filter(self, node: Node, flow: Flow) -> None:
        if node.gate and node.index < self.settled:
            return
        verdict = evaluate(node.rule_list, self._signals(node, flow), len(flow.rows))
        if node.gate:
            flow.keep(verdict.kept)
        else:
            flow.dropped |= ~verdict.kept

    def _bury(self, node: Node, flow: Flow) -> None:
        """Rows that a committed Score quarantined survive no further."""
        record = self.reader.record(node)
        if record is None or not record.counters.get("quarantined"):
            return
        dead = self.reader.quarantined_rows(node, record)
        flow.dropped |= np.isin(flow.rows_at(self.reader, node.base), dead)

    def _batch(self, node: Node, flow: Flow) -> pa.RecordBatch:
        """The columns a stage reads, and nothing else."""
        signals = self._signals(node, flow)
        if flow.documents is None:
            raise StageError(f"{node.name} needs documents that this pass does not read")
        arrays = [signals[c] if c in signals else flow.documents.column(c) for c in node.reads]
        return pa.RecordBatch.from_arrays(arrays, names=list(node.reads))

    def _call(
        self, node: Node, flow: Flow, run: Callable[[pa.RecordBatch], pa.RecordBatch], wanted: np.ndarray | None = None
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """Run a stage on the flow, or on the rows set in `wanted`.

        Returns:
            its columns for the rows it could process; and which rows of the flow those are, a bool array.
        """
        output = self.outputs.get(node.index)
        started = time.perf_counter()
        batch = self._batch(node, flow)
        done = np.ones(len(flow.rows), np.bool_)
        if wanted is not None and not wanted.all():
            batch, done = batch.filter(pa.array(wanted)), wanted.copy()
        made = isolated(node, run, batch)
        if made.num_rows != batch.num_rows:
            raise StageError(
                f"{node.name} returned {made.num_rows} rows for {batch.num_rows}", hint="rows leave by rules only"
            )
        require_columns(node.name, made.schema, node.arrow_adds())
        if output is not None:
            output.add("in", batch.num_rows)
            output.bytes += batch.nbytes
        if QUARANTINE in made.schema.names:
            why = made.column(QUARANTINE)
            if why.null_count < made.num_rows:
                bad = why.is_valid().to_numpy(zero_copy_only=False)
                refused = np.flatnonzero(done)[bad]
                if output is not None:
                    rows = flow.rows_at(self.reader, node.base)[refused]
                    for row, reason in zip(rows.tolist(), why.drop_null().to_pylist(), strict=True):
                        output.quarantine(row, reason)
                    output.check_broken()
                made = made.filter(pa.array(~bad))
                done[refused] = False
            made = made.select([c for c in made.schema.names if c != QUARANTINE])
        if output is not None:
            output.add("kept", made.num_rows)
            output.seconds += time.perf_counter() - started
        return made, done

    def _stage(self, node: Node) -> Stage:
        output = self.outputs.get(node.index)
        if output is not None and output.stage is not None:
            return output.stage
        if node.index not in self.stages:
            self.stages[node.index] = node.build()
        return self.stages[node.index]

    def _score(self, node: Node, flow: Flow) -> None:
        stage = self._stage(node)
        if not isinstance(stage, Score):
            raise StageError(f"{node.name} is not a Score")
        wanted = ~flow.dropped if node.survivors_only else np.ones(len(flow.rows), np.bool_)
        if not wanted.any():
            flow.signals[node.index] = {c: pa.nulls(len(flow.rows), t) for c, t in node.arrow_adds().items()}
            return
        made, done = self._call(node, flow, stage.score, wanted)
        self.measured += made.num_rows
        self._write_signals(node, flow, made, done)
        flow.dropped |= wanted & ~done

    def _write_signals(self, node: Node, flow: Flow, made: pa.RecordBatch, done: np.ndarray) -> None:
        """Put a stage's signals in its part, and in the flow: null on the rows it has none for."""
        signals = {c: made.column(c) for c in node.adds if is_signal(c)}
        if not signals:
            return
        output = self.outputs.get(node.index)
        if output is not None and output.writer is not None:
            rows = pa.array(flow.rows_at(self.reader, node.base)[done], pa.int32())
            output.writer.write(pa.RecordBatch.from_arrays([rows, *signals.values()], names=[ROW, *signals]))
        if not done.all():
            at = pa.array(np.cumsum(done) - 1, pa.int64(), mask=~done)
            signals = {c: a.take(at) for c, a in signals.items()}
        flow.signals[node.index] = signals

    def _transform(self, node: Node, flow: Flow) -> None:
        stage = self._stage(node)
        if not isinstance(stage, Transform):
            raise StageError(f"{node.name} is not a Transform")
        flow.keep(~flow.dropped)
        if not len(flow.rows):
            return
        made, done = self._call(node, flow, stage.transform)
        flow.keep(done)
        self._write_signals(node, flow, made, np.ones(made.num_rows, np.bool_))
        documents = flow.documents
        if documents is None:
            raise StageError(f"{node.name} needs documents that this pass does not read")
        columns = {c: documents.column(c) for c in documents.schema.names if c not in node.removes}
        columns.update({c: made.column(c) for c in node.adds if not is_signal(c)})
        flow.documents = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _wide(self, node: Node, flow: Flow) -> None:
        output = self.outputs.get(node.index)
        if output is None:
            parents = self.reader.parents(node.index)
            at = np.searchsorted(parents, flow.rows)
            at[at == len(parents)] = 0
            there = parents[at] == flow.rows if len(parents) else np.zeros(len(flow.rows), np.bool_)
            flow.keep(there)
            flow.renumber(node.index, at[there].astype(np.int32))
            return
        started = time.perf_counter()
        if flow.documents is None:
            raise StageError(f"{node.name} has no documents to store")
        writer = output.part
        first = output.counters["kept"]
        arrays = [pa.array(flow.rows, pa.int32()), *(flow.documents.column(c) for c in node.adds)]
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=writer.schema))
        output.add("kept", len(flow.rows))
        output.add("text_bytes", byte_length(flow.documents.column("text")))
        flow.renumber(node.index, np.arange(first, first + len(flow.rows), dtype=np.int32))
        output.seconds += time.perf_counter() - started

    def _finish(self, output: Output) -> None:
        node = output.node
        if self.inheritance is not None:
            self._count_inherited(output, self.inheritance)
        if node.kind == "source":
            output.bytes = self.reader.shard.length
        elif (
            node.kind == "transform"
            and self._after_losses(node)
            and (lost := self.reader.fate(node.index, node.base).lost)
        ):
            output.counters["lost"] = lost

    def _count_inherited(self, output: Output, inheritance: Inheritance) -> None:
        output.add("kept", inheritance.count)
        if isinstance(output.writer, MergingWriter):
            output.writer.drain()
        if output.node.kind == "wide":
            output.add("text_bytes", inheritance.text_bytes)
            self.reader.text_bytes_read += inheritance.text_bytes
        else:
            output.add("in", inheritance.count)

    def _after_losses(self, node: Node) -> bool:
        """Whether a Score quarantined something since the last Filter or Transform before `node`."""
        for before in reversed(self.plan.nodes[: node.index]):
            if before.kind in ("filter", "transform"):
                return False
            record = self.reader.record(before) if before.kind == "score" else None
            if record is not None and record.counters.get("quarantined"):
                return True
        return False


def isolated(node: Node, run: Callable[[pa.RecordBatch], pa.RecordBatch], batch: pa.RecordBatch) -> pa.RecordBatch:
    """The stage's columns for a batch; where it raises, the rows that make it raise are found by halving and marked.

    A marked row has its exception in `quarantine` and null in every other column; its neighbours are as if it were alone.
    """
    try:
        made = run(batch)
        if not isinstance(made, pa.RecordBatch):
            raise StageError(f"{node.name} returned {type(made).__name__}, not a RecordBatch")
        return made
    except CorpusflowError:
        raise
    except MemoryError:
        raise
    except BaseException as e:
        # pyo3's PanicException is a BaseException; a tokenizer's panic on one text must not end the run.
        if isinstance(e, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            raise
        if batch.num_rows <= 1:
            why = f"{type(e).__name__}: {e}".encode(
                errors="backslashreplace"
            ).decode()  # lone surrogates are not storable
            columns = {c: pa.nulls(batch.num_rows, t) for c, t in node.arrow_adds().items()}
            columns[QUARANTINE] = pa.array([why] * batch.num_rows, pa.string())
            return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    half = batch.num_rows // 2
    left = isolated(node, run, batch.slice(0, half))
    right = isolated(node, run, batch.slice(half))
    names = [*node.adds, QUARANTINE]
    pieces = [pa.Table.from_batches([_with_quarantine(p)]).select(names) for p in (left, right)]
    whole = pa.concat_tables(pieces).combine_chunks()
    return whole.to_batches()[0] if whole.num_rows else _with_quarantine(left)


def _with_quarantine(batch: pa.RecordBatch) -> pa.RecordBatch:
    if QUARANTINE in batch.schema.names:
        return batch
    return batch.append_column(QUARANTINE, pa.nulls(batch.num_rows, pa.string()))
