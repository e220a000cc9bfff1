"""What a pipeline of toy stages must do, document by document in plain Python: no batch, shard, checkpoint or plan in it.

It knows three laws and nothing else of the engine:
    signals     a Transform of the text retires what was measured on the text before; a reader has it measured again
    decisions   a soft filter takes a document from Transforms, Exchanges, Sinks and survivors-only Scores, not from Scores;
                a gate takes it from everything behind it
    quarantine  a document that a stage cannot process is gone for whoever looks at survivors, and changes no neighbour
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import toy_stages as toy

from corpusflow.schema import id_hashes

OPS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass
class Doc:
    id: str
    shard: int
    values: dict[str, Any]
    absent: bool = False  # dropped by a gate, or not rewritten by a Transform: not even measured
    dead: bool = False  # dropped or quarantined

    @property
    def alive(self) -> bool:
        return not (self.absent or self.dead)


@dataclass
class Item:
    """One part of a configured stage."""

    kind: str
    stage: str
    line: int
    params: Mapping[str, Any]
    reads: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    run: Callable[..., Any] | None = None
    survivors_only: bool = False
    gate: bool = False
    inserted: bool = False


@dataclass
class Row:
    """What the closing table must say of one stage."""

    stage: str
    inserted: bool
    entered: int
    kept: int
    dropped: dict[str, int] = field(default_factory=dict)
    quarantined: int = 0
    measured: int = 0


def expand(stage: str, params: Mapping[str, Any], line: int) -> list[Item]:
    """The parts of one entry of the config."""

    def score(reads: tuple[str, ...], adds: str, run: Callable[..., Any], survivors_only: bool = False) -> Item:
        return Item("score", stage, line, params, reads, (adds,), run, survivors_only)

    def keep(p: Mapping[str, Any], gate: bool) -> Item:
        reads = tuple(c for c in (p["column"], p.get("per"), p.get("by")) if c)
        return Item("filter", stage, line, {"reason": "toy_reason", **p}, reads, gate=gate)

    def cutting(n: int) -> Item:
        return Item(
            "transform",
            stage,
            line,
            params,
            ("text",),
            ("text", "rest"),
            lambda t: {"text": toy.cut(t, n), "rest": None if t is None else t[n:]},
        )

    def raising(t: str | None) -> dict[str, Any]:
        new = toy.upper(t)
        return {"text": new, "toy.changed": new != t}

    match stage:
        case "Size":
            return [score(("text",), "toy.size", toy.size)]
        case "Digits":
            return [score(("text",), "toy.digits", lambda t: toy.digits(t, params.get("modulo", 1000)))]
        case "Half":
            return [score(("toy.size", "text"), "toy.half", toy.half)]
        case "Language":
            return [score(("lang",), "toy.lang", toy.language)]
        case "vowels":
            return [score(("text",), "toy.vowels", lambda t: sum(c in "aeiou" for c in t.lower()))]
        case "Codes":
            return [score(("text",), "toy.codes", toy.codes, survivors_only=True)]
        case "Keep":
            return [keep(params, params.get("gate", False))]
        case "Upper":
            return [Item("transform", stage, line, params, ("text",), ("text", "toy.changed"), raising)]
        case "Cut":
            return [cutting(params.get("n", 5))]
        case "Unique":
            twin = keep(
                {"column": "toy.unique.twin", "op": "is null", "reason": "toy_duplicate"}, params.get("gate", False)
            )
            return [
                score(("text",), "toy.unique.key", toy.key),
                Item("exchange", stage, line, params, ("id", "toy.unique.key"), ("toy.unique.twin",)),
                twin,
            ]
        case "Tidy":
            short = {"column": "toy.size", "op": ">=", "value": params.get("least", 2), "reason": "toy_short"}
            return [cutting(params.get("n", 6)), score(("text",), "toy.size", toy.size), keep(short, False)]
        case "Dump":
            return [Item("sink", stage, line, params)]
    raise KeyError(stage)


def with_scores(items: Sequence[Item]) -> list[Item]:
    """The items with a Score before each reader of a signal that nobody has measured on this text."""
    out: list[Item] = []
    fresh: dict[str, Item] = {}

    def of_text(item: Item) -> bool:
        return "text" in item.reads or any(
            c in fresh and fresh[c] is not item and of_text(fresh[c]) for c in item.reads
        )

    def add(item: Item) -> None:
        for column in item.reads:
            if "." in column and column not in fresh:
                maker = next(i for i in items if i.kind == "score" and column in i.adds and not i.survivors_only)
                add(
                    Item(
                        "score", maker.stage, item.line, maker.params, maker.reads, maker.adds, maker.run, inserted=True
                    )
                )
        if item.kind == "transform":
            stale = [c for c, by in fresh.items() if by.kind == "score" and of_text(by)]
            for column in stale:
                del fresh[column]
        fresh.update(dict.fromkeys((c for c in item.adds if "." in c), item))
        out.append(item)

    for item in items:
        before = fresh.get(item.adds[0]) if item.kind == "score" else None
        if before is not None and before.inserted and (before.stage, before.params) == (item.stage, item.params):
            continue
        add(item)
    return out


def passes(rule: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether a document satisfies a rule; what cannot be applied passes."""
    value, op, limit = values.get(rule["column"]), rule["op"], rule.get("value")
    if op == "is null":
        return value is None
    if op == "not null":
        return value is not None
    if op == "not in":
        return value not in limit
    if value is None:
        return True
    if op == "in":
        return value in limit
    if rule.get("per"):
        per = values.get(rule["per"])
        if not per or per < 0:
            return True
        value = value / per
    if rule.get("by"):
        name = values.get(rule["by"])
        limit = None if name is None else limit.get(str(name), limit.get("*"))
        if limit is None:
            return True
    return OPS[op](value, limit)


