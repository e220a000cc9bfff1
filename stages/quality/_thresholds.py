"""Thresholds that hold for some languages only, and the rules made of them.

A rule set was tuned on a language: its numbers say nothing about text whose words are not separated by spaces, where half
of them would drop everything. So a plain number in a config holds for every language with spaces between words and is
"not applicable" to the rest; a table says what holds for which language, ``"*"`` for those not named.
"""

from __future__ import annotations

from typing import Final, Literal

from corpusflow import Rule
from stages.kernels.words import LANGUAGE_UNITS, WHITESPACE

LANGUAGE: Final = "language.code"
PREFIX: Final = "quality."
Op = Literal[">=", "<="]

#: A threshold in a config: a number, a table from language code to number (null: not applicable there), or null: no rule.
Threshold = float | dict[str, float | None] | None

ENGLISH: Final = ("en",)
#: Languages with spaces between words.
SPACED: Final = tuple(sorted(code for code, unit in LANGUAGE_UNITS.items() if unit == WHITESPACE))


def per_language(value: Threshold, languages: tuple[str, ...]) -> dict[str, float | None]:
    """The threshold of each language: `value` (or its ``"*"``) for `languages`, what the table says for those it names."""
    table = value if isinstance(value, dict) else {"*": value}
    otherwise = table.get("*")
    spread = dict.fromkeys(languages, otherwise) if otherwise is not None else {}
    return {**spread, **{code: v for code, v in table.items() if code != "*"}}


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
