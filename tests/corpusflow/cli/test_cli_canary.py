"""`corpusflow canary`: a table, JSON, and an exit status that a script can go by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml


def test_the_command(call: Any, tmp_path: Path) -> None:
    for name, rows in {"good": ["a fine text " * 20, "another fine text " * 20], "bad": ["no"]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"id": t[:5], "text": t}) + "\n" for t in rows))
    config = {
        "input": [{"ingest.jsonl": {"paths": [f"{tmp_path}/none.jsonl"]}}],
        "stages": [{"quality.threshold": {"column": "quality.chars", "min": 50, "reason": "short"}}],
        "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
    }
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(config))
    good, bad = f"{tmp_path}/good.jsonl", f"{tmp_path}/bad.jsonl"
    fine = call("canary", path, "--good", good, "--bad", bad)
    assert fine.status == 0, fine.err
    assert "canary-good/good.jsonl#0 (a fin)" in fine.out
    swapped = call("canary", path, "--good", bad, "--bad", good, "--json")
    swapped.fails(1, "3 of 3 canaries", "hint:")
    assert json.loads(swapped.out)["wrong"] == 3
    call("canary", path).fails(2, "no canaries")
