"""The `corpusflow` command in a process of its own, as a user starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import crash
import yaml

from corpusflow.config import Config

ROOT = Path(__file__).resolve().parent.parent.parent
#: As the entry point does it, without needing one installed.
_START = "from corpusflow.cli import main; main()"


class Command:
    """A running command, in a process group of its own as a shell would start it."""

    def __init__(self, arguments: Sequence[str], cwd: Path | None = None, **environment: str) -> None:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def wait(self, seconds: float = 180) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill_tree()
            raise
        return self.process.returncode, out, err

    def kill_tree(self) -> None:
        """SIGKILL it and all that it started."""
        for pid in [*crash.descendants(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.communicate()

    def interrupt(self) -> None:
        """What Ctrl-C in a terminal does: SIGINT to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)


def config_file(config: Config, path: Path) -> str:
    """The config as a YAML file."""
    path.write_text(yaml.safe_dump(config.as_data(), sort_keys=False))
    return str(path)
