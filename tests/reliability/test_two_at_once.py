"""Two drivers on one run folder, one of them killed now and then: double work, one result."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import crash
import pytest

Fresh = Callable[[], str]


def two(tiny: crash.Tiny, run: str, rng: random.Random, *, kill: bool) -> None:
    drivers = []
    for _ in range(2):
        drivers.append(tiny.start(run))
        time.sleep(rng.random() * 0.2)
    if kill:
        time.sleep(rng.random() * 0.4)
        drivers[rng.randrange(2)].kill()
    ends = [d.wait() for d in drivers]
    for end in ends:
        assert end.code in ((0, -9) if kill else (0,)), end
        assert end.code or end.digest == tiny.digest, end
    assert not list(tiny.folder(run).rglob("_failures/*")), "two attempts of one shard differed"
    tiny.finish(run)


@pytest.mark.parametrize("kill", [False, True], ids=["both end", "one is killed"])
def test_two_drivers(tiny: crash.Tiny, fresh: Fresh, kill: bool) -> None:
    rng = random.Random(int(kill))
    for _ in range(3):
        two(tiny, fresh(), rng, kill=kill)


@pytest.mark.slow
def test_two_drivers_at_length(tiny: crash.Tiny, fresh: Fresh) -> None:
    rng = random.Random(7)
    for n in range(100):
        two(tiny, fresh(), rng, kill=n % 2 == 0)


def test_two_configs_at_once(tiny: crash.Tiny, fresh: Fresh) -> None:
    """A trial and the whole run, started together in one folder: each ends with its own result."""
    run = fresh()
    trial = tiny.toy.config(crash.STAGES, crash.OUTPUT, run=run, limit=4)
    whole = tiny.config(run)
    ends = [v.wait() for v in [crash.Victim(c, tiny.toy.root) for c in (trial, whole, trial, whole)]]
    assert all(e.code == 0 and e.digest for e in ends), ends
    assert ends[0].digest == ends[2].digest != ends[1].digest == ends[3].digest
    crash.verify_all(tiny.folder(run))
