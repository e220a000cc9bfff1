"""The driver: pending = plan - committed, a bounded window of tasks, then the seal. Holds nothing that must survive it.

Killed at any moment, it is started again and goes on; two of them on one folder do the work twice and the result once.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Protocol

from corpusflow.accounting import StageCount, account, add_up
from corpusflow.card import card
from corpusflow.commit import Dataset
from corpusflow.config import Config
from corpusflow.errors import ConfigError, RunFailedError, StageError, typed
from corpusflow.executors import Executor, make_executor
from corpusflow.inherit import base_of
from corpusflow.phases import Inputs, phase_dataset, phase_key, phases_of
from corpusflow.pinned import at_home
from corpusflow.plan import Node, Plan, Shard, Step
from corpusflow.planner import Planner
from corpusflow.preview import plain
from corpusflow.publish import export_name, publish
from corpusflow.results import (
    RunResult,
    StepCost,
    Tally,
    collect,
    committed_records,
    committed_tally,
    run_digest,
    tally,
    warnings_of,
)
from corpusflow.retention import check_bands, outside, retention
from corpusflow.rundir import RunDir
from corpusflow.stage import Phase
from corpusflow.summaries import warnings_noted
from corpusflow.takedown.journal import begun
from corpusflow.warm import warm
from corpusflow.worker import Outcome, TaskSpec

log = logging.getLogger("corpusflow")

#: Lost workers and nodes are nobody's fault, but a document that crashes every worker must not be tried for ever.
_LOST_WORKERS: Final = 6
_QUARANTINE_FLOOR: Final = 100
#: A wide checkpoint (zstd text), signals and exports, as a share of the compressed input: 0.4-0.9 measured on WARC.gz and
#: JSONL.zst.
_DISK_PER_INPUT_BYTE: Final = 1.2


class Progress(Protocol):
    """What a front end is told while a run goes on."""

    def planned(self, plan: Plan, reused: Mapping[str, int]) -> None:
        """The plan is made; `reused` says how many shards of each stage are committed already."""

    def step(self, title: str, done: int, total: int) -> None:
        """A step begins with `done` of `total` tasks committed."""

    def task(self, outcome: Outcome, totals: Mapping[int, Mapping[str, Any]]) -> None:
        """A task ended; `totals` are the counters so far by node."""

    def message(self, text: str) -> None:
        """Something a person should read."""


class Runner:
    """One run of one config."""

    def __init__(self, config: Config, progress: Progress, *, refresh: bool = False) -> None:
        self.config = config
        self.progress = progress
        self.run_dir = RunDir(config.run.dir)
        self.planner = Planner(config)
        listing = self.run_dir.listing(self.planner, refresh=refresh)
        self._listing = listing
        self.plan = self.planner.plan(listing.shards, listing.epoch)
        self._tallies: dict[int, Tally] = {}
        self._failed: dict[tuple[int, str, int], list[int]] = {}
        self.result = RunResult(self.run_dir.path, "", [], {})

    # ---- the run ----

    def run(self) -> RunResult:
        """Do what is left, and say what came of it.

        Raises:
            CorpusflowError: see errors.py for which means what.
        """
        if not self.config.output and not self.config.stages:
            raise ConfigError(f"{self.config.file}: nothing to do: no stages and no output")
        try:
            self._run()
        except OSError as e:  # of the driver's own files; a worker's come as outcomes
            raise RunFailedError(
                f"{e.strerror or e}{f' ({e.filename})' if e.filename else ''}",
                hint="free some space or mend the disk, then run again: everything committed is kept",
            ) from e
        return self.result

    def _run(self) -> None:
        started = time.monotonic()
        self._preflight()
        check_bands(self.plan, self.config.run.retention)
        plan_path = self._store()
        self.progress.planned(self.plan, {})
        self._try_canaries()
        try:
            warm(self.plan, plan_path, self._unfinished())
            executor = self._executor(plan_path)
            try:
                for step in self.plan.steps:
                    self._step(step, executor, plan_path)
            finally:
                if executor.started:
                    executor.close()
        finally:
            self.result.seconds = time.monotonic() - started
        self._conclude()

    def _preflight(self) -> None:
        """Refuse a disk that cannot hold the result."""
        if (waiting := begun(self.run_dir.path)) is not None:
            raise StageError(
                f"takedown {waiting.number} was begun in {self.run_dir.path} and did not end",
                hint="call `corpusflow takedown` with the same request again: it goes on where it was",
            )
        if not self.config.run.check_disk:
            return
        free = self.run_dir.storage.free_bytes(self.run_dir.path)
        size = sum(s.length for s in self.plan.shards)
        sinks = sum(1 for n in self.plan.nodes if n.kind == "sink")
        need = int(size * (_DISK_PER_INPUT_BYTE + 0.4 * max(0, sinks - 1)))
        if free is not None and need > free and not all(n.kind == "source" for n in self.plan.nodes):
            raise RunFailedError(
                f"{self.run_dir.path} has {free / 1e9:.1f} GB free; "
                f"{size / 1e9:.1f} GB of input will need about {need / 1e9:.1f} GB",
                hint="free some space, choose another run.dir, or go on at your own risk with --set run.check_disk=false",
            )

    def _try_canaries(self) -> None:
        """Before anything costs anything: what is wrong is said now, and again at the end."""
        if not self.config.run.canaries:
            return
        from corpusflow.canary import try_canaries  # it runs a Runner

        self.result.canaries = try_canaries(self.config)
        for text in self.result.canaries.complaints():
            self.progress.message(text)

    def _store(self) -> str:
        try:
            listing = self.run_dir.store_listing(self.planner, self._listing)
            if listing.shards != self.plan.shards or listing.epoch != self.plan.epoch:
                self.plan = self.planner.plan(listing.shards, listing.epoch)
            self.run_dir.pin(self.plan)
            path = self.run_dir.store_plan(self.plan)
            self.plan = at_home(self.plan, self.run_dir.path)
        except (PermissionError, NotADirectoryError, FileExistsError) as e:
            raise ConfigError(
                f"cannot write to the run folder {self.run_dir.path}: {e.strerror}",
                hint="choose another: --set run.dir=…",
            ) from e
        for node in self.plan.nodes:
            content = {
                "stage": node.stage,
                "part": node.label,
                "fp": node.fp,
                "op_fp": node.op_fp,
                "content": node.content,
                "base": base_of(self.plan, node),
                "params": plain(node.params),
                "rules": [dict(r) for r in node.rules],
                "libraries": node.libraries,
                "epoch": self.plan.epoch,
                "shards": len(self.plan.shards),
            }
            Dataset(self.plan.root(node), node.fp).plan(
                self.plan.epoch, content, allow_drift=self.config.run.allow_version_drift
            )
        self._write_run_json({})
        return path

    def _unfinished(self) -> list[Node]:
        """Nodes with work left, one per operation."""
        by_op: dict[str, Node] = {}
        for node in self.plan.nodes:
            if node.kind in ("wide", "source", "filter"):
                continue
            if len(self.committed(node).shards) < len(self.shards_of(node)):
                by_op.setdefault(node.op_fp, node)
        return list(by_op.values())

    def _executor(self, plan_path: str) -> _LazyExecutor:
        return _LazyExecutor(lambda: make_executor(self.config.run, self.plan, plan_path), self)

    # ---- steps ----

    def shards_of(self, node: Node) -> list[Shard]:
        """The shards a node has work on."""
        if node.kind == "source":
            return [s for s in self.plan.shards if s.source == node.index]
        return list(self.plan.shards)

    def committed(self, node: Node) -> Tally:
        """What a map node has committed; for a Sink, nothing. Records themselves are held for one node at a time."""
        if node.index not in self._tallies:
            self._tallies[node.index] = committed_tally(self.plan, node)
        return self._tallies[node.index]

    def _step(self, step: Step, executor: _LazyExecutor, plan_path: str) -> None:
        first = self.plan.nodes[step.nodes[0]]
        if step.kind != "map":
            if first.kind == "sink":
                self._refuse_nothing(first)
            self._phases(step, first, executor, plan_path)
            if first.kind == "sink":
                self.result.exports[export_name(self.plan, first)] = publish(self.plan, first)
            return
        nodes = [self.plan.nodes[i] for i in step.nodes]
        done = set(self.plan.by_number)
        for node in nodes:
            mine = {s.number for s in self.shards_of(node)}
            done &= set(self.committed(node).shards.tolist()) | (set(self.plan.by_number) - mine)
        todo = [TaskSpec(plan_path, step.index, n) for n in sorted(set(self.plan.by_number) - done)]
        memory = max(n.build().resources.memory for n in nodes if n.kind != "wide")
        self._tasks(self._title(nodes), todo, len(done), memory, executor)
        for node in nodes:
            if todo or Dataset(self.plan.root(node), node.fp).sealed(self.plan.epoch) is None:
                self._seal(node)

    def _title(self, nodes: Iterable[Node]) -> str:
        names = list(dict.fromkeys(n.stage for n in nodes if n.kind != "wide"))
        return " + ".join(names) if len(names) < 4 else f"{names[0]} … {names[-1]} ({len(names)} stages)"

    def _phases(self, step: Step, node: Node, executor: _LazyExecutor, plan_path: str) -> None:
        for i, phase in enumerate(phases_of(node)):
            dataset = phase_dataset(self.plan, node, phase.name)
            if dataset.sealed(0) is None:
                self._phase(step, node, phase, executor, plan_path)
            if i == 0 and node.kind == "sink":
                self._refuse_nothing(node)  # only now is known what the Scores in front of it could not measure

    def _phase(self, step: Step, node: Node, phase: Phase, executor: _LazyExecutor, plan_path: str) -> None:
        dataset = phase_dataset(self.plan, node, phase.name)
        inputs = Inputs(self.plan, node)
        total = len(inputs.shards) if phase.tasks is None else phase.tasks(inputs)
        keys = {n: phase_key(node, phase.name, n) for n in range(total)}
        done = dataset.records(keys)
        todo = [TaskSpec(plan_path, step.index, n, phase.name) for n in range(total) if n not in done]
        self._tasks(f"{node.stage}: {phase.name}", todo, len(done), node.build().resources.memory, executor)
        records = dataset.records(keys)
        if len(records) < total:
            raise StageError(f"{node.name}: {total - len(records)} tasks of {phase.name} ended without a record")
        dataset.seal(0, list(records.values()))

    def _tasks(self, title: str, todo: list[TaskSpec], done: int, memory: int, executor: _LazyExecutor) -> None:
        """Run tasks, at most a window of them at once; a failed one is tried again."""
        self.progress.step(title, done, done + len(todo))
        cost = StepCost(title)
        self.result.steps.append(cost)
        if not todo:
            return
        begin = time.monotonic()
        queue = todo[::-1]
        running = 0
        totals: dict[int, dict[str, Any]] = {}
        while queue or running:
            while queue and running < executor.window():
                executor.submit(queue.pop(), memory)
                running += 1
            for outcome in executor.wait(1.0):
                running -= 1
                if outcome.result is None:
                    self._again(outcome)
                    queue.append(outcome.spec)
                    continue
                self._note(outcome, totals, cost)
                self._guard_quarantine(totals)
        cost.seconds = time.monotonic() - begin

    def _note(self, outcome: Outcome, totals: dict[int, dict[str, Any]], cost: StepCost) -> None:
        result = outcome.result
        if result is None:
            return
        cost.tasks += 1
        cost.measured += result.measured
        cost.text_bytes += result.text_bytes
        self.result.peak_memory = max(self.result.peak_memory, result.peak_memory)
        for index, counters in result.counters.items():
            totals[index] = add_up([totals.get(index, {}), counters])
        self.progress.task(outcome, totals)

    def _again(self, outcome: Outcome) -> None:
        """Decide whether a failed task is tried again.

        Raises:
            CorpusflowError: it is not.
        """
        spec, error = outcome.spec, outcome.error
        key = (spec.step, spec.phase, spec.index)
        lost = self._failed.setdefault(key, [0, 0])
        infrastructure = outcome.retry and not outcome.trace
        lost[0 if infrastructure else 1] += 1
        what = f"task {spec.index}" if spec.phase else f"shard {spec.index}"
        log.warning("%s failed (%s)\n%s", what, error, outcome.trace)
        if error is None:
            raise StageError(f"{what} ended without an outcome")
        if not outcome.retry:
            raise error
        if lost[0] > _LOST_WORKERS or lost[1] >= self.config.run.attempts:
            raise RunFailedError(
                f"{what} failed {sum(lost)} times; the last: {error.message}",
                hint=error.hint
                or f"see {self.run_dir.file('run.log')}; everything committed is kept, `corpusflow run` goes on from here",
            )
        self.progress.message(f"{what}: {error.message}; trying again")

    def _guard_quarantine(self, totals: Mapping[int, Mapping[str, Any]]) -> None:
        """Stop a run whose documents mostly cannot be processed.

        Raises:
            RunFailedError: over 100 documents and over `run.max_quarantine` of a stage.
        """
        for index, counters in totals.items():
            bad = counters.get("quarantined", {})
            n, entered = sum(bad.values()), counters.get("in", 0)
            if n > max(_QUARANTINE_FLOOR, self.config.run.max_quarantine * entered):
                node = self.plan.nodes[index]
                worst = max(bad, key=lambda k: bad[k])
                raise RunFailedError(
                    f"{node.stage} could not process {n} of {entered} documents (most often: {worst})",
                    hint=f"{typed('inspect', self.run_dir.path, '--stage', node.stage, '--quarantine')}  shows them; "
                    "--set run.max_quarantine=0.1 lets more pass",
                )

    def _seal(self, node: Node) -> None:
        records = committed_records(self.plan, node)
        self._tallies[node.index] = tally(records.values(), self.plan)
        dataset = Dataset(self.plan.root(node), node.fp)
        missing = {s.number for s in self.shards_of(node)} - set(records)
        if missing:
            raise StageError(
                f"{node.name}: {len(missing)} shards have no record though their tasks ended, first {min(missing)}"
            )
        if dataset.sealed(self.plan.epoch) is None:
            dataset.seal(self.plan.epoch, list(records.values()))

    def _refuse_nothing(self, sink: Node) -> None:
        """An export of no document is never what was meant."""
        counts = self.counts()
        before = [c for c in counts if c.stage not in {n.stage for n in self.plan.nodes if n.kind == "sink"}]
        if not before or before[-1].kept:
            return
        emptied = next((c for c in before if c.entered and not c.kept), before[0])
        reasons = {**emptied.dropped, **emptied.quarantined}
        worst = max(reasons, key=lambda k: reasons[k]) if reasons else "nothing to read"
        raise RunFailedError(
            f"no document is left for {sink.stage}: the last {emptied.entered} ended at {emptied.stage} (most often: {worst})",
            hint=f"{typed('inspect', self.run_dir.path, '--stage', emptied.stage)}  shows them",
        )

    # ---- the end ----

    def counts(self) -> list[StageCount]:
        """Documents per stage, from what is committed."""
        counters, advice = collect(self.plan, self.committed)
        return account(self.plan, counters, advice)

    def _conclude(self) -> None:
        self._tallies.clear()
        self.result.counts = self.counts()
        self.result.digest = run_digest(self.plan)
        self.result.retention = retention(self.plan, self.committed)
        run, canaries = self.config.run, self.result.canaries
        self.result.warnings = [
            *(canaries.complaints() if canaries is not None else ()),
            *warnings_of(self.result.counts),
            *warnings_noted(self.plan),
            *outside(self.result.retention, run.retention, run.retention_documents),
        ]
        if self.result.exports:
            names = [f.rpartition("/")[2] for f in self.result.exports.values()]
            text = card(self.plan, self.result.counts, self.result.digest, names, self.result.retention)
            self.run_dir.storage.replace(self.run_dir.file("exports", "README.md"), text.encode())
            for leftover in list(self.run_dir.storage.leftovers(self.run_dir.file("exports"))):
                self.run_dir.storage.delete(leftover.path)
        self._write_run_json(
            {
                "digest": self.result.digest,
                "counts": [c.as_data() for c in self.result.counts],
                "retention": [r.as_data() for r in self.result.retention],
                "canaries": canaries.as_data() if canaries is not None else None,
                "warnings": self.result.warnings,
                "steps": [asdict(s) for s in self.result.steps],
                "seconds": round(self.result.seconds, 3),
                "peak_worker_bytes": self.result.peak_memory,
            }
        )

    def _write_run_json(self, outcome: Mapping[str, Any]) -> None:
        libraries = {k: v for n in self.plan.nodes for k, v in n.libraries.items()}
        body = {
            "corpusflow": _version("corpusflow"),
            "python": platform.python_version(),
            "libraries": libraries,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "config": self.config.as_data(),
            "models": {sha: os.path.basename(path) or "built in" for sha, path in self.plan.models.items()},
            "plan": self.plan.fp,
            **outcome,
        }
        self.run_dir.storage.replace(
            self.run_dir.file("run.json"), (json.dumps(body, indent=1, ensure_ascii=False, default=str) + "\n").encode()
        )


class _LazyExecutor:
    """Starts the executor at the first task: a run that reuses everything never starts Ray."""

    def __init__(self, make: Callable[[], Executor], runner: Runner) -> None:
        self._make = make
        self._runner = runner
        self._executor: Executor | None = None

    @property
    def started(self) -> bool:
        return self._executor is not None

    def _get(self) -> Executor:
        if self._executor is None:
            begin = time.monotonic()
            self._executor = self._make()
            self._runner.result.start_seconds = time.monotonic() - begin
        return self._executor

    def window(self) -> int:
        return self._get().window()

    def submit(self, spec: TaskSpec, memory: int) -> None:
        self._get().submit(spec, memory)

    def wait(self, timeout: float) -> list[Outcome]:
        return self._get().wait(timeout)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
