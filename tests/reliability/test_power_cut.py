"""The machine stops after any operation; what fsync did not cover is lost or torn. What a record names is there all the same."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crash
import pytest
from power import Disk, Recorder
from toys import Toy

from corpusflow import CorruptShardError


@pytest.fixture(scope="module")
def toy(quick_root: Path) -> Iterator[Toy]:
    made = Toy(quick_root)
    made.corpus(crash.FILES)
    yield made
    made.remove()


def record(toy: Toy, run: str, **options: Any) -> list[tuple[Any, ...]]:
    """Every operation of a run that changes the disk."""
    recorder = Recorder(**options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("corpusflow.storage.os", recorder)
        patch.setattr("os.fsync", lambda fd: None)  # the recorder logs it; the disk below is real enough
        toy.run(crash.STAGES, crash.OUTPUT, run=run)
    return recorder.log


def broken_records(toy: Toy, log: list[tuple[Any, ...]], run: str, cuts: list[int]) -> list[str]:
    """What commit records name that a power cut after each of `cuts` would have lost."""
    found = []
    for k in cuts:
        place = toy.root / "cut"
        Disk(log[:k], random.Random(k)).materialise(str(toy.root / run), place)
        try:
            crash.verify_all(place)
        except CorruptShardError as e:
            found.append(f"after {k} operations: {e.message}")
        shutil.rmtree(place)
    return found


def test_records_name_what_is_there(toy: Toy) -> None:
    log = record(toy, "steady")
    assert {"create", "write", "sync", "sync-folder", "mkdir", "link", "rename"} == {op for op, *_ in log}
    assert broken_records(toy, log, "steady", list(range(1, len(log) + 1, 9))) == []


@pytest.mark.slow
def test_records_name_what_is_there_at_any_moment(toy: Toy) -> None:
    log = record(toy, "at-any-moment")
    assert broken_records(toy, log, "at-any-moment", list(range(1, len(log) + 1))) == []


def test_a_run_goes_on_after_a_power_cut(toy: Toy) -> None:
    digest = toy.run(crash.STAGES, crash.OUTPUT, run="other").digest
    log = record(toy, "cut-run")
    shutil.rmtree(toy.root / "cut-run")
    rng = random.Random(11)
    for k in sorted(rng.sample(range(1, len(log) + 1), 6)):
        Disk(log[:k], rng).materialise(str(toy.root / "cut-run"), toy.root / "cut-run")
        assert toy.run(crash.STAGES, crash.OUTPUT, run="cut-run").digest == digest
        crash.verify_all(toy.root / "cut-run")
        shutil.rmtree(toy.root / "cut-run")


@pytest.mark.slow
def test_a_run_goes_on_after_any_power_cut(toy: Toy) -> None:
    digest = toy.run(crash.STAGES, crash.OUTPUT, run="other").digest
    log = record(toy, "cut-run")
    shutil.rmtree(toy.root / "cut-run")
    for k in range(1, len(log) + 1, 3):
        Disk(log[:k], random.Random(k)).materialise(str(toy.root / "cut-run"), toy.root / "cut-run")
        assert toy.run(crash.STAGES, crash.OUTPUT, run="cut-run").digest == digest, f"after {k} operations"
        exports = crash.published(toy.root / "cut-run")
        assert exports == crash.published(toy.root / "other")
        shutil.rmtree(toy.root / "cut-run")


@pytest.mark.parametrize("without", ["sync_files", "sync_folders"])
def test_the_model_notices_a_missing_fsync(toy: Toy, without: str) -> None:
    """A test of the test: the protocol without its fsyncs must fail it."""
    log = record(toy, f"no-{without}", **{without: False})
    cuts = range(len(log), len(log) // 2, -1)
    assert any(broken_records(toy, log, f"no-{without}", [k]) for k in cuts)
