"""Guards on what stages keep: documents in and kept per source and language, held against bands.

A threshold that is right for English news can empty a Chinese forum without moving the totals. Filters count their documents
by `GROUP`, where the plan has measured it since the last Transform (so that the counts depend on nothing that the Filter's
fingerprint does not name); what a source lost is added up from its shards. Filters that choose by `GROUP` itself are left out:
they do what they are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.accounting import account, add_up
from corpusflow.errors import ConfigError, did_you_mean
from corpusflow.plan import Node, Plan

if TYPE_CHECKING:
    from corpusflow.results import Tally

#: The signal by whose values documents are counted; its first part is what people call the group.
GROUP: Final = "language.code"
#: Stage name of the rows that span the whole run.
ALL: Final = "all"
#: Key of the band that holds where no other does.
ANY: Final = "*"

_KIND: Final = GROUP.partition(".")[0]
_IN: Final = "in_groups"
_KEPT: Final = "kept_groups"

Band = tuple[float, float]


@dataclass(frozen=True)
class Retention:
    """What a stage, or the run (`ALL`), kept of a source (``source=news``) or a language (``language=zh``)."""

    stage: str
    group: str
    entered: int
    kept: int

    @property
    def share(self) -> float:
        """Kept of entered, 0 to 1; 1 where nothing entered."""
        return self.kept / self.entered if self.entered else 1.0

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {"stage": self.stage, "group": self.group, "in": self.entered, "kept": self.kept}


# ---- in a worker ----


def grouping(plan: Plan, node: Node) -> Node | None:
    """The stage by whose `GROUP` a Filter counts its documents; None where it does not."""
    if any(rule.column == GROUP for rule in node.rule_list):
        return None
    rewritten = max((n.index for n in plan.nodes[: node.index] if n.kind == "transform"), default=-1)
    found = [n for n in plan.nodes[rewritten + 1 : node.index] if n.kind == "score" and GROUP in n.adds]
    return found[-1] if found else None


def group_counts(groups: pa.Array, kept: np.ndarray) -> dict[str, dict[str, int]]:
    """Counters of a Filter: rows by the value of `GROUP`, all of them and those set in `kept`; nulls are left out."""
    return {_IN: _by_value(groups), _KEPT: _by_value(groups.filter(pa.array(kept)))}


def without_groups(counters: Mapping[str, Any]) -> dict[str, Any]:
    """Counters as a task tells the driver: two numbers per language and Filter would be most of the message."""
    return {k: v for k, v in counters.items() if k not in (_IN, _KEPT)}


def _by_value(groups: pa.Array) -> dict[str, int]:
    counts = pc.value_counts(groups.drop_null()).to_pylist()
    return {c["values"]: c["counts"] for c in sorted(counts, key=lambda c: str(c["values"]))}


# ---- in the driver ----


def retention(plan: Plan, committed: Callable[[Node], Tally]) -> list[Retention]:
    """By source, then by language: a row for every stage in order, and one for the run, of what is committed."""
    return [*_by_source(plan, committed), *_by_language(plan, committed)]


def _by_source(plan: Plan, committed: Callable[[Node], Tally]) -> list[Retention]:
    names = {n.index: _source_name(n) for n in plan.sources}
    counters: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in names.values()}
    for node in plan.nodes:
        if node.kind in ("wide", "sink"):
            continue
        by_name: dict[str, list[Mapping[str, Any]]] = {name: [] for name in counters}
        for source, counted in committed(node).by_source.items():
            by_name[names[source]].append(counted)
        for name, found in by_name.items():
            if found or node.kind == "source":
                counters[name][node.index] = add_up(found)
    rows = []
    for name, of_source in counters.items():
        counts = [c for c in account(plan, of_source) if c.stage not in {n.stage for n in plan.sources}]
        read = sum(of_source[i].get("kept", 0) for i in names)
        if counts and read:
            group = f"source={name}"
            rows += [Retention(c.stage, group, c.entered, c.kept) for c in counts if not c.inserted]
            rows.append(Retention(ALL, group, read, counts[-1].kept))
    return rows


def _by_language(plan: Plan, committed: Callable[[Node], Tally]) -> list[Retention]:
    stages: dict[tuple[str, str], tuple[Mapping[str, int], Mapping[str, int]]] = {}
    for node in plan.nodes:
        if node.kind != "filter" or grouping(plan, node) is None:
            continue
        total = committed(node).counters
        if _IN in total:  # records of before Filters counted so have none
            key = node.stage, node.where
            first = stages[key][0] if key in stages else total[_IN]
            stages[key] = first, total.get(_KEPT, {})
    rows: dict[str, list[Retention]] = {}
    for (stage, _), (entered, kept) in stages.items():
        for value, n in entered.items():
            rows.setdefault(value, []).append(Retention(stage, f"{_KIND}={value}", n, kept.get(value, 0)))
    out = []
    for value in sorted(rows, key=lambda v: (-rows[v][0].entered, v)):
        of_value = rows[value]
        # where a stage has no row of it, nothing was left to enter
        last = list(stages.values())[-1][1].get(value, 0)
        out += [*of_value, Retention(ALL, f"{_KIND}={value}", of_value[0].entered, last)]
    return out


def _source_name(node: Node) -> str:
    return str(getattr(node.build(), "source_name", node.stage))


def check_bands(plan: Plan, bands: Mapping[str, Band]) -> None:
    """Refuse bands of stages that the plan does not have, and of groups that are none.

    Raises:
        ConfigError: a key names neither.
    """
    stages = (ALL, ANY, *plan.configured_stages())
    for key in bands:
        stage, _, group = key.rpartition("/") if "=" in key else (key, "", "")
        kind = group.partition("=")[0]
        if "=" in key and kind not in ("source", _KIND):
            raise ConfigError(f"run.retention: {key!r}: {kind!r} is no group", hint=f"source=NAME or {_KIND}=CODE")
        if stage and stage not in stages:
            raise ConfigError(
                f"run.retention: {key!r}: this run has no stage {stage!r}", hint=did_you_mean(stage, stages)
            )


def band_of(row: Retention, bands: Mapping[str, Band]) -> Band | None:
    """The band that a row is held against, the most particular key first; the whole run has one only if it is given."""
    keys = [f"{row.stage}/{row.group}", row.stage]
    if row.stage != ALL:
        keys[1:1] = [row.group]
        keys.append(ANY)
    return next((bands[k] for k in keys if k in bands), None)


def outside(rows: Iterable[Retention], bands: Mapping[str, Band], least_documents: int) -> list[str]:
    """A sentence per row that lies outside of its band; groups of fewer documents are not judged."""
    out = []
    for row in rows:
        band = band_of(row, bands)
        if band is None or row.entered < least_documents or band[0] <= row.share <= band[1]:
            continue
        what = "the run" if row.stage == ALL else row.stage
        out.append(
            f"{what} kept {row.share:.1%} of {row.group} ({row.kept:,} of {row.entered:,}), "
            f"outside of {band[0]:.0%} to {band[1]:.0%} (run.retention)"
        )
    return out


def summary(rows: Sequence[Retention]) -> list[tuple[Retention, Retention | None]]:
    """For each group: its row for the run, and the stage that kept the smallest share of it, if one dropped any."""
    found = []
    for whole in (r for r in rows if r.stage == ALL):
        stages = [r for r in rows if r.group == whole.group and r.stage != ALL and r.kept < r.entered]
        found.append((whole, min(stages, key=lambda r: r.share, default=None)))
    return found
