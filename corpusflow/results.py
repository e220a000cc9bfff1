"""What a run made and what it cost, read from commit records: counters, digest, warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusflow.accounting import StageCount, add_up
from corpusflow.commit import Dataset
from corpusflow.fingerprint import fingerprint
from corpusflow.phases import phase_dataset, phase_records, phases_of
from corpusflow.plan import Node, Plan
from corpusflow.record import Record
from corpusflow.retention import Retention

if TYPE_CHECKING:
    from corpusflow.canary import Canaries


@dataclass
class StepCost:
    """What one round of tasks of this run cost: rows that Scores measured, bytes of text read, wall seconds."""

    title: str
    tasks: int = 0
    measured: int = 0
    text_bytes: int = 0
    seconds: float = 0.0


@dataclass
class RunResult:
    """What a run made.

    Attributes:
        digest: over the contents of every stage; equal for equal results, however they were made.
        counts: documents per stage.
        exports: Sink name -> folder of its stable files; a second Sink of one kind is `export.bin-2`.
        steps: what this run did, round by round (not what runs before it did).
        seconds: wall seconds of this run; `start_seconds` of them went into starting the executor.
        peak_memory: bytes, the largest worker.
        retention: documents in and kept by stage, of each source and language.
        canaries: what became of the canaries, if the config has any.
    """

    run_dir: str
    digest: str
    counts: list[StageCount]
    exports: dict[str, str]
    steps: list[StepCost] = field(default_factory=list)
    seconds: float = 0.0
    start_seconds: float = 0.0
    peak_memory: int = 0
    warnings: list[str] = field(default_factory=list)
    retention: list[Retention] = field(default_factory=list)
    canaries: Canaries | None = None


@dataclass(frozen=True)
class Tally:
    """What the commit records of one dataset come to: all that is kept of them for every node of a plan at once.

    A record takes 4 kB of memory, so that the records of 100,000 shards and 25 nodes would take 10 GB.

    Attributes:
        shards: numbers of the shards (or tasks) that are committed, int32.
        counters: added up.
        by_source: index of a Source -> counters of its shards, added up; of a phase's tasks nothing.
        advice: seconds and bytes, added up.
    """

    shards: np.ndarray
    counters: Mapping[str, Any]
    by_source: Mapping[int, Mapping[str, Any]]
    advice: Mapping[str, float]


def tally(records: Iterable[Record], plan: Plan | None = None) -> Tally:
    """Records added up; by Source where the plan is given."""
    noted = list(records)
    sources: dict[int, list[Mapping[str, Any]]] = {}
    if plan is not None:
        for record in noted:
            sources.setdefault(plan.by_number[record.shard].source, []).append(record.counters)
    return Tally(
        np.array([r.shard for r in noted], np.int32),
        add_up(r.counters for r in noted),
        {source: add_up(some) for source, some in sources.items()},
        add_up({"seconds": r.advice.get("seconds", 0.0), "bytes": r.advice.get("bytes", 0)} for r in noted),
    )


def committed_tally(plan: Plan, node: Node) -> Tally:
    """The commit records of a node, added up; for a Sink, of nothing."""
    return tally(() if node.kind == "sink" else committed_records(plan, node).values(), plan)


def collect(
    plan: Plan, committed: Callable[[Node], Tally]
) -> tuple[dict[int, Mapping[str, Any]], dict[int, Mapping[str, float]]]:
    """Counters and advice of every node that has run, added up over shards (for a Sink, of its first phase)."""
    counters: dict[int, Mapping[str, Any]] = {}
    advice: dict[int, Mapping[str, float]] = {}
    for node in plan.nodes:
        counted = committed(node)
        noted = [counted]
        if node.kind in ("sink", "exchange"):
            noted = [tally(phase_records(plan, node, p.name)) for p in phases_of(node)]
            if node.kind == "sink" and noted:
                counted = noted[0]
        if len(counted.shards):
            counters[node.index] = counted.counters
        if any(len(some.shards) for some in noted):
            advice[node.index] = add_up(some.advice for some in noted)
    return counters, advice


def committed_records(plan: Plan, node: Node) -> dict[int, Record]:
    """The commit records of a node by shard: from the seal's manifest where there is one."""
    dataset = Dataset(plan.root(node), node.fp)
    shards = [s for s in plan.shards if node.kind != "source" or s.source == node.index]
    keys = {s.number: plan.key(node, s) for s in shards}
    sealed = dataset.sealed_records(plan.epoch)
    if sealed is not None and all(n in sealed and sealed[n].key == key for n, key in keys.items()):
        return sealed
    return dataset.records(keys)


def run_digest(plan: Plan) -> str:
    """One digest over the contents of everything a plan's stages committed, whoever made it and how often it was killed."""
    digests = []
    for node in plan.nodes:
        if node.kind in ("exchange", "sink"):
            for phase in phases_of(node):
                digests.append([node.stage, node.label, phase.name, phase_dataset(plan, node, phase.name).sealed(0)])
        if node.kind != "sink":
            digests.append([node.stage, node.label, node.fp, Dataset(plan.root(node), node.fp).sealed(plan.epoch)])
    return fingerprint(digests)


def warnings_of(counts: Iterable[StageCount]) -> list[str]:
    """What the closing table should say aloud."""
    out = []
    for row in counts:
        if row.entered >= 10 and row.all_dropped > 0.9 * row.entered:
            worst = max(row.dropped, key=lambda k: row.dropped[k])
            out.append(f"{row.stage} dropped {row.all_dropped / row.entered:.1%} of what it saw (most often: {worst})")
        if not row.exact:
            out.append(f"{row.stage}: the numbers do not add up; please report this with run.json")
    return out
