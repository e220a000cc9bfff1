"""How `corpusflow train` and `corpusflow eval` reach the stages: hooks, found by name, called with options.

A stage that can be trained or measured defines a static method `train` or `evaluate`::

    @staticmethod
    def train(*, texts: Iterator[str], out: str, size: int = 32_000) -> Mapping[str, Any]:
        '''One line of help.

        Args:
            size: what the option's help says.
        '''

Its keyword-only parameters are the command's options. `texts` (or any parameter annotated ``Iterator[str]``) is fed with
texts of a run or of files; int, float, str, bool, Literal, ``X | None`` and sequences of str become options of that type.
It returns what it has to say as JSON values.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from corpusflow.errors import ConfigError, did_you_mean
from corpusflow.registry import find, stage_names
from corpusflow.stage import Stage

Hook = Literal["train", "evaluate"]
#: Names that people use for the stage meant.
ALIASES: Final = {"tokenizer": "tokenize.sentencepiece", "pii": "clean.pii", "toxicity": "toxicity.classifier"}


@dataclass(frozen=True)
class Option:
    """A parameter of a hook.

    Attributes:
        kind: int, float, str or bool, or "texts" for a parameter that is fed with texts.
        many: a sequence of them.
        choices: of a Literal.
    """

    name: str
    kind: type | Literal["texts"]
    doc: str
    required: bool
    default: Any = None
    many: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trainer:
    """A stage's hook, ready to be called."""

    stage: str
    summary: str
    options: tuple[Option, ...]
    call: Callable[..., Mapping[str, Any]]


def trainable(hook: Hook) -> list[str]:
    """Stages that define the hook, and aliases of them."""
    found = [name for name in stage_names() if _hook_of(name, hook) is not None]
    return [*found, *(alias for alias, name in ALIASES.items() if name in found)]


def trainer(name: str, hook: Hook) -> Trainer:
    """The hook that a name means: a stage, an alias, or the only stage of a family that has one.

    Raises:
        ConfigError: none has.
    """
    stage = ALIASES.get(name, name)
    if stage not in stage_names():
        family = [n for n in stage_names() if n.startswith(stage + ".") and _hook_of(n, hook) is not None]
        if len(family) != 1:
            word = "trained" if hook == "train" else "evaluated"
            several = (
                f"{name} could mean {' or '.join(family)}" if family else f"{name!r} is not a stage that can be {word}"
            )
            raise ConfigError(several, hint=did_you_mean(name, trainable(hook)))
        stage = family[0]
    function = _hook_of(stage, hook)
    if function is None:
        word = "train" if hook == "train" else "evaluate"
        raise ConfigError(f"{stage} has nothing to {word}", hint=did_you_mean(name, trainable(hook)))
    summary, docs = _documentation(function)
    return Trainer(stage, summary, tuple(_options(stage, function, docs)), function)


def _hook_of(name: str, hook: Hook) -> Callable[..., Mapping[str, Any]] | None:
    try:
        cls: type[Stage] = find(name)
    except ConfigError:
        return None  # its library is missing; `stages` says so
    function = getattr(cls, hook, None)
    return function if callable(function) else None


def _options(stage: str, function: Callable[..., Any], docs: Mapping[str, str]) -> Iterator[Option]:
    signature = inspect.signature(function)
    hints = typing.get_type_hints(function)
    for name, parameter in signature.parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise ConfigError(f"{stage}: parameter {name} of its hook is not keyword-only, so it cannot be an option")
        kind, many, choices = _kind(stage, name, hints[name])
        required = parameter.default is inspect.Parameter.empty
        default = None if required else parameter.default
        yield Option(name, kind, docs.get(name, ""), required, default, many, choices)


def _kind(stage: str, name: str, hint: Any) -> tuple[Any, bool, tuple[str, ...]]:
    """(type, many, choices) of an annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in arguments if a is not type(None)]
        if len(rest) == 1:
            return _kind(stage, name, rest[0])
    if hint in (int, float, str, bool):
        return hint, False, ()
    if origin is Literal:
        return str, False, tuple(str(a) for a in arguments)
    if inspect.isclass(origin) and arguments and arguments[0] is str:
        if issubclass(origin, Iterator):
            return "texts", False, ()
        if origin is tuple or issubclass(origin, typing.get_origin(typing.Sequence[str])):  # type: ignore[arg-type]
            return str, True, ()
    raise ConfigError(f"{stage}: parameter {name} of its hook is a {hint}, which no option can give")


def _documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """(first line, parameter -> its text in the Args section) of a docstring."""
    doc = inspect.getdoc(function) or ""
    docs: dict[str, str] = {}
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", doc, re.MULTILINE)
    current: list[str] = []
    for line in section[1].splitlines() if section else ():
        entry = re.match(r" {4}(\w+(?:, \w+)*): (.*)", line)
        if entry:
            current = entry[1].split(", ")
            docs.update(dict.fromkeys(current, entry[2]))
        elif line.strip():
            docs.update({name: f"{docs[name]} {line.strip()}" for name in current})
    return doc.partition("\n")[0], docs
