"""Megatron's dataset classes see each token of an export in one pass, but for the remainder of each file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corpusflow

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("megatron.core.datasets.gpt_dataset", exc_type=ImportError)

ROOT = Path(__file__).parents[2]
LENGTH = 64


def test_one_pass_has_every_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    config: dict[str, Any] = {
        "name": "read",
        "input": [{"ingest.jsonl": {"paths": [f"{ROOT}/sample_data/jsonl/*.jsonl.zst"]}}],
        "stages": [{"tokenize.sentencepiece": {"model": f"{ROOT}/sample_data/tokenizer/web.model"}}],
        "output": ["export.megatron"],
        "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
    }
    export = corpusflow.run(config).exports["export.megatron"]
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    sys.modules.pop("read_with_megatron", None)
    import read_with_megatron

    train = read_with_megatron.training_set(export, LENGTH, None, str(tmp_path / "cache"))
    (file,) = json.loads(Path(export, "manifest.json").read_text())["files"]
    whole = Counter(np.fromfile(Path(export, file["parts"]["bin"]["name"]), "<u2").tolist())
    seen = Counter(t for i in range(len(train)) for t in train[i]["labels"].tolist())
    assert len(train) == (file["tokens"] - 1) // LENGTH > 50
    assert seen.total() == len(train) * LENGTH
    assert not seen - whole

    monkeypatch.setattr(sys, "argv", ["read_with_megatron.py", export, "--length", "32", "--samples", "40"])
    read_with_megatron.main()
    assert "40 samples of 32 tokens" in capsys.readouterr().out
