"""kill -9 at random moments of a real pipeline on sample_data: the driver, its sandbox, or the whole group; then to the end."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import crash
import pipeline
import pytest


class Quiet:
    """The uninterrupted run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        started = time.monotonic()
        end = crash.Victim(pipeline.config(root / "quiet"), root).wait(300)
        self.seconds = time.monotonic() - started
        assert (end.code, bool(end.digest)) == (0, True), end
        self.digest = end.digest
        self.exports = crash.published(root / "quiet")


@pytest.fixture(scope="module")
def quiet(quick_root: Path) -> Iterator[Quiet]:
    root = quick_root / "kills"
    root.mkdir()
    yield Quiet(root)
    shutil.rmtree(root)


def kill_driver(victim: crash.Victim, rng: random.Random) -> None:
    children = crash.descendants(victim.pid)
    victim.kill()
    victim.process.join(60)
    assert crash.gone(children, 10) == {}, "the sandbox outlived its driver"


def kill_group(victim: crash.Victim, rng: random.Random) -> None:
    victim.kill(group=True)


def kill_worker(victim: crash.Victim, rng: random.Random) -> None:
    """A child process of the run, where there is one; the run itself must go on."""
    children = sorted(crash.descendants(victim.pid))
    if children:
        os.kill(rng.choice(children), signal.SIGKILL)


def torment(quiet: Quiet, name: str, kills: int, rng: random.Random, ways: list[Callable[..., None]]) -> None:
    """Start runs and kill them until `kills` of them were hit, each run carried on to its end."""
    hits = runs = 0
    seconds = quiet.seconds
    while hits < kills:
        runs += 1
        folder = quiet.root / f"{name}-{runs}"
        end = crash.End(-9)
        while end.code != 0:
            started = time.monotonic()
            with crash.Victim(pipeline.config(folder), quiet.root) as victim:
                victim.process.join(rng.uniform(0.02, seconds * 0.6) if hits < kills else None)
                if victim.process.exitcode is None:
                    hits += 1
                    rng.choice(ways)(victim, rng)
                end = victim.wait(300)
            # The quiet run may have compiled the kernels: later ones are over before a kill would come.
            if end.code == 0:
                seconds = min(seconds, time.monotonic() - started)
            crash.verify_all(folder)
        assert end.digest == quiet.digest, end
        assert crash.published(folder) == quiet.exports
        shutil.rmtree(folder)


def test_five_kills(quiet: Quiet) -> None:
    torment(quiet, "five", 5, random.Random(1), [kill_driver, kill_group, kill_worker])


@pytest.mark.slow
def test_twenty_four_kills(quiet: Quiet) -> None:
    torment(quiet, "twenty-four", 24, random.Random(2), [kill_driver, kill_group, kill_worker])
