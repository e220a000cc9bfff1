"""stats.quantile against a plain ranking, over any cut into shards, and in a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpusflow
from corpusflow import check_barrier
from stages.kernels.histograms import add_up, buckets_of, ranks


def test_contract() -> None:
    check_barrier(
        "stats.quantile", {"column": "quality.chars", "by": None}, before=[("language.identify", {"gate": False})]
    )


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=50))
def test_buckets_ascend_with_the_numbers(values: list[float]) -> None:
    ordered = np.array(sorted(values))
    assert (np.diff(buckets_of(ordered)) >= 0).all()


@settings(deadline=None)
@given(st.floats(1e-30, 1e30))
def test_buckets_are_a_thousandth_wide(value: float) -> None:
    assert buckets_of(np.array([value]))[0] < buckets_of(np.array([value * 1.0021]))[0]
    assert buckets_of(np.array([-value]))[0] < buckets_of(np.array([0.0]))[0] < buckets_of(np.array([value]))[0]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=60),
    st.integers(1, 9),
)
def test_histograms_add_up_to_the_same_however_they_are_cut(rows: list[tuple[int, int, int]], cut: int) -> None:
    g, b, w = (np.array(c, t) for c, t in zip(zip(*rows, strict=True), (np.int32, np.int32, np.int64), strict=True))
    whole = add_up(g, b, w)
    parts = [add_up(g[i : i + cut], b[i : i + cut], w[i : i + cut]) for i in range(0, len(rows), cut)]
    again = add_up(*(np.concatenate(c) for c in zip(*parts, strict=True)))
    for x, y in zip(whole, again, strict=True):
        assert x.tolist() == y.tolist()
    shares = {(int(x), int(y)): r for x, y, r in zip(*whole[:2], ranks(whole[0], whole[2]), strict=True)}
    for group, bucket in shares:
        total = sum(k for gg, _, k in rows if gg == group)
        below = sum(k for gg, bb, k in rows if gg == group and bb < bucket)
        same = sum(k for gg, bb, k in rows if gg == group and bb == bucket)
        assert shares[group, bucket] == pytest.approx((below + same / 2) / total)


def test_top_tenth_per_language_in_a_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [
        {"text": "word " * int(n), "lang": "en" if i % 3 else "de"} for i, n in enumerate(rng.integers(1, 500, 300))
    ]
    for k in range(3):
        (tmp_path / f"{k}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows[k::3]))
    config: dict[str, Any] = {
        "name": "q",
        "input": [{"ingest.jsonl": {"paths": [f"{tmp_path}/*.jsonl"], "columns": {"lang": "lang"}}}],
        "stages": [
            {"stats.quantile": {"column": "quality.chars", "by": "lang"}},
            {"quality.threshold": {"column": "quality.chars_pct", "min": 0.9, "reason": "not_in_top_tenth"}},
        ],
        "output": ["export.parquet"],
        "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
    }
    corpusflow.run(config)
    kept = corpusflow.open_run(str(tmp_path / "run")).stage("quality.threshold")
    texts = [(row["text"], row["lang"]) for b in kept.batches(["text", "lang"]) for row in b.to_pylist()]
    for language in ("en", "de"):
        lengths = sorted(len(r["text"]) for r in rows if r["lang"] == language)
        mine = sorted(len(t) for t, code in texts if code == language)
        assert 0.08 * len(lengths) <= len(mine) <= 0.12 * len(lengths)
        assert mine == lengths[-len(mine) :]
