"""The stages as documentation: parameters, columns, drop reasons. `corpusflow stages` and stages/README.md print it."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from corpusflow.errors import ConfigError
from corpusflow.plan import type_string
from corpusflow.registry import find
from corpusflow.stage import Composite, Exchange, Filter, Score, Sink, Source, Stage, Transform

_KINDS: tuple[tuple[type[Stage], str], ...] = (
    (Source, "source"),
    (Transform, "transform"),
    (Score, "score"),
    (Filter, "filter"),
    (Exchange, "exchange"),
    (Sink, "sink"),
    (Composite, "composite"),
)


@dataclass(frozen=True)
class Parameter:
    """One row of a stage's docs table."""

    name: str
    type: str
    default: str
    doc: str


@dataclass(frozen=True)
class Entry:
    """One stage of the catalogue."""

    name: str
    kind: str
    summary: str
    doc: str
    parameters: tuple[Parameter, ...]
    reads: tuple[str, ...]
    adds: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "name": self.name,
            "kind": self.kind,
            "summary": self.summary,
            "doc": self.doc,
            "parameters": [dataclasses.asdict(p) for p in self.parameters],
            "reads": list(self.reads),
            "adds": dict(self.adds),
            "reasons": list(self.reasons),
        }

    def text(self) -> str:
        """For a terminal."""
        lines = [f"{self.name} ({self.kind})", "", self.doc, ""]
        if self.parameters:
            lines.append("parameters")
            for p in self.parameters:
                lines.append(f"  {p.name}: {p.type} = {p.default}" if p.default else f"  {p.name}: {p.type} (required)")
                lines.append(f"      {p.doc}")
        for title, items in (("reads", self.reads), ("drops for", self.reasons)):
            if items:
                lines += ["", f"{title}: {', '.join(items)}"]
        if self.adds:
            lines += ["", "adds", *(f"  {name}: {kind}" for name, kind in self.adds)]
        return "\n".join(lines)


def markdown(entries: Iterable[Entry]) -> str:
    """The catalogue as the page stages/README.md; a test holds the page against it."""
    lines = [
        "# Stages",
        "",
        "Made by `corpusflow stages --markdown`; do not edit. A stage's name is its module path below this folder.",
        "",
        "| stage | kind | does |",
        "| --- | --- | --- |",
    ]
    entries = list(entries)
    lines += [f"| [{e.name}](#{e.name.replace('.', '')}) | {e.kind} | {e.summary} |" for e in entries]
    for e in entries:
        lines += ["", f"## {e.name}", "", e.doc]
        if e.parameters:
            lines += ["", "| parameter | type | default | |", "| --- | --- | --- | --- |"]
            for p in e.parameters:
                kind = p.type.replace("|", "\\|")
                default = p.default.replace("|", "\\|")
                lines.append(f"| `{p.name}` | {kind} | {f'`{default}`' if default else 'required'} | {p.doc} |")
        if e.reads:
            lines += ["", "Reads " + ", ".join(f"`{c}`" for c in e.reads) + "."]
        if e.adds:
            lines += ["", "Adds " + ", ".join(f"`{c}` ({t})" for c, t in e.adds) + "."]
        if e.reasons:
            lines += ["", "Drops for " + ", ".join(f"`{r}`" for r in e.reasons) + "."]
    return "\n".join(lines) + "\n"


def catalogue(names: Iterable[str]) -> list[Entry]:
    """The stages by name; one whose libraries are missing says so."""
    entries = []
    for name in names:
        try:
            entries.append(describe(name, find(name)))
        except ConfigError as e:
            entries.append(Entry(name, "?", f"cannot be loaded: {e.message}", "", (), (), (), ()))
    return entries


def describe(name: str, cls: type[Stage]) -> Entry:
    """One stage, from its class and its default parameters."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    kind = next(k for base, k in _KINDS if issubclass(cls, base))
    hints = typing.get_type_hints(cls)
    parameters = tuple(
        Parameter(f.name, _type_name(hints[f.name]), _default(f), f.metadata.get("doc", ""))
        for f in dataclasses.fields(cls)
    )
    parts = _parts(cls)
    made = dict.fromkeys(c for p in parts for c in p.outputs())
    reads = tuple(dict.fromkeys(c for p in parts for c in p.inputs() if c not in made))
    adds = tuple({c: type_string(t) for p in parts for c, t in p.outputs().items()}.items())
    reasons = tuple(r.reason for p in parts if isinstance(p, Filter) for r in p.rules())
    return Entry(name, kind, doc.partition("\n")[0], doc, parameters, reads, adds, reasons)


def _parts(cls: type[Stage]) -> tuple[Stage, ...]:
    """The stage by default parameters, expanded; nothing where it needs parameters."""
    try:
        stage = cls()
        return stage.expand() if isinstance(stage, Composite) else (stage,)
    except (TypeError, ConfigError):
        return ()


def _type_name(kind: Any) -> str:
    if isinstance(kind, type):
        return kind.__name__
    return str(kind).replace("typing.", "").replace("collections.abc.", "")


def _default(f: dataclasses.Field[Any]) -> str:
    if f.default_factory is not dataclasses.MISSING:
        value: Any = f.default_factory()
    elif f.default is not dataclasses.MISSING:
        value = f.default
    else:
        return ""
    if isinstance(value, tuple):
        value = list(value)
    text = repr(value)
    return text if len(text) <= 90 else text[:87] + "..."
