"""One small run of the sample crawl that every command is tried on, and a way to call a command as a shell would."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_runs import Call, Called, SmallRun, write_config

from corpusflow.cli import main


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
