"""Rules: thresholds on columns, the only way a document is ever dropped.

Reads signal columns; promises that a verdict depends on nothing else, so that any threshold can be tried again without
the text. A rule states what a *kept* document satisfies; `reason` names what is wrong with one that does not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.errors import ConfigError

Op = Literal[">=", "<=", ">", "<", "==", "!=", "in", "not in", "is null", "not null"]
Scalar = int | float | str | bool
Threshold = Scalar | tuple[Scalar, ...] | Mapping[str, Scalar | None] | None

_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
OTHERWISE: Final = "*"


@dataclass(frozen=True)
class Rule:
    """One threshold.

    Args:
        reason: short snake_case name of what is wrong with a document that fails, e.g. ``gopher_few_words``.
        column: the signal it looks at.
        op: how the signal is held against `value`; a kept document satisfies it.
        value: a number or string; for `in` / `not in` a tuple; with `by` a table from that column's value to a number,
            ``"*"`` for all others, None for "not applicable".
        per: divide `column` by this column first (one IEEE division; signals are stored as counts). Where it is 0 the
            rule is not applicable.
        by: the column whose value picks the threshold from the table, e.g. ``language.code``.

    A null signal is *not applicable*: the rule passes and the case is counted.
    """

    reason: str
    column: str
    op: Op
    value: Threshold = None
    per: str | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if self.op not in (*_COMPARE, "in", "not in", "is null", "not null"):
            raise ConfigError(
                f"rule {self.reason}: unknown operator {self.op!r}", hint=f"one of {', '.join(_COMPARE)}, in"
            )
        if self.op in ("in", "not in") and not isinstance(self.value, tuple):
            raise ConfigError(f"rule {self.reason}: '{self.op}' needs a tuple of values, got {self.value!r}")
        if self.by is not None and not isinstance(self.value, Mapping):
            raise ConfigError(f"rule {self.reason}: by={self.by!r} needs a table of values, got {self.value!r}")
        if self.by is None and isinstance(self.value, Mapping):
            raise ConfigError(f"rule {self.reason}: a table of values needs `by`, the column that picks from it")
        if self.per is not None and self.op not in _COMPARE:
            raise ConfigError(f"rule {self.reason}: '{self.op}' cannot be used with `per`")
        if self.op in _COMPARE:
            self._check_threshold()

    def _check_threshold(self) -> None:
        limits = self.value.values() if isinstance(self.value, Mapping) else (self.value,)
        for limit in limits:
            if limit is None and self.by is None:
                raise ConfigError(f"rule {self.reason}: '{self.op}' needs a value")
            if not isinstance(limit, (int, float, type(None))) and (self.op not in ("==", "!=") or self.by or self.per):
                raise ConfigError(f"rule {self.reason}: '{self.op}' needs a number, got {limit!r}")

    def check_types(self, types: Mapping[str, pa.DataType]) -> None:
        """Hold the rule against the types of the columns it names.

        Raises:
            ConfigError: the column can never be compared with the value.
        """
        kind = types[self.column]
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        wrong = ""
        if self.op in ("in", "not in"):
            listed = self.value if isinstance(self.value, tuple) else ()
            try:
                pa.array(listed).cast(kind)  # made as that type, 1.5 would become 1
            except (pa.ArrowException, TypeError):
                wrong = f"holds {kind}, which is in no list like {self.value!r}"
        elif self.op in _COMPARE:
            if not (text or _is_number(kind)):
                wrong = f"holds {kind}, which cannot be compared"
            elif text != (isinstance(self.value, str) and self.by is None):
                wrong = f"holds {kind}, which cannot be compared with {self.value!r}"
            elif self.per is not None and not _is_number(types[self.per]):
                wrong = f"cannot be divided by {self.per}, which holds {types[self.per]}"
        if wrong:
            raise ConfigError(f"rule {self.reason}: {self.column} {wrong}")

    def columns(self) -> tuple[str, ...]:
        """Columns the verdict depends on."""
        return tuple(dict.fromkeys(c for c in (self.column, self.per, self.by) if c is not None))

    def signal(self) -> str:
        """What is compared, for people: ``quality.hashes / quality.words``."""
        return self.column if self.per is None else f"{self.column} / {self.per}"

    def as_data(self) -> dict[str, Any]:
        """JSON form; it is what the fingerprint of a Filter is made of."""
        value: Any = self.value
        if isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        return {
            "reason": self.reason,
            "column": self.column,
            "op": self.op,
            "value": value,
            "per": self.per,
            "by": self.by,
        }

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Rule:
        """Inverse of `as_data`."""
        value = data["value"]
        return Rule(
            reason=data["reason"],
            column=data["column"],
            op=data["op"],
            value=tuple(value) if isinstance(value, list) else value,
            per=data["per"],
            by=data["by"],
        )


@dataclass(frozen=True)
class Verdict:
    """What a list of rules says of n rows.

    Attributes:
        first: int16 array (n,): position of the first rule that fails, -1 where all pass.
        fails: bool array (rules, n): every rule on its own.
        inapplicable: int64 array (rules,): rows on which a rule could not be applied (and so passed).
    """

    first: np.ndarray
    fails: np.ndarray
    inapplicable: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        """Bool array (n,)."""
        return self.first < 0


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def evaluate(rules: Sequence[Rule], columns: Mapping[str, pa.Array], rows: int) -> Verdict:
    """Hold `rows` rows of `columns` against each rule."""
    first = np.full(rows, -1, np.int16)
    fails = np.zeros((len(rules), rows), np.bool_)
    inapplicable = np.zeros(len(rules), np.int64)
    signals = _Signals(columns)
    for i, rule in enumerate(rules):
        passed, applicable = _hold(rule, signals, rows)
        fails[i] = applicable & ~passed
        inapplicable[i] = rows - int(applicable.sum())
        first[(first < 0) & fails[i]] = i
    return Verdict(first, fails, inapplicable)


class _Signals:
    """Columns as numpy has them, each converted once though many rules look at it."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns
        self._numbers: dict[str, np.ndarray] = {}
        self._valid: dict[str, np.ndarray] = {}
        self._keys: dict[str, tuple[list[Any], np.ndarray]] = {}

    def column(self, name: str) -> pa.Array:
        """As Arrow has it."""
        return self._columns[name]

    def numbers(self, name: str) -> np.ndarray:
        """See `numbers`."""
        if name not in self._numbers:
            self._numbers[name] = numbers(self._columns[name])
        return self._numbers[name]

    def valid(self, name: str) -> np.ndarray:
        """Where it is not null; bool array of the caller's own."""
        if name not in self._valid:
            self._valid[name] = ~_numpy(self._columns[name].is_null())
        return self._valid[name].copy()

    def keys(self, name: str) -> tuple[list[Any], np.ndarray]:
        """(distinct values, for each row which of them, their number where it is null)."""
        if name not in self._keys:
            encoded = self._columns[name].dictionary_encode()
            values = encoded.dictionary.to_pylist()
            self._keys[name] = values, _numpy(encoded.indices.fill_null(len(values)))
        return self._keys[name]


