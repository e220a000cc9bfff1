"""One document's whole story: each stage it reached, every signal beside its threshold, what dropped it, where it lies now.

Reads the Sources' indexes, signal columns and commit records of one shard; text only for the excerpt. Promises that the
story is the run's own: verdicts come from the committed signals through the same rules (`rules.explain`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.api import Run
from corpusflow.checkpoint import read_part
from corpusflow.errors import ConfigError, typed
from corpusflow.phases import Inputs
from corpusflow.plan import SOURCE_BASE, Node, Plan, Shard
from corpusflow.reader import INDEX_COLUMNS, QUARANTINED, ROWS, ShardReader
from corpusflow.rules import Finding, explain
from corpusflow.schema import ID, QUARANTINE, ROW, SKIPPED, is_signal
from corpusflow.stage import Sink

#: Longer lists and byte strings are shown by their length: tokens, signatures.
_SHOWN_ITEMS: Final = 8
EXCERPT_CHARACTERS: Final = 200

KEPT, DROPPED, QUARANTINED_HERE, NOT_A_DOCUMENT = "kept", "dropped", "quarantined", "skipped"
MEASURED, NOT_MEASURED, REWRITTEN, WRITTEN, WAITING = "measured", "not measured", "rewritten", "written", "not run yet"
DROPPED_ALREADY, WOULD_DROP = "had been dropped", "would drop it too"


@dataclass(frozen=True)
class Place:
    """A record of the input: row `row` of its shard's Source index."""

    shard: Shard
    row: int


@dataclass
class Passage:
    """What one node of the plan did with a document.

    Attributes:
        outcome: one of the words above.
        reason: the rule that dropped it, or why it was skipped or quarantined.
        signals: the columns the node added, for this document.
        findings: every rule of a Filter beside the document's value.
        places: of a Sink, where the document lies in its files.
    """

    stage: str
    part: str
    outcome: str
    reason: str = ""
    signals: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    places: list[dict[str, Any]] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "stage": self.stage,
            "part": self.part,
            "outcome": self.outcome,
            "reason": self.reason,
            "signals": self.signals,
            "rules": [finding_data(f) for f in self.findings],
            "places": self.places,
        }


@dataclass
class Story:
    """All passages of one document, and how it ended."""

    document: dict[str, Any]
    shard: int
    row: int
    fate: str
    passages: list[Passage]
    excerpt: str | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {
            **self.document,
            "shard": self.shard,
            "row": self.row,
            "fate": self.fate,
            "stages": [p.as_data() for p in self.passages],
            "excerpt": self.excerpt,
        }


def finding_data(finding: Finding) -> dict[str, Any]:
    """A Finding as JSON values."""
    threshold: Any = finding.threshold
    if isinstance(threshold, tuple):
        threshold = list(threshold)
    return {
        "reason": finding.rule.reason,
        "signal": finding.rule.signal(),
        "value": finding.value,
        "op": finding.rule.op,
        "threshold": dict(threshold) if isinstance(threshold, Mapping) else threshold,
        "passed": finding.passed,
        "applicable": finding.applicable,
    }


def find_documents(run: Run, key: str, *, most: int = 20) -> list[Place]:
    """Records whose id, URL or record id is `key`, at most `most`, documents before records that are none.

    Raises:
        ConfigError: there is none.
    """
    documents: list[Place] = []
    others: list[Place] = []  # request and metadata records share the page's URL
    for shard in _likely_first(run, key):
        reader = ShardReader(run.plan, shard)
        node = reader.source_node()
        record = reader.record(node)
        part = record.part(ROWS) if record is not None else None
        if part is None:
            continue
        table = read_part(reader.dataset(node), part, [ID, "url", "record_id", SKIPPED])
        by_id = _equal(table, ID, key)
        if by_id.any():
            return [Place(shard, int(by_id.argmax()))]  # ids are unique
        hits = _equal(table, "url", key) | _equal(table, "record_id", key)
        skipped = table.column(SKIPPED).is_valid().to_numpy()
        documents += [Place(shard, int(r)) for r in np.flatnonzero(hits & ~skipped)]
        others += [Place(shard, int(r)) for r in np.flatnonzero(hits & skipped)]
        if len(documents) >= most:
            break
    if not documents and not others:
        raise ConfigError(
            f"no record of {run.plan.run_dir} has the id, URL or record id {key!r}",
            hint=f"{typed('inspect', run.plan.run_dir, '--stage', run.stages[0])}  shows what ids look like",
        )
    return [*documents, *others][:most]


