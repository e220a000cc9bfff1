"""Config to Plan: stages in order become nodes with columns, steps cut at barriers, and fingerprints.

Reads the config, the stage classes, model files (for their hashes) and the input listing; writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow as pa

from corpusflow.arrangement import Arrangement, Item
from corpusflow.build import model_fields
from corpusflow.config import Config
from corpusflow.errors import ConfigError
from corpusflow.fingerprint import fingerprint
from corpusflow.pinned import pinned_path
from corpusflow.plan import SOURCE_BASE, Kind, Node, Plan, Shard, Step, parse_type, type_string
from corpusflow.plan_notes import notes_on
from corpusflow.schema import BYTES_COLUMNS, DOCUMENT_COLUMNS, OPTIONAL, is_signal
from corpusflow.stage import Composite, Exchange, Filter, Score, Sink, Source, Stage, Transform, parameters


@dataclass
class _State:
    """What the fingerprint of the next node is made of; see plan.py."""

    lineage: str = fingerprint("source")
    content: str = fingerprint("source")
    base: int = SOURCE_BASE
    base_fp: str = fingerprint("source")
    text_version: int = 0
    step: int = 0
    transform_step: int = 0
    gates: list[tuple[str, int]] = field(default_factory=list)  # (mask_fp, step), since the base
    text_gates: list[str] = field(default_factory=list)  # mask_fp, since the last Transform
    trail: list[str] = field(
        default_factory=list
    )  # of Filters (mask_fp) and Scores (fp) in order, since the last Transform
    signals: dict[str, int] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    bytes_of: str = ""  # a Source whose documents have no text yet
    without_bytes: str = ""  # its parameter that makes it give none


class Planner:
    """Makes one Plan of one Config."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.run_dir = os.path.abspath(config.run.dir)
        self._stages = Arrangement(config)

    def plan(self, shards: tuple[Shard, ...], epoch: int) -> Plan:
        """The Plan for an input listing."""
        items = self._stages.ordered()
        state = _State(columns={k: type_string(v) for k, v in DOCUMENT_COLUMNS.items()})
        nodes: list[Node] = []
        shard_set = fingerprint([s.key for s in shards])
        folders: set[str] = set()
        redacting = []
        for item in items:
            _need_text(item, state)
            node = self._node(len(nodes), item, state, nodes, shard_set)
            if node.folder in folders:
                continue  # the same stage on the same text twice: one node is enough
            folders.add(node.folder)
            if isinstance(item.part, Transform) and item.part.redacts:
                redacting.append(len(nodes))
            nodes.append(node)
            _advance(state, node)
        steps = _steps(nodes)
        columns = {k: v for k, v in state.columns.items() if k not in BYTES_COLUMNS}
        return Plan(
            name=self.config.name,
            seed=self.config.seed,
            fp=fingerprint([n.fp for n in nodes], [n.step for n in nodes], [(s.number, s.key) for s in shards], epoch),
            run_dir=self.run_dir,
            epoch=epoch,
            nodes=tuple(nodes),
            steps=steps,
            shards=shards,
            document_columns=columns,
            sample=self.config.run.sample,
            models=self._stages.models,
            code=self._stages.code,
            notes=notes_on(nodes, redacting),
        )

    @property
    def sources(self) -> tuple[Item, ...]:
        """The config's inputs."""
        return self._stages.sources

    def source_op(self, i: int) -> str:
        """Fingerprint of a Source's operation; part of the key of its shards."""
        return self._op_fp(self._stages.sources[i])

    def _op_fp(self, item: Item) -> str:
        part = item.part
        if part is None:
            return fingerprint("wide", 1)
        values = parameters(part, semantic_only=True)
        for key in model_fields(type(part)):
            if values.get(key):
                values[key] = self._stages.sha_of_model(item.stage, type(part), key, values[key])
        reference = item.reference
        if ".py:" in reference:
            path, _, attribute = reference.rpartition(":")
            reference = self._stages.code[os.path.abspath(path)] + ":" + attribute
        if isinstance(part, Filter):
            return fingerprint(reference, [r.as_data() for r in part.rules()])
        return fingerprint(reference, type(part).__qualname__, part.version, values)

    def _node(self, index: int, item: Item, state: _State, nodes: list[Node], shard_set: str) -> Node:
        part = item.part
        kind = _kind(part)
        reads = _available(part.inputs() if part is not None else (), state)
        providers = {c: state.signals[c] for c in reads if is_signal(c)}
        for column in reads:
            if not is_signal(column) and column not in state.columns:
                raise ConfigError(
                    f"{item.where}: {item.stage} reads the column {column!r}, which no input maps and no stage adds",
                    hint=f"columns here: {', '.join(state.columns)}",
                )
        _check_columns(item, reads, {c: parse_type(nodes[i].adds[c]) for c, i in providers.items()})
        op_fp = self._op_fp(item)
        provided = {c: nodes[i].fp for c, i in sorted(providers.items())}
        gates = [g for g, _ in state.gates]
        survivors_only = isinstance(part, Score) and part.survivors_only
        mask_fp = fingerprint("mask", op_fp, provided) if kind == "filter" else ""
        before = [state.base_fp, state.lineage]
        if kind == "source":
            fp = op_fp
        elif kind == "wide":
            fp = fingerprint(kind, state.lineage, state.text_gates, *_shared_columns(nodes))
        elif kind == "score" and not survivors_only:
            fp = fingerprint(kind, op_fp, before, gates, provided)
        elif kind == "filter":
            fp = fingerprint(kind, mask_fp, before, state.trail, gates)
        elif kind in ("exchange", "sink"):
            fp = fingerprint(kind, op_fp, before, state.trail, gates, provided, shard_set, self.config.seed)
        else:
            fp = fingerprint(kind, op_fp, before, state.trail, gates, provided)
        return Node(
            index=index,
            stage=item.stage,
            kind=kind,
            label=self._label(item, kind),
            reference=item.reference,
            params=self._pinned(item),
            piece=item.piece,
            fp=fp,
            op_fp=op_fp,
            mask_fp=mask_fp,
            content=self._content(kind, op_fp, fp, providers, state, nodes),
            step=_step_of(kind, survivors_only, state, providers, nodes),
            base=state.base,
            text_version=state.text_version,
            reads=tuple(reads),
            adds=_adds(part, state),
            removes=part.removes if isinstance(part, Transform) else (),
            providers=providers,
            rules=tuple(r.as_data() for r in part.rules()) if isinstance(part, Filter) else (),
            gate=isinstance(part, Filter) and part.gate,
            inserted=item.inserted,
            survivors_only=survivors_only,
            where=item.where,
            libraries=_libraries(part),
        )

    def _content(
        self, kind: Kind, op_fp: str, fp: str, providers: Mapping[str, int], state: _State, nodes: list[Node]
    ) -> str:
        """What a row's result depends on: the operation, the text's own history and the signals read; not which rows."""
        if kind in ("source", "filter", "exchange", "sink"):
            return fp
        if kind == "wide":
            return fingerprint(kind, state.content, list(state.columns))
        return fingerprint(kind, op_fp, state.content, {c: nodes[i].content for c, i in sorted(providers.items())})

    def _label(self, item: Item, kind: Kind) -> str:
        if isinstance(item.configured, Composite):
            same = [i for i, p in enumerate(item.configured.expand()) if _kind(p) == kind]
            if len(same) > 1:
                return f"{kind}{same.index(item.piece) + 1}"
        return kind

    def _pinned(self, item: Item) -> Mapping[str, Any]:
        """Parameters with a model's path replaced by that of its copy in the run folder."""
        if item.configured is None:
            return {}
        values = parameters(item.configured)
        for key in model_fields(type(item.configured)):
            if values.get(key):
                sha = self._stages.sha_of_model(item.stage, type(item.configured), key, values[key])
                if self._stages.models.get(sha):
                    values[key] = pinned_path(self.run_dir, sha, self._stages.models[sha])
        return values


