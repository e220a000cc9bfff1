"""How a budget is divided."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusflow.errors import ConfigError
from corpusflow.mix.shares import Demand, divide, tempered


def test_temperature() -> None:
    assert tempered([900, 100], 1.0) == pytest.approx([0.9, 0.1])
    assert tempered([900, 100], 2.0) == pytest.approx([0.75, 0.25])  # sqrt: 30 to 10
    assert tempered([900, 100], 1e9) == pytest.approx([0.5, 0.5])
    assert tempered([1e18, 1], 0.01) == pytest.approx([1.0, 0.0])


def test_by_weight_with_whole_numbers() -> None:
    demands = [Demand("a", 100, 1.0), Demand("b", 100, 1.0), Demand("c", 100, 1.0)]
    assert divide(demands, 100) == [34, 33, 33]
    assert divide(demands, 2) == [1, 1, 0]


def test_what_is_fixed_comes_first() -> None:
    demands = [Demand("a", 10, 3.0), Demand("b", 10, 0.0, fixed=25), Demand("c", 10, 1.0)]
    assert divide(demands, 65) == [30, 25, 10]
    with pytest.raises(ConfigError, match="take 25"):
        divide(demands, 24)
    with pytest.raises(ConfigError, match="the budget is 30"):
        divide([demands[1]], 30)
    assert divide([demands[1]], None) == [25]


def test_what_one_may_not_give_the_others_do() -> None:
    demands = [Demand("a", 10, 8.0, most=20), Demand("b", 100, 1.0, most=400), Demand("c", 100, 1.0)]
    assert divide(demands, 220) == [20, 100, 100]
    capped = [Demand("a", 10, 8.0, most=20), Demand("b", 10, 1.0, most=30)]
    assert divide(capped, 50) == [20, 30]
    with pytest.raises(ConfigError, match="lets through 50 of the 51"):
        divide(capped, 51)
    with pytest.raises(ConfigError, match="21 sequences are asked for"):
        divide([Demand("a", 10, 1.0, fixed=21, most=20)], None)


def test_without_a_budget_it_is_as_much_as_keeps_the_proportions() -> None:
    demands = [Demand("a", 100, 3.0), Demand("b", 10, 1.0, most=20)]
    assert divide(demands, None) == [60, 20]
    assert divide([Demand("a", 70, 70.0), Demand("b", 30, 30.0)], None) == [70, 30], "everything once"


def test_without_a_budget_and_by_size_it_is_everything_once() -> None:
    for sizes in ([10**9, 2, 997, 10**9], [3, 7, 11], [1, 10**6 - 1, 10**9 + 1], [49, 51, 103]):
        demands = [Demand(str(s), s, w, most=s) for s, w in zip(sizes, tempered(sizes, 1.0), strict=True)]
        assert divide(demands, None) == sizes


def test_a_part_of_one_sequence_does_not_hold_the_others_to_whole_epochs() -> None:
    big, small = Demand("a", 1_000, 1_000.0, most=1_500.0), Demand("b", 1, 1.0, most=1.5)
    assert divide([big, small], None) == [1_500, 1]
    assert divide([Demand("a", 1_000, 1_000.0, most=500.0), Demand("b", 1, 1.0, most=0.5)], None) == [500, 0]
    assert divide([small, small, small], None) == [1, 1, 1]
    with pytest.raises(ConfigError, match="lets through 1,501 of the 1,502"):
        divide([big, small], 1_502)
    with pytest.raises(ConfigError, match="2 sequences are asked for, 1 are"):
        divide([Demand("b", 1, 1.0, fixed=2, most=1.5)], None)


def test_a_temperature_at_which_nothing_is_left_of_small_parts() -> None:
    sizes = [1, 2, 10**9]
    demands = [Demand(str(s), s, w, most=s) for s, w in zip(sizes, tempered(sizes, 0.01), strict=True)]
    assert divide(demands, None) == [0, 0, 10**9]
    assert divide(demands, 10**9 + 3) == sizes


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.floats(0.01, 100)), min_size=1, max_size=12),
    st.integers(1, 100_000),
)
def test_it_adds_up_and_follows_the_weights(parts: list[tuple[int, float]], total: int) -> None:
    taken = divide([Demand(str(i), size, weight) for i, (size, weight) in enumerate(parts)], total)
    whole = sum(w for _, w in parts)
    assert sum(taken) == total
    assert all(math.floor(total * w / whole - 1e-6) <= n <= math.ceil(total * w / whole + 1e-6)
               for n, (_, w) in zip(taken, parts, strict=True))  # fmt: skip


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0.01, 100)), min_size=1, max_size=8), st.data())
def test_no_part_passes_its_limit(parts: list[tuple[int, float]], data: st.DataObject) -> None:
    demands = [Demand(str(i), size, weight, most=size) for i, (size, weight) in enumerate(parts)]
    total = data.draw(st.integers(1, sum(size for size, _ in parts)))
    taken = divide(demands, total)
    assert sum(taken) == total
    assert all(n <= d.size for n, d in zip(taken, demands, strict=True))
