"""Where the documents went: per configured stage, in = kept + dropped + quarantined.

Adds up the counters of commit records. Only Sources, Transforms, Filters, Exchanges and Sinks count survivors; what a Score
quarantined is reported by those behind it, up to the next Filter or Transform (`lost`, by the Score's folder), all saying
the same number; the first one counts, so that no document is counted twice or forgotten.
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
    """One StageCount per entry of the config, in order, all Sources first.

    Args:
        counters: node index -> counters added up over shards; nodes that have not run are absent.
        advice: node index -> seconds and bytes added up.
    """
    lost = _losses(plan, counters)
    rows: list[StageCount] = []
    kept = 0
    for group in _groups(plan):
        if not any(n.index in counters for n in group):
            break
        row = _row(group, counters, advice or {})
        if group[0].kind == "source":
            kept += row.kept
        else:
            _settle(row, group, counters, lost, kept)
            kept = kept if group[0].kind == "sink" else row.kept
        if row.entered != row.kept + row.all_dropped + row.all_quarantined:
            row.exact = False
        rows.append(row)
    return rows


def _losses(plan: Plan, counters: Mapping[int, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Folder of a Score -> (documents it quarantined, the node that says so)."""
    lost: dict[str, tuple[int, int]] = {}
    for node in plan.nodes:
        for folder, n in counters.get(node.index, {}).get("lost", {}).items():
            lost.setdefault(folder, (n, node.index))
    return lost


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
    for node in group:
        found = counters.get(node.index, {})
        noted = advice.get(node.index, {})
        row.seconds += noted.get("seconds", 0.0)
        row.bytes += int(noted.get("bytes", 0))
        if node.kind == "score":
            row.measured += found.get("kept", 0)
            continue
        if node.kind == "source":
            row.entered, row.kept = found.get("in", 0), found.get("kept", 0)
        _merge(row.dropped, found.get("dropped", {}))
        _merge(row.quarantined, found.get("quarantined", {}))
        _merge(row.inapplicable, found.get("inapplicable", {}))
    return row


def _settle(
    row: StageCount,
    group: list[Node],
    counters: Mapping[int, Mapping[str, Any]],
    lost: Mapping[str, tuple[int, int]],
    before: int,
) -> None:
    """Fill in what entered and what was kept, its Scores' losses included; `before` is what the stage before kept."""
    counting = [n.index for n in group if n.kind in COUNTING and n.index in counters]
    losses = [lost[n.folder] for n in group if n.folder in lost]
    if missing := sum(n for n, _ in losses):
        row.quarantined["not_measured"] = row.quarantined.get("not_measured", 0) + missing
    if not counting:
        row.entered, row.kept = before, before - missing
        return
    # A loss that the first of its own counting nodes reports happened before that; one that a later stage reports, after.
    row.entered = counters[counting[0]].get("in", 0) + sum(n for n, by in losses if by == counting[0])
    row.kept = counters[counting[-1]].get("kept", 0) - sum(n for n, by in losses if by > counting[-1])
    row.exact = row.entered == before


def _merge(into: dict[str, int], more: Mapping[str, int]) -> None:
    for key, n in more.items():
        into[key] = into.get(key, 0) + n
