"""Mending what `verify` found: shards whose files are damaged are made again, records and manifests written from each other.

Reads and writes the run folder. Nothing is deleted: a shard made again gets the next generation of its record, and only if
its contents are the recorded ones. Runs in this process, shard by shard: damage is rare.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from corpusflow.build import content_sha256
from corpusflow.commit import condemn
from corpusflow.datasets import PlanDataset, datasets_of
from corpusflow.errors import CorpusflowError, CorruptShardError
from corpusflow.phases import Inputs, run_phase_task
from corpusflow.plan import Plan, Step
from corpusflow.publish import MANIFEST, export_folder, publish
from corpusflow.record import Record
from corpusflow.storage import storage_for
from corpusflow.task import run_shard
from corpusflow.verify import Problem, Verification, pinned_copies

Tell = Callable[[str], None]


@dataclass
class Repair:
    """What was mended, in sentences, and what could not be."""

    done: list[str]
    failed: list[str]


def repair(plan: Plan, found: Verification, tell: Tell = lambda text: None) -> Repair:
    """Mend what can be mended of `found`, in the order in which the run made it."""
    result = Repair([], [])
    items = {(i.node.index, i.phase): i for i in datasets_of(plan)}
    for problem in found.problems:
        if problem.remedy == "record":
            _try(result, tell, partial(_write_record, items[problem.node, problem.phase], problem))
    for problem in found.problems:
        if problem.remedy == "pinned":
            _try(result, tell, partial(_copy_again, plan, problem.path))
    touched = {(p.node, p.phase) for p in found.problems if p.remedy in ("shard", "record", "manifest")}
    for step in plan.steps:
        for phase, group in itertools.groupby(_places(plan, step, found.problems), key=lambda place: place[0]):
            for places in group:
                _try(result, tell, partial(_make_again, plan, step, places, items))
            # at once: the next phase reads by it
            for place in sorted(t for t in touched if t[0] in step.nodes and t[1] == phase):
                touched.remove(place)
                _try(result, tell, partial(_write_manifest, items[place]))
    for place in sorted(touched):
        _try(result, tell, partial(_write_manifest, items[place]))
    for node in plan.nodes:
        if node.kind == "sink" and any(p.node == node.index for p in found.problems):
            _try(result, tell, partial(_publish_again, plan, node.index))
    return result


def _try(result: Repair, tell: Tell, action: Callable[[], str]) -> None:
    try:
        text = action()
    except CorpusflowError as e:
        result.failed.append(str(e))
        tell(f"NOT MENDED: {e.message}")
        return
    if text:
        result.done.append(text)
        tell(text)


def _places(plan: Plan, step: Step, problems: Sequence[Problem]) -> Iterator[tuple[str, int, frozenset[int]]]:
    """(phase, shard or task, nodes) of a step that must be made again, earlier phases first."""
    damaged = [p for p in problems if p.remedy == "shard" and p.node in step.nodes]
    if step.kind == "map":
        damaged = [p for p in damaged if not p.phase]
        for shard in sorted({p.shard for p in damaged}):
            yield "", shard, frozenset(p.node for p in damaged if p.shard == shard)
        return
    phases = list(dict.fromkeys(i.phase for i in datasets_of(plan) if i.node.index == step.nodes[0] and i.phase))
    for phase in phases:
        for task in sorted({p.shard for p in damaged if p.phase == phase}):
            yield phase, task, frozenset(step.nodes[:1])


def _make_again(
    plan: Plan,
    step: Step,
    place: tuple[str, int, frozenset[int]],
    items: dict[tuple[int, str], PlanDataset],
) -> str:
    phase, number, nodes = place
    mine = [items[n, phase] for n in sorted(nodes)]
    old = {(i.dataset.root, number): r for i in mine if (r := i.dataset.record(number, i.keys[number])) is not None}
    with condemn(old):
        if phase:
            run_phase_task(plan, plan.nodes[step.nodes[0]], phase, number)
        else:
            run_shard(plan, step, plan.by_number[number], lambda node: Inputs(plan, node))
    made = [i.dataset.record(number, i.keys[number]) for i in mine]
    for item, record in zip(mine, made, strict=True):
        if record is None:
            raise CorruptShardError(f"{item.name}: shard {number} has no record though it was made again")
        item.dataset.verify(record)
        _check_against_seal(item, record)
    what = f"{'task' if phase else 'shard'} {number}"
    generations = sorted({r.generation for r in made if r is not None})
    return f"{', '.join(i.name for i in mine)}: {what} made again (generation {', '.join(map(str, generations))})"


def _check_against_seal(item: PlanDataset, record: Record) -> None:
    """Where the old record was lost, what was sealed still says what the shard must be."""
    try:
        sealed = item.dataset.sealed_records(item.epoch)
    except CorruptShardError:
        return
    before = None if sealed is None else sealed.get(record.shard)
    if before is not None and not before.same_as(record):
        raise CorruptShardError(
            f"{item.name}: shard {record.shard}, made again, is not what was sealed", hint="start another run folder"
        )


def _copy_again(plan: Plan, copy: str) -> str:
    """Copy a model or user file into the run folder again, if what it came from is still what it was."""
    sha, source, _ = next(p for p in pinned_copies(plan) if p[2] == copy)
    if not os.path.exists(source) or content_sha256(source) != sha:
        raise CorruptShardError(
            f"{copy} is damaged, and {source}, which it was copied from, is gone or has changed",
            hint=f"put the file with SHA-256 {sha} there",
        )
    storage = storage_for(copy)
    files = [i.path for i in storage_for(source).walk(source)] if os.path.isdir(source) else [source]
    for path in files:
        target = copy if path == source else f"{copy}/{os.path.relpath(path, source)}"
        storage.replace(target, storage_for(path).get(path))
    return f"{copy}: copied again from {source}"


def _write_record(item: PlanDataset, problem: Problem) -> str:
    """Publish a lost or damaged record again, from the manifest or a later generation, wherever one is missing."""
    sealed = item.dataset.sealed_records(item.epoch) or {}
    known = [
        sealed.get(problem.shard),
        item.dataset.records({problem.shard: item.keys[problem.shard]}).get(problem.shard),
    ]
    record = max((r for r in known if r is not None), key=lambda r: r.generation)
    storage = item.dataset.storage
    written = []
    for generation in range(record.generation + 8):
        path = item.dataset.record_path(record.shard, record.key, generation)
        if storage.put_exclusive(path, record.encode()):
            written.append(generation)
            counts = True
        else:
            there = Record.decode(storage.get(path), generation)
            counts = there is not None and there.attempt == record.attempt
        if counts and generation >= record.generation:
            names = ", ".join(map(str, written))
            return f"{item.name}: record of shard {record.shard} written again, from the seal (generation {names})"
    raise CorruptShardError(f"{item.name}: no free generation for the record of shard {record.shard}")


def _write_manifest(item: PlanDataset) -> str:
    """Let the seal's manifest name the present generations."""
    if item.dataset.seal_of(item.epoch) is None:
        return ""
    records = item.dataset.records(item.keys)
    item.dataset.write_manifest_again(item.epoch, list(records.values()))
    return f"{item.name}: manifest written again"


def _publish_again(plan: Plan, index: int) -> str:
    node = plan.nodes[index]
    folder = export_folder(plan, node)
    storage_for(folder).delete(f"{folder}/{MANIFEST}")
    publish(plan, node)
    return f"{node.stage}: published again in {folder}"
