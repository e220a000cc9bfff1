"""Dedup stages in real runs: workers, executors, batches and kills change no byte of what is committed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import corpusflow

WORDS = [f"{a}{b}" for a in ("river", "gate", "tide", "stone", "market", "lamp", "河", "水") for b in range(40)]
STAGES: list[Any] = [
    {"dedup.url": {"keep": ["date desc", "id"]}},
    {"dedup.exact": {"keep": ["length desc", "id"]}},
    "dedup.minhash",
    {"dedup.lines": {"min_words": 4}},
    {"dedup.substring": {"min_bytes": 120}},
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("in")
    rng = random.Random(8)
    rows = []
    for i in range(240):
        lines = [" ".join(rng.choices(WORDS, k=rng.randint(3, 14))) for _ in range(12)]
        if rows and i % 3 == 0:
            lines = rng.choice(rows)["text"].split("\n")
            if i % 2:
                lines[rng.randrange(len(lines))] = " ".join(rng.choices(WORDS, k=6))
        if i % 5 == 0:
            lines.insert(3, "this line is on every fifth page of the site")
        rows.append({"url": f"https://example.org/{i // 2 if i % 20 == 0 else i}", "text": "\n".join(lines)})
    for f in range(6):
        text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows[f * 40 : f * 40 + 40])
        (folder / f"{f}.jsonl").write_text(text, encoding="utf-8")
    return str(folder)


@pytest.fixture
def folder(quick_root: Path) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir=quick_root)) / "run"
    yield made
    shutil.rmtree(made.parent)


def config(inputs: str, run_dir: Path, **run: Any) -> dict[str, Any]:
    # a file each: small files would otherwise share a shard
    sources = [{"ingest.jsonl": {"paths": [f"{inputs}/{f}.jsonl"], "name": f"s{f}"}} for f in range(6)]
    return {
        "name": "dedup",
        "input": sources,
        "stages": STAGES,
        "output": ["export.parquet"],
        "run": {"dir": str(run_dir), "executor": "inline", **run},
    }


@pytest.fixture(scope="module")
def golden(inputs: str, quick_root: Path) -> tuple[str, int]:
    """(content digest, commit records) of a run that nothing disturbed."""
    folder = quick_root / "dedup-golden"
    result = corpusflow.run(config(inputs, folder))
    counts = {c.stage: c for c in result.counts}
    for stage in ("dedup.url", "dedup.exact", "dedup.minhash"):
        assert sum(counts[stage].dropped.values()) > 5, stage
    records = sum(1 for p in folder.rglob("_commits/*.json"))
    return result.digest, records


def test_the_same_config_gives_the_same_bytes(inputs: str, golden: tuple[str, int], folder: Path) -> None:
    assert corpusflow.run(config(inputs, folder)).digest == golden[0]


@pytest.mark.ray
@pytest.mark.parametrize(
    "workers", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)]
)
def test_workers_change_nothing(inputs: str, golden: tuple[str, int], folder: Path, workers: int) -> None:
    assert corpusflow.run(config(inputs, folder, executor="ray", workers=workers)).digest == golden[0]


def crash_at(inputs: str, folder: Path, point: str) -> int:
    code = f"import corpusflow, json; corpusflow.run(json.loads({json.dumps(json.dumps(config(inputs, folder)))}))"
    env = os.environ | {"CORPUSFLOW_FAULT": point}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False).returncode


@pytest.mark.parametrize("share", [0.45, 0.85])
def test_a_killed_run_resumes_to_the_same_bytes(
    inputs: str, golden: tuple[str, int], folder: Path, share: float
) -> None:
    assert crash_at(inputs, folder, f"link:{int(golden[1] * share)}") == -9
    assert corpusflow.run(config(inputs, folder)).digest == golden[0]


@pytest.mark.slow
def test_a_run_killed_at_every_commit_resumes_to_the_same_bytes(
    inputs: str, golden: tuple[str, int], folder: Path
) -> None:
    kills = 0
    while crash_at(inputs, folder, "link:4") == -9:  # three commits further each time, to the end
        kills += 1
        assert kills < 200
    assert kills > 20
    assert corpusflow.run(config(inputs, folder)).digest == golden[0]
