"""Every dataset of a plan: one per node, and one per phase of an Exchange or a Sink. What `verify` and `gc` walk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from corpusflow.commit import Dataset
from corpusflow.phases import phase_dataset, phase_key, phases_of
from corpusflow.plan import Node, Plan


@dataclass(frozen=True)
class PlanDataset:
    """A dataset and what the plan expects in it.

    Attributes:
        phase: "" for a node's own dataset.
        epoch: the one whose seal counts.
        keys: shard or task number -> key of its record. For a phase that is not sealed, of the tasks committed so far.
    """

    node: Node
    phase: str
    dataset: Dataset
    epoch: int
    keys: dict[int, str]

    @property
    def name(self) -> str:
        """For messages: the stage, and the part or phase."""
        return f"{self.node.stage} [{self.phase or self.node.label}]"


def datasets_of(plan: Plan) -> Iterator[PlanDataset]:
    """In plan order; the phases of a node before the node's own."""
    for node in plan.nodes:
        if node.kind in ("exchange", "sink"):
            for phase in phases_of(node):
                yield _phase(plan, node, phase.name)
        if node.kind != "sink":
            shards = [s for s in plan.shards if node.kind != "source" or s.source == node.index]
            keys = {s.number: plan.key(node, s) for s in shards}
            yield PlanDataset(node, "", Dataset(plan.root(node), node.fp), plan.epoch, keys)


def _phase(plan: Plan, node: Node, phase: str) -> PlanDataset:
    dataset = phase_dataset(plan, node, phase)
    seal = dataset.seal_of(0)
    if seal is not None:
        tasks = set(range(seal["shards"]))
    else:
        names = (os.path.basename(info.path) for info in dataset.storage.list(dataset.path("_commits")))
        tasks = {int(name.partition("-")[0]) for name in names}
    return PlanDataset(node, phase, dataset, 0, {n: phase_key(node, phase, n) for n in sorted(tasks)})