def _shared_columns(nodes: list[Node]) -> list[Mapping[str, str]]:
    """The columns that Sources map, where not all map the same: a wide checkpoint has those of every Source in each shard, and
    a shard's key says nothing of the other Sources. Nothing where a shard's own Source decides, as it does where it is alone."""
    own = [
        {k: v for k, v in n.adds.items() if k not in DOCUMENT_COLUMNS and not is_signal(k)}
        for n in nodes
        if n.kind == "source"
    ]
    every = {k: v for columns in own for k, v in columns.items()}
    return [every] if any(columns != every for columns in own) else []


def _check_columns(item: Item, reads: tuple[str, ...], types: Mapping[str, pa.DataType]) -> None:
    """Scores make signals, and rules look at nothing else; `types` are those of the signals read."""
    if isinstance(item.part, Score) and (plain := [c for c in item.part.outputs() if not is_signal(c)]):
        raise ConfigError(
            f"{item.where}: {item.stage} is a Score and adds {plain[0]!r}", hint=f"signals are dotted: my.{plain[0]}"
        )
    if isinstance(item.part, Filter) and (plain := [c for c in reads if not is_signal(c)]):
        raise ConfigError(
            f"{item.where}: a rule of {item.stage} looks at {plain[0]!r}, which is no signal",
            hint="let a Score measure it; rules are thresholds on dotted columns",
        )
    if isinstance(item.part, Filter):
        for rule in item.part.rules():
            try:
                rule.check_types(types)
            except ConfigError as e:
                raise ConfigError(f"{item.where}: {item.stage}: {e.message}", hint=e.hint) from e


