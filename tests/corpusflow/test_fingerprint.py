"""Canonical JSON: equal for what means the same, different for what does not, on any machine."""

from __future__ import annotations

import json
import math
import unicodedata
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow.fingerprint import canonical, canonical_json, fingerprint

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
keys = st.text('ab\0fé"昨', max_size=4)
values = st.recursive(scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(keys, v, max_size=4))


@settings(max_examples=200, deadline=None)
@given(values)
def test_one_line_of_json_and_the_same_after_json(value: Any) -> None:
    text = canonical_json(value)
    assert "\n" not in text
    json.loads(text)
    # floats come back from JSON as they were: a plan stored in a run folder has the fingerprints it was stored with
    assert canonical_json(json.loads(json.dumps(value))) == text


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(keys, scalars, max_size=5), st.randoms(use_true_random=False))
def test_order_of_keys_does_not_matter(value: dict[str, Any], rng: Any) -> None:
    items = list(value.items())
    rng.shuffle(items)
    assert fingerprint(dict(items)) == fingerprint(value)


@settings(max_examples=200, deadline=None)
@given(values, values)
def test_different_values_differ(a: Any, b: Any) -> None:
    def meant(v: Any) -> Any:  # what we take for the same: 50 and 50.0, a text and its NFC
        if isinstance(v, bool) or v is None:
            return (type(v).__name__, v)
        if isinstance(v, (int, float)):
            return ("number", v)
        if isinstance(v, str):
            return ("text", unicodedata.normalize("NFC", v))
        if isinstance(v, list):
            return ("list", tuple(meant(x) for x in v))
        return ("map", frozenset((unicodedata.normalize("NFC", k), meant(x)) for k, x in v.items()))

    assert (fingerprint(a) == fingerprint(b)) == (meant(a) == meant(b))


def test_what_is_the_same() -> None:
    assert fingerprint(50) == fingerprint(50.0)
    assert fingerprint("é") == fingerprint("e\u0301")
    assert fingerprint((1, 2)) == fingerprint([1, 2])
    assert fingerprint({"b", "a"}) == fingerprint(["a", "b"])
    assert fingerprint(PurePosixPath("a/b")) == fingerprint("a/b")
    assert fingerprint(0.0) == fingerprint(-0.0)


def test_what_is_not() -> None:
    assert (
        len({fingerprint(v) for v in (True, 1, "1", [1], None, "", 0, False, 0.1, 0.1 + 0.2, 0.3, b"1", {"1": 1})})
        == 13
    )
    assert fingerprint(1, 2) != fingerprint([1, 2])
    assert fingerprint(math.inf) != fingerprint(-math.inf)


def test_a_float_is_no_mapping() -> None:
    assert fingerprint(0.5) != fingerprint({"f": (0.5).hex()})


def test_keys_that_are_one() -> None:
    for value in ({1: "a", "1": "b"}, {"é": 1, "e\u0301": 2}):
        with pytest.raises(TypeError, match="two keys of a mapping are one"):
            canonical(value)


def test_lone_surrogates_have_a_fingerprint() -> None:
    assert fingerprint("\ud800") != fingerprint("\ud801")


def test_no_canonical_form() -> None:
    with pytest.raises(TypeError, match="no canonical form for object"):
        canonical(object())


def test_golden() -> None:
    """Changing this re-runs everything in every run folder there is."""
    value = {"name": "quality.gopher", "min": 0.3, "list": [1, 2.0, None, True], "é": "e\u0301"}
    assert canonical_json(value) == (
        '{"list":[1,2,null,true],"min":{"\\u0000f":"0x1.3333333333333p-2"},"name":"quality.gopher","é":"é"}'
    )
    assert fingerprint(value) == fingerprint(json.loads(json.dumps(value)))
