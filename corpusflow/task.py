"""One shard of one map step, in a worker: whatever of the step is not committed yet, in one pass over the documents.

Reads the source or the last wide checkpoint; writes each pending stage's part and then its record, stage by stage, so that
every stage folder stands alone. Filters are evaluated last, from the signals as committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from corpusflow.errors import StageError
from corpusflow.inherit import inheritance
from corpusflow.output import Output
from corpusflow.plan import Node, Plan, Shard, Step
from corpusflow.reader import ShardReader
from corpusflow.retention import GROUP, group_counts, grouping, without_groups
from corpusflow.schema import ROW
from corpusflow.stage import Exchange, PhaseInputs, require_columns
from corpusflow.stream import Stream


@dataclass
class TaskResult:
    """What a task tells the driver (a few hundred bytes).

    Attributes:
        counters: node index -> counters of the record it committed (or found committed).
        advice: node index -> `seconds` (wall) and `bytes` (read by the stage) from the same records.
        text_bytes: bytes of text read from checkpoints or produced by the source.
        measured: rows that Scores measured.
        peak_memory: bytes, of this worker process so far.
    """

    shard: int
    counters: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    advice: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    text_bytes: int = 0
    measured: int = 0
    peak_memory: int = 0


def run_shard(plan: Plan, step: Step, shard: Shard, inputs: Callable[[Node], PhaseInputs]) -> TaskResult:
    """Do what is left of a map step for one shard.

    Args:
        inputs: makes what an Exchange of the plan reads when its columns are applied.
    """
    reader = ShardReader(plan, shard)
    result = TaskResult(shard.number)
    mine = [plan.nodes[i] for i in step.nodes]
    mine = [n for n in mine if n.kind != "source" or n.index == shard.source]
    pending = [n for n in mine if reader.record(n) is None]
    for node in pending:
        if node.kind == "exchange":
            _apply(reader, node, inputs(node))
    streamed = [n for n in pending if n.kind in ("source", "transform", "score", "wide")]
    for node in list(streamed):
        if (found := inheritance(reader, node)) is not None:
            streamed.remove(node)
            stream = Stream(reader, step, [node], found)
            stream.run()
            result.measured += stream.measured
    if streamed:
        stream = Stream(reader, step, streamed)
        stream.run()
        result.measured += stream.measured
    filters = [n for n in pending if n.kind == "filter"]
    if filters:
        _count_filters(reader, filters)
    for node in mine:
        record = reader.need(node)
        result.counters[node.index] = without_groups(record.counters)
        result.advice[node.index] = record.advice
    result.text_bytes = reader.text_bytes_read
    return result


def _apply(reader: ShardReader, node: Node, inputs: PhaseInputs) -> None:
    """Commit the columns of an Exchange for one shard."""
    started = time.perf_counter()
    stage = node.build()
    if not isinstance(stage, Exchange):
        raise StageError(f"{node.name} is not an Exchange")
    output = Output(reader, node)
    adds = node.arrow_adds()
    fate = reader.fate(node.index, node.base)
    schema = pa.schema([(ROW, pa.int32()), *adds.items()])
    output.open(schema)
    survivors = np.flatnonzero(fate.alive)
    seen = []
    try:
        for batch in stage.apply(reader.shard.number, inputs):
            require_columns(node.name, batch.select([c for c in batch.schema.names if c != ROW]).schema, adds)
            seen.append(batch.column(ROW).to_numpy())
            output.part.write(batch)
        rows = np.concatenate(seen) if seen else np.empty(0, np.int32)
        if not np.array_equal(rows, survivors):
            raise StageError(
                f"{node.name} gave columns for {len(rows)} rows of shard {reader.shard.number}, {len(survivors)} survived"
            )
    except BaseException:
        output.abort()
        raise
    output.counters = {"in": len(survivors), "kept": len(survivors)}
    if fate.lost:
        output.counters["lost"] = fate.lost
    output.seconds = time.perf_counter() - started
    output.commit(reader)


def _count_filters(reader: ShardReader, filters: list[Node]) -> None:
    """Evaluate pending Filters over whole shards, from signals, and commit their counts."""
    for node in filters:
        started = time.perf_counter()
        output = Output(reader, node)
        output.counters = filter_counters(reader, node)
        output.seconds = time.perf_counter() - started
        output.commit(reader)


def filter_counters(reader: ShardReader, node: Node) -> dict[str, Any]:
    """What a Filter's record counts of one shard, from the signals as committed."""
    fate = reader.fate(node.index, node.base)
    rows = np.flatnonzero(fate.alive).astype(np.int32)
    verdict = reader.verdict(node, rows, node.base)
    counts = np.bincount(verdict.first[verdict.first >= 0], minlength=len(node.rule_list))
    counters: dict[str, Any] = {
        "in": len(rows),
        "kept": int(verdict.kept.sum()),
        "dropped": {r.reason: int(c) for r, c in zip(node.rule_list, counts, strict=True) if c},
        "inapplicable": {r.reason: int(c) for r, c in zip(node.rule_list, verdict.inapplicable, strict=True) if c},
    }
    if (provider := grouping(reader.plan, node)) is not None:
        counters |= group_counts(reader.column(GROUP, provider, rows, node.base), verdict.kept)
    if fate.lost:
        counters["lost"] = fate.lost
    return counters
