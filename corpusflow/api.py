"""For scripts and notebooks: `run` a config, `open_run` a folder and read any stage of it.

result = corpusflow.run("configs/web.yaml")
kept = corpusflow.open_run("runs/web").stage("language.identify")
for batch in kept.batches(["id", "text", "language.code"]): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from corpusflow.accounting import StageCount, account
from corpusflow.checkpoint import read_part
from corpusflow.config import Config, build_config, load_config
from corpusflow.errors import ConfigError, StageError, did_you_mean
from corpusflow.pinned import at_home
from corpusflow.plan import SOURCE_BASE, Node, Plan, Shard
from corpusflow.reader import INDEX_COLUMNS, QUARANTINED, ROWS, ShardReader, signal_providers, source_columns
from corpusflow.record import Record
from corpusflow.results import RunResult, collect, committed_records, committed_tally
from corpusflow.rundir import RunDir
from corpusflow.runner import Progress, Runner
from corpusflow.schema import DOCUMENT_COLUMNS, ID, QUARANTINE, ROW, SKIPPED, is_signal


class Silent:
    """A Progress that says nothing."""

    def planned(self, plan: Plan, reused: Mapping[str, int]) -> None: ...

    def step(self, title: str, done: int, total: int) -> None: ...

    def task(self, outcome: Any, totals: Mapping[int, Mapping[str, Any]]) -> None: ...

    def message(self, text: str) -> None: ...


def run(
    config: str | Mapping[str, Any] | Config,
    overrides: Sequence[str] = (),
    *,
    refresh: bool = False,
    progress: Progress | None = None,
) -> RunResult:
    """Run a pipeline, or what is left of it.

    Args:
        config: path of a YAML file, the same as plain data, or a Config.
        overrides: as ``--set``: ``["quality.gopher.min_words=30", "run.executor=inline"]``.
        refresh: list the input again.
        progress: told what happens.

    Raises:
        CorpusflowError: errors.py says which means what.
    """
    return Runner(as_config(config, overrides), progress or Silent(), refresh=refresh).run()


def as_config(config: str | Mapping[str, Any] | Config, overrides: Sequence[str] = ()) -> Config:
    """A Config, from whatever form a caller has it in."""
    if isinstance(config, str):
        return load_config(config, overrides)
    if isinstance(config, Config):
        return config
    if overrides:
        raise ConfigError("overrides go with a config file; edit the mapping instead")
    return build_config(dict(config), file="<python>")


def open_run(path: str) -> Run:
    """Open a run folder, finished or not.

    Raises:
        ConfigError: no run was started there.
    """
    return Run(path)


class Run:
    """A run folder, read."""

    def __init__(self, path: str) -> None:
        self.folder = RunDir(path)
        self.plan = at_home(self.folder.latest_plan(), self.folder.path)  # the folder may have been moved

    @property
    def stages(self) -> tuple[str, ...]:
        """Names that `stage` takes."""
        return self.plan.configured_stages()

    def committed(self, node: Node) -> dict[int, Record]:
        """Commit records of a node, by shard."""
        return {} if node.kind == "sink" else committed_records(self.plan, node)

    def counts(self) -> list[StageCount]:
        """Documents per stage, of what is committed."""
        return account(self.plan, *collect(self.plan, lambda node: committed_tally(self.plan, node)))

    def stage(self, name: str) -> StageView:
        """What survived a stage.

        Raises:
            ConfigError: the run has no such stage.
        """
        nodes = self.plan.stage_nodes(name)
        if not nodes:
            raise ConfigError(f"this run has no stage {name!r}", hint=did_you_mean(name, self.stages))
        return StageView(self, name, nodes)


class StageView:
    """The documents that survived one stage of a run, with the text as that stage left it."""

    def __init__(self, run: Run, name: str, nodes: tuple[Node, ...]) -> None:
        self.run = run
        self.name = name
        real = [n for n in nodes if n.kind != "wide"]
        self.nodes = tuple(real or nodes)
        #: Position behind the stage; a Source's is behind all Sources.
        sources = len(run.plan.sources)
        self.index = max(self.nodes[-1].index + 1, sources)

    @cached_property
    def columns(self) -> dict[str, pa.DataType]:
        """Every column that can be asked for."""
        plan = self.run.plan
        documents: dict[str, pa.DataType] = {}
        if self._text_base is None:
            documents = {c: t for c, t in INDEX_COLUMNS.items() if c in DOCUMENT_COLUMNS}
        elif self._text_base == SOURCE_BASE:
            documents = {c: t for c, t in source_columns(plan).items() if c not in (SKIPPED, QUARANTINE)}
        else:
            documents = plan.nodes[self._text_base].arrow_adds()
        for column, maker in signal_providers(plan, self.index).items():
            documents[column] = plan.nodes[maker].arrow_adds()[column]
        return documents

    @cached_property
    def _version(self) -> int:
        """How many Transforms made the text as of this stage."""
        return sum(1 for n in self.run.plan.nodes[: self.index] if n.kind == "transform")

    @cached_property
    def _text_base(self) -> int | None:
        """Where the text as of this stage is stored; None if it is not."""
        plan = self.run.plan
        version = self._version
        for wide in reversed(plan.wides):
            if wide.text_version != version:
                continue
            gates = [n for n in plan.nodes[self.index : wide.index] if n.kind == "filter" and n.gate]
            if not gates:
                return wide.index
        return SOURCE_BASE if version == 0 else None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of the surviving documents, shard by shard.

        Args:
            columns: None for `id`, `text` and every signal measured so far.

        Raises:
            ConfigError: no such column, or the text as of this stage is not stored.
            StageError: the stage has not run on all shards yet.
        """
        names = list(columns) if columns is not None else self._default_columns()
        base = self._base_for(names)
        for shard in self.run.plan.shards:
            for batch in self.shard_batches(shard, names, base):
                yield batch.drop_columns([ROW])

    def shard_batches(self, shard: Shard, columns: Sequence[str], base: int) -> Iterator[pa.RecordBatch]:
        """`row` and `columns` of one shard's survivors."""
        plan = self.run.plan
        reader = ShardReader(plan, shard)
        self._refuse_unfinished(reader)
        fate = reader.fate(self.index, base)
        yield from reader.rows_with(base, columns, fate.alive, signal_providers(plan, self.index))

    def resolve(self, columns: Sequence[str] | None) -> tuple[list[str], int]:
        """(column names, the base whose rows `shard_batches` reads them by).

        Raises:
            ConfigError: no such column, or the text as of this stage is not stored.
        """
        names = list(columns) if columns is not None else self._default_columns()
        return names, self._base_for(names)

    def _default_columns(self) -> list[str]:
        if self._text_base is None:
            self._base_for([ID, "text"])
        return [c for c in self.columns if c in (ID, "url", "text") or is_signal(c)]

    def _base_for(self, names: Sequence[str]) -> int:
        unknown = [c for c in names if c not in self.columns]
        if unknown == ["text"] or (unknown and self._text_base is None and set(unknown) <= set(DOCUMENT_COLUMNS)):
            plan = self.run.plan
            gate = next((n for n in plan.nodes[self.index :] if n.kind == "filter" and n.gate), None)
            wides = dict.fromkeys(w.stage for w in plan.wides)
            maker = next(n.stage for n in reversed(plan.nodes[: self.index]) if n.kind == "transform")
            raise ConfigError(
                f"the text as {self.name} leaves it is not stored",
                hint=f"read {gate.stage}, whose text is"
                if gate is not None and gate.text_version == self._version
                else f"read {' or '.join(wides)}, or give {maker} `keep: true` and run again",
            )
        if unknown:
            raise ConfigError(f"{self.name} has no column {unknown[0]!r}", hint=did_you_mean(unknown[0], self.columns))
        if self._text_base is not None:
            return self._text_base
        return self.nodes[-1].base

    def _refuse_unfinished(self, reader: ShardReader) -> None:
        for node in self.nodes:
            if node.kind in ("sink",) or (node.kind == "source" and node.index != reader.shard.source):
                continue
            if reader.record(node) is None:
                raise StageError(
                    f"{self.name} has not finished shard {reader.shard.number} yet", hint="corpusflow run  finishes it"
                )

    def dataset(self, columns: Sequence[str] | None = None) -> ds.Dataset:
        """The same as a pyarrow dataset over one pass of `batches`."""
        names = list(columns) if columns is not None else self._default_columns()
        self._base_for(names)
        schema = pa.schema([(c, self.columns[c]) for c in names])
        return ds.dataset(pa.RecordBatchReader.from_batches(schema, self.batches(names)))

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The same in memory."""
        names = list(columns) if columns is not None else self._default_columns()
        self._base_for(names)
        schema = pa.schema([(c, self.columns[c]) for c in names])
        return pa.Table.from_batches(self.batches(names), schema=schema)

    def dropped(self, reason: str | None = None) -> Iterator[tuple[Shard, Node, np.ndarray, np.ndarray]]:
        """(shard, Filter, rows of its base, reasons) of what this stage's rules dropped, shard by shard."""
        for shard in self.run.plan.shards:
            reader = ShardReader(self.run.plan, shard)
            for node in self.nodes:
                if node.kind != "filter" or reader.record(node) is None:
                    continue
                rows = np.flatnonzero(reader.fate(node.index, node.base).alive).astype(np.int32)
                first = reader.verdict(node, rows, node.base).first
                names = np.array([r.reason for r in node.rule_list], object)
                mask = first >= 0
                if reason is not None:
                    wanted = [i for i, r in enumerate(node.rule_list) if r.reason == reason]
                    mask &= np.isin(first, wanted)
                if mask.any():
                    yield shard, node, rows[mask], names[first[mask]]

    def quarantined(self) -> Iterator[pa.Table]:
        """Rows of id, url, path, offset, length, stage, reason, detail of what this stage could not process."""
        for shard in self.run.plan.shards:
            for _, table in self.shard_quarantined(shard):
                yield table

    def shard_quarantined(self, shard: Shard) -> Iterator[tuple[Node, pa.Table]]:
        """The same for one shard, with the part of the stage that could not process the rows."""
        reader = ShardReader(self.run.plan, shard)
        for node in self.nodes:
            if node.kind == "source" and node.index == shard.source and (record := reader.record(node)) is not None:
                for table in _unreadable(reader, node, record):
                    yield node, table
            elif node.kind in ("transform", "score") and (record := reader.record(node)) is not None:
                part = record.part(QUARANTINED)
                if part is not None:
                    yield node, read_part(reader.dataset(node), part).drop_columns([ROW])


def _unreadable(reader: ShardReader, node: Node, record: Record) -> Iterator[pa.Table]:
    part = record.part(ROWS)
    if part is None or not record.counters.get("quarantined"):
        return
    columns = [ID, "url", "path", "offset", "length", QUARANTINE]
    table = read_part(reader.dataset(node), part, columns)
    table = table.filter(table.column(QUARANTINE).is_valid())
    why = table.column(QUARANTINE).to_pylist()
    table = table.drop_columns([QUARANTINE])
    table = table.append_column("stage", pa.array([node.stage] * len(why), pa.string()))
    table = table.append_column("reason", pa.array([w.partition(":")[0].strip()[:60] for w in why], pa.string()))
    yield table.append_column("detail", pa.array([w[:500] for w in why], pa.string()))
