"""Ctrl-C: exit 130, a sentence that says how to go on, no traceback, and nothing left running."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import crash
import pytest
from command import Command, config_file
from toys import Toy

STAGES = [("Slow", {"seconds": 0.5}), "Size", "Unique"]


@pytest.fixture
def toy(quick_root: Path) -> Iterator[Toy]:
    made = Toy(quick_root)
    made.corpus([*crash.FILES, *crash.FILES, *crash.FILES])
    yield made
    made.remove()


def interrupted(toy: Toy, executor: str) -> tuple[int, str, str, dict[int, str]]:
    """Interrupt a run after its first committed shard."""
    path = config_file(toy.config(STAGES, run="stopped", executor=executor, workers=1), toy.root / "toy.yaml")
    command = Command(["run", path])
    try:
        deadline = time.monotonic() + 120
        while not list((toy.root / "stopped").rglob("*Size/score*/_commits/*.json")):
            assert command.process.poll() is None, command.wait()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started = crash.descendants(command.process.pid)
        command.interrupt()
        return *command.wait(60), started
    finally:
        command.kill_tree()


@pytest.mark.parametrize("executor", ["inline", pytest.param("ray", marks=pytest.mark.ray)])
def test_ctrl_c(toy: Toy, executor: str) -> None:
    code, out, err, started = interrupted(toy, executor)
    assert code == 130, err
    assert "Traceback" not in err
    assert f"stopped; what is committed is kept. Go on with: corpusflow run {toy.root}/toy.yaml" in " ".join(
        err.split()
    )
    assert out == ""
    if executor == "ray":
        assert any("raylet" in c for c in started.values()), "nothing to look for"
    left = crash.gone(started, 20)
    assert left == {}, "something went on running"
    crash.verify_all(toy.root / "stopped")
    quiet = toy.run(STAGES, run="quiet")
    again = toy.run(STAGES, run="stopped")
    assert again.digest == quiet.digest
    assert sum(s.measured for s in again.steps) < sum(s.measured for s in quiet.steps), "nothing was kept"