def _available(inputs: tuple[str, ...], state: _State) -> tuple[str, ...]:
    """The columns a stage reads here: those it may do without only where some stage before makes them."""
    names = [
        c.removesuffix(OPTIONAL) for c in inputs if not c.endswith(OPTIONAL) or _known(c.removesuffix(OPTIONAL), state)
    ]
    return tuple(dict.fromkeys(names))


def _known(column: str, state: _State) -> bool:
    return column in state.signals if is_signal(column) else column in state.columns


def _adds(part: Stage | None, state: _State) -> dict[str, str]:
    """What a stage adds; a wide checkpoint holds every document column but the raw bytes."""
    if part is None:
        return {k: v for k, v in state.columns.items() if k not in BYTES_COLUMNS}
    made = {
        k: v for k, v in part.outputs().items() if not k.endswith(OPTIONAL) or _known(k.removesuffix(OPTIONAL), state)
    }
    return {k.removesuffix(OPTIONAL): type_string(v) for k, v in made.items()}


def _kind(part: Stage | None) -> Kind:
    kinds: tuple[tuple[type[Stage], Kind], ...] = (
        (Source, "source"),
        (Transform, "transform"),
        (Score, "score"),
        (Filter, "filter"),
        (Exchange, "exchange"),
        (Sink, "sink"),
    )
    if part is None:
        return "wide"
    return next(kind for cls, kind in kinds if isinstance(part, cls))


def _step_of(kind: Kind, survivors_only: bool, state: _State, providers: Mapping[str, int], nodes: list[Node]) -> int:
    """Most nodes run where they stand; a Score runs as early as what it reads exists, so that text is decoded once."""
    if kind == "score" and not survivors_only:
        base_step = nodes[state.base].step if state.base != SOURCE_BASE else 0
        needed = [nodes[i].step for i in providers.values()]
        # an Exchange's columns exist for others from the map step after it
        needed = [s + 1 if nodes[i].kind == "exchange" else s for s, i in zip(needed, providers.values(), strict=True)]
        return max([base_step, state.transform_step, *needed, *(s for _, s in state.gates)])
    if kind in ("exchange", "sink"):
        return state.step + 1
    return state.step


def _need_text(item: Item, state: _State) -> None:
    """Whether there is text where it is read: of pages that nobody extracts, every rule says "not applicable".

    Raises:
        ConfigError: there is none.
    """
    part = item.part
    if part is None:
        return
    reads = part.inputs()
    if isinstance(part, Source) and part.gives_bytes:
        state.bytes_of, state.without_bytes = item.stage, part.without_bytes
    elif isinstance(part, Transform) and "raw" in reads and "text" in part.outputs():
        state.bytes_of = ""
    elif state.bytes_of and "text" in reads and "raw" not in reads:
        hint = "put ingest.extract in front of it, at the beginning of `stages:`"
        if state.without_bytes:
            hint += f"; texts pass it as they are. Or leave pages out: {state.bytes_of}: {{…, {state.without_bytes}}}"
        raise ConfigError(
            f"{item.where}: {item.stage} reads text, but {state.bytes_of} gives pages as bytes, of which none was made yet",
            hint=hint,
        )


def _advance(state: _State, node: Node) -> None:
    """The state behind a node."""
    for column, kind in node.adds.items():
        if is_signal(column):
            state.signals[column] = node.index
        elif node.kind in ("source", "transform"):
            state.columns[column] = kind
    for column in node.removes:
        state.columns.pop(column, None)
    if node.kind == "transform":
        state.lineage, state.content = node.fp, node.content
        state.text_version += 1
        state.trail, state.text_gates = [], []
        state.transform_step = node.step
    elif node.kind == "wide":
        state.base, state.base_fp = node.index, node.fp
        state.gates = []
    elif node.kind == "score":
        state.trail.append(node.fp)
    elif node.kind == "filter":
        state.trail.append(node.mask_fp)
        if node.gate:
            state.gates.append((node.mask_fp, node.step))
            state.text_gates.append(node.mask_fp)
    elif node.kind == "exchange":
        state.step += 2
    elif node.kind == "sink":
        state.step += 1


def _steps(nodes: list[Node]) -> tuple[Step, ...]:
    """Steps in order, empty ones left out. Map steps have even places before the first Sink."""
    by_step: dict[int, list[int]] = {}
    for node in nodes:
        by_step.setdefault(node.step, []).append(node.index)
        if node.kind == "exchange":
            by_step.setdefault(node.step + 1, []).append(node.index)
    steps: list[Step] = []
    for number in sorted(by_step):
        members = sorted(by_step[number])
        first = nodes[members[0]]
        alone = len(members) == 1 and first.step == number
        kind: Any = first.kind if alone and first.kind in ("exchange", "sink") else "map"
        steps.append(Step(number, kind, tuple(members)))
    return tuple(steps)


def _libraries(part: Stage | None) -> dict[str, str]:
    out = {}
    for name in ("pyarrow", *(part.libraries if part is not None else ())):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "absent"
    return out
