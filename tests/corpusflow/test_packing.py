"""Documents in sequences of one length: nothing lost, little padded, no order by size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import pack
from corpusflow.packing import best_fit, by_document


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=120), st.integers(2, 40))
def test_best_fit_pads_no_more_than_documents_alone(sizes: list[int], length: int) -> None:
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    packed, alone = best_fit(starts, length), by_document(starts, length)
    for packing in (packed, alone):
        tokens = [t for s, n in zip(packing.starts, packing.lengths, strict=True) for t in range(s, s + n)]
        assert sorted(tokens) == list(range(sum(sizes)))
        used = np.add.reduceat(packing.lengths, packing.first[:-1])
        assert used.max() <= length
        assert packing.padded == len(packing) * length - sum(sizes)
    assert packed.padded <= alone.padded
    # best-fit decreasing needs at most 11/9 of the best possible number of bins, and one more
    assert len(packed) <= 11 / 9 * -(-sum(sizes) // length) + 4 + sum(n > length / 2 for n in alone.lengths)


def starts_of(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=60), st.integers(2, 40), st.integers(1, 9))
def test_windows_are_packed_one_after_the_other(sizes: list[int], length: int, window: int) -> None:
    packed = best_fit(starts_of(np.array(sizes)), length, window)
    tokens = [t for s, n in zip(packed.starts, packed.lengths, strict=True) for t in range(s, s + n)]
    assert sorted(tokens) == list(range(sum(sizes)))
    assert np.add.reduceat(packed.lengths, packed.first[:-1]).max() <= length
    pieces = sum(-(-n // length) for n in sizes)
    assert len(packed.starts) == pieces
    if window == 1:
        assert len(packed) == pieces, "each on its own"


def test_little_padding_and_no_order_by_size() -> None:
    """As a web corpus has them: most documents short, some of many sequences."""
    rng = np.random.default_rng(3)
    sizes = np.clip(rng.lognormal(6.2, 1.2, 20_000), 5, 60_000).astype(np.int64)
    alone, packed = (pack(starts_of(sizes), 2_048, way) for way in ("documents", "best_fit"))
    assert alone.padded / (len(alone) * 2_048) > 0.5
    assert packed.padded / (len(packed) * 2_048) < 0.002
    longest = np.maximum.reduceat(packed.lengths, packed.first[:-1])
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.05
    inner = np.ones(len(packed.starts), bool)
    inner[packed.first[:-1]] = False
    assert (np.diff(packed.starts)[inner[1:]] > 0).all(), "within a sequence as in the stream"


@pytest.mark.parametrize("way", ["documents", "best_fit"])
def test_no_documents(way: str) -> None:
    assert len(pack(np.zeros(1, np.int64), 8, way)) == 0  # type: ignore[arg-type]
