"""What `what_if` answers, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from corpusflow.plan import Node
from corpusflow.rules import Rule
from corpusflow.whatif.survival import Curve, Overlap


@dataclass
class RuleChange:
    """One rule before and after; a side is None where the rule is not there.

    Attributes:
        dropped: documents whose first failing rule it is, (before, after).
        only: documents that no other new rule would drop, of those that were measured to the end; None where that cannot
            be told: behind a gate or a Transform nothing more was measured of what it drops.
    """

    reason: str
    before: Rule | None
    after: Rule | None
    dropped: list[int] = field(default_factory=lambda: [0, 0])
    only: int | None = None

    @property
    def changed(self) -> bool:
        """Whether its threshold is another."""
        return self.before != self.after

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        sides = {k: r.as_data() if r is not None else None for k, r in (("before", self.before), ("after", self.after))}
        return {"reason": self.reason, **sides, "dropped": self.dropped, "only_this_rule": self.only}


@dataclass
class FilterChange:
    """One Filter: documents in and kept, (before, after), and those it cannot judge since they were never measured."""

    node: Node
    rules: list[RuleChange]
    entered: list[int] = field(default_factory=lambda: [0, 0])
    kept: list[int] = field(default_factory=lambda: [0, 0])
    unmeasured: int = 0

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "stage": self.node.stage,
            "part": self.node.label,
            "in": self.entered,
            "kept": self.kept,
            "unmeasured": self.unmeasured,
            "rules": [r.as_data() for r in self.rules],
        }


@dataclass(frozen=True)
class Moved:
    """A sample document that would change sides; `reason` is the rule that drops it, now or then."""

    id: str
    url: str | None
    now: str
    then: str
    reason: str
    value: Any
    text: str | None


@dataclass
class WhatIf:
    """The answer.

    Attributes:
        horizon: the stage whose input changes, behind which nothing is known without a run; "" if there is none.
        kept: documents left at the horizon, (before, after).
        lost, gained: kept now and not then, and the other way round.
        unmeasured: let through by a loosened rule, but never measured behind it; in no other number.
        languages, sources: (before, after) by value.
    """

    horizon: str = ""
    kept: list[int] = field(default_factory=lambda: [0, 0])
    lost: int = 0
    gained: int = 0
    unmeasured: int = 0
    filters: list[FilterChange] = field(default_factory=list)
    languages: dict[str, list[int]] = field(default_factory=dict)
    sources: dict[str, list[int]] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    overlap: Overlap | None = None
    samples: list[Moved] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "horizon": self.horizon,
            "kept": self.kept,
            "lost": self.lost,
            "gained": self.gained,
            "unmeasured": self.unmeasured,
            "filters": [f.as_data() for f in self.filters],
            "languages": self.languages,
            "sources": self.sources,
            "curves": [c.as_data() for c in self.curves],
            "overlap": self.overlap.as_data() if self.overlap is not None else None,
            "samples": [vars(m) for m in self.samples],
        }
