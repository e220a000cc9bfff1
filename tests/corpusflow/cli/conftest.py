"""One small run of the sample crawl that every command is tried on, and a way to call a command as a shell would."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from corpusflow.cli import main

ROOT = Path(__file__).parents[3]

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


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the program with arguments, in this process."""

    def run(*arguments: object) -> Called:
        monkeypatch.setattr(sys, "argv", ["corpusflow", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        capsys.readouterr()
        status = 0
        try:
            main()
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else 1
        captured = capsys.readouterr()
        return Called(status, captured.out, captured.err)

    return run


def write_config(folder: Path, text: str = CONFIG, **run: object) -> Path:
    """A config file in a folder; its run folder is `folder/run`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    settings = {"dir": str(folder / "run"), "executor": "inline", **run}
    path.write_text(text + "run: " + yaml.safe_dump(settings, default_flow_style=True), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small_run(quick_root: Path) -> SmallRun:
    """The finished run."""
    import corpusflow

    config = write_config(quick_root / "small")
    corpusflow.run(str(config))
    return SmallRun(config, quick_root / "small" / "run")


@pytest.fixture
def own_run(small_run: SmallRun, tmp_path: Path) -> Iterator[SmallRun]:
    """A copy of the finished run that a test may break."""
    folder = tmp_path / "run"
    shutil.copytree(small_run.folder, folder)
    yield SmallRun(small_run.config, folder)
    shutil.rmtree(folder, ignore_errors=True)
