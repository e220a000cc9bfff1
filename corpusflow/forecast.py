"""What a plan would take at another size: documents and core-hours from what is committed, barriers from their stages' models.

Where the run folder holds a finished part of the plan, documents per byte of input, bytes of text per document and seconds per
document are those measured; else they are assumed, and the forecast says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from corpusflow.accounting import account
from corpusflow.errors import ConfigError
from corpusflow.plan import Node, Plan
from corpusflow.results import collect, committed_tally
from corpusflow.stage import Exchange

#: Of crawls: 1 PB of gzipped WARC files are some 37 billion pages (FineWeb's figures), whose main text is some 5,500 bytes.
_INPUT_BYTES: Final = 27_000.0
_TEXT_BYTES: Final = 5_500.0
#: Work that tells a pace.
_SECONDS: Final = 60.0
_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15, "e": 10**18}
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtpe]?)b?\s*", re.IGNORECASE)


def parse_size(text: str) -> float:
    """Bytes, of `1PB`, `2.5 TB`, `300g`.

    Raises:
        ConfigError: it is none.
    """
    found = _SIZE.fullmatch(text)
    if found is None or not float(found[1]):
        raise ConfigError(f"{text!r} is no size", hint="a number and a unit: 500GB, 1PB")
    return float(found[1]) * _UNITS[found[2].lower()]


@dataclass(frozen=True)
class Forecast:
    """A plan at a size of input.

    Attributes:
        stages: per configured stage that has run: documents in, and core-hours at the pace measured, with a barrier's as its
            model has them; None where the run took all of the stage over from another.
        barriers: per Exchange with a model: what its phases take, and what that rests on.
        assumed: what could not be measured.
    """

    input_bytes: float
    documents: float
    text_bytes: float
    stages: list[dict[str, Any]]
    barriers: dict[str, dict[str, Any]]
    assumed: list[str]

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return dict(vars(self))


def forecast(plan: Plan, size: float) -> Forecast:
    """The plan at `size` bytes of input."""
    tallies = {node.index: committed_tally(plan, node) for node in plan.nodes}
    counters, advice = collect(plan, lambda node: tallies[node.index])
    counts = account(plan, counters, advice)
    given = sum(s.length for s in plan.shards)
    sources = [n.index for n in plan.sources]
    read = sum(int(counters[i].get("kept", 0)) for i in sources if i in counters)
    whole = bool(read and given) and all(len(tallies[n.index].shards) == _shards(plan, n) for n in plan.sources)
    assumed = []
    if not whole:
        assumed.append(
            f"{_INPUT_BYTES:,.0f} bytes of input a document, since the run folder has not read all of its input"
        )
    documents = size * read / given if whole else size / _INPUT_BYTES
    scale = size / given if whole else 0.0
    text = [c for n in plan.wides if (c := counters.get(n.index)) and c.get("kept") and c.get("text_bytes")]
    text_bytes = text[-1]["text_bytes"] / text[-1]["kept"] if text else _TEXT_BYTES
    if not text:
        assumed.append(f"{_TEXT_BYTES:,.0f} bytes of text a document, since no text is stored")
    barriers: dict[str, dict[str, Any]] = {}
    entered = {c.stage: c.entered * scale for c in counts if c.entered}
    for node in plan.nodes:
        if node.kind == "exchange":
            stage = node.build()
            if isinstance(stage, Exchange) and (told := stage.costs(entered.get(node.stage) or documents, text_bytes)):
                barriers[node.stage] = dict(told)
    # a barrier's tasks on a small run are all start-up: at that pace 0.8 s of dedup.exact became 28,000 hours for 100 TB
    modelled: dict[str, float] = {}
    for node in plan.nodes:
        if node.kind == "exchange" and node.stage in barriers:
            modelled[node.where] = modelled.get(node.where, 0.0) + advice.get(node.index, {}).get("seconds", 0.0)
    stages: list[dict[str, Any]] = []
    for row in counts:
        if scale and row.entered:
            pace = row.seconds - modelled.get(row.where, 0.0)
            phases = barriers.get(row.stage, {}).get("phases", ())
            hours = pace * scale / 3600 + sum(p["core-hours"] for p in phases)
            stages.append(
                {
                    "stage": row.stage,
                    "documents": row.entered * scale,
                    "core_hours": hours if row.seconds else None,
                }
            )
    if missing := [s["stage"] for s in stages if s["core_hours"] is None]:
        assumed.append(f"nothing for {', '.join(missing)}: all of it was taken over from an earlier run")
    if stages and (seconds := sum(row.seconds for row in counts)) < _SECONDS:
        assumed.append(f"the pace of {seconds:.0f} s of work, start-up included: run some gigabytes for one to rely on")
    return Forecast(size, documents, text_bytes, stages, barriers, assumed)


def _shards(plan: Plan, node: Node) -> int:
    return sum(s.source == node.index for s in plan.shards)
