"""Canaries: documents known to be good, or bad, put through the stages of a config to see whether they are kept, or dropped.

They go through a run of their own, in `canaries/` of the run folder: the same stages with the same parameters, no output. So
nothing of them can come into an export or a count, and the outputs of a run are the same with them and without. What that
cannot try is what depends on the other documents: against which of them a canary would be a duplicate, and percentiles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from corpusflow.api import Run, Silent, open_run
from corpusflow.checkpoint import read_part
from corpusflow.config import Config, StageConfig
from corpusflow.errors import ConfigError
from corpusflow.reader import ROWS, ShardReader
from corpusflow.runner import Runner
from corpusflow.schema import ID, SKIPPED

#: Sources of the canaries' run: what ids begin with.
GOOD: Final = "canary-good"
BAD: Final = "canary-bad"
FOLDER: Final = "canaries"
_READERS: Final[Mapping[str, str]] = {
    ".jsonl": "ingest.jsonl",
    ".ndjson": "ingest.jsonl",
    ".parquet": "ingest.parquet",
    ".warc": "ingest.warc",
    ".arc": "ingest.warc",
    ".txt": "ingest.text",
}


@dataclass(frozen=True)
class Fate:
    """What became of one canary: `outcome` is kept, dropped, or quarantined, by `stage` for `reason`."""

    id: str
    record_id: str | None
    good: bool
    outcome: str
    stage: str = ""
    reason: str = ""

    @property
    def wrong(self) -> bool:
        """A good one that is gone, or a bad one that is there."""
        return self.good != (self.outcome == "kept")

    @property
    def name(self) -> str:
        """For people: its id, and what the file calls it."""
        return f"{self.id} ({self.record_id})" if self.record_id else self.id


@dataclass(frozen=True)
class Canaries:
    """The fates of all canaries, by id."""

    fates: tuple[Fate, ...]

    @property
    def wrong(self) -> tuple[Fate, ...]:
        """Those that did not end as they should."""
        return tuple(f for f in self.fates if f.wrong)

    def complaints(self) -> list[str]:
        """A sentence per canary that did not end as it should."""
        out = []
        for fate in self.wrong:
            if fate.good:
                out.append(f"canary: a good document was {fate.outcome} by {fate.stage} for {fate.reason}: {fate.name}")
            else:
                out.append(f"canary: a bad document was kept: {fate.name}")
        return out

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        good = sum(f.good for f in self.fates)
        return {
            "good": good,
            "bad": len(self.fates) - good,
            "wrong": len(self.wrong),
            "fates": [asdict(f) for f in self.fates],
        }


def try_canaries(config: Config, good: Sequence[str] = (), bad: Sequence[str] = ()) -> Canaries:
    """Put canaries through the stages of a config.

    Args:
        good, bad: files; those of `run.canaries` if none are given.

    Raises:
        ConfigError: no canaries, a file that no Source reads, or nothing to try them on.
        CorpusflowError: the stages do not run.
    """
    if not good and not bad:
        good, bad = (config.run.canaries.get(k, ()) for k in ("good", "bad"))
    if not good and not bad:
        raise ConfigError(
            "there are no canaries", hint="name files of them: run.canaries: {good: [good.jsonl], bad: [bad.jsonl]}"
        )
    if not config.stages:
        raise ConfigError(f"{config.file}: no stages to try canaries on")
    own = {"executor": "inline", "limit": None, "sample": None, "max_quarantine": 1.0, "check_disk": False}
    apart = {"dir": f"{config.run.dir}/{FOLDER}", "canaries": {}, "retention": {}}
    run = config.run.model_copy(update=own | apart)
    tried = replace(config, input=(*_inputs(good, GOOD), *_inputs(bad, BAD)), output=(), run=run)
    Runner(tried, Silent(), refresh=True).run()
    return Canaries(tuple(sorted(_fates(open_run(run.dir)), key=lambda f: f.id)))


def _inputs(paths: Sequence[str], name: str) -> Iterator[StageConfig]:
    by_source: dict[str, list[str]] = {}
    for path in paths:
        stem = os.path.basename(path)
        while stem and os.path.splitext(stem)[1] not in _READERS:
            stem, ending = os.path.splitext(stem)
            if not ending:
                raise ConfigError(
                    f"canaries: nothing reads {path}", hint=f"files end in {', '.join(_READERS)}, compressed or not"
                )
        by_source.setdefault(_READERS[os.path.splitext(stem)[1]], []).append(path)
    for source, files in by_source.items():
        yield StageConfig(source, {"paths": files, "name": name})


def _fates(run: Run) -> Iterator[Fate]:
    ends: dict[str, tuple[str, str, str]] = {}
    for stage in run.stages:
        view = run.stage(stage)
        for shard, node, rows, reasons in view.dropped():
            ids = ShardReader(run.plan, shard).locate(rows, node.base).column(ID).to_pylist()
            ends |= {i: ("dropped", stage, str(r)) for i, r in zip(ids, reasons, strict=True)}
        for table in view.quarantined():
            ids, why = table.column(ID).to_pylist(), table.column("reason").to_pylist()
            ends |= {i: ("quarantined", stage, r) for i, r in zip(ids, why, strict=True)}
    for shard in run.plan.shards:
        reader = ShardReader(run.plan, shard)
        node = reader.source_node()
        part = reader.need(node).part(ROWS)
        if part is None:
            continue
        table = read_part(reader.dataset(node), part, [ID, "record_id", "source", SKIPPED])
        for row in table.to_pylist():
            if row[SKIPPED] is None:  # else no document: a request in a web archive
                yield Fate(row[ID], row["record_id"], row["source"] == GOOD, *ends.get(row[ID], ("kept", "", "")))
