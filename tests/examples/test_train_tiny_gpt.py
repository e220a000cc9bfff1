"""The example trains, and a run that was stopped half-way sees the batches and losses of one that was not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import corpusflow

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def export(quick_root: Path) -> str:
    """Tokens of the sample texts."""
    config: dict[str, Any] = {
        "name": "tiny",
        "input": [{"ingest.jsonl": {"paths": [f"{ROOT}/sample_data/jsonl/*.jsonl.zst"]}}],
        "stages": [{"tokenize.sentencepiece": {"model": f"{ROOT}/sample_data/tokenizer/web.model"}}],
        "output": ["export.megatron"],
        "run": {"dir": str(quick_root / "tiny"), "executor": "inline"},
    }
    return corpusflow.run(config).exports["export.megatron"]


def test_it_learns_and_resumes_exactly(export: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    sys.modules.pop("train_tiny_gpt", None)
    from train_tiny_gpt import train

    torch.set_num_threads(1)  # sums in one order: losses are then equal to the last bit
    whole = train(export, steps=30)
    assert whole[-1][0] < whole[0][0] - 1.0
    checkpoint = tmp_path / "tiny.pt"
    first = train(export, steps=30, stop=13, checkpoint=checkpoint)
    second = train(export, steps=30, checkpoint=checkpoint)
    assert len(first) == 13
    assert first + second == whole
    assert len({batch for _, batch in whole}) == 30
