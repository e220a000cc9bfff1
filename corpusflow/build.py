"""Config values to stage instances: unknown keys refused with "did you mean", types checked, models found and hashed."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import os
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from corpusflow.errors import ConfigError, invalid
from corpusflow.fingerprint import canonical_json
from corpusflow.stage import Stage
from corpusflow.storage import storage_for


def build_stage(name: str, cls: type[Stage], given: Mapping[str, Any]) -> Stage:
    """An instance of `cls` with the parameters a config gives.

    Raises:
        ConfigError: unknown or missing parameter, wrong type, or a model file that does not exist. The message starts
            with the parameter's name and a colon where it is about one parameter.
    """
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for key in given:
        if key not in fields:
            close = difflib.get_close_matches(str(key), fields, 1, 0.5)
            raise ConfigError(
                f"{name} has no parameter {key!r}",
                hint=f"did you mean {close[0]}?" if close else f"it has {', '.join(fields) or 'none'}",
            )
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, f in fields.items():
        if key not in given:
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                raise ConfigError(
                    f"{name} needs a value for {key!r}: {f.metadata.get('doc', '')}", hint=f"add {key}: …"
                )
            continue
        values[key] = _validated(name, key, hints[key], given[key])
    try:
        return cls(**values)
    except ConfigError:
        raise
    except (ValueError, TypeError) as e:
        raise ConfigError(f"{name}: {e}") from e


def _validated(name: str, key: str, kind: Any, value: Any) -> Any:
    if isinstance(value, str) and takes_one_word(kind):
        value = (value,)  # `paths: a.warc.gz` for a list of one
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as e:
        raise ConfigError(f"{name}.{key}{invalid(value, {**e.errors()[0]})}") from e


def takes_one_word(kind: Any) -> bool:
    """Whether a parameter of this type is a list that may be written as its only word: `keep: en`."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        members = typing.get_args(kind)
        return str not in members and any(takes_one_word(member) for member in members)
    return origin in (tuple, list, set, frozenset, Sequence)


def model_fields(cls: type[Stage]) -> dict[str, str]:
    """Parameter -> folder of built-in files, for the parameters declared with ``param(model=…)``."""
    return {f.name: f.metadata["model"] for f in dataclasses.fields(cls) if f.metadata.get("model") is not None}


def find_model(name: str, cls: type[Stage], key: str, value: str) -> str:
    """Path of a model file or folder: as given, or built in beside the stage's module.

    Raises:
        ConfigError: neither exists.
    """
    if os.path.exists(value):
        return os.path.abspath(value)
    folder = model_fields(cls)[key]
    built_in: list[str] = []
    if folder:
        module = sys.modules[cls.__module__]
        base = os.path.join(os.path.dirname(str(module.__file__)), folder)
        path = os.path.join(base, value)
        if os.path.exists(path):
            return path
        if os.path.isdir(base):
            built_in = sorted(e for e in os.listdir(base) if not e.startswith((".", "_")))
    raise ConfigError(
        f"{name}.{key}: {value} does not exist",
        hint=f"give a path, or one of the built-in {', '.join(built_in)}"
        if built_in
        else f"relative paths start at {os.getcwd()}",
    )


def content_sha256(path: str) -> str:
    """SHA-256 of a file, or of a folder's relative names and contents."""
    digest = hashlib.sha256()
    storage = storage_for(path)
    if not os.path.isdir(path):
        with storage.open(path) as f:
            while chunk := f.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()
    listed = {os.path.relpath(i.path, path): content_sha256(i.path) for i in storage.walk(path)}
    digest.update(canonical_json(listed).encode())
    return digest.hexdigest()
