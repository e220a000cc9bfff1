"""Every document of a run followed twice, by the run's own rules and by others, up to some stage.

Documents are numbered by their row in the Source's index, so that one array per shard holds each walk whatever checkpoints
lie between. Reads signal columns and records; text for the excerpts of a few samples only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from corpusflow.api import Run
from corpusflow.checkpoint import NarrowView
from corpusflow.explain import Place, excerpt
from corpusflow.fingerprint import fingerprint
from corpusflow.plan import SOURCE_BASE, Node, Plan, Shard
from corpusflow.reader import ShardReader, signal_providers
from corpusflow.rules import Rule, Verdict, evaluate
from corpusflow.schema import ID
from corpusflow.whatif.answer import Moved, WhatIf

LANGUAGE: Final = "language.code"
_NEVER: Final = -1


class Walks:
    """Both walks, shard after shard, added up into the answer."""

    def __init__(
        self, run: Run, nodes: Sequence[Node], changed: Mapping[int, Node], answer: WhatIf, samples: int
    ) -> None:
        self.run = run
        self.plan = run.plan
        self.nodes = nodes
        self.changed = changed
        self.answer = answer
        self.samples = samples
        self.by_node = {f.node.index: f for f in answer.filters}
        self.rules = [(f.node.index, r) for f in answer.filters for r in f.rules]
        self.place = {(index, rule.reason): i for i, (index, rule) in enumerate(self.rules)}
        last = nodes[-1].index + 1 if nodes else 0
        self.language = signal_providers(run.plan, last).get(LANGUAGE)
        self._names: dict[int, str] = {}
        self.needed: dict[int, list[str]] = {}
        both = [providers for n in nodes for providers in (n.providers, changed.get(n.index, n).providers)]
        for column, index in sorted({item for providers in both for item in providers.items()}):
            if run.plan.nodes[index].kind != "source":
                self.needed.setdefault(index, []).append(column)
        self.movers: dict[str, _Movers] = {"lost": _Movers(samples), "gained": _Movers(samples)}

    def add(self, shard: Shard) -> None:
        """Follow the documents of one shard."""
        walk = _Walk(self, ShardReader(self.plan, shard))
        for node in self.nodes:
            walk.step(node)
        walk.conclude()

    def source_name(self, node: Node) -> str:
        """What the `source` column of a Source's documents says."""
        if node.index not in self._names:
            self._names[node.index] = str(getattr(node.build(), "source_name", node.stage))
        return self._names[node.index]

    def finish(self) -> None:
        """Look up the sample documents; tell each rule what it drops alone."""
        if self.answer.overlap is not None:
            told = self.answer.overlap.only_by_rule()
            for (index, change), only in zip(self.rules, told, strict=True):
                last = max((n.index for n in self.nodes if n.kind == "transform"), default=-1)
                if change.after is not None and index > last and not self.plan.nodes[index].gate:
                    change.only = only
        self.answer.samples = [self._moved(*one) for way in self.movers.values() for one in way.chosen()]

    def _moved(self, shard: int, row: int, rule: int, then: str) -> Moved:
        reader = ShardReader(self.plan, self.plan.by_number[shard])
        at = np.array([row], np.int32)
        place = reader.locate(at, SOURCE_BASE).select([ID, "url"]).to_pylist()[0]
        text = excerpt(self.run, Place(reader.shard, row), reader)
        index, change = self.rules[rule]
        deciding = change.after if then == "dropped" else change.before
        value = None if deciding is None else self._value(reader, self.plan.nodes[index], deciding, row)
        now = "kept" if then == "dropped" else "dropped"
        return Moved(place[ID], place["url"], now, then, change.reason, value, text)

    def _value(self, reader: ShardReader, node: Node, rule: Rule, row: int) -> Any:
        providers = self.changed.get(node.index, node).providers
        values = []
        for column in (rule.column, rule.per):
            if column is not None:
                maker = self.plan.nodes[providers[column]]
                at = _rows_of(reader, maker.base)[[row]]
                values.append(reader.view(maker).take(column, at)[0].as_py() if at[0] >= 0 else None)
        if len(values) == 2:
            return values[0] / values[1] if values[0] is not None and values[1] else None
        return values[0]