class Oracle:
    """Runs a pipeline; see the attributes for what it found.

    Attributes:
        rows: the closing table, Sources first.
        kept: documents left at the end, in order.
        after: (stage, inserted) of the last part with that name -> ids alive behind it.
    """

    def __init__(
        self,
        files: Sequence[Sequence[Mapping[str, Any]]],
        stages: Sequence[tuple[str, Mapping[str, Any]]],
        output: Sequence[tuple[str, Mapping[str, Any]]] = (("Dump", {}),),
    ) -> None:
        self.docs: list[Doc] = []
        source = Row("Lines", False, 0, 0)
        for shard, records in enumerate(files):
            for i, r in enumerate(records):
                source.entered += 1
                if r.get("skip"):
                    source.dropped[r["skip"]] = source.dropped.get(r["skip"], 0) + 1
                elif r.get("bad"):
                    source.quarantined += 1
                else:
                    values = {"text": r.get("text"), "lang": r.get("lang")}
                    self.docs.append(Doc(f"lines/{shard:02d}.jsonl#{i}", shard, values))
        source.kept = len(self.docs)
        self.rows = [source]
        self.after = {"Lines": [d.id for d in self.docs]}
        configured = [i for n, (s, p) in enumerate([*stages, *output]) for i in expand(s, p, n)]
        self.items = with_scores(configured)
        previous: Item | None = None
        for item in self.items:
            group = (item.stage, item.line, item.inserted)
            if previous is None or group != (previous.stage, previous.line, previous.inserted):
                alive = sum(d.alive for d in self.docs)
                self.rows.append(Row(item.stage, item.inserted, alive, alive))
            previous = item
            getattr(self, "_" + item.kind)(item, self.rows[-1])
            self.rows[-1].kept = sum(d.alive for d in self.docs)
            self.after[item.stage] = [d.id for d in self.docs if d.alive]
        self.kept = [d for d in self.docs if d.alive]

    def _each(self, item: Item, docs: Sequence[Doc], row: Row) -> Iterator[tuple[Doc, Any]]:
        for doc in docs:
            try:
                yield doc, item.run(*(doc.values.get(c) for c in item.reads)) if item.run else None
            except Exception:
                row.quarantined += doc.alive
                doc.dead = True
                for column in item.adds:
                    if "." in column:
                        doc.values[column] = None

    def _score(self, item: Item, row: Row) -> None:
        docs = [d for d in self.docs if (d.alive if item.survivors_only else not d.absent)]
        for d in self.docs:  # what is not measured has no value, not even an older one
            d.values.update(dict.fromkeys(item.adds))
        for doc, value in self._each(item, docs, row):
            doc.values[item.adds[0]] = value
            row.measured += 1

    def _filter(self, item: Item, row: Row) -> None:
        for doc in self.docs:
            if not doc.absent and not passes(item.params, doc.values):
                if doc.alive:
                    reason = item.params["reason"]
                    row.dropped[reason] = row.dropped.get(reason, 0) + 1
                doc.dead = True
                doc.absent = doc.absent or item.gate

    def _transform(self, item: Item, row: Row) -> None:
        for doc in self.docs:
            doc.absent = doc.absent or doc.dead
        for doc, new in self._each(item, [d for d in self.docs if d.alive], row):
            doc.values.update(new)
        for doc in self.docs:
            doc.absent = doc.absent or doc.dead

    def _exchange(self, item: Item, row: Row) -> None:
        groups: dict[int, list[Doc]] = {}
        for doc in self.docs:
            doc.values["toy.unique.twin"] = None
            if doc.alive and doc.values["toy.unique.key"] is not None:
                groups.setdefault(doc.values["toy.unique.key"], []).append(doc)
        for docs in groups.values():
            docs.sort(key=lambda d: (*id_hashes(pa.array([d.id]))[0].tolist(), d.id))
            for doc in docs[1:]:
                doc.values["toy.unique.twin"] = docs[0].id

    def _sink(self, item: Item, row: Row) -> None:
        """Writes what is left."""
