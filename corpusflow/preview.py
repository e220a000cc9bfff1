"""What a run would do and reuse, and why, in words: `corpusflow plan`.

Compares the plan with what its run folder has committed, and with the plan of the run before. Reads commit records and, where
a gate changed, its signals; never text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from corpusflow.commit import Dataset
from corpusflow.errors import CorpusflowError
from corpusflow.inherit import inheritance
from corpusflow.phases import phase_dataset, phases_of
from corpusflow.plan import Node, Plan, Shard
from corpusflow.reader import ShardReader
from corpusflow.rules import evaluate
from corpusflow.rundir import RunDir


@dataclass
class StagePreview:
    """What would happen to one node.

    Attributes:
        action: reuse, run, or part (some shards are committed).
        why: one clause in words.
        rows: rows that would be measured or rewritten, where the signals tell it beforehand.
        text: whether running it reads text.
    """

    stage: str
    part: str
    step: int
    action: str
    reused: int
    total: int
    why: str
    rows: int | None = None
    text: bool = False


@dataclass
class Preview:
    """The whole plan, previewed."""

    stages: list[StagePreview] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {"stages": [asdict(s) for s in self.stages], "notes": self.notes}


def preview(plan: Plan) -> Preview:
    """Say what running the plan in its folder would do."""
    out = Preview(notes=list(plan.notes))
    before = _counterparts(plan)
    first_change = ""
    for node in plan.nodes:
        total, reused = _progress(plan, node)
        if total and reused == total:
            out.stages.append(
                StagePreview(node.stage, node.label, node.step, "reuse", reused, total, "already committed")
            )
            continue
        old = before.get(node.index)
        why, is_cause = _why(node, old, reused, total, first_change)
        item = StagePreview(node.stage, node.label, node.step, "part" if reused else "run", reused, total, why)
        item.text = _reads_text(node)
        item.rows = _rows(plan, node)
        out.stages.append(item)
        if is_cause and not first_change:
            first_change = node.stage
        if node.kind == "filter" and node.gate and old is not None and reused < total:
            out.notes += _gate_note(plan, node, old)
    return out


def _counterparts(plan: Plan) -> dict[int, Node]:
    """Node index -> the node of the folder's latest plan that it stands for: the same operation, else the next of its name."""
    try:
        latest = RunDir(plan.run_dir).latest_plan()
    except CorpusflowError:  # nothing was run here yet
        return {}
    left: dict[tuple[str, str], list[Node]] = {}
    for node in latest.nodes:
        left.setdefault((node.stage, node.label), []).append(node)
    found: dict[int, Node] = {}
    for same_operation in (True, False):
        for node in plan.nodes:
            candidates = left.get((node.stage, node.label), [])
            chosen = [c for c in candidates if c.op_fp == node.op_fp] if same_operation else candidates
            if node.index not in found and chosen:
                found[node.index] = chosen[0]
                candidates.remove(chosen[0])
    return found


def _progress(plan: Plan, node: Node) -> tuple[int, int]:
    """(units of work, committed ones)."""
    if node.kind == "sink":
        phases = phases_of(node)
        return len(phases), sum(phase_dataset(plan, node, p.name).sealed(0) is not None for p in phases)
    shards = _shards(plan, node)
    keys = {s.number: plan.key(node, s) for s in shards}
    return len(shards), len(Dataset(plan.root(node), node.fp).records(keys))


def _shards(plan: Plan, node: Node) -> list[Shard]:
    return [s for s in plan.shards if node.kind != "source" or s.source == node.index]


def _reads_text(node: Node) -> bool:
    return node.kind in ("source", "transform", "wide", "sink") or "text" in node.reads or "raw" in node.reads


def _why(node: Node, old: Node | None, reused: int, total: int, first_change: str) -> tuple[str, bool]:
    """(the reason in words, whether it is this node that changed and not something before it)."""
    if reused:
        return f"{total - reused} of {total} shards are not committed yet", True
    if old is None:
        return ("new" if not first_change else f"new, or after the change of {first_change}"), not first_change
    if changes := _differences(old, node):
        return "; ".join(changes), True
    if drift := _library_changes(old, node):
        return drift, True
    if old.fp == node.fp:
        return "not committed yet", True
    return f"what it works on changes with {first_change or 'the input'}", False


def _differences(old: Node, node: Node) -> list[str]:
    before, now = plain(old.params), plain(node.params)
    out = [f"{k}: {before.get(k)!r} -> {now.get(k)!r}" for k in sorted({*before, *now}) if before.get(k) != now.get(k)]
    if old.op_fp == node.op_fp and old.gate == node.gate:
        return []  # what differs is in no fingerprint
    return out or ["its code version, model or code file changed"]


def _library_changes(old: Node, node: Node) -> str:
    changed = [
        f"{k} {old.libraries.get(k)} -> {v}" for k, v in sorted(node.libraries.items()) if old.libraries.get(k) != v
    ]
    return "library " + ", ".join(changed) if changed else ""


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON gives them back."""
    out: dict[str, Any] = json.loads(json.dumps(dict(params), default=str))
    return out


def _rows(plan: Plan, node: Node) -> int | None:
    """Rows a pending node would have to make, where what is committed already tells: those no earlier dataset has."""
    if node.kind not in ("score", "wide", "transform"):
        return None
    total = 0
    for shard in plan.shards:
        try:
            reader = ShardReader(plan, shard)
            if reader.record(node) is not None:
                continue
            found = inheritance(reader, node)
            if found is not None:
                total += int(found.missing.sum())
                continue
            fate = reader.fate(node.index, node.base, gates_only=node.kind != "transform" and not node.survivors_only)
        except CorpusflowError:
            return None
        total += int(fate.alive.sum())
    return total


def _gate_note(plan: Plan, gate: Node, old_gate: Node) -> list[str]:
    """How many rows a changed gate lets through, beside the gate it replaces."""
    if old_gate.fp == gate.fp:
        return []
    old_rules = old_gate.rule_list
    now = old = gained = 0
    try:
        for shard in plan.shards:
            reader = ShardReader(plan, shard)
            rows = np.flatnonzero(reader.fate(gate.index, gate.base, gates_only=True).alive).astype(np.int32)
            columns = reader.signals(gate, rows, gate.base)
            if any(c not in columns for r in old_rules for c in r.columns()):
                return []
            new_kept = evaluate(gate.rule_list, columns, len(rows)).kept
            old_kept = evaluate(old_rules, columns, len(rows)).kept
            now, old = now + int(new_kept.sum()), old + int(old_kept.sum())
            gained += int((new_kept & ~old_kept).sum())
    except CorpusflowError:
        return []
    if now == old and not gained:
        return [f"gate {gate.stage} changed but lets the same {now:,} rows pass"]
    verb = "loosened" if gained else "tightened"
    text = f"gate {gate.stage} is {verb}: {now:,} rows pass ({old:,} before); {gained:,} rows have to be measured behind it"
    stored = any(w.index > gate.index and w.step == gate.step for w in plan.wides)
    if gained and stored:
        text += ", and extracted from the input again, since what a gate drops is not stored"
    return [text + "; what the others gave is taken over" if now > gained else text]
