"""What a stage says of its own work: the `summary.json` a phase wrote, the tables beside it, and warnings its tasks noted.

An Exchange or a Sink that has something to say besides counts writes a file of that name in one of its phases; Parquet files of
the same phase are its tables. A task that notes `warnings` (a list of sentences) has them repeated at the end of the run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from corpusflow.phases import Inputs, phases_of
from corpusflow.plan import Node, Plan

SUMMARY: Final = "summary.json"
_TABLE: Final = ".parquet"


def summary_of(plan: Plan, nodes: Iterable[Node], most: int) -> dict[str, Any] | None:
    """JSON values: the last summary among some nodes' phases, and `most` rows of each table (of each value of its column `by`,
    where it has one); None where there is none."""
    found = None
    for node in nodes:
        if node.kind not in ("exchange", "sink"):
            continue
        inputs = Inputs(plan, node)
        for phase in phases_of(node):
            parts = inputs.parts(phase.name)
            told = next((p for p in parts if p.name == SUMMARY), None)
            if told is None:
                continue
            with inputs.open(told) as stream:
                found = dict(json.loads(stream.read()))
            for part in parts:
                if part.name.endswith(_TABLE):
                    found[part.name.removesuffix(_TABLE)] = _first(inputs.read_parquet(part).to_pylist(), most)
    return found


def _first(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    seen: Counter[Any] = Counter()
    out = []
    for row in rows:
        by = row.get("by")
        seen[by] += 1
        if seen[by] <= most:
            out.append(row)
    return out


def warnings_noted(plan: Plan) -> list[str]:
    """Warnings of all stages, each once, with the stage's name."""
    out = []
    for node in plan.nodes:
        if node.kind in ("exchange", "sink"):
            inputs = Inputs(plan, node)
            for phase in phases_of(node):
                for note in inputs.info(phase.name).values():
                    out += [f"{node.stage}: {text}" for text in note.get("warnings") or ()]
    return list(dict.fromkeys(out))
