"""Exports of many files: only those that hold a document are written again, and each is what its format says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import corpusflow
from corpusflow.feed import TokenFiles
from corpusflow.repair import repair
from corpusflow.takedown import journal
from corpusflow.takedown.perform import take_down
from corpusflow.takedown.request import Request
from corpusflow.verify import verify

MODEL = Path(__file__).parents[3] / "sample_data" / "tokenizer" / "web.model"
SMALL: dict[str, Any] = {"file_tokens": 500}
SINKS: list[dict[str, dict[str, Any]]] = [
    {"export.megatron": {**SMALL, "validation": 0.2}},
    {"export.bin": {**SMALL, "shuffle": False}},
    {"export.mds": {**SMALL, "sequence": 16}},
    {"export.tfrecord": SMALL},
    {"export.mindrecord": SMALL},
    {"export.parquet": {"columns": ["id", "text"], "shuffle": True, "file_bytes": 4_000}},
]


@pytest.fixture(scope="module")
def finished(quick_root: Path) -> Path:
    """Four shards of 25 texts, exported in every way."""
    folder = quick_root / "many"
    folder.mkdir()
    for f in range(4):
        texts = [f"Text {i} of {f}: " + " ".join(f"word{(i * f + w) % 97}" for w in range(12)) for i in range(25)]
        lines = [json.dumps({"text": t, "url": f"https://site{i % 5}.example/{f}/{i}"}) for i, t in enumerate(texts)]
        (folder / f"{f}.jsonl").write_text("\n".join(lines) + "\n")
    config = {
        "name": "many",
        "input": [{"ingest.jsonl": {"paths": [f"{folder}/*.jsonl"], "group_bytes": 1, "url": "url"}}],
        "stages": [{"tokenize.sentencepiece": {"model": str(MODEL)}}],
        "output": SINKS,
        "run": {"dir": str(folder / "run"), "executor": "inline"},
    }
    corpusflow.run(config)
    return folder / "run"


@pytest.fixture
def run(finished: Path, quick_root: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it that a test may change."""
    folder = quick_root / tmp_path.name
    shutil.copytree(finished, folder)
    yield folder
    shutil.rmtree(folder)


def manifests(run: Path) -> dict[str, Any]:
    return {p.parent.name: json.loads(p.read_text()) for p in sorted(run.glob("exports/*/manifest.json"))}


def holders(run: Path, name: str, ids: set[str]) -> set[str]:
    """Names of an export's files that hold one of the ids, by its own indexes."""
    found = set()
    for file in manifests(run)[name]["files"]:
        for part in file["parts"].values():
            if part["name"].endswith(".parquet"):
                table = pq.read_table(run / "exports" / name / part["name"], columns=["id"])
                if ids & set(table.column("id").to_pylist()):
                    found |= {p["name"] for p in file["parts"].values()}
    return found


def test_only_files_that_held_them_change(run: Path) -> None:
    view = corpusflow.open_run(str(run)).stage("tokenize.sentencepiece").table(["id", "url", "tokenize.tokens"])
    ids = set(view.column("id").to_pylist()[3:90:40])
    before = manifests(run)
    held = {name: holders(run, name, ids) for name in before}
    take_down(str(run), Request(ids=frozenset(ids)))
    assert verify(corpusflow.open_run(str(run))).problems == []
    for name, after in manifests(run).items():
        was = {p["name"]: p["xxh3_128"] for f in before[name]["files"] for p in f["parts"].values()}
        now = {p["name"]: p["xxh3_128"] for f in after["files"] for p in f["parts"].values()}
        assert len(before[name]["files"]) >= 4
        assert set(now) == set(was), name
        assert {n for n in now if now[n] != was[n]} == held[name], name
        assert holders(run, name, ids) == set()
    left = {i: t for i, t in zip(view.column("id").to_pylist(), view.column("tokenize.tokens").to_pylist(), strict=True)
            if i not in ids}  # fmt: skip
    found: dict[str, list[int]] = {}
    for split in ("train", "validation"):
        files = TokenFiles(str(run / "exports" / "megatron"), split)
        for start in files.document_starts[:-1].tolist():
            span = files.trace(start)
            found[span.id] = files.read(span.start, span.length).tolist()
    assert found == left


def test_signals_and_exports_can_still_be_repaired(run: Path) -> None:
    """What a takedown rewrote has the bytes that its stage would write."""
    opened = corpusflow.open_run(str(run))
    ids = opened.stage("tokenize.sentencepiece").table(["id"]).column("id").to_pylist()[3:90:40]
    take_down(str(run), Request(ids=frozenset(ids)))
    for pattern in ("tokenize.sentencepiece/*/data/00000000/*", "export.bin/sink-*/write/data/00000000/*.bin"):
        (victim,) = run.glob(pattern)
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 4
        victim.unlink()
        victim.write_bytes(data)
    found = verify(opened)
    assert len(found.problems) >= 2
    assert repair(opened.plan, found).failed == []
    assert verify(corpusflow.open_run(str(run))).problems == []


def test_a_whole_domain_and_a_file_that_empties(run: Path) -> None:
    """All documents of one shard: the unshuffled file of that shard goes, and its neighbours move up."""
    before = manifests(run)["bin"]
    view = corpusflow.open_run(str(run)).stage("tokenize.sentencepiece").table(["id"])
    ids = {i for i in view.column("id").to_pylist() if "/1.jsonl#" in i}
    assert len(ids) == 25
    take_down(str(run), Request(ids=frozenset(ids)))
    take_down(str(run), Request(domains=frozenset({"site3.example"})))
    assert verify(corpusflow.open_run(str(run))).problems == []
    after = manifests(run)["bin"]
    assert len(after["files"]) == len(before["files"]) - 1
    assert after["splits"]["train"]["documents"] == 100 - 25 - 15
    assert len(np.fromfile(run / "exports" / "bin" / after["files"][0]["parts"]["bin"]["name"], "<u2"))


@pytest.mark.slow
def test_sigkill(run: Path) -> None:
    """A process that is really killed, at ever later points, until one gets through."""
    ids = run.parent / "ids"
    view = corpusflow.open_run(str(run)).stage("tokenize.sentencepiece").table(["id"])
    ids.write_text("\n".join(view.column("id").to_pylist()[5:100:20]) + "\n")
    command = [sys.executable, "-m", "corpusflow", "takedown", str(run), "--ids", str(ids)]
    killed = 0
    for point in (3, 25, 60, 100, 150, 220, 10_000):
        environment = {**os.environ, "CORPUSFLOW_FAULT": f"any:{point}"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == -signal.SIGKILL:
            killed += 1
            assert point < 10 or journal.begun(str(run)) is not None
        else:
            assert done.returncode == 0, done.stderr
            break
    assert killed >= 4
    assert verify(corpusflow.open_run(str(run))).problems == []
    assert holders(run, "megatron", set(ids.read_text().split())) == set()