def _hold(rule: Rule, signals: _Signals, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(passed, applicable), bool arrays of shape (rows,)."""
    column = signals.column(rule.column)
    applicable = signals.valid(rule.column)
    if rule.op in ("is null", "not null"):
        return (~applicable if rule.op == "is null" else applicable), np.ones(rows, np.bool_)
    if rule.op in ("in", "not in"):
        member = _numpy(pc.is_in(column, value_set=pa.array(rule.value, column.type)))
        if rule.op == "not in":
            return ~member, np.ones(rows, np.bool_)  # null is in no list
        return member, applicable
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        compared = pc.call_function({"==": "equal", "!=": "not_equal"}[rule.op], [column, pa.scalar(rule.value)])
        return _numpy(compared.fill_null(False)), applicable
    signal = signals.numbers(rule.column)
    if rule.per is not None:
        denominator = signals.numbers(rule.per)
        applicable &= denominator > 0
        signal = np.divide(signal, denominator, out=np.zeros(rows), where=denominator > 0)
    threshold: Any = rule.value
    if rule.by is not None:
        threshold, known = _table(rule, *signals.keys(rule.by))
        applicable &= known
    return _COMPARE[rule.op](signal, threshold), applicable


def _table(rule: Rule, keys: Sequence[Any], index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds picked from the rule's table by `keys[index]`, and where there is one; shapes (rows,)."""
    if not isinstance(rule.value, Mapping):
        raise ConfigError(f"rule {rule.reason}: by={rule.by!r} needs a table of values, got {rule.value!r}")
    picked = [rule.value.get(str(k), rule.value.get(OTHERWISE)) for k in keys]
    values = np.array([0.0 if p is None else float(p) for p in picked] + [0.0])
    known = np.array([p is not None for p in picked] + [False])
    return values[index], known[index]


def numbers(column: pa.Array) -> np.ndarray:
    """The column as float64, nulls as NaN-free zeros (callers mask them)."""
    return _numpy(column.cast(pa.float64(), safe=False).fill_null(0.0))


def _numpy(array: pa.Array) -> np.ndarray:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    out: np.ndarray = array.to_numpy(zero_copy_only=False)
    return out


@dataclass(frozen=True)
class Finding:
    """One rule held against one document; `threshold` is the number picked from the rule's table, if it has one."""

    rule: Rule
    value: Scalar | None
    threshold: Threshold
    passed: bool
    applicable: bool


def explain(rules: Iterable[Rule], row: Mapping[str, Any]) -> list[Finding]:
    """Every rule beside the value a document has, the row given as column -> Python value."""
    findings = []
    for rule in rules:
        columns = {c: _single(rule, c, row.get(c)) for c in rule.columns()}
        passed, applicable = _hold(rule, _Signals(columns), 1)
        value, threshold = row.get(rule.column), rule.value
        if rule.per is not None:
            per = row.get(rule.per)
            value = value / per if value is not None and per else None
        if rule.by is not None and isinstance(rule.value, Mapping):
            threshold = rule.value.get(str(row.get(rule.by)), rule.value.get(OTHERWISE))
        ok = bool(passed[0]) or not bool(applicable[0])
        findings.append(Finding(rule, value, threshold, ok, bool(applicable[0])))
    return findings


def _single(rule: Rule, column: str, value: Any) -> pa.Array:
    """The value as an array; a null has the type the rule would compare it as."""
    if value is not None:
        return pa.array([value])
    like = rule.value[0] if isinstance(rule.value, tuple) and rule.value else rule.value
    return pa.nulls(1, pa.string() if column == rule.by or isinstance(like, str) else pa.float64())
