"""The JSON Schema of a config, for editors: stages with their parameters, types, defaults and docs, and the `run` section.

Made from the stage classes and the pydantic model, so that it cannot fall behind them.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from corpusflow.build import takes_one_word
from corpusflow.catalogue import describe
from corpusflow.config import RunConfig
from corpusflow.errors import ConfigError
from corpusflow.registry import find, stage_names
from corpusflow.stage import Sink, Source, Stage

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
#: A stage from a user's file; its parameters are known to that file alone.
_FILE_STAGE: Final = r"\.py:\w+$"


def config_schema() -> dict[str, Any]:
    """The schema, draft 2020-12. A stage whose libraries are missing is left out."""
    sections: dict[str, dict[str, type[Stage]]] = {"input": {}, "stages": {}, "output": {}}
    for name in stage_names():
        try:
            cls = find(name)
        except ConfigError:
            continue
        section = "input" if issubclass(cls, Source) else "output" if issubclass(cls, Sink) else "stages"
        sections[section][name] = cls
    run = RunConfig.model_json_schema()
    run["additionalProperties"] = False
    return {
        "$schema": _DIALECT,
        "title": "corpusflow config",
        "type": "object",
        "additionalProperties": False,
        "required": ["input"],
        "properties": {
            "name": {"type": "string", "pattern": r"^[\w.-]+$", "description": "Of the corpus; run.dir follows it."},
            "seed": {"type": "integer", "minimum": 0, "description": "Of shuffles and samples. Default 0."},
            "input": {**_list(sections["input"]), "minItems": 1, "description": "Sources; more than one may follow."},
            "stages": {**_list(sections["stages"]), "description": "In order; a bare name takes its defaults."},
            "output": {**_list(sections["output"]), "description": "Sinks; several from one pass."},
            "run": run,
        },
    }


def _list(stages: dict[str, type[Stage]]) -> dict[str, Any]:
    """A list whose entries are names of stages, or one name with its parameters."""
    tables = {name: _parameters(name, cls) for name, cls in stages.items()}
    bare = [name for name, table in tables.items() if not table.get("required")]
    forms: list[dict[str, Any]] = [
        {"enum": bare} if bare else {"type": "string", "pattern": _FILE_STAGE},
        {"type": "string", "pattern": _FILE_STAGE},
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                name: {
                    "anyOf": [table, *([{"type": "null"}] if name in bare else [])],
                    "description": table["description"],
                }
                for name, table in tables.items()
            },
            "patternProperties": {_FILE_STAGE: {"type": ["object", "null"]}},
            "additionalProperties": False,
        },
    ]
    return {"type": "array", "items": {"anyOf": forms}}


def _parameters(name: str, cls: type[Stage]) -> dict[str, Any]:
    """A stage's parameters."""
    hints = typing.get_type_hints(cls)
    properties: dict[str, Any] = {}
    required = []
    for field in dataclasses.fields(cls):
        schema = _type_schema(hints[field.name])
        schema["description"] = field.metadata.get("doc", "")
        if field.default is not dataclasses.MISSING:
            schema["default"] = _plain(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            schema["default"] = _plain(field.default_factory())
        else:
            required.append(field.name)
        properties[field.name] = schema
    entry = describe(name, cls)
    out: dict[str, Any] = {
        "type": "object",
        "description": entry.summary,
        "properties": properties,
        "additionalProperties": False,
    }
    return {**out, "required": required} if required else out


def _type_schema(kind: Any) -> dict[str, Any]:
    """The schema of a parameter; a list of strings may be written as one string, as the loader takes it."""
    try:
        schema = TypeAdapter(kind).json_schema()
    except PydanticSchemaGenerationError:
        return {}
    if takes_one_word(kind):
        return {"anyOf": [schema, {"type": "string"}]}
    return schema


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(v) for v in value]
    return value
