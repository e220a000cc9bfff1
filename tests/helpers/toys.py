"""Runs of toy stages: writes a corpus, makes a config whose keys have lines, runs it here, reads it back."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import corpusflow
from corpusflow.config import Config, parse_config
from corpusflow.listing import make_shards
from corpusflow.plan import Plan
from corpusflow.planner import Planner
from corpusflow.results import RunResult

STAGES = Path(__file__).with_name("toy_stages.py")
Entry = str | tuple[str, Mapping[str, Any]]
ROWS = [{"text": t, "lang": "en"} for t in ("alpha 1", "beta 22", "gamma", "alpha 1", "delta 4444")]


def stage_name(short: str) -> str:
    """`Size` as a config names it; names with a dot are registered stages already."""
    return short if "." in short else f"{STAGES}:{short}"


class Toy:
    """A corpus and the runs made of it, in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root / uuid.uuid4().hex[:12]
        self.root.mkdir(parents=True)

    def remove(self) -> None:
        """Forget everything."""
        shutil.rmtree(self.root)

    def corpus(self, files: Sequence[Sequence[Mapping[str, Any]]], folder: str = "in") -> None:
        """One file, and so one shard, per list of records; files of an earlier corpus go, or stay if they are the same."""
        (self.root / folder).mkdir(exist_ok=True)
        for old in sorted((self.root / folder).iterdir())[len(files) :]:
            old.unlink()
        for i, rows in enumerate(files):
            lines = "".join(json.dumps(r) + "\n" for r in rows)
            path = self.root / folder / f"{i:02d}.jsonl"
            if not path.exists() or path.read_text() != lines:  # a file that is written again is another file
                path.write_text(lines)

    def config(
        self,
        stages: Sequence[Entry],
        output: Sequence[Entry] = (("Dump", {}),),
        *,
        run: str = "run",
        batch_rows: int = 1000,
        seed: int = 7,
        source: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Config:
        """A parsed config; every entry stands on a line of its own."""
        given = {"paths": [str(self.root / "in")], "batch_rows": batch_rows, **(source or {})}
        lines = ["name: toy", f"seed: {seed}"]
        for section, entries in (("input", [("Lines", given)]), ("stages", stages), ("output", output)):
            lines.append(f"{section}:" if entries else f"{section}: []")
            for entry in entries:
                short, params = (entry, {}) if isinstance(entry, str) else entry
                lines.append(f"  - {json.dumps(stage_name(short))}: {json.dumps(params)}")
        lines.append("run: " + json.dumps({"dir": str(self.root / run), "executor": "inline", **options}))
        return parse_config("\n".join(lines), file="toy.yaml")

    def run(self, stages: Sequence[Entry], output: Sequence[Entry] = (("Dump", {}),), **options: Any) -> RunResult:
        """Run it to the end, in this process."""
        refresh = options.pop("refresh", False)
        return corpusflow.run(self.config(stages, output, **options), refresh=refresh)

    def plan(self, stages: Sequence[Entry], output: Sequence[Entry] = (("Dump", {}),), **options: Any) -> Plan:
        """The plan alone, nothing written."""
        planner = Planner(self.config(stages, output, **options))
        return planner.plan(make_shards(planner, (), 0), 0)

    def dumped(self, run: str = "run", export: str = "Dump") -> list[dict[str, Any]]:
        """The rows a Dump published, in order."""
        folder = self.root / run / "exports" / export
        files = sorted(folder.glob("part-*.jsonl"))
        return [json.loads(line) for f in files for line in f.read_text().splitlines()]


def short_name(stage: str) -> str:
    """Inverse of `stage_name`."""
    return stage.rpartition(":")[2]
