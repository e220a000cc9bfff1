"""Deleting what nothing names: behind `corpusflow gc`.

Reads records, seals and the stored plans; deletes, in datasets that are sealed, files of attempts that no record and no seal
names and that are older than a grace period. This is the only code that deletes parts of a run and the only one that looks at a
clock: a wrong clock can cost a running attempt its files, which then loses to the record that exists, never a committed one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from corpusflow.api import Run
from corpusflow.datasets import PlanDataset, datasets_of
from corpusflow.plan import STAGE_FOLDER, Plan
from corpusflow.record import Record
from corpusflow.storage import FileInfo, Storage
from corpusflow.verify import pinned_copies


@dataclass(frozen=True)
class Garbage:
    """A file that may go, and why."""

    path: str
    size: int
    why: str


#: What some plan made and another may not need: pinned copies and stage folders, by their form. All else stays: listings,
#: exports, the books of takedowns (without which what they refused would be read again), what a person has put there.
_OF_A_PLAN = re.compile(rf"(models|code)/[^/]+|{STAGE_FOLDER}")


def garbage(run: Run, *, grace_seconds: float, old_plans: bool = False, now: float | None = None) -> Iterator[Garbage]:
    """Files that may be deleted.

    Args:
        grace_seconds: files younger than this stay, whatever they are.
        old_plans: also whole stage folders that the latest plan does not name: the output of earlier configs.
        now: seconds since the epoch, for tests.
    """
    before = (time.time() if now is None else now) - grace_seconds
    storage = run.folder.storage
    items = list(datasets_of(run.plan))
    for item in items:
        if item.dataset.seal_of(item.epoch) is not None:
            yield from _unnamed(item, before)
    for info in storage.leftovers(run.plan.run_dir):
        if info.modified < before:
            yield Garbage(info.path, info.size, "a write that never ended")
    if old_plans:
        yield from _old(run.plan, storage, before)


def _unnamed(item: PlanDataset, before: float) -> Iterator[Garbage]:
    """Files below data/ that no valid record of the dataset and no seal names, of whatever shard, key and generation."""
    dataset = item.dataset
    storage = dataset.storage
    named: set[str] = set()
    valid: dict[str, int] = {}
    damaged: list[tuple[str, int]] = []
    for info in storage.list(dataset.path("_commits")):
        stem, _, generation = os.path.basename(info.path).removesuffix(".json").partition(".")
        record = Record.decode(storage.get(info.path), int(generation))
        if record is None:
            damaged.append((stem, int(generation)))
            continue
        valid[stem] = max(valid.get(stem, -1), record.generation)
        named.update(dataset.path(p.path) for p in record.parts)
    if any(generation > valid.get(stem, -1) for stem, generation in damaged):
        return  # it may name any of them: verify --repair first
    for epoch in dataset.seals():
        # a record that was lost can be written again from here, but not its files
        sealed = dataset.sealed_records(epoch)
        if sealed is None:
            return
        named.update(dataset.path(p.path) for record in sealed.values() for p in record.parts)
    for info in storage.walk(dataset.path("data")):
        if info.path not in named and info.modified < before:
            yield Garbage(info.path, info.size, f"{item.name}: an attempt that no record names")


def _old(plan: Plan, storage: Storage, before: float) -> Iterator[Garbage]:
    """Everything in stage folders that the plan does not name, where nothing in the folder is younger than the grace."""
    named = {plan.root(node) for node in plan.nodes} | {copy for _, _, copy in pinned_copies(plan)}
    by_folder: dict[str, list[FileInfo]] = {}
    for info in storage.walk(plan.run_dir):
        parts = os.path.relpath(info.path, plan.run_dir).split("/")
        if len(parts) > 1 and _OF_A_PLAN.fullmatch("/".join(parts[:2])):
            by_folder.setdefault("/".join([plan.run_dir, *parts[:2]]), []).append(info)
    for folder, files in sorted(by_folder.items()):
        if not any(n == folder or n.startswith(folder + "/") for n in named) and all(
            f.modified < before for f in files
        ):
            why = f"{os.path.relpath(folder, plan.run_dir)}: the latest plan does not name it"
            yield from (Garbage(f.path, f.size, why) for f in sorted(files, key=_seals_first))


def _seals_first(info: FileInfo) -> tuple[bool, bool, str]:
    """Seals, then records, then data: what is left of a deletion that was cut short counts as uncommitted."""
    name = os.path.basename(info.path)
    return not name.startswith(("_SEALED", "manifest-")), "/_commits/" not in info.path, info.path


def delete(run: Run, items: Iterator[Garbage]) -> Iterator[Garbage]:
    """Delete files as they are yielded, then the folders left empty."""
    storage = run.folder.storage
    for item in items:
        storage.delete(item.path)
        yield item
    storage.prune(run.plan.run_dir)
