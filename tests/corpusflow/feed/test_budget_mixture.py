"""Mixtures of given amounts, and exports read in part."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow.errors import CorruptShardError
from corpusflow.feed import BudgetMixture, Loader, TokenDataset, TokenFiles
from corpusflow.feed.selection import SelectedTokens


@pytest.mark.parametrize("counts", [(700, 1), (5_000, 4_096, 33), (1,), (3, 9_001)])
def test_every_draw_comes_once_and_evenly(export: str, counts: tuple[int, ...]) -> None:
    data = TokenDataset(export, 16)
    mixture = BudgetMixture({f"p{i}": (data, n) for i, n in enumerate(counts)})
    part, before = mixture.draws(np.arange(sum(counts)), seed=5)
    for i, n in enumerate(counts):
        mine = before[part == i]
        assert mine.tolist() == list(range(n)), "in order, none twice"
        if n > 4_096:
            spread = np.flatnonzero(part == i) / sum(counts)
            assert np.abs(spread - np.arange(n) / n).max() < 0.5
    some = np.array([0, sum(counts) - 1, sum(counts) // 2])
    assert np.array_equal(mixture.draws(some, seed=5)[0], part[some])
    with pytest.raises(IndexError):
        mixture.draws(np.array([sum(counts)]), seed=5)


def test_a_loader_takes_the_whole_budget_and_stops(
    export: str, make_export: Callable[..., str], tmp_path: Path
) -> None:
    small = make_export(tmp_path / "small", [[list(range(60_000, 60_100))]])
    web, books = TokenDataset(export, 16), TokenDataset(small, 16)
    mixture = BudgetMixture({"web": (web, 150), "books": (books, 3 * len(books))})
    total = mixture.sequences
    assert mixture.plan()["books"]["epochs"] == 3.0
    seen: Counter[int] = Counter()
    loaders = [Loader(mixture, 2, rank=r, ranks=3, seed=9) for r in range(3)]
    for batches in zip(*loaders, strict=True):
        seen.update(int(t) for b in batches for t in b["tokens"][:, 0])
    given_out = total - total % 6
    assert sum(seen.values()) == given_out
    assert sum(n for t, n in seen.items() if t < 60_000) in range(150 - 6, 151)
    assert all(n <= 3 for t, n in seen.items() if t >= 60_000)
    state = loaders[0].state_dict()
    other = Loader(BudgetMixture({"web": (web, 149), "books": (books, 19)}), 2, seed=9)
    with pytest.raises(Exception, match="another data"):
        other.load_state_dict(state)


@settings(max_examples=12)
@given(st.lists(st.integers(0, 449), min_size=1, max_size=449, unique=True), st.data())
def test_a_selection_reads_as_its_documents_one_after_the_other(
    export: str, numbers: list[int], data: st.DataObject
) -> None:
    whole = TokenFiles(export)
    borders = whole.document_starts
    chosen = np.array(sorted(numbers), np.int64)
    selected = SelectedTokens(export, "train", chosen)
    expected = np.concatenate([np.arange(borders[d], borders[d + 1]) for d in chosen])
    assert len(selected) == len(expected)
    start = data.draw(st.integers(0, len(expected) - 1))
    length = data.draw(st.integers(0, len(expected) - start))
    assert selected.read(start, length).tolist() == expected[start : start + length].tolist()
    span = selected.trace(start)
    assert span.start <= start < span.start + span.length
    assert span.id == whole.trace(int(expected[start])).id
    assert pickle.loads(pickle.dumps(selected)).read(0, 1).tolist() == expected[:1].tolist()
    assert np.diff(selected.document_starts).tolist() == np.diff(borders)[chosen].tolist()


def test_a_selection_of_documents_that_are_not_there(export: str) -> None:
    with pytest.raises(CorruptShardError, match="one of number 450 is wanted"):
        SelectedTokens(export, "train", np.array([3, 450]))
    with pytest.raises(IndexError):
        SelectedTokens(export, "train", np.array([3])).read(0, 1_000)
