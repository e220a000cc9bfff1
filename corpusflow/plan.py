"""The plan: a config resolved into nodes and steps, as plain data that workers, people and later runs read.

A *node* is one stage (a part of a Composite is a node of its own) or a wide checkpoint that the planner put in. A *step* is
what runs between two barriers. Everything a worker needs is here: it never sees the config.

What depends on what (fingerprints):
    a Transform     on the text before it and on every filter before it: it only rewrites survivors
    a wide node     on the text it stores and the gates in front of it, never on a soft threshold; where Sources map
                    different columns, on all of these
    a Score         on the wide checkpoint (or source) its rows are numbered by, the text and the gates; never on a soft filter
    a Filter        its counts on everything before it; what it *means* to others on its rules and their signals alone
    an Exchange, a Sink, a survivors-only Score    on the text and every filter before it
The input is in no fingerprint: it is in the key of each shard, so new files only add shards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

import pyarrow as pa

from corpusflow import registry
from corpusflow.build import build_stage, find_model, model_fields
from corpusflow.errors import PlanDriftError
from corpusflow.fingerprint import fingerprint
from corpusflow.rules import Rule
from corpusflow.stage import Composite, Stage

PLAN_VERSION: Final = 1
#: `Node.base` of rows numbered by their shard's Source.
SOURCE_BASE: Final = -1
#: A regular expression for `Node.folder`, of any plan.
STAGE_FOLDER: Final = r"[^/]+/[a-z]+\d*-[0-9a-f]{12}"

Kind = Literal["source", "transform", "score", "filter", "wide", "exchange", "sink"]


@dataclass(frozen=True)
class Node:
    """One stage of the plan.

    Attributes:
        index: position in the plan; ties between equal rows are never broken by it.
        stage: the name the config uses; several nodes may share it (a Composite's parts, a signal measured twice).
        kind: what the engine does with it.
        label: what its folder starts with: the kind, numbered where a Composite has two of one kind.
        reference: what the registry finds the class by.
        params: parameters of the configured stage (of the Composite, for a part), models as pinned paths.
        piece: which part of the Composite, -1 if it is none.
        fp: fingerprint of its output.
        op_fp: fingerprint of the operation alone.
        mask_fp: for a Filter, what the verdict on one row depends on.
        content: what the result for one row depends on, whichever rows are with it; equal content can be inherited.
        step: the step that runs it.
        base: index of the wide node whose rows its own rows are numbered by, or SOURCE_BASE.
        text_version: how many Transforms have rewritten the text it sees or makes.
        reads: columns it looks at.
        adds: columns it makes, as Arrow type strings.
        removes: document columns gone after it.
        providers: signal it reads -> node that made it.
        rules: of a Filter, as data.
        gate: of a Filter.
        inserted: put in by the planner because a rule needs its signals.
        survivors_only: measures what filters kept.
        where: file:line of the config.
        libraries: versions of the distributions that make its output.
    """

    index: int
    stage: str
    kind: Kind
    label: str
    reference: str
    params: Mapping[str, Any]
    piece: int
    fp: str
    op_fp: str
    mask_fp: str
    content: str
    step: int
    base: int
    text_version: int
    reads: tuple[str, ...] = ()
    adds: Mapping[str, str] = field(default_factory=dict)
    removes: tuple[str, ...] = ()
    providers: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[Mapping[str, Any], ...] = ()
    gate: bool = False
    inserted: bool = False
    survivors_only: bool = False
    where: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Where its dataset lies in the run folder; STAGE_FOLDER is its form."""
        name = self.stage
        if ".py:" in name:  # a user's file: ./scores/my_stage.py:letters lies in my_stage.letters
            name = name.rpartition("/")[2].replace(".py:", ".")
        return f"{name}/{self.label}-{self.fp[:12]}"

    @property
    def name(self) -> str:
        """For messages: the config's name, with the part where a Composite has several."""
        return self.stage if self.piece < 0 and self.kind != "wide" else f"{self.stage} ({self.label})"

    @cached_property
    def rule_list(self) -> tuple[Rule, ...]:
        """The Filter's rules."""
        return tuple(Rule.from_data(r) for r in self.rules)

    def build(self) -> Stage:
        """The stage itself.

        Raises:
            ConfigError: its module or file is not there.
        """
        cls = registry.find(self.reference)
        values = dict(self.params)
        for key in model_fields(cls):
            if values.get(key):
                values[key] = find_model(self.stage, cls, key, values[key])
        configured = build_stage(self.stage, cls, values)
        if self.piece >= 0 and isinstance(configured, Composite):
            return configured.expand()[self.piece]
        return configured

    def arrow_adds(self) -> dict[str, pa.DataType]:
        """`adds` as Arrow types."""
        return {k: parse_type(v) for k, v in self.adds.items()}


@dataclass(frozen=True)
class Step:
    """What runs between two barriers.

    Attributes:
        kind: `map` (one task per shard), `exchange` or `sink` (the phases of one node).
        nodes: indices, in order. A map step after an Exchange begins with that Exchange, whose columns it applies.
    """

    index: int
    kind: Literal["map", "exchange", "sink"]
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Shard:
    """One unit of work: what it reads, and the epoch it joined the plan in.

    Attributes:
        number: never reused within a run folder.
        source: index of its Source node.
        files: (path, relative path, size, etag, start, end) per piece.
        limit: records to read at most, None for all.
        key: fingerprint of what it reads; with a stage's fingerprint it identifies the output.
        only: of a replay (replay.py), the ids it takes from what it reads; empty for a shard of the input.
        replays: of a replay, the number of the shard whose files it reads; else -1.
        under: of a replay, fingerprints of the stages that could not process these documents. In a plan without one of them
            another shard may keep them: the replay is then no part of it.
    """

    number: int
    epoch: int
    source: int
    files: tuple[tuple[str, str, int, str, int, int | None], ...]
    limit: int | None
    key: str
    only: tuple[str, ...] = ()
    replays: int = -1
    under: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """Bytes as stored."""
        return sum((size if end is None else end) - start for _, _, size, _, start, end in self.files)


@dataclass(frozen=True)
class Plan:
    """All of it.

    Attributes:
        document_columns: each document column a wide checkpoint may hold, and its type.
        models: SHA-256 -> path of a model file or folder, "" for a built-in one.
        code: path of a user's stage file -> SHA-256.
    """

    name: str
    seed: int
    fp: str
    run_dir: str
    epoch: int
    nodes: tuple[Node, ...]
    steps: tuple[Step, ...]
    shards: tuple[Shard, ...]
    document_columns: Mapping[str, str]
    sample: float | None
    models: Mapping[str, str]
    code: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @cached_property
    def by_number(self) -> dict[int, Shard]:
        """Shards by their number."""
        return {s.number: s for s in self.shards}

    @cached_property
    def sources(self) -> tuple[Node, ...]:
        """The Source nodes."""
        return tuple(n for n in self.nodes if n.kind == "source")

    @cached_property
    def wides(self) -> tuple[Node, ...]:
        """The wide checkpoints, in order."""
        return tuple(n for n in self.nodes if n.kind == "wide")

    def root(self, node: Node) -> str:
        """The folder of a node's dataset."""
        return f"{self.run_dir}/{node.folder}"

    def key(self, node: Node, shard: Shard) -> str:
        """What identifies the output of a node on a shard."""
        return fingerprint(node.fp, shard.key)[:32]

    def shard_set_key(self) -> str:
        """Identifies the whole input, for nodes that need all shards."""
        return fingerprint([s.key for s in self.shards])

    def stage_nodes(self, stage: str) -> tuple[Node, ...]:
        """The nodes of a configured stage."""
        return tuple(n for n in self.nodes if n.stage == stage)

    def configured_stages(self) -> tuple[str, ...]:
        """Names in order of their last node, inserted ones included."""
        seen: dict[str, None] = {}
        for node in self.nodes:
            seen.setdefault(node.stage)
        return tuple(seen)

    def filters_before(self, index: int, base: int) -> Iterator[Node]:
        """Filters whose verdict is not yet settled for rows numbered by `base`, up to position `index`.

        A wide checkpoint holds what survived the last Transform's filters and every gate up to it; only soft filters
        between that Transform and the checkpoint, and all filters after it, still have a say.
        """
        start, settled_gates = self.unsettled_from(base)
        for node in self.nodes[start:index]:
            if node.kind == "filter" and not (node.gate and node.index < settled_gates):
                yield node

    def unsettled_from(self, base: int) -> tuple[int, int]:
        """(position after the last Transform before the base, position of the base)."""
        if base == SOURCE_BASE:
            return 0, 0
        last = max((n.index for n in self.nodes[:base] if n.kind == "transform"), default=-1)
        return last + 1, base

    def as_data(self) -> dict[str, Any]:
        """JSON form, without the shard list (that is a Parquet file)."""
        data = asdict(replace(self, shards=()))  # of millions, asdict would copy every one
        del data["shards"]
        data["v"] = PLAN_VERSION
        return data

    @staticmethod
    def from_data(data: Mapping[str, Any], shards: tuple[Shard, ...]) -> Plan:
        """Inverse of `as_data`.

        Raises:
            PlanDriftError: written by another version of corpusflow's plan format.
        """
        if data.get("v") != PLAN_VERSION:
            raise PlanDriftError(
                f"this run folder's plan has format {data.get('v')}, this corpusflow reads {PLAN_VERSION}",
                hint="use the corpusflow that made it, or another run folder",
            )
        tuples = ("reads", "removes", "rules")
        fields: list[dict[str, Any]] = [
            {k: tuple(v) if k in tuples else v for k, v in n.items()} for n in data["nodes"]
        ]
        nodes = tuple(Node(**f) for f in fields)
        steps = tuple(Step(s["index"], s["kind"], tuple(s["nodes"])) for s in data["steps"])
        rest = {k: v for k, v in data.items() if k not in ("v", "nodes", "steps", "notes")}
        return Plan(nodes=nodes, steps=steps, shards=shards, notes=tuple(data["notes"]), **rest)

    def encode(self) -> bytes:
        """The JSON that lies in the run folder."""
        return (json.dumps(self.as_data(), indent=1, ensure_ascii=False) + "\n").encode()


def type_string(kind: pa.DataType) -> str:
    """An Arrow type as text that `parse_type` reads."""
    if pa.types.is_list(kind):
        return f"list<{type_string(kind.value_type)}>"
    if pa.types.is_large_list(kind):
        return f"large_list<{type_string(kind.value_type)}>"
    if pa.types.is_fixed_size_binary(kind):
        return f"binary[{kind.byte_width}]"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {type_string(field.type)}' for field in kind)}>"
    return str(kind)


def parse_type(text: str) -> pa.DataType:
    """Inverse of `type_string`."""
    if text.startswith("list<"):
        return pa.list_(parse_type(text[5:-1]))
    if text.startswith("large_list<"):
        return pa.large_list(parse_type(text[11:-1]))
    if text.startswith("binary["):
        return pa.binary(int(text[7:-1]))
    if text.startswith("struct<"):
        return pa.struct(
            [(name, parse_type(kind)) for name, _, kind in (f.partition(": ") for f in _fields(text[7:-1]))]
        )
    return pa.type_for_alias({"double": "float64", "float": "float32", "halffloat": "float16"}.get(text, text))


def _fields(text: str) -> list[str]:
    """The fields of a struct: parts between commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "<[") - (char in ">]")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def shard_table(shards: tuple[Shard, ...]) -> pa.Table:
    """The frozen input listing as a table."""
    return pa.table(
        {
            "number": pa.array([s.number for s in shards], pa.int32()),
            "epoch": pa.array([s.epoch for s in shards], pa.int16()),
            "source": pa.array([s.source for s in shards], pa.int16()),
            "files": pa.array([json.dumps(s.files) for s in shards], pa.string()),
            "limit": pa.array([s.limit for s in shards], pa.int64()),
            "key": pa.array([s.key for s in shards], pa.string()),
            "only": pa.array([s.only for s in shards], pa.list_(pa.string())),
            "replays": pa.array([s.replays for s in shards], pa.int32()),
            "under": pa.array([s.under for s in shards], pa.list_(pa.string())),
        }
    )


def shards_from_table(table: pa.Table) -> tuple[Shard, ...]:
    """Inverse of `shard_table`."""
    return tuple(
        Shard(
            r["number"],
            r["epoch"],
            r["source"],
            tuple((f[0], f[1], f[2], f[3], f[4], f[5]) for f in json.loads(r["files"])),
            r["limit"],
            r["key"],
            tuple(r.get("only", ())),  # listings of before there were replays have none of these
            r.get("replays", -1),
            tuple(r.get("under", ())),
        )
        for r in table.to_pylist()
    )
