"""Thresholds that hold for some languages only, and the rules made of them.

A rule set was tuned on a language: its numbers say nothing about text whose words are not separated by spaces, where half
of them would drop everything. So a plain number in a config holds for every language with spaces between words and is
"not applicable" to the rest; a table says what holds for which language, ``"*"`` for those not named. A table that leaves
languages out which a plain number would hold for is refused: `min_words: {xx: 3}` turned the rule off for every page.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Literal

from corpusflow import Filter, Rule, param
from stages.kernels.words import LANGUAGE_UNITS, WHITESPACE
from stages.language._known import OTHERS, check_table

LANGUAGE: Final = "language.code"
PREFIX: Final = "quality."
Op = Literal[">=", "<="]

#: A threshold in a config: a number, a table from language code to number (null: not applicable there), or null: no rule.
Threshold = float | dict[str, float | None] | None

ENGLISH: Final = ("en",)
#: Languages with spaces between words.
SPACED: Final = tuple(sorted(code for code, unit in LANGUAGE_UNITS.items() if unit == WHITESPACE))


def limit(default: Threshold, doc: str) -> Any:
    """A `param` that is a threshold, or a table of them."""
    return param(default, doc=f'{doc} By language: {{en: …, "*": …}}, "*" for all others, null for no rule.')


def check_tables(
    name: str, stage: Filter, languages: tuple[str, ...], own: Mapping[str, float | None] | None = None
) -> None:
    """Hold the tables among a rule set's parameters against the languages there are.

    Args:
        name: of the rule set, for errors.
        languages: those that plain numbers hold for.
        own: what null stands for, of parameters where it is not "no rule".

    Raises:
        ConfigError: a table names no language, or leaves some out without saying what holds for them.
    """
    for field in dataclasses.fields(stage):
        value = getattr(stage, field.name)
        if isinstance(value, Mapping):
            default = (own or {}).get(field.name, field.default)
            check_table(f"{name}.{field.name}", value, languages, default, "null")


def per_language(value: Threshold, languages: tuple[str, ...]) -> dict[str, float | None]:
    """The threshold of each language: `value` (or its ``"*"``) for `languages`, what the table says for those it names."""
    table = value if isinstance(value, dict) else {OTHERS: value}
    otherwise = table.get(OTHERS)
    spread = dict.fromkeys(languages, otherwise) if otherwise is not None else {}
    return {**spread, **{code: v for code, v in table.items() if code != OTHERS}}


def at_least(
    reason: str, column: str, per: str | None, value: Threshold, languages: tuple[str, ...] = SPACED
) -> list[Rule]:
    """A rule that keeps documents with ``column (/ per) >= value``; none if the threshold is null."""
    return _rule(reason, column, ">=", value, per, languages)


def at_most(
    reason: str, column: str, per: str | None, value: Threshold, languages: tuple[str, ...] = SPACED
) -> list[Rule]:
    """A rule that keeps documents with ``column (/ per) <= value``; none if the threshold is null."""
    return _rule(reason, column, "<=", value, per, languages)


def _rule(
    reason: str, column: str, op: Op, value: Threshold, per: str | None, languages: tuple[str, ...]
) -> list[Rule]:
    if value is None:
        return []
    return [
        Rule(
            reason=reason,
            column=PREFIX + column,
            op=op,
            value=per_language(value, languages),
            per=None if per is None else PREFIX + per,
            by=LANGUAGE,
        )
    ]
