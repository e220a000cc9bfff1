"""A small config over the sample crawl, as the tests of the command line use it, and how a call of the program ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]

CONFIG = f"""
name: small
seed: 7
input:
  - ingest.warc: {{paths: [{ROOT}/sample_data/web/*.warc.gz], group_bytes: 1}}
stages:
  - ingest.extract
  - clean.unicode
  - language.identify: {{keep: [en, zh], min_score: 0.65}}
  - quality.gopher_repetition
  - quality.gopher: {{min_words: 50}}
  - quality.chinese
  - dedup.exact
  - tokenize.sentencepiece: {{model: {ROOT}/sample_data/tokenizer/web.model}}
output:
  - export.parquet
  - export.megatron
  - export.bin
"""


@dataclass(frozen=True)
class Called:
    """How a command ended."""

    status: int
    out: str
    err: str

    def fails(self, status: int, *parts: str) -> None:
        """It ended with this status and a message that has the parts and no traceback."""
        assert self.status == status, self.err or self.out
        assert "Traceback" not in self.err + self.out
        for part in parts:
            assert part in self.err, self.err


@dataclass(frozen=True)
class SmallRun:
    """A config file and the folder of its finished run; tests read it and write nothing there."""

    config: Path
    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)

    def __str__(self) -> str:
        return str(self.folder)


Call = Callable[..., Called]


def write_config(folder: Path, text: str = CONFIG, **run: object) -> Path:
    """A config file in a folder; its run folder is `folder/run`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    settings = {"dir": str(folder / "run"), "executor": "inline", **run}
    path.write_text(text + "run: " + yaml.safe_dump(settings, default_flow_style=True), encoding="utf-8")
    return path
