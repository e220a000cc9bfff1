from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from small_runs import write_config

import corpusflow
from corpusflow.commit import Dataset

WEEK = 7 * 86_400


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def everything(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if p.is_file()}


def gone(call: Any, folder: Any, *options: str) -> set[Path]:
    result = call("gc", folder, "--json", *options)
    assert result.status == 0
    return {Path(json.loads(line)["path"]) for line in result.out.splitlines()}


def orphan(own_run: Any, stage: str, part: str, days: float) -> Path:
    """A file that a killed attempt left."""
    run = corpusflow.open_run(str(own_run))
    node = next(n for n in run.plan.nodes if n.stage == stage and n.label == part)
    attempt = Dataset(run.plan.root(node), node.fp).attempt(0, "0" * 32)
    name, upload = attempt.create("parquet")
    with upload:
        upload.write(b"half a shard")
    path = Path(run.plan.root(node)) / name
    age(path, days * 86_400)
    return path


def test_nothing_to_delete(call: Any, own_run: Any) -> None:
    for path in everything(own_run.folder):
        age(path, 2 * WEEK)
    before = everything(own_run.folder)
    assert gone(call, own_run, "--old-plans") == set()
    assert everything(own_run.folder) == before


def test_only_what_no_record_names_and_only_when_old(call: Any, own_run: Any) -> None:
    before = everything(own_run.folder)
    old = orphan(own_run, "quality.signals", "score", 8)
    young = orphan(own_run, "quality.chinese", "score", 6)
    torn = own_run.folder / "dedup.exact" / ".tmp-4711"
    torn.write_bytes(b"half a record")
    age(torn, 8 * 86_400)
    assert gone(call, own_run, "--dry-run") == {old, torn}
    assert old.exists()
    assert gone(call, own_run) == {old, torn}
    assert everything(own_run.folder) == before | {young}
    assert gone(call, own_run, "--grace", "12h") == {young}
    assert call("verify", own_run).status == 0


def test_a_stage_that_is_not_sealed_is_left_alone(call: Any, own_run: Any) -> None:
    path = orphan(own_run, "quality.signals", "score", 30)
    next((own_run.folder / "quality.signals").glob("*/_SEALED*")).unlink()
    assert gone(call, own_run) == set()
    assert path.exists()


def test_a_damaged_record_stops_it(call: Any, own_run: Any) -> None:
    """The record that cannot be read may be the one that names the file."""
    path = orphan(own_run, "quality.signals", "score", 30)
    record = sorted(path.parents[2].glob("_commits/*"))[0]
    record.write_bytes(record.read_bytes()[:-20])
    assert gone(call, own_run) == set()


def test_old_plans(call: Any, small_run: Any, tmp_path: Path) -> None:
    """Output of an earlier threshold goes only when asked for; the present output stays whole."""
    config = write_config(tmp_path)
    assert call("run", config, "--set", "quality.gopher.min_words=20").status == 0
    run = tmp_path / "run"
    first = everything(run)
    assert call("run", config).status == 0
    second = everything(run) - first
    assert second
    for path in everything(run):
        age(path, 2 * WEEK)
    assert gone(call, run) == set()
    deleted = gone(call, run, "--old-plans")
    assert deleted
    assert deleted.isdisjoint(second)
    assert {p.relative_to(run).parts[0] for p in deleted} >= {"dedup.exact", "tokenize.sentencepiece", "export.bin"}
    assert "quality.signals" not in {p.relative_to(run).parts[0] for p in deleted}, "shared by both"
    assert call("verify", run).status == 0
    assert not [p for p in run.rglob("*") if p.is_dir() and not any(p.iterdir())], "no empty folder is left"


def test_grace_is_a_number_and_a_unit(call: Any, small_run: Any) -> None:
    call("gc", small_run, "--grace", "soon").fails(2, "number and a unit", "7d")
