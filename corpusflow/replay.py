"""Documents in quarantine, tried again with the present code: as additional shards in a new epoch of the run.

A replay is a shard that reads the files of an earlier one and takes from them the documents that a stage could not process.
Nothing committed is rewritten: the earlier shard keeps its record of what failed, what now succeeds is the new shard's, and
Exchanges and exports, which depend on the whole input, run again. Its documents count as read once more; those that fail
again are in quarantine again.

A replay holds in plans where the stages that failed are what they were. If one of them changes (other parameters, a higher
version), its dataset is another, in which the earlier shard tries its documents anew; a replay would then keep a document
twice, so it leaves the listing (listing.py).

Not replayed: what stages behind an Exchange could not process (whatever changes the input runs them again, so any replay
before them, or new input, tries these documents as well), and records that a Source finds where it found none before: a Source
that numbers records otherwise has a higher version, with which the whole input is read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corpusflow.api import Run, Silent, open_run
from corpusflow.config import Config, build_config
from corpusflow.errors import ConfigError, PlanDriftError
from corpusflow.fingerprint import fingerprint
from corpusflow.plan import Shard
from corpusflow.planner import Planner
from corpusflow.quarantine import Waiting, last_tried, waiting
from corpusflow.results import RunResult
from corpusflow.runner import Progress, Runner


@dataclass(frozen=True)
class Replay:
    """What came of it.

    Attributes:
        tried: documents read again.
        kept_going: of them, those that no stage quarantined this time; rules may have dropped them.
        failed: of them, those that are in quarantine again.
        missing: of them, those that the Source finds no longer.
        left: stage -> documents of stages behind an Exchange, which were not replayed.
        result: of the run; None where there was nothing to replay.
    """

    tried: int
    kept_going: int
    failed: int
    missing: int
    left: Mapping[str, int]
    result: RunResult | None = None

    def as_data(self) -> dict[str, Any]:
        """JSON form, without the run's."""
        data = {k: v for k, v in vars(self).items() if k != "result"}
        return data | {"left": dict(self.left)}


def replay(
    run_dir: str,
    *,
    stage: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Try the documents in quarantine again.

    Args:
        stage: only what this stage could not process.
        options: of `run`, in place of those of the run before: `workers`, `executor`.

    Raises:
        ConfigError: no run, or no such stage.
        PlanDriftError: the input or the stages are not those of the run.
        CorpusflowError: as a run.
    """
    run = open_run(run_dir)
    config = _config(run, options or {})
    planner, folder = Planner(config), run.folder
    _same_plan(run, planner)
    groups, left = _groups(run, planner, list(waiting(run, stage)))
    if not groups:
        return Replay(0, 0, 0, 0, left)
    shards = (*run.plan.shards, *groups)
    listing = folder.add_replays(planner, shards)
    result = Runner(config, progress or Silent()).run()
    return _outcome(open_run(run_dir), [s for s in listing.shards if s.epoch == listing.epoch and s.only], left, result)


def _config(run: Run, options: Mapping[str, Any]) -> Config:
    """The config of the latest run, from its run.json, for the folder as it is called now."""
    path = run.folder.file("run.json")
    try:
        tree = json.loads(run.folder.storage.get(path))["config"]
    except (FileNotFoundError, ValueError, KeyError) as e:
        raise ConfigError(f"{path} does not say what was run", hint="`corpusflow run` writes it again") from e
    config = build_config(tree, file=path)
    # Of a replay's documents more than 1 % may fail again, which is no reason to stop.
    settings = {"dir": run.folder.path, "max_quarantine": 1.0, **{k: v for k, v in options.items() if v is not None}}
    return replace(config, run=config.run.model_copy(update=settings))


def _same_plan(run: Run, planner: Planner) -> None:
    listing = run.folder.listing(planner)
    if not listing.stored:
        raise PlanDriftError(
            f"the input of {run.folder.path} is not found as it was listed",
            hint="relative paths: call this in the folder in which the run was started",
        )
    if planner.plan(listing.shards, listing.epoch).fp != run.plan.fp:
        raise PlanDriftError(
            f"the stages are not those that {run.folder.path} was last run with",
            hint="`corpusflow run` makes what changed again with the present code, documents in quarantine included",
        )


def _groups(run: Run, planner: Planner, found: Sequence[Waiting]) -> tuple[list[Shard], dict[str, int]]:
    """(the new shards, what is left: stage -> documents). One shard per shard read and stage that failed."""
    epoch, number = run.folder.next_epoch(), run.folder.next_number()
    sets: dict[tuple[int, tuple[str, ...]], list[Waiting]] = {}
    for one in found:
        origin = one.shard.replays if one.shard.only else one.shard.number
        under = tuple(sorted({*one.shard.under, one.node.fp}))
        sets.setdefault((origin, under), []).append(one)
    shards: list[Shard] = []
    members: dict[str, list[Waiting]] = {}
    for (origin, under), group in sorted(sets.items(), key=lambda kv: kv[0]):
        whole = run.plan.by_number[origin]
        ids = tuple(sorted(w.entry.id for w in group))
        key = fingerprint("replay", whole.key, ids, epoch)
        shards.append(Shard(number + len(shards), epoch, whole.source, whole.files, None, key, ids, origin, under))
        members[key] = group
    # Behind an Exchange a stage is another one as soon as there is another shard.
    fps = {n.fp for n in planner.plan((*run.plan.shards, *shards), epoch).nodes} if shards else set()
    left: dict[str, int] = {}
    for shard in shards:
        if not set(shard.under) <= fps:
            for one in members[shard.key]:
                left[one.entry.stage] = left.get(one.entry.stage, 0) + 1
    return [s for s in shards if set(s.under) <= fps], left


def _outcome(run: Run, shards: Sequence[Shard], left: Mapping[str, int], result: RunResult) -> Replay:
    numbers = {s.number for s in shards}
    failed = sum(w.shard.number in numbers for w in waiting(run))
    last = last_tried(run)
    there = sum(last.get(i) == s.number for s in shards for i in s.only)
    tried = sum(len(s.only) for s in shards)
    return Replay(tried, there - failed, failed, tried - there, left, result)
