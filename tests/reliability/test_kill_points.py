"""The n-th write, fsync, link or rename fails or kills the process, for every n until the run passes without a hit.

After each: every committed file is what its record says; the run, started again, ends as the quiet one did.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable

import crash
import pytest

Fresh = Callable[[], str]


def hit(tiny: crash.Tiny, run: str, n: int, action: str) -> None:
    """One run with the n-th point hit, then one without."""
    end = tiny.start(run, fault=f"any:{n}:{action}").wait()
    if action == "crash":
        assert end.code == -9, f"point {n} was never passed"
    else:
        # a worker's fault is tried again and the run passes; the driver's own is an error with a message
        assert end.code == 0, end
        assert end.digest == tiny.digest or f"injected {action}" in end.error or "tmp" in end.error, end
    if tiny.folder(run).exists():
        crash.verify_all(tiny.folder(run))
    tiny.finish(run)
    shutil.rmtree(tiny.folder(run))


@pytest.mark.parametrize("action", ["crash", "EIO", "ENOSPC"])
def test_some_points(tiny: crash.Tiny, fresh: Fresh, action: str) -> None:
    """One point in each of six parts of the run."""
    rng = random.Random(action)
    for a, b in itertools.pairwise(1 + tiny.points * i // 6 for i in range(7)):
        hit(tiny, fresh(), rng.randrange(a, b), action)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["crash", "EIO", "ENOSPC"])
def test_every_point(tiny: crash.Tiny, fresh: Fresh, action: str) -> None:
    for n in range(1, tiny.points + 1):
        hit(tiny, fresh(), n, action)
    assert tiny.start(fresh(), fault=f"any:{tiny.points + 1}:{action}").wait().digest == tiny.digest


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_again_and_again(tiny: crash.Tiny, fresh: Fresh, links: bool) -> None:
    """Killed after a fifth of the work, started again, killed again, …: it gets through."""
    run = fresh()
    mutations = [] if links else [crash.no_hard_links]
    hits = 0
    end = crash.End(-9)
    while end.code == -9 and hits < 20:
        end = tiny.start(run, fault=f"any:{tiny.points // 5}", mutations=mutations).wait()
        hits += end.code == -9
        crash.verify_all(tiny.folder(run))
    assert end.code == 0
    assert hits >= 4
    assert end.digest == tiny.digest
    tiny.finish(run)


@pytest.mark.slow
def test_every_point_without_hard_links(tiny: crash.Tiny, fresh: Fresh) -> None:
    """Records may be torn there; the next generation takes their place."""
    n = 0
    code = -9
    while code == -9:
        n += 1
        run = fresh()
        code = tiny.start(run, fault=f"any:{n}", mutations=[crash.no_hard_links]).wait().code
        end = tiny.start(run, mutations=[crash.no_hard_links]).wait()
        assert end.code == 0
        assert end.digest == tiny.digest, (n, end)
        crash.verify_all(tiny.folder(run))
        shutil.rmtree(tiny.folder(run))
    assert n > 100


def test_nothing_but_the_export_lies_in_its_folder(tiny: crash.Tiny, fresh: Fresh) -> None:
    """A kill in the middle of a publication leaves a file under a temporary name."""
    run = fresh()
    tiny.finish(run)
    folder = tiny.folder(run) / "exports" / "Dump"
    (folder / "manifest.json").unlink()
    (folder / ".tmp-0123456789abcdef").write_bytes(b"half a fi")
    tiny.finish(run)
