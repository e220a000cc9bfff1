"""``--set`` overrides to Filters with other rules, over the signals a run has.

Refuses what changes more than thresholds: another model, another measure, a signal that was never taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from corpusflow.build import build_stage, find_model, model_fields
from corpusflow.config import parse_override
from corpusflow.errors import ConfigError, did_you_mean
from corpusflow.plan import Node, Plan
from corpusflow.reader import signal_providers
from corpusflow.registry import find
from corpusflow.stage import Composite, Filter, parameters


def changed_filters(plan: Plan, sets: Sequence[str]) -> dict[int, Node]:
    """Filters whose rules the overrides change, by index, with the new rules and where their signals come from."""
    wanted: dict[tuple[str, str], dict[str, Any]] = {}
    for text in sets:
        entry, parts, value = _target(plan, text)
        _assign(wanted.setdefault(entry, {}), parts, value, _params(plan, entry))
    changed: dict[int, Node] = {}
    for (stage, where), values in wanted.items():
        for node in plan.nodes:
            if (node.stage, node.where, node.inserted) == (stage, where, False) and node.kind != "wide":
                new = _changed(plan, node, values)
                if new is not None:
                    changed[node.index] = new
    return changed


def _target(plan: Plan, text: str) -> tuple[tuple[str, str], list[str], Any]:
    """((stage, its place in the config), path of the parameter, value) of one override."""
    path, value = parse_override(text)
    entries = list(
        dict.fromkeys(
            (n.stage, n.where) for n in plan.nodes if not n.inserted and n.kind not in ("source", "wide", "sink")
        )
    )
    if path[0] == "stages" and len(path) > 2 and path[1].isdigit() and int(path[1]) < len(entries):
        return entries[int(path[1])], path[2:], value
    for length in range(len(path) - 1, 0, -1):
        name = ".".join(path[:length])
        found = [e for e in entries if e[0] == name]
        if len(found) > 1:
            ways = " or ".join(f"stages.{entries.index(e)}.{'.'.join(path[length:])}" for e in found)
            raise ConfigError(f"--set {text}: {name} appears {len(found)} times", hint=f"say which: {ways}")
        if found:
            return found[0], path[length:], value
    raise ConfigError(
        f"--set {text}: no stage of this run is called {'.'.join(path[:-1])!r}",
        hint=did_you_mean(".".join(path[:-1]), [e[0] for e in entries]),
    )


def _params(plan: Plan, entry: tuple[str, str]) -> Mapping[str, Any]:
    return next(n.params for n in plan.nodes if (n.stage, n.where) == entry and not n.inserted and n.kind != "wide")


def _assign(values: dict[str, Any], path: Sequence[str], value: Any, present: Mapping[str, Any]) -> None:
    """``min_score.en=0.5`` changes one key of a table that the run has."""
    if len(path) == 1:
        values[path[0]] = value
        return
    table = values.get(path[0], present.get(path[0]))
    table = dict(table) if isinstance(table, Mapping) else {}
    values[path[0]] = table
    for key in path[1:-1]:
        table[key] = dict(table.get(key) or {})
        table = table[key]
    table[path[-1]] = value


def _changed(plan: Plan, node: Node, values: Mapping[str, Any]) -> Node | None:
    """The node under other parameters; None where they do not concern it.

    Raises:
        ConfigError: they change what it measures, not only thresholds.
    """
    cls = find(node.reference)
    given = {**node.params, **values}
    for key in model_fields(cls):
        if given.get(key):
            given[key] = find_model(node.stage, cls, key, given[key])
    new: Any = build_stage(node.stage, cls, given)
    if isinstance(new, Composite):
        parts = new.expand()
        new = parts[node.piece] if node.piece < len(parts) else None
    old = node.build()
    if isinstance(new, Filter) and isinstance(old, Filter):
        if new.rules() == old.rules():
            return None
        rules = tuple(r.as_data() for r in new.rules())
        return replace(node, rules=rules, reads=new.inputs(), providers=_providers(plan, node, new), gate=node.gate)
    if type(new) is not type(old) or parameters(new, semantic_only=True) != parameters(old, semantic_only=True):
        keys = ", ".join(values)
        raise ConfigError(
            f"{keys} of {node.stage} changes what is measured ({node.label}), not only a threshold",
            hint="corpusflow run  with it measures again; corpusflow plan  says what that costs",
        )
    return None


def _providers(plan: Plan, node: Node, new: Filter) -> dict[str, int]:
    """Who made the signals of the new rules, on the very text that the Filter is about."""
    made = signal_providers(plan, node.index)
    out = {}
    for column in new.inputs():
        maker = node.providers.get(column, made.get(column))
        if maker is None or (plan.nodes[maker].kind == "score" and plan.nodes[maker].text_version != node.text_version):
            raise ConfigError(
                f"{node.stage} would need {column}, which this run has not measured on that text",
                hint="corpusflow run  with it measures it",
            )
        out[column] = maker
    return out
