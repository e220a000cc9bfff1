"""The driver: what it refuses before it starts, what it says at the end, and reading a run back."""

from __future__ import annotations

import errno
import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest
from toys import ROWS, STAGES, Toy

import corpusflow
from corpusflow import ConfigError, RunFailedError, StageError, faults
from corpusflow.accounting import StageCount, add_up
from corpusflow.api import Silent
from corpusflow.record import Record
from corpusflow.results import warnings_of


@pytest.fixture(autouse=True)
def corpus(toy: Toy) -> None:
    toy.corpus([ROWS, ROWS[:3]])


def test_nothing_to_do(toy: Toy) -> None:
    with pytest.raises(ConfigError, match="nothing to do"):
        toy.run([], [])


def test_a_disk_that_cannot_hold_the_result(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpusflow.storage.LocalStorage.free_bytes", lambda self, path: 10)
    with pytest.raises(RunFailedError, match="GB free") as caught:
        toy.run(["Size"])
    assert "run.check_disk=false" in str(caught.value.hint)
    assert not (toy.root / "run").exists()
    toy.run(["Size"], check_disk=False)


def test_a_run_folder_that_cannot_be_written(toy: Toy) -> None:
    (toy.root / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot write to") as caught:
        toy.run(["Size"], run="file/run")
    assert "run.dir" in str(caught.value.hint)


@pytest.mark.parametrize("n", [1, 5, 9, 30, 60, 120])
def test_a_full_disk_is_an_error_with_a_hint(toy: Toy, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """The disk is full from the n-th write on, in the driver or a worker; once there is room, the run goes on."""
    seen = [0]

    def full(name: str) -> None:
        seen[0] += name == "write"
        if name == "write" and seen[0] >= n:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/the/disk")

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", full)
        with pytest.raises((RunFailedError, ConfigError), match="No space left on device") as caught:
            toy.run(["Size", "Unique"])
    assert "free some space" in str(caught.value.hint)
    assert toy.run(["Size", "Unique"]).digest == toy.run(["Size", "Unique"], run="fresh").digest


def test_run_json(toy: Toy) -> None:
    result = toy.run(["Size"])
    body = json.loads((toy.root / "run" / "run.json").read_text())
    assert body["digest"] == result.digest
    assert body["config"]["stages"] == [{f"{STAGES}:Size": {}}]
    assert body["counts"] == [c.as_data() for c in result.counts]
    assert {"corpusflow", "python", "libraries", "host", "pid", "steps", "seconds", "peak_worker_bytes"} <= set(body)


def test_exports_are_replaced_by_those_of_the_latest_plan(toy: Toy) -> None:
    first = toy.run(["Size"], [("Dump", {"columns": ["id", "text"]})])
    assert first.exports == {f"{STAGES}:Dump": str(toy.root / "run" / "exports" / "Dump")}
    folder = Path(first.exports[f"{STAGES}:Dump"])
    (folder / "left-over.txt").write_text("of an older plan")
    toy.run(["Size"], [("Dump", {"columns": ["id"]})])
    assert sorted(p.name for p in folder.iterdir()) == [
        "manifest.json",
        "part-00000.jsonl",
        "part-00001.jsonl",
        "readme.txt",
        "total.txt",
    ]
    assert [set(r) for r in toy.dumped()] == [{"id"}] * 8
    assert json.loads((folder / "manifest.json").read_text())["sink"] == f"{STAGES}:Dump"


def test_two_sinks_of_a_kind(toy: Toy) -> None:
    exports = toy.run(["Size"], [("Dump", {}), ("Dump", {"columns": ["id"]})]).exports
    assert {name: Path(folder).name for name, folder in exports.items()} == {
        f"{STAGES}:Dump": "Dump",
        f"{STAGES}:Dump-2": "Dump-2",
    }
    card = Path(exports[f"{STAGES}:Dump"], "..", "README.md").read_text()
    assert "- `Dump/`\n- `Dump-2/`\n" in card
    assert [set(r) for r in toy.dumped()] == [{"id", "text"}] * 8
    assert [set(r) for r in toy.dumped(export="Dump-2")] == [{"id"}] * 8


def test_warnings() -> None:
    rows = [
        StageCount("a", "", False, entered=100, kept=5, dropped={"short": 60, "long": 35}),
        StageCount("b", "", False, entered=5, kept=0, dropped={"x": 5}),
        StageCount("c", "", False, entered=5, kept=4, exact=False),
    ]
    assert warnings_of(rows) == [
        "a dropped 95.0% of what it saw (most often: short)",
        "c: the numbers do not add up; please report this with run.json",
    ]


def test_the_driver_holds_no_records_between_steps(toy: Toy) -> None:
    """4 kB each, of every shard and node: 10 GB at 100,000 shards and 25 nodes."""
    alive: list[int] = []

    class Watch(Silent):
        def step(self, title: str, done: int, total: int) -> None:
            gc.collect()
            alive.append(sum(isinstance(o, Record) for o in gc.get_objects()))

    config = toy.config(["Size", ("Keep", {"column": "toy.size", "op": ">=", "value": 2}), "Unique", "Codes"])
    for _ in range(2):  # the second finds everything committed
        corpusflow.run(config, progress=Watch())
    assert len(alive) > 6
    assert set(alive) == {0}


def test_add_up() -> None:
    assert add_up([{"in": 1, "dropped": {"a": 1}}, {"in": 2, "dropped": {"a": 1, "b": 2}}, {}]) == {
        "in": 3,
        "dropped": {"a": 2, "b": 2},
    }


# ---- reading a run ----


@pytest.fixture
def opened(toy: Toy) -> Any:
    keep = {"column": "toy.size", "op": ">=", "value": 6, "reason": "toy_short"}
    toy.run([("Cut", {"n": 6, "keep": True}), "Size", ("Keep", keep), ("Upper", {}), "Digits"])
    return corpusflow.open_run(str(toy.root / "run"))


def test_any_stage_reads_back(opened: Any) -> None:
    size = opened.stage(f"{STAGES}:Size").table(["id", "text", "toy.size"])
    assert size.num_rows == 8
    assert size.column("text")[0].as_py() == "alpha "
    kept = opened.stage(f"{STAGES}:Keep")
    assert kept.table(["id"]).num_rows == 6
    upper = opened.stage(f"{STAGES}:Upper").table()
    assert upper.column("text").to_pylist() == ["ALPHA ", "BETA 2", "ALPHA ", "DELTA ", "ALPHA ", "BETA 2"]
    assert "toy.digits" not in upper.column_names
    assert opened.stage(f"{STAGES}:Digits").dataset(["id", "toy.digits"]).count_rows() == upper.num_rows
    source = opened.stage(f"{STAGES}:Lines").table(["id", "text", "lang"])
    assert source.column("text")[0].as_py() == "alpha 1"


def test_what_was_dropped(opened: Any) -> None:
    dropped = list(opened.stage(f"{STAGES}:Keep").dropped())
    assert sum(len(rows) for _, _, rows, _ in dropped) == 8 - opened.stage(f"{STAGES}:Keep").table(["id"]).num_rows
    assert {r for *_, reasons in dropped for r in reasons} == {"toy_short"}
    assert list(opened.stage(f"{STAGES}:Keep").dropped("other")) == []


def test_what_cannot_be_read_says_so(opened: Any, toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no stage 'nothing'") as caught:
        opened.stage("nothing")
    assert f"{STAGES}:Size" in str(caught.value.hint)
    with pytest.raises(ConfigError, match=r"has no column 'toy.nothing'"):
        opened.stage(f"{STAGES}:Size").table(["toy.nothing"])
    with pytest.raises(ConfigError, match=r"is not a run folder"):
        corpusflow.open_run(str(tmp_path))
    toy.run([("Upper", {}), ("Cut", {"n": 3})], run="chain")
    chain = corpusflow.open_run(str(toy.root / "chain"))
    assert chain.stage(f"{STAGES}:Upper").table(["id"]).num_rows == 8
    with pytest.raises(ConfigError, match="Upper leaves it is not stored") as caught:
        chain.stage(f"{STAGES}:Upper").table(["text"])
    assert f"read {STAGES}:Cut, or give {STAGES}:Upper `keep: true`" in str(caught.value.hint)


def test_an_unfinished_stage_says_so(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [0]

    def die(name: str) -> None:
        calls[0] += 1
        if calls[0] == 260:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", die)
        with pytest.raises(KeyboardInterrupt):
            toy.run(["Size", "Unique", "Digits"])
    opened = corpusflow.open_run(str(toy.root / "run"))
    assert 0 < len(opened.counts()) <= 5
    with pytest.raises(StageError, match="has not finished shard") as caught:
        opened.stage(f"{STAGES}:Unique").table(["id"])
    assert "corpusflow run" in str(caught.value.hint)
