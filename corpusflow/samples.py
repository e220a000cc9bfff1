"""What a stage kept and dropped, with sample documents: behind `corpusflow inspect --stage`.

Counts come from commit records, samples from as few shards as hold enough of them, in an order that depends on the run's
seed alone. Promises that a sample's verdict and values are the run's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from corpusflow.accounting import StageCount
from corpusflow.api import Run, StageView
from corpusflow.checkpoint import read_part
from corpusflow.explain import excerpts, finding_data, source_has_text
from corpusflow.fingerprint import fingerprint
from corpusflow.plan import SOURCE_BASE, Node, Plan, Shard
from corpusflow.reader import ROWS, ShardReader
from corpusflow.rules import Finding, explain
from corpusflow.schema import ID, QUARANTINE, SKIPPED

KEPT: Final = "kept"
#: Shards looked into for samples; a reason that none of them has stays without a sample.
_MOST_SHARDS: Final = 64


@dataclass
class Sample:
    """A document and the rules that judged it. `text` is its first 200 characters, None where no checkpoint holds it."""

    id: str
    url: str | None
    shard: int
    text: str | None
    findings: list[Finding]

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        rules = [finding_data(f) for f in self.findings]
        return {"id": self.id, "url": self.url, "shard": self.shard, "text": self.text, "rules": rules}


@dataclass
class StageReport:
    """A stage's counts and samples by reason; ``kept`` is one of the reasons."""

    count: StageCount
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {**self.count.as_data(), "samples": {r: [s.as_data() for s in some] for r, some in self.samples.items()}}


def report(run: Run, view: StageView, *, most: int, reason: str | None = None) -> list[StageReport]:
    """One report per entry of the config that has this stage's name (one, but for Sources and stages used twice).

    Args:
        most: samples per reason.
        reason: only this drop reason, or ``kept``.
    """
    reports = []
    for count in run.counts():
        if count.stage != view.name:
            continue
        nodes = [n for n in view.nodes if n.where == count.where and n.inserted == count.inserted]
        wanted = [r for r in (*count.dropped, KEPT) if reason in (None, r)]
        reports.append(StageReport(count, _samples(run, nodes, wanted, most)))
    return reports


def shuffled(plan: Plan) -> list[Shard]:
    """The shards in a seeded order."""
    return sorted(plan.shards, key=lambda s: fingerprint(plan.seed, s.key))


def _samples(run: Run, nodes: list[Node], reasons: list[str], most: int) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {r: [] for r in reasons}
    if not most or not reasons:
        return {}
    judges = [n for n in nodes if n.kind in ("filter", "source")] or nodes[-1:]
    for shard in shuffled(run.plan)[:_MOST_SHARDS]:
        reader = ShardReader(run.plan, shard)
        for node in judges:
            if (node.kind == "source" and node.index != shard.source) or not _finished(reader, node):
                continue
            for name, rows in _by_reason(reader, node, last=node is judges[-1]):
                left = most - len(found[name]) if name in found else 0
                if left > 0:
                    found[name] += sample_documents(reader, node, rows[:left])
        if all(len(some) >= most for some in found.values()):
            break
    return {name: some for name, some in found.items() if some}


def _finished(reader: ShardReader, node: Node) -> bool:
    """Whether the stage has said of this shard what it keeps."""
    if node.kind == "sink":
        return reader.record(reader.source_node()) is not None and _base_finished(reader, node)
    return reader.record(node) is not None


def _base_finished(reader: ShardReader, node: Node) -> bool:
    before = [n for n in reader.plan.nodes[: node.index] if n.kind in ("score", "wide", "exchange", "filter")]
    return all(reader.record(n) is not None for n in before)


def _by_reason(reader: ShardReader, node: Node, *, last: bool) -> Iterator[tuple[str, np.ndarray]]:
    """(reason, rows of the node's base in seeded order); the kept ones are told by the stage's last judge."""
    rows, reasons = _judged(reader, node)
    order = np.random.Generator(np.random.PCG64([reader.plan.seed, reader.shard.number])).permutation(len(rows))
    rows, reasons = rows[order], reasons[order]
    for name in sorted(set(reasons.tolist())):
        if name != KEPT or last:
            yield name, rows[reasons == name]


def _judged(reader: ShardReader, node: Node) -> tuple[np.ndarray, np.ndarray]:
    """(rows that reached the node, what became of each), int32 and object arrays of one length."""
    if node.kind == "source":
        part = reader.need(node).part(ROWS)
        if part is None:
            return np.empty(0, np.int32), np.empty(0, object)
        table = read_part(reader.dataset(node), part, [SKIPPED, QUARANTINE])
        rows = np.flatnonzero(table.column(QUARANTINE).is_null().to_numpy()).astype(np.int32)
        reasons = table.column(SKIPPED).fill_null(KEPT).to_numpy()[rows]
        return rows, reasons
    if node.kind != "filter":
        alive = reader.fate(node.index + 1, node.base).alive
        rows = np.flatnonzero(alive).astype(np.int32)
        return rows, np.full(len(rows), KEPT, object)
    rows = np.flatnonzero(reader.fate(node.index, node.base).alive).astype(np.int32)
    names = np.array([*(r.reason for r in node.rule_list), KEPT], object)
    return rows, names[reader.verdict(node, rows, node.base).first]  # -1 is the last name


def sample_documents(reader: ShardReader, node: Node, rows: np.ndarray) -> list[Sample]:
    """Documents at a node, rows numbered by its base, with its rules beside their values."""
    rows = np.sort(rows).astype(np.int32)
    places = reader.locate(rows, node.base).select([ID, "url"]).to_pylist()
    signals = reader.signals(node, rows, node.base) if node.kind == "filter" else {}
    columns = {c: a.to_pylist() for c, a in signals.items()}
    texts = _texts(reader, node, rows)
    return [
        Sample(
            place[ID],
            place["url"],
            reader.shard.number,
            texts[i],
            explain(node.rule_list, {c: values[i] for c, values in columns.items()}),
        )
        for i, place in enumerate(places)
    ]


def _texts(reader: ShardReader, node: Node, rows: np.ndarray) -> list[str | None]:
    """Excerpts, where a checkpoint (or the input itself) holds these rows with the text as the node left it."""
    version = node.text_version + (node.kind == "transform")
    for wide in reader.plan.wides:
        if wide.text_version != version or reader.record(wide) is None:
            continue
        if wide.index == node.base:
            return list(excerpts(reader, wide.index, rows))
        if wide.base == node.base:
            parents = reader.parents(wide.index)
            at = np.searchsorted(parents, rows)
            stored = np.isin(rows, parents)
            found = excerpts(reader, wide.index, at[stored])
            return [next(found) if here else None for here in stored]
    if version == 0 and node.kind != "source" and source_has_text(reader.plan):
        return list(excerpts(reader, SOURCE_BASE, rows))
    return [None] * len(rows)
