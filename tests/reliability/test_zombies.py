"""A stopped attempt that wakes up after another one has committed in its place: it changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable

import crash
import pytest

Fresh = Callable[[], str]


def zombie(tiny: crash.Tiny, run: str, fault: str, *, kill: bool = False) -> bool:
    """Stop a driver at a fault point, let another finish, wake the first up; False if it never came to the point."""
    with tiny.start(run, fault=fault) as stopped:
        if not stopped.wait_until_stopped():
            stopped.wait()
            return False
        other = tiny.start(run).wait()
        assert other.digest == tiny.digest, other
        before = crash.records(tiny.folder(run))
        stopped.resume()
        if kill:
            stopped.kill()
        end = stopped.wait()
        assert end.code in (0, -9), end
        assert end.code or end.digest == tiny.digest, end
        assert crash.records(tiny.folder(run)) == before, "a record changed after it was published"
        tiny.finish(run)
        assert crash.records(tiny.folder(run)) == before
        return True


@pytest.mark.parametrize("point", ["open:31", "write:25", "fsync:60", "link:22", "link:40", "publish:2"])
def test_it_wakes_up(tiny: crash.Tiny, fresh: Fresh, point: str) -> None:
    """Before it opened a file, in the middle of one, before it published a record or a seal, among the exports."""
    assert zombie(tiny, fresh(), f"{point}:stop")


def test_it_wakes_up_and_is_killed(tiny: crash.Tiny, fresh: Fresh) -> None:
    assert zombie(tiny, fresh(), "write:30:stop", kill=True)


@pytest.mark.slow
def test_at_every_point(tiny: crash.Tiny, fresh: Fresh) -> None:
    rng = random.Random(3)
    points = rng.sample(range(1, tiny.points), 150)
    assert all(zombie(tiny, fresh(), f"any:{n}:stop", kill=n % 3 == 0) for n in points)
