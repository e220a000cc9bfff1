"""quality.threshold: one threshold of your own on any signal, ours or your Score's.

- quality.threshold: {column: quality.digits, per: quality.chars, max: 0.3, reason: too_many_digits}
- quality.threshold: {column: my.score, min: {en: 0.5, "*": 0.3}, reason: my_score}
- quality.threshold: {column: source, not_in: [trash], reason: unwanted_source}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corpusflow import ConfigError, Filter, Rule, param
from stages.quality._thresholds import LANGUAGE, check_tables

Number = int | float
Limit = Number | dict[str, Number | None] | None


@dataclass(frozen=True, kw_only=True)
class ThresholdFilter(Filter):
    """Keeps documents on the right side of a threshold; a null signal is not applicable and passes."""

    column: str = param(doc="The signal or column to look at.")
    reason: str = param(doc="Drop reason: what is wrong with a document that fails, short snake_case.")
    min: Limit = param(
        None,
        doc='Smallest value kept; or a table from the value of `by` to a number, "*" for all others; what it leaves out passes.',
    )
    max: Limit = param(
        None,
        doc='Largest value kept; or a table from the value of `by` to a number, "*" for all others; what it leaves out passes.',
    )
    is_in: tuple[str, ...] | None = param(None, doc="Values kept.")
    not_in: tuple[str, ...] | None = param(None, doc="Values dropped.")
    per: str | None = param(None, doc="Divide `column` by this column first; not applicable where it is 0.")
    by: str = param("language.code", doc="Column that picks from a table of limits.")
    drop_null: bool = param(False, doc="Drop documents whose `column` is null.")

    def __post_init__(self) -> None:
        if all(v is None for v in (self.min, self.max, self.is_in, self.not_in)) and not self.drop_null:
            raise ConfigError(
                f"quality.threshold on {self.column} has no threshold", hint="give min, max, is_in, not_in or drop_null"
            )

        if self.by == LANGUAGE:
            check_tables(f"quality.threshold on {self.column}", self, ())

    def rules(self) -> tuple[Rule, ...]:
        wanted: list[dict[str, Any]] = []
        if self.drop_null:
            wanted.append({"op": "not null"})
        for op, limit in ((">=", self.min), ("<=", self.max)):
            if limit is not None:
                wanted.append(
                    {"op": op, "value": limit, "per": self.per, "by": self.by if isinstance(limit, dict) else None}
                )
        for op, values in (("in", self.is_in), ("not in", self.not_in)):
            if values is not None:
                wanted.append({"op": op, "value": values})
        suffixes = {">=": "_low", "<=": "_high", "not null": "_missing", "in": "_unlisted", "not in": "_listed"}
        return tuple(
            Rule(reason=self.reason + (suffixes[w["op"]] if len(wanted) > 1 else ""), column=self.column, **w)
            for w in wanted
        )


STAGE = ThresholdFilter