def _equal(table: pa.Table, column: str, key: str) -> np.ndarray:
    out: np.ndarray = pc.equal(table.column(column), key).fill_null(False).to_numpy()
    return out


def _likely_first(run: Run, key: str) -> Iterator[Shard]:
    """All shards; those that read the file an id names come first, so that a lookup by id opens one index."""
    likely = [s for s in run.plan.shards if any(f"/{f[1]}#" in key for f in s.files) and (not s.only or key in s.only)]
    likely.sort(
        key=lambda s: s.number if s.only else -1, reverse=True
    )  # the last replay of a document is what became of it
    yield from likely
    numbers = {s.number for s in likely}
    yield from (s for s in run.plan.shards if s.number not in numbers)


def tell(run: Run, place: Place, reader: ShardReader | None = None) -> Story:
    """The story of a record; for many records of one shard, hand in its reader."""
    return _Teller(run, place, reader or ShardReader(run.plan, place.shard)).story()


def excerpt(run: Run, place: Place, reader: ShardReader) -> str | None:
    """The start of a record's text, as the last checkpoint that has it holds it."""
    return _Teller(run, place, reader).excerpt()


class _Teller:
    """Follows one row through the plan, from base to base."""

    def __init__(self, run: Run, place: Place, reader: ShardReader) -> None:
        self.run = run
        self.plan = run.plan
        self.reader = reader
        self.place = place
        self._rows: dict[int, int | None] = {SOURCE_BASE: place.row}

    def row(self, base: int) -> int | None:
        """The record's row in a base; None where it is not stored there."""
        if base not in self._rows:
            node = self.plan.nodes[base]
            before = self.row(node.base)
            found = None
            if before is not None and self.reader.record(node) is not None:
                parents = self.reader.parents(base)
                at = int(np.searchsorted(parents, before))
                found = at if at < len(parents) and parents[at] == before else None
            self._rows[base] = found
        return self._rows[base]

    def story(self) -> Story:
        node = self.reader.source_node()
        part = self.reader.need(node).part(ROWS)
        if part is None:
            raise ConfigError(f"shard {self.place.shard.number} has no index")
        index = read_part(self.reader.dataset(node), part, list(INDEX_COLUMNS)).slice(self.place.row, 1).to_pylist()[0]
        passages = [self._source(node, index)]
        if passages[0].outcome == KEPT:
            passages += self._passages()
        story = Story(
            {k: v for k, v in index.items() if k not in (SKIPPED, QUARANTINE)},
            self.place.shard.number,
            self.place.row,
            _fate(passages),
            passages,
        )
        story.excerpt = self.excerpt()
        return story

    def _source(self, node: Node, index: Mapping[str, Any]) -> Passage:
        if index[SKIPPED] is not None:
            return Passage(node.stage, node.label, NOT_A_DOCUMENT, index[SKIPPED])
        if index[QUARANTINE] is not None:
            return Passage(node.stage, node.label, QUARANTINED_HERE, index[QUARANTINE])
        return Passage(node.stage, node.label, KEPT)

    def _passages(self) -> Iterator[Passage]:
        dropped = False
        for node in self.plan.nodes:
            if node.kind in ("source", "wide"):
                continue
            row = self.row(node.base)
            survivors_only = node.kind in ("transform", "exchange", "sink") or node.survivors_only
            if dropped and (survivors_only or row is None):
                return
            if row is None or (node.kind != "sink" and self.reader.record(node) is None):
                yield Passage(node.stage, node.label, WAITING)
                return
            passage = self._passage(node, row)
            if node.kind == "filter" and dropped:
                passage.outcome = WOULD_DROP if passage.outcome == DROPPED else DROPPED_ALREADY
            yield passage
            ended = node.kind == "transform" if passage.outcome == QUARANTINED_HERE else node.gate
            if passage.outcome in (DROPPED, QUARANTINED_HERE):
                if ended:
                    return
                dropped = True

    def _passage(self, node: Node, row: int) -> Passage:
        at = np.array([row], np.int32)
        if node.kind == "filter":
            return self._verdict(node, at)
        if node.kind == "sink":
            return self._written(node)
        why = self._quarantined(node, row)
        if why is not None:
            return Passage(node.stage, node.label, QUARANTINED_HERE, why)
        signals = self._signals(node, at)
        measured = not signals or bool(self.reader.view(node).measured(at)[0])
        outcome = REWRITTEN if node.kind == "transform" else MEASURED
        return Passage(node.stage, node.label, outcome if measured else NOT_MEASURED, signals=signals)

    def _verdict(self, node: Node, at: np.ndarray) -> Passage:
        columns = self.reader.signals(node, at, node.base)
        findings = explain(node.rule_list, {c: a[0].as_py() for c, a in columns.items()})
        # the verdict is taken from the columns themselves, as the run took it
        first = int(self.reader.verdict(node, at, node.base).first[0])
        reason = node.rule_list[first].reason if first >= 0 else ""
        return Passage(node.stage, node.label, DROPPED if reason else KEPT, reason, findings=findings)

    def _signals(self, node: Node, at: np.ndarray) -> dict[str, Any]:
        columns = [c for c in node.adds if is_signal(c)]
        return {c: shown(self.reader.column(c, node, at, node.base)[0].as_py()) for c in columns}

    def _quarantined(self, node: Node, row: int) -> str | None:
        record = self.reader.need(node)
        part = record.part(QUARANTINED)
        if part is None:
            return None
        table = read_part(self.reader.dataset(node), part, [ROW, "detail"])
        hit = np.flatnonzero(table.column(ROW).to_numpy() == row)
        return str(table.column("detail")[int(hit[0])].as_py()) if len(hit) else None

    def _written(self, node: Node) -> Passage:
        row = self.row(node.base)
        fate = self.reader.fate(node.index, node.base)
        if row is None or not fate.alive[row]:
            return Passage(node.stage, node.label, DROPPED_ALREADY)
        sink = node.build()
        places: list[dict[str, Any]] = []
        if isinstance(sink, Sink):
            identity = next(self.reader.rows_with(node.base, [ID], _only(row, fate.alive), {})).column(ID)[0].as_py()
            places = [dict(p) for p in sink.find(Inputs(self.plan, node), str(identity))]
        return Passage(node.stage, node.label, WRITTEN if places else KEPT, places=places)

    def excerpt(self) -> str | None:
        """See the function."""
        for wide in reversed(self.plan.wides):
            row = self.row(wide.index)
            if row is not None and "text" in wide.adds:
                return next(excerpts(self.reader, wide.index, np.array([row])), None)
        if source_has_text(self.plan) and self.reader.fate(0, SOURCE_BASE).alive[self.place.row]:
            return next(excerpts(self.reader, SOURCE_BASE, np.array([self.place.row])), None)
        return None


