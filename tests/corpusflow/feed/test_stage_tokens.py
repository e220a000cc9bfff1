"""Tokens of a run before its exports are made."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corpusflow
from corpusflow.errors import ConfigError
from corpusflow.feed import Loader, StageTokens, TokenDataset

MODEL = Path(__file__).parents[3] / "sample_data" / "tokenizer" / "web.model"


def config(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "lines",
        "input": [{"ingest.jsonl": {"paths": [f"{folder}/*.jsonl"], "group_bytes": 1}}],
        "stages": [{"tokenize.sentencepiece": {"model": str(MODEL), "add_bos": False, "add_eos": False}}],
        "output": ["export.bin"],
        "run": {"dir": str(folder / "run"), "executor": "inline"},
        **changes,
    }


@pytest.fixture(scope="module")
def half_done(quick_root: Path) -> Path:
    """Three files of texts, an empty one in each; tokenized, and nothing exported."""
    folder = quick_root / "lines"
    folder.mkdir()
    for f in range(3):
        texts = [f"Text number {i} of file {f}, with {'many ' * i}words." for i in range(20)] + ["", "The end."]
        (folder / f"{f}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    corpusflow.run(config(folder))
    for made in ("export.bin", "exports"):
        shutil.rmtree(folder / "run" / made)
    return folder / "run"


@pytest.fixture(scope="module")
def expected(half_done: Path) -> list[tuple[str, list[int]]]:
    """(id, tokens) of every document that has some."""
    table = corpusflow.open_run(str(half_done)).stage("tokenize.sentencepiece").table(["id", "tokenize.tokens"])
    rows = [(r["id"], r["tokenize.tokens"]) for r in table.to_pylist() if r["tokenize.tokens"]]
    assert len(rows) == 63
    return rows


@pytest.mark.parametrize("keep", [1, 3])
def test_it_reads_as_an_export_would(half_done: Path, expected: list[tuple[str, list[int]]], keep: int) -> None:
    tokens = StageTokens(str(half_done), keep=keep)
    whole = np.array([t for _, document in expected for t in document])
    assert len(tokens) == len(whole)
    assert tokens.read(0, len(tokens)).tolist() == whole.tolist()
    rng = np.random.default_rng(1)
    for start in rng.integers(0, len(whole), 50).tolist():
        length = int(rng.integers(0, len(whole) - start + 1))
        assert tokens.read(start, length).tolist() == whole[start : start + length].tolist()
    assert np.diff(tokens.document_starts).tolist() == [len(d) for _, d in expected]
    for number in range(0, 63, 5):
        span = tokens.trace(int(tokens.document_starts[number]))
        assert (span.id, span.length) == (expected[number][0], len(expected[number][1]))
    with pytest.raises(IndexError):
        tokens.read(len(whole), 1)


def test_it_is_loaded_and_resumed_like_any_other(half_done: Path) -> None:
    data = TokenDataset(StageTokens(str(half_done)), 16)
    loader = Loader(data, 2, seed=3)
    for _ in range(5):
        next(loader)
    again = Loader(pickle.loads(pickle.dumps(data)), 2, seed=3)
    again.load_state_dict(loader.state_dict())
    assert np.array_equal(next(again)["tokens"], next(loader)["tokens"])
    best = TokenDataset(StageTokens(str(half_done)), 64, mode="best_fit", pad=0)
    assert sum(int((i["mask"]).sum()) for i in map(best.__getitem__, range(len(best)))) == len(data.files) - sum(
        len(p) for p in [best.packing.lengths]
    )


def test_what_has_not_finished_is_refused(half_done: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(half_done, copy)
    next(copy.glob("tokenize.sentencepiece/*/_SEALED*")).unlink()
    with pytest.raises(ConfigError, match=r"tokenize\.sentencepiece has not finished"):
        StageTokens(str(copy))


def test_a_run_without_tokens(half_done: Path, tmp_path: Path) -> None:
    other = config(half_done.parent, stages=["clean.unicode"], output=[])
    corpusflow.run({**other, "run": {"dir": str(tmp_path / "other"), "executor": "inline"}})
    with pytest.raises(ConfigError, match="makes no tokens"):
        StageTokens(str(tmp_path / "other"))
