"""Other thresholds on what a run has measured already: `corpusflow what-if`.

Reads signal columns and commit records, and text for nothing but the excerpts of sample documents. Promises that, up to the
first Exchange behind a changed rule, the counts are those that a run with the new thresholds would give, rule by rule; where
a gate (or a rule before a Transform) is loosened, the documents that were never measured behind it are counted apart.

Every document is followed by its row in the Source's index, twice: by the run's own rules and by the new ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpusflow.api import Run
from corpusflow.errors import ConfigError, did_you_mean
from corpusflow.plan import Node, Plan
from corpusflow.rules import Rule
from corpusflow.whatif.answer import FilterChange, Moved, RuleChange, WhatIf
from corpusflow.whatif.overrides import changed_filters
from corpusflow.whatif.survival import Curve, Overlap
from corpusflow.whatif.walk import Walks

__all__ = ["Curve", "FilterChange", "Moved", "Overlap", "RuleChange", "WhatIf", "what_if"]


def what_if(run: Run, sets: Sequence[str], *, samples: int = 5, curves: Sequence[str] = ()) -> WhatIf:
    """Try other thresholds.

    Args:
        sets: ``quality.gopher.min_words=30``, ``stages.5.min_words=30``.
        samples: documents that would move, each way.
        curves: drop reasons whose survival curve to draw besides those of changed rules.

    Raises:
        ConfigError: no such stage or parameter, or it changes what is measured.
        StageError: the run is not finished up to there.
    """
    plan = run.plan
    changed = changed_filters(plan, sets)
    nodes, horizon = _until_horizon(plan, set(changed))
    answer = WhatIf(horizon.stage if horizon is not None else "")
    answer.filters = [
        FilterChange(n, _rule_changes(n.rule_list, changed[n.index].rule_list if n.index in changed else n.rule_list))
        for n in nodes
        if n.kind == "filter"
    ]
    answer.curves = _curves(answer.filters, curves)
    answer.overlap = Overlap([r.reason for f in answer.filters for r in f.rules])
    walks = Walks(run, nodes, changed, answer, samples)
    for shard in plan.shards:
        walks.add(shard)
    walks.finish()
    return answer


def _until_horizon(plan: Plan, changed: set[int]) -> tuple[list[Node], Node | None]:
    """(nodes whose outcome is known, the Exchange whose input changes)."""
    first = min(changed, default=len(plan.nodes))
    nodes: list[Node] = []
    for node in plan.nodes:
        if node.kind == "exchange" and node.index > first:
            return nodes, node
        if node.kind not in ("source", "wide", "sink"):
            nodes.append(node)
    return nodes, None


def _rule_changes(before: Sequence[Rule], after: Sequence[Rule]) -> list[RuleChange]:
    """Rules of both sides by reason, in the new order, those that go away last."""
    old = {r.reason: r for r in before}
    new = {r.reason: r for r in after}
    return [RuleChange(reason, old.get(reason), new.get(reason)) for reason in dict.fromkeys([*new, *old])]


def _curves(filters: Sequence[FilterChange], wanted: Sequence[str]) -> list[Curve]:
    known = {r.reason: (f, r) for f in filters for r in f.rules if r.after is not None}
    for reason in wanted:
        if reason not in known:
            raise ConfigError(f"no rule drops for {reason!r}", hint=did_you_mean(reason, known))
    picked = [(f, r) for f in filters for r in f.rules if r.after is not None and (r.changed or r.reason in wanted)]
    return [
        Curve(f.node.index, r.before, r.after) for f, r in picked if r.after is not None and Curve.possible(r.after)
    ]
