"""Rules against plain Python, row by row, and `explain` against `evaluate`."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError, Rule
from corpusflow.rules import evaluate, explain

OPS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne}
TYPES = {
    "n.int": pa.int32(),
    "n.big": pa.int64(),
    "n.float": pa.float32(),
    "n.flag": pa.bool_(),
    "s.name": pa.string(),
    "s.code": pa.string(),
}

# float32 values, so that a comparison in Python and one in Arrow see the same number
numbers = {
    "n.int": st.integers(-3, 5),
    "n.big": st.integers(-(1 << 40), 1 << 40),
    "n.float": st.floats(-2, 2, width=32) | st.just(float("nan")),
    "n.flag": st.booleans(),
}
strings = st.sampled_from(["en", "zh", "", "昨"])
rows = st.fixed_dictionaries(
    {c: st.none() | s for c, s in numbers.items()} | {"s.name": st.none() | strings, "s.code": st.none() | strings}
)


@st.composite
def rules(draw: st.DrawFn, reason: str = "r") -> Rule:
    column = draw(st.sampled_from(list(TYPES)))
    text = column.startswith("s.")
    op: Any = draw(st.sampled_from(["in", "not in", "is null", "not null", "==", "!=", *([] if text else OPS)]))
    if op in ("is null", "not null"):
        return Rule(reason, column, op)
    if op in ("in", "not in"):
        values = strings if text else numbers[column].filter(lambda v: v == v)
        return Rule(reason, column, op, tuple(draw(st.lists(values, max_size=3))))
    if text:
        return Rule(reason, column, op, draw(strings))
    limit = st.integers(-3, 5) | st.floats(-3, 3, width=32)
    per = draw(st.none() | st.sampled_from(["n.int", "n.float", "n.big"]))
    if draw(st.booleans()):
        table = draw(st.dictionaries(st.sampled_from(["en", "zh", "*"]), limit | st.none(), max_size=3))
        return Rule(reason, column, op, table, per=per, by="s.code")
    return Rule(reason, column, op, draw(limit), per=per)


def verdict(rule: Rule, row: Mapping[str, Any]) -> tuple[bool, bool]:
    """(passed, applicable) by the docstring of Rule, in plain Python."""
    value: Any = row[rule.column]
    if rule.op == "is null":
        return value is None, True
    if rule.op == "not null":
        return value is not None, True
    if rule.op == "not in":
        return value not in rule.value, True  # type: ignore[operator]
    if value is None:
        return True, False
    if rule.op == "in":
        return value in rule.value, True  # type: ignore[operator]
    limit: Any = rule.value
    if rule.per is not None:
        per = row[rule.per]
        if per is None or not per > 0:
            return True, False
        value = float(value) / float(per)
    if rule.by is not None:
        key = row[rule.by]
        limit = None if key is None else limit.get(key, limit.get("*"))
        if limit is None:
            return True, False
    return bool(OPS[rule.op](value, limit)), True


def table(some: list[dict[str, Any]]) -> dict[str, pa.Array]:
    return {c: pa.array([r[c] for r in some], t) for c, t in TYPES.items()}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 9).flatmap(lambda i: rules(f"r{i}")), max_size=4), st.lists(rows, max_size=12))
def test_evaluate_is_python(some: list[Rule], documents: list[dict[str, Any]]) -> None:
    got = evaluate(some, table(documents), len(documents))
    assert got.first.dtype == np.int16
    for n, row in enumerate(documents):
        each = [verdict(r, row) for r in some]
        failing = [i for i, (passed, applicable) in enumerate(each) if applicable and not passed]
        assert got.fails[:, n].tolist() == [i in failing for i in range(len(some))]
        assert got.first[n] == (failing[0] if failing else -1)
    unclear = [sum(not verdict(r, row)[1] for row in documents) for r in some]
    assert got.inapplicable.tolist() == unclear
    assert got.kept.tolist() == [f < 0 for f in got.first]


@settings(max_examples=150, deadline=None)
@given(rules(), rows)
def test_explain_is_evaluate(rule: Rule, row: dict[str, Any]) -> None:
    (finding,) = explain([rule], row)
    whole = evaluate([rule], table([row]), 1)
    assert finding.passed == bool(whole.kept[0])
    assert finding.applicable == (whole.inapplicable[0] == 0)


@settings(max_examples=100, deadline=None)
@given(rules())
def test_rules_survive_json(rule: Rule) -> None:
    assert Rule.from_data(rule.as_data()) == rule


def test_rows_do_not_depend_on_neighbours() -> None:
    rule = Rule("r", "a", ">=", {"en": 2, "*": 5}, by="b")
    columns = {"a": pa.array([1, 3, 3, None, 6]), "b": pa.array(["en", "en", "de", "en", None])}
    whole = evaluate([rule], columns, 5).kept.tolist()
    alone = [bool(evaluate([rule], {c: a.slice(i, 1) for c, a in columns.items()}, 1).kept[0]) for i in range(5)]
    assert whole == alone == [False, True, False, True, True]


def test_large_strings() -> None:
    columns = {"a": pa.array(["x", "y"], pa.large_string())}
    assert evaluate([Rule("r", "a", "in", ("x",))], columns, 2).kept.tolist() == [True, False]
    assert evaluate([Rule("r", "a", "!=", "x")], columns, 2).kept.tolist() == [False, True]


@pytest.mark.parametrize(
    ("kind", "rule", "says"),
    [
        (pa.string(), {"op": ">=", "value": 3}, "cannot be compared with 3"),
        (pa.int32(), {"op": "==", "value": "en"}, "cannot be compared with 'en'"),
        (pa.int32(), {"op": "in", "value": ("en",)}, "in no list like"),
        (pa.int32(), {"op": "in", "value": (1.5,)}, "in no list like"),
        (pa.list_(pa.int32()), {"op": "<", "value": 3}, "cannot be compared"),
        (pa.int32(), {"op": "<", "value": 3, "per": "s"}, "cannot be divided by s"),
        (pa.int32(), {"op": "<", "value": 3, "per": "n"}, None),
        (pa.bool_(), {"op": "==", "value": True}, None),
        (pa.string(), {"op": "in", "value": ("en",)}, None),
        (pa.list_(pa.int32()), {"op": "not null"}, None),
    ],
)
def test_types_that_do_not_go_together(kind: pa.DataType, rule: dict[str, Any], says: str | None) -> None:
    made = Rule("r", "a", **rule)
    types = {"a": kind, "s": pa.string(), "n": pa.float32()}
    if says is None:
        made.check_types(types)
    else:
        with pytest.raises(ConfigError, match=says):
            made.check_types(types)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"op": "in", "value": 3}, "needs a tuple"),
        ({"op": ">=", "value": {"en": 1}}, "needs `by`"),
        ({"op": ">=", "value": 1, "by": "b"}, "needs a table"),
        ({"op": "in", "value": ("a",), "per": "b"}, "cannot be used with `per`"),
        ({"op": ">="}, "needs a value"),
        ({"op": "<", "value": "many"}, "needs a number"),
        ({"op": "<", "value": {"en": "many"}, "by": "b"}, "needs a number"),
        ({"op": "=>", "value": 1}, "unknown operator"),
    ],
)
def test_impossible_rules(rule: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Rule("r", "a", **rule)
