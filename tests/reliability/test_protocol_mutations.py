"""Tests of the tests: with the commit protocol broken in one place, the checks of this folder must fail.

Without these, a fault test that looks at nothing would pass for ever.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

import crash
import mutations

from corpusflow import CorruptShardError

Fresh = Callable[[], str]


def killed_somewhere(tiny: crash.Tiny, fresh: Fresh, mutation: Callable[[], None], every: int) -> list[str]:
    """Kill a mutated run at every so many points and go on; what the usual checks say."""
    said = []
    for n in range(every, tiny.points, every):
        run = fresh()
        tiny.start(run, fault=f"any:{n}", mutations=[mutation]).wait()
        try:
            crash.verify_all(tiny.folder(run))
        except CorruptShardError as e:
            said.append(e.message)
        end = tiny.start(run, mutations=[mutation]).wait()
        if end.code or end.digest != tiny.digest:
            said.append(end.error or f"other digest {end.digest}")
        shutil.rmtree(tiny.folder(run), ignore_errors=True)
        if said:
            break
    return said


def test_a_record_before_its_data_is_noticed(tiny: crash.Tiny, fresh: Fresh) -> None:
    assert killed_somewhere(tiny, fresh, mutations.record_before_data, 23)


def test_trusting_a_listing_is_noticed(tiny: crash.Tiny, fresh: Fresh) -> None:
    assert killed_somewhere(tiny, fresh, mutations.trust_the_listing, 61)


def zombie(
    tiny: crash.Tiny, run: str, fault: str, mutation: Callable[[], None], *more: Callable[[], None]
) -> list[str]:
    """Stop a mutated attempt, let another finish, wake it up; what the usual checks say."""
    said = []
    with tiny.start(run, fault=fault, mutations=[mutation, *more]) as stopped:
        if not stopped.wait_until_stopped():
            return []
        end = tiny.start(run, mutations=[mutation]).wait()
        if end.digest != tiny.digest:
            said.append(end.error)
        before = crash.records(tiny.folder(run))
        stopped.resume()
        stopped.wait()
    if crash.records(tiny.folder(run)) != before:
        said.append("a record changed after it was published")
    try:
        crash.verify_all(tiny.folder(run))
    except CorruptShardError as e:
        said.append(e.message)
    return said


def test_names_used_again_are_noticed(tiny: crash.Tiny, fresh: Fresh) -> None:
    """The zombie opens the file that the other attempt committed, and dies in the middle of writing it again."""
    every = range(tiny.points // 10, tiny.points, tiny.points // 12)
    assert any(
        zombie(tiny, fresh(), f"any:{n}:stop", mutations.names_used_again, partial(mutations.die_at, n + 8))
        for n in every
    )


def test_a_rename_for_the_link_is_noticed(tiny: crash.Tiny, fresh: Fresh) -> None:
    every = range(12, 40, 5)  # the first publish the listing and the plan, then records
    assert any(zombie(tiny, fresh(), f"link:{n}:stop", mutations.rename_for_link) for n in every)