def _only(row: int, like: np.ndarray) -> np.ndarray:
    mask = np.zeros_like(like)
    mask[row] = True
    return mask


def source_has_text(plan: Plan) -> bool:
    """Whether the input gives text, and not bytes that a stage must make text of."""
    return not any("raw" in node.reads for node in plan.nodes)


def excerpts(reader: ShardReader, base: int, rows: np.ndarray) -> Iterator[str | None]:
    """First 200 characters of the text of rows (ascending) of a base."""
    if not len(rows):
        return
    wanted = np.zeros(reader.rows_in(base), np.bool_)
    wanted[rows] = True
    for _, batch in reader.documents(base, ["text"], wanted):
        for value in pc.utf8_slice_codeunits(batch.column("text"), 0, EXCERPT_CHARACTERS):
            yield value.as_py()


def shown(value: Any) -> Any:
    """A signal as JSON and people can take it: bytes in hex, long lists by their length."""
    if isinstance(value, bytes):
        return value.hex() if len(value) <= 2 * _SHOWN_ITEMS else f"{len(value)} bytes"
    if isinstance(value, list):
        return [shown(v) for v in value] if len(value) <= _SHOWN_ITEMS else f"{len(value)} values"
    return value


def _fate(passages: list[Passage]) -> str:
    for passage in passages:
        if passage.outcome in (DROPPED, QUARANTINED_HERE, NOT_A_DOCUMENT):
            return f"{passage.outcome} by {passage.stage}: {passage.reason}"
    last = passages[-1]
    return f"{last.stage} has not run on it yet" if last.outcome == WAITING else "kept to the end"