def _rows_of(reader: ShardReader, base: int) -> np.ndarray:
    """For each row of the Source's index, its row in a base, -1 where it is not stored there."""
    if base == SOURCE_BASE:
        return np.arange(reader.rows_in(SOURCE_BASE), dtype=np.int32)
    stored = np.arange(reader.rows_in(base), dtype=np.int32)
    out = np.full(reader.rows_in(SOURCE_BASE), _NEVER, np.int32)
    out[reader.rows_at(stored, base, SOURCE_BASE)] = stored
    return out


class _Walk:
    """One shard. Arrays over the rows of its Source's index.

    `known`: documents for which the run has what a Score behind here measured. `alive[0]`, `alive[1]`: kept by the run's
    rules, by the new ones. `dropped_by`: number of the rule that dropped it, -1 while none has.
    """

    def __init__(self, walks: Walks, reader: ShardReader) -> None:
        self.walks = walks
        self.reader = reader
        self.plan = walks.plan
        documents = reader.fate(0, SOURCE_BASE).alive
        self.known = documents.copy()
        self.alive = [documents.copy(), documents.copy()]
        self.dropped_by = [np.full(len(documents), _NEVER, np.int16) for _ in range(2)]
        self.unmeasured = np.zeros(len(documents), np.bool_)
        self.failing: list[tuple[int, np.ndarray, np.ndarray]] = []  # (rule, rows judged, which of them fail)
        self._rows: dict[int, np.ndarray] = {}
        self._read: set[int] = set()

    def rows_of(self, base: int) -> np.ndarray:
        """See `_rows_of`; kept."""
        if base not in self._rows:
            self._rows[base] = _rows_of(self.reader, base)
        return self._rows[base]

    def step(self, node: Node) -> None:
        """Take the documents past a node."""
        self.reader.need(node)
        if node.kind == "filter":
            self._filter(node)
            return
        if node.kind == "transform":
            self.known &= self.alive[0]
            self._set_aside(self.known)
        self._bury(node)

    def _bury(self, node: Node) -> None:
        record = self.reader.need(node)
        if not record.counters.get("quarantined"):
            return
        dead = np.isin(self.rows_of(node.base), self.reader.quarantined_rows(node, record))
        for alive in self.alive:
            alive &= ~dead
        if node.kind == "transform":
            self.known &= ~dead

    def _set_aside(self, known: np.ndarray) -> int:
        """Documents that only the new rules let come this far and the run has no signals of."""
        strange = self.alive[1] & ~known
        n = int(strange.sum())
        if n:
            self.unmeasured |= strange
            self.alive[1] &= known
        return n

    def _filter(self, node: Node) -> None:
        new = self.walks.changed.get(node.index, node)
        change = self.walks.by_node[node.index]
        known = self._measured({*node.providers.values(), *new.providers.values()})
        change.unmeasured += self._set_aside(known)
        rows = np.flatnonzero(known).astype(np.int32)
        columns = self._columns({**node.providers, **new.providers}, rows)
        now = evaluate(node.rule_list, columns, len(rows))
        then = now if new is node else evaluate(new.rule_list, columns, len(rows))
        self._draw(node, columns, rows)
        for side, (verdict, rules) in enumerate(((now, node.rule_list), (then, new.rule_list))):
            self._judge(node, side, rows, verdict, rules)
        for i, rule in enumerate(new.rule_list):
            self.failing.append((self.walks.place[node.index, rule.reason], rows, then.fails[i]))
        if node.gate:
            self.known[rows[~now.kept]] = False

    def _measured(self, providers: Iterable[int]) -> np.ndarray:
        """Documents that every provider has a row of."""
        known = self.known.copy()
        for index in providers:
            maker = self.plan.nodes[index]
            if maker.kind == "exchange" or maker.survivors_only:
                rows = self.rows_of(maker.base)
                stored = np.flatnonzero(known & (rows >= 0))
                here = stored[self.reader.view(maker).measured(rows[stored])]
                known = np.zeros_like(known)
                known[here] = True
        return known

    def _columns(self, providers: Mapping[str, int], rows: np.ndarray) -> dict[str, pa.Array]:
        out = {}
        for column, index in providers.items():
            maker = self.plan.nodes[index]
            out[column] = self._view(maker).take(column, self.rows_of(maker.base)[rows])
        return out

    def _view(self, maker: Node) -> NarrowView:
        """A node's columns, all that any rule will ask for read at once."""
        view = self.reader.view(maker)
        if maker.index not in self._read:
            self._read.add(maker.index)
            view.prefetch(self.walks.needed.get(maker.index, ()))
        return view

    def _judge(self, node: Node, side: int, rows: np.ndarray, verdict: Verdict, rules: Sequence[Rule]) -> None:
        change = self.walks.by_node[node.index]
        mine = self.alive[side][rows]
        change.entered[side] += int(mine.sum())
        change.kept[side] += int((mine & verdict.kept).sum())
        first = verdict.first[mine]
        counts = np.bincount(first[first >= 0], minlength=len(rules))
        by_reason = {r.reason: r for r in change.rules}
        numbers = np.array([self.walks.place[node.index, r.reason] for r in rules], np.int16)
        for rule, n in zip(rules, counts, strict=True):
            by_reason[rule.reason].dropped[side] += int(n)
        gone = rows[mine & ~verdict.kept]
        self.dropped_by[side][gone] = numbers[verdict.first[mine & ~verdict.kept]]
        self.alive[side][gone] = False

    def _draw(self, node: Node, columns: Mapping[str, pa.Array], rows: np.ndarray) -> None:
        for curve in self.walks.answer.curves:
            if curve.node == node.index:
                curve.add(columns, self.alive[1][rows])

    def conclude(self) -> None:
        """Add the shard's end to the answer."""
        answer = self.walks.answer
        self._set_aside(self.known)
        now, then = self.alive
        lost, gained = now & ~then & ~self.unmeasured, then & ~now
        for side, alive in enumerate(self.alive):
            answer.kept[side] += int(alive.sum())
        answer.lost += int(lost.sum())
        answer.gained += int(gained.sum())
        answer.unmeasured += int(self.unmeasured.sum())
        self._by_value()
        if answer.overlap is not None:
            answer.overlap.add(self.failing, self.known)
        shard = self.reader.shard
        self.walks.movers["lost"].add(self.plan, shard, np.flatnonzero(lost), self.dropped_by[1], "dropped")
        self.walks.movers["gained"].add(self.plan, shard, np.flatnonzero(gained), self.dropped_by[0], "kept")

    def _by_value(self) -> None:
        answer = self.walks.answer
        source = self.walks.source_name(self.reader.source_node())
        for side, alive in enumerate(self.alive):
            rows = np.flatnonzero(alive).astype(np.int32)
            answer.sources.setdefault(source, [0, 0])[side] += len(rows)
            if self.walks.language is None:
                continue
            codes = self._columns({LANGUAGE: self.walks.language}, rows)[LANGUAGE]
            for item in codes.value_counts().to_pylist():
                answer.languages.setdefault(item["values"] or "und", [0, 0])[side] += item["counts"]


class _Movers:
    """The `most` documents whose seeded hash is smallest, of all that move one way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._best: list[tuple[int, int, int, int, str]] = []

    def add(self, plan: Plan, shard: Shard, rows: np.ndarray, rules: np.ndarray, then: str) -> None:
        """Rows of a shard, with the rule each is moved by."""
        if not self._most or not len(rows):
            return
        salt = int(fingerprint(plan.seed, shard.key)[:15], 16)
        mixed = (rows.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        first = np.argsort(mixed, kind="stable")[: self._most]
        self._best += [(int(mixed[i]), shard.number, int(rows[i]), int(rules[rows[i]]), then) for i in first]
        self._best = sorted(self._best)[: self._most]

    def chosen(self) -> Iterator[tuple[int, int, int, str]]:
        """(shard, row, rule, what it becomes)."""
        return (one[1:] for one in self._best)
