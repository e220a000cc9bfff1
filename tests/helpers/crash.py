"""Runs that are killed: children forked from a warm server, kill points, stopped attempts, and what must hold at any moment.

A child is forked in milliseconds from a process that has imported the engine (and, for the real pipeline, loaded its kernels),
so that hundreds of kills fit in a test. Everything runs with every fsync.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from toys import Entry, Toy

from corpusflow import CorpusflowError, faults
from corpusflow.commit import Dataset
from corpusflow.config import Config
from corpusflow.record import Record

_SERVER = get_context("forkserver")


def preload(*modules: str) -> None:
    """Have the server import these before it forks; only the first call of a session counts."""
    _SERVER.set_forkserver_preload(["crash", "corpusflow.runner", "corpusflow.executors.inline", *modules])


@dataclass(frozen=True)
class End:
    """How a child ended: `digest` of its run, or the error it raised, or the signal that killed it."""

    code: int
    digest: str = ""
    error: str = ""
    points: int = 0  # fault points passed


def _child(config: Config, fault: str, mutations: Sequence[Callable[[], None]], answer: str) -> None:
    os.setpgrp()
    for mutate in mutations:
        mutate()
    faults._SPEC, faults._seen = fault or None, 0  # as if CORPUSFLOW_FAULT had been set
    from corpusflow.api import Silent
    from corpusflow.runner import Runner

    try:
        body: dict[str, Any] = {"digest": Runner(config, Silent()).run().digest}
    except CorpusflowError as e:
        body = {"error": f"{type(e).__name__}: {e.message}"}
    Path(answer).write_text(json.dumps({**body, "points": faults._seen}))


class Victim:
    """A run in a child process of its own group."""

    def __init__(
        self, config: Config, scratch: Path, *, fault: str = "", mutations: Sequence[Callable[[], None]] = ()
    ) -> None:
        self._answer = scratch / f"answer-{time.monotonic_ns()}"
        self.process: BaseProcess = _SERVER.Process(
            target=_child, args=(config, fault, tuple(mutations), str(self._answer))
        )
        self.process.start()

    def __enter__(self) -> Victim:
        return self

    def __exit__(self, *_: object) -> None:
        """A stopped child would be waited for to the end of time."""
        self.kill(group=True)
        self.process.join(10)

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def kill(self, *, group: bool = False) -> None:
        """SIGKILL it, or everything it started as well."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.pid, signal.SIGKILL)

    def wait(self, seconds: float = 120) -> End:
        """How it ended."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.kill(group=True)
            raise TimeoutError(f"the run did not end in {seconds} s")
        body = json.loads(self._answer.read_text()) if self._answer.exists() else {}
        self._answer.unlink(missing_ok=True)
        return End(self.process.exitcode, **body)

    def wait_until_stopped(self, seconds: float = 60) -> bool:
        """Whether it came to a SIGSTOP (True) or to its end (False)."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.exitcode is not None:
                return False
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state == "T":
                return True
            time.sleep(0.002)
        raise TimeoutError("neither stopped nor ended")

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)


def run_to_end(config: Config, scratch: Path, *, fault: str = "", mutations: Sequence[Callable[[], None]] = ()) -> End:
    """A run in a child, waited for."""
    return Victim(config, scratch, fault=fault, mutations=mutations).wait()


def no_hard_links() -> None:
    """Mutation: a filesystem without hard links (exFAT, some FUSE mounts)."""
    import errno

    def link(source: str, target: str, **_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", target)

    os.link = link  # type: ignore[assignment]


# ---- a pipeline to kill ----

STAGES: list[Entry] = [
    ("Cut", {"n": 9}),
    "Language",
    ("Keep", {"column": "toy.lang", "op": "in", "value": ["en"], "gate": True, "reason": "toy_language"}),
    "Size",
    ("Keep", {"column": "toy.size", "op": ">=", "value": 2, "reason": "toy_small"}),
    "Unique",
    "Codes",
]
OUTPUT: list[Entry] = [("Dump", {"columns": ["id", "text", "toy.size", "toy.codes"]})]
TEXTS = ("alpha 1", "beta 22", "gamma", "alpha 1", "asks?", "bang!", "x", None, "delta 4444")
FILES = [
    [{"text": t, "lang": "de" if i % 5 == shard else "en"} for i, t in enumerate(TEXTS[: len(TEXTS) - shard])]
    for shard in range(2)
]


class Tiny:
    """A toy pipeline with every kind of stage in it, and what comes of it when nothing goes wrong."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        toy.corpus(FILES)
        quiet = run_to_end(self.config("quiet"), toy.root, fault="any:0")
        assert (quiet.code, bool(quiet.digest)) == (0, True), quiet
        self.digest, self.points = quiet.digest, quiet.points
        self.exports = published(self.folder("quiet"))
        assert len(self.exports) >= 4

    def config(self, run: str) -> Config:
        """Its config in another run folder."""
        return self.toy.config(STAGES, OUTPUT, run=run)

    def folder(self, run: str) -> Path:
        """That run folder."""
        return self.toy.root / run

    def start(self, run: str, *, fault: str = "", mutations: Sequence[Callable[[], None]] = ()) -> Victim:
        """Run it in a child."""
        return Victim(self.config(run), self.toy.root, fault=fault, mutations=mutations)

    def finish(self, run: str) -> None:
        """Run it (again) to its end, and hold that against the quiet run's."""
        end = self.start(run).wait()
        assert end.code == 0, end
        assert end.digest == self.digest, end
        verify_all(self.folder(run))
        assert published(self.folder(run)) == self.exports


# ---- what must hold at any moment ----


def committed(run_dir: Path) -> Iterator[tuple[Dataset, Record]]:
    """Every valid commit record below a run folder."""
    for path in sorted(run_dir.rglob("_commits/*.json")):
        generation = int(path.name.split(".")[-2])
        record = Record.decode(path.read_bytes(), generation)
        if record is not None:
            yield Dataset(str(path.parent.parent), record.fp), record


def verify_all(run_dir: Path) -> int:
    """Hold every committed file against its record; returns how many records there are.

    Raises:
        CorruptShardError: a committed file is missing, torn, or has other bytes.
    """
    n = 0
    for dataset, record in committed(run_dir):
        dataset.verify(record)
        n += 1
    return n


def records(run_dir: Path) -> dict[str, str]:
    """Record file -> attempt; nothing in it may ever change."""
    return {
        str(p.relative_to(run_dir)): json.loads(p.read_bytes())["attempt"] for p in run_dir.rglob("_commits/*.json")
    }


def published(run_dir: Path) -> dict[str, bytes]:
    """Published file -> bytes."""
    folder = run_dir / "exports"
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# ---- processes ----


def descendants(pid: int) -> dict[int, str]:
    """Process id -> command line of everything a process started, by walking /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    front = {pid}
    while front:
        front = {p for p, parent in parents.items() if parent in front and p not in found}
        for p in front:
            found[p] = command_of(p)
    return found


def command_of(pid: int) -> str:
    """The command line of a process, "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def gone(pids: Mapping[int, str], seconds: float) -> dict[int, str]:
    """Those of `pids` that still run after some seconds (zombies do not count)."""
    deadline = time.monotonic() + seconds
    left = dict(pids)
    while left and time.monotonic() < deadline:
        left = {p: c for p, c in left.items() if command_of(p) == c and c}
        time.sleep(0.05)
    return left
