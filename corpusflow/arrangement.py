"""Config to stages in order: composites expanded, Scores put in that rules need, wide checkpoints put where text must be stored.

Reads the config, the stage classes and model files (for their hashes); writes nothing. Which rows and which text a stage sees
follows from this order; `planner` makes nodes of it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass

from corpusflow import registry
from corpusflow.build import build_stage, content_sha256, find_model, model_fields
from corpusflow.config import Config, StageConfig
from corpusflow.errors import ConfigError
from corpusflow.schema import OPTIONAL, is_signal
from corpusflow.stage import Composite, Exchange, Filter, Score, Sink, Source, Stage, Transform


@dataclass
class Item:
    """A stage on its way to becoming a node."""

    stage: str
    reference: str
    configured: Stage | None
    piece: int
    part: Stage | None  # None for a wide checkpoint
    where: str
    inserted: bool = False


class Arrangement:
    """The stages of one config, with the hashes of the files they are made of."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.models: dict[str, str] = {}  # sha256 -> path, "" for a built-in file
        self.code: dict[str, str] = {}  # path of a user's stage file -> sha256
        self._model_of: dict[str, str] = {}  # path -> sha256
        self._configured: list[tuple[StageConfig, Stage]] = []
        self.sources = tuple(self._source(i, c) for i, c in enumerate(config.input))

    def ordered(self) -> list[Item]:
        """Sources, then stages and wide checkpoints as documents pass them, then Sinks."""
        return [*self.sources, *self._with_wides(self._with_scores(self._items()))]

    # ---- stages ----

    def _build(self, section: str, i: int, given: StageConfig) -> Stage:
        try:
            cls = registry.find(given.name)
            stage = build_stage(given.name, cls, given.params)
            self._hash_models(given.name, cls, stage)
            if ".py:" in given.name:
                path = os.path.abspath(given.name.rpartition(":")[0])
                self.code[path] = content_sha256(path)
        except ConfigError as e:
            raise ConfigError(f"{self.config.where_wrong(section, i, e.message)}: {e.message}", hint=e.hint) from e
        return stage

    def _hash_models(self, name: str, cls: type[Stage], stage: Stage) -> None:
        for key in model_fields(cls):
            value = getattr(stage, key)
            if value:
                sha = self.sha_of_model(name, cls, key, value)
                # what lies in a provider's package is on every node; what lies beside a user's file is not
                given = os.path.exists(value) or ".py:" in name
                self.models.setdefault(sha, find_model(name, cls, key, value) if given else "")

    def sha_of_model(self, name: str, cls: type[Stage], key: str, value: str) -> str:
        """sha256 of the file that a stage's parameter `key` names."""
        path = find_model(name, cls, key, value)  # a bare name is another file in another stage's folder
        if path not in self._model_of:
            self._model_of[path] = content_sha256(path)
        return self._model_of[path]

    def _source(self, i: int, given: StageConfig) -> Item:
        stage = self._build("input", i, given)
        if not isinstance(stage, Source):
            raise ConfigError(
                f"{self.config.where('input', i)}: {given.name} is not an input",
                hint="inputs are the ingest.* stages that read files",
            )
        return Item(given.name, given.name, stage, -1, stage, self.config.where("input", i))

    def _items(self) -> list[Item]:
        items: list[Item] = []
        self._configured.clear()
        for section in ("stages", "output"):
            for i, given in enumerate(getattr(self.config, section)):
                stage = self._build(section, i, given)
                where = self.config.where(section, i)
                if isinstance(stage, Source):
                    raise ConfigError(f"{where}: {given.name} reads input", hint="move it to `input:`")
                if (section == "output") != isinstance(stage, Sink):
                    other = "output" if section == "stages" else "stages"
                    raise ConfigError(
                        f"{where}: {given.name} does not belong under {section}", hint=f"move it to `{other}:`"
                    )
                self._configured.append((given, stage))
                try:
                    parts = stage.expand() if isinstance(stage, Composite) else (stage,)
                except ConfigError as e:
                    place = self.config.where_wrong(section, i, e.message)
                    raise ConfigError(f"{place}: {e.message}", hint=e.hint) from e
                for piece, part in enumerate(parts):
                    index = piece if isinstance(stage, Composite) else -1
                    items.append(Item(given.name, _reference(given.name), stage, index, part, where))
        return items

    # ---- inserting ----

    def _with_scores(self, items: list[Item]) -> list[Item]:
        """The items, with a Score in front of each stage that reads a signal which nobody has measured on this text."""
        available: dict[str, Item] = {}
        out: list[Item] = []

        def need(item: Item, trail: tuple[str, ...]) -> None:
            part = item.part
            for column in part.inputs() if part is not None else ():
                if is_signal(column) and column not in available and not column.endswith(OPTIONAL):
                    if column in trail:
                        raise ConfigError(f"{item.where}: {column} depends on itself ({' -> '.join(trail)})")
                    score = self._score_for(column, item)
                    need(score, (*trail, column))
                    add(score)

        def add(item: Item) -> None:
            part = item.part
            if isinstance(part, Transform) and "text" in part.outputs():
                stale = {c for c, by in available.items() if isinstance(by.part, Score) and _reads_text(by, available)}
                for column in stale:
                    del available[column]
            for column in part.outputs() if part is not None else ():
                if is_signal(column):
                    available[column] = item
            out.append(item)

        for item in items:
            if isinstance(item.part, Score) and all(c in available for c in item.part.outputs()):
                previous = available[next(iter(item.part.outputs()))]
                if previous.inserted and (previous.stage, previous.part) == (item.stage, item.part):
                    continue  # measured already, on this very text, for an earlier rule
            need(item, ())
            add(item)
        return out

    def _score_for(self, column: str, reader: Item) -> Item:
        """A Score that adds `column`: as the config has it (its parameters, measured again), else by default parameters."""
        for given, stage in self._configured:
            parts = stage.expand() if isinstance(stage, Composite) else (stage,)
            for piece, part in enumerate(parts):
                if isinstance(part, Score) and column in part.outputs() and not part.survivors_only:
                    index = piece if isinstance(stage, Composite) else -1
                    return Item(given.name, _reference(given.name), stage, index, part, reader.where, inserted=True)
        found = registry.score_for(column)
        if found is None:
            raise ConfigError(
                f"{reader.where}: {reader.stage} reads {column}, which no stage before it makes",
                hint="`corpusflow stages` lists what each stage adds",
            )
        name, cls, piece = found
        stage = cls()
        self._hash_models(name, cls, stage)
        if isinstance(stage, Composite):
            return Item(name, name, stage, piece, stage.expand()[piece], reader.where, inserted=True)
        return Item(name, name, stage, -1, stage, reader.where, inserted=True)

    # ---- wide checkpoints ----

    def _with_wides(self, items: list[Item]) -> list[Item]:
        """A wide checkpoint per segment that rewrites documents: behind its last Transform and the gates that follow it, so
        that text is written once and what a gate drops is never stored; the same for every Transform with `keep`."""
        out: list[Item] = []
        segment: list[Item] = []

        def close() -> None:
            transforms = [i for i, it in enumerate(segment) if isinstance(it.part, Transform)]
            stored: dict[int, Item] = {}  # position the checkpoint stands behind -> whose text it is
            for i, after in itertools.pairwise([*transforms, len(segment)]):
                part = segment[i].part
                if after == len(segment) or (isinstance(part, Transform) and part.keep):
                    gates = [k for k in range(i + 1, after) if _is_gate(segment[k])]
                    stored[gates[-1] if gates else i] = segment[i]
            for i, item in enumerate(segment):
                out.append(item)
                if (whose := stored.get(i)) is not None:
                    out.append(Item(whose.stage, "", None, -1, None, whose.where))

        for item in items:
            if isinstance(item.part, (Exchange, Sink)):
                close()
                segment = []
                out.append(item)
            else:
                segment.append(item)
        close()
        return out


def _is_gate(item: Item) -> bool:
    return isinstance(item.part, Filter) and item.part.gate


def _reference(name: str) -> str:
    """What workers find the class by: a user's file gets its full path, since their working directory is another."""
    return os.path.abspath(name) if ".py:" in name else name


def _reads_text(item: Item, available: Mapping[str, Item]) -> bool:
    part = item.part
    if part is None:
        return False
    return any(
        c == "text" or (c in available and available[c] is not item and _reads_text(available[c], available))
        for c in (c.removesuffix(OPTIONAL) for c in part.inputs())
    )
