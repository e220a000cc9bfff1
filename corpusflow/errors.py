"""Every error corpusflow raises on purpose, named by what happens next.

    CorpusflowError
    ├── ConfigError          the user edits the config or the command; printed without a traceback, exit 2
    ├── PlanDriftError       the run folder, its inputs or its libraries are not those of the plan; exit 3
    ├── StageError           a stage broke its contract or failed on a shard; the shard fails, the run stops; exit 1
    ├── CorruptShardError    a committed file does not match its record; `corpusflow verify` names it; exit 4
    ├── RunFailedError       a run ended without its result (too much quarantine, nothing left, failed shards); exit 1
    └── RetryableError       storage, network, a killed process; the executor tries the task again

A message says what went wrong, where, what was found and what was expected; `hint` is what to type or edit.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping
from typing import Any


class CorpusflowError(Exception):
    """Base of all errors raised on purpose.

    Args:
        message: what went wrong, where, what was got and what was expected.
        hint: the edit or the command that mends it.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process borders (Ray, sandbox); keyword arguments are lost by the default reduce.
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[CorpusflowError], message: str, hint: str | None) -> CorpusflowError:
    return kind(message, hint=hint)


def typed(*words: object) -> str:
    """A command for a hint, quoted as a shell needs it: run folders have spaces in their names, too."""
    return shlex.join(["corpusflow", *map(str, words)])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the nearest of the known words, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(word, names, 1, 0.5)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(names) or 'none'}"


def invalid(value: object, problem: Mapping[str, Any]) -> str:
    """What pydantic's error says of a value, in the words of a YAML file: ``['en'][0]: …, got 'many'``.

    Of where it lies, keys and numbers of the value itself are kept; the rest are branches of the type.
    """
    place, where = value, ""
    for part in problem["loc"]:
        if isinstance(place, dict) and part in place:
            place = place[part]
        elif isinstance(place, (list, tuple)) and isinstance(part, int):
            place = place[part] if part < len(place) else None
        else:
            continue
        where += f"[{part!r}]"
    said = (
        str(problem["msg"])
        .removeprefix("Value error, ")
        .replace("valid tuple", "valid list")
        .replace("dictionary", "mapping")
    )
    return f"{where}: {said}, got {problem['input']!r}"


class ConfigError(CorpusflowError, ValueError):
    """The config, a parameter or the command line must be edited."""

    exit_code = 2


class PlanDriftError(CorpusflowError):
    """The run folder, its inputs or the installed libraries differ from what was planned."""

    exit_code = 3


class StageError(CorpusflowError):
    """A stage broke its contract, or raised on a whole batch."""


class CorruptShardError(CorpusflowError):
    """A committed file does not match its commit record."""

    exit_code = 4


class RunFailedError(CorpusflowError):
    """The run cannot give its result: too many quarantined documents, no document left, or failed shards."""


class RetryableError(CorpusflowError):
    """A passing fault of storage or network, or a process that was killed; the same task may succeed when tried again."""
