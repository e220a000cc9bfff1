"""Where the documents went: per configured stage, in = kept + dropped + quarantined.

Adds up the counters of commit records. Only Sources, Transforms, Filters, Exchanges and Sinks count survivors; what a Score
quarantined between two of them is reported by the second (`lost`), so that no document is counted twice or forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from corpusflow.plan import Node, Plan

COUNTING = ("source", "transform", "filter", "exchange", "sink")


@dataclass
class StageCount:
    """Documents of one configured stage.

    Attributes:
        measured: rows its Scores looked at; more than `entered` where soft filters before it dropped some.
        seconds: wall seconds in its code, over all workers.
        bytes: bytes it read.
        exact: whether in = kept + dropped + quarantined, and `entered` is what the stage before kept.
    """

    stage: str
    where: str
    inserted: bool
    entered: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    inapplicable: dict[str, int] = field(default_factory=dict)
    measured: int = 0
    seconds: float = 0.0
    bytes: int = 0
    exact: bool = True

    @property
    def all_dropped(self) -> int:
        """Documents its rules dropped."""
        return sum(self.dropped.values())

    @property
    def all_quarantined(self) -> int:
        """Documents it could not process."""
        return sum(self.quarantined.values())

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "stage": self.stage,
            "in": self.entered,
            "kept": self.kept,
            "dropped": dict(sorted(self.dropped.items())),
            "quarantined": dict(sorted(self.quarantined.items())),
            "inapplicable": dict(sorted(self.inapplicable.items())),
            "measured": self.measured,
            "seconds": round(self.seconds, 3),
            "bytes": self.bytes,
            "exact": self.exact,
        }


def add_up(counters: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Counters of many shards as one; tables are added by key."""
    total: dict[str, Any] = {}
    for one in counters:
        for key, value in one.items():
            if isinstance(value, Mapping):
                table = total.setdefault(key, {})
                for name, n in value.items():
                    table[name] = table.get(name, 0) + n
            else:
                total[key] = total.get(key, 0) + value
    return total


def account(
    plan: Plan, counters: Mapping[int, Mapping[str, Any]], advice: Mapping[int, Mapping[str, float]] | None = None
) -> list[StageCount]:
    """One StageCount per configured stage, in order, all Sources first.

    Args:
        counters: node index -> counters added up over shards; nodes that have not run are absent.
        advice: node index -> seconds and bytes added up.
    """
    rows: list[StageCount] = []
    for group in _groups(plan):
        if not any(n.index in counters for n in group):
            break
        rows.append(_row(group, counters, advice or {}))
    _settle(plan, rows, counters)
    return rows


def _groups(plan: Plan) -> list[list[Node]]:
    """Nodes of one entry of the config, without the planner's wide checkpoints, by where each group ends.

    A Score that the planner put between two parts of a Composite is a group of its own, in front of the Composite's.
    """
    groups: list[list[Node]] = []
    for node in plan.nodes:
        if node.kind == "wide":
            continue
        mine = next((g for g in reversed(groups) if not g[0].inserted), None) if not node.inserted else None
        if mine is not None and node.kind != "source" and (mine[-1].stage, mine[-1].where) == (node.stage, node.where):
            mine.append(node)
        else:
            groups.append([node])
    return sorted(groups, key=lambda g: g[-1].index)


def _row(
    group: list[Node], counters: Mapping[int, Mapping[str, Any]], advice: Mapping[int, Mapping[str, float]]
) -> StageCount:
    row = StageCount(group[0].stage, group[0].where, group[0].inserted)
    counting = [n for n in group if n.kind in COUNTING and n.index in counters]
    for node in group:
        found = counters.get(node.index, {})
        noted = advice.get(node.index, {})
        row.seconds += noted.get("seconds", 0.0)
        row.bytes += int(noted.get("bytes", 0))
        if node.kind == "score":
            row.measured += found.get("kept", 0)
            continue
        _merge(row.dropped, found.get("dropped", {}))
        _merge(row.quarantined, found.get("quarantined", {}))
        _merge(row.inapplicable, found.get("inapplicable", {}))
    if counting:
        row.entered = counters[counting[0].index].get("in", 0)
        row.kept = counters[counting[-1].index].get("kept", 0)
    return row


def _settle(plan: Plan, rows: list[StageCount], counters: Mapping[int, Mapping[str, Any]]) -> None:
    """Give each Score the documents it quarantined, fill in stages that count nothing, and check every sum."""
    by_name = {r.stage: r for r in rows}
    counts_itself = {n.stage for n in plan.nodes if n.kind in COUNTING}
    for node in plan.nodes:
        for stage, n in counters.get(node.index, {}).get("lost", {}).items():
            row = by_name[stage]
            row.quarantined["not_measured"] = row.quarantined.get("not_measured", 0) + n
            if stage == node.stage:
                row.entered += n
    kept = 0
    sources = sum(1 for n in plan.nodes if n.kind == "source")
    finals = {n.stage for n in plan.nodes if n.kind == "sink"}
    for i, row in enumerate(rows):
        if i < sources:
            kept += row.kept
        else:
            if row.stage not in counts_itself or row.inserted:
                row.entered = kept
                row.kept = kept - row.all_quarantined
            elif row.entered != kept:
                row.exact = False
            if row.stage not in finals:
                kept = row.kept
        if row.entered != row.kept + row.all_dropped + row.all_quarantined:
            row.exact = False


def _merge(into: dict[str, int], more: Mapping[str, int]) -> None:
    for key, n in more.items():
        into[key] = into.get(key, 0) + n
