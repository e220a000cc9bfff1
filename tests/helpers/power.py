"""A model of a power cut: what a disk may hold if the machine stops after any operation.

`Recorder` stands in for the `os` module of corpusflow.storage and logs every operation that changes the disk. `Disk` replays
a prefix of that log as a pessimistic filesystem: bytes that no fsync covered may be lost or torn; names that no fsync of
their folder covered may be missing, though a folder's names never appear in another order than they were made in.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Recorder:
    """Passes everything on to `os`; `log` holds (operation, arguments)."""

    sync_files: bool = True
    sync_folders: bool = True
    log: list[tuple[Any, ...]] = field(default_factory=list)
    _open: dict[int, str] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        fd = os.open(path, flags, mode)
        self._open[fd] = path
        if flags & os.O_CREAT:
            self.log.append(("create", path))
        return fd

    def write(self, fd: int, data: Any) -> int:
        n = os.write(fd, data)
        self.log.append(("write", self._open[fd], bytes(memoryview(data)[:n])))
        return n

    def fsync(self, fd: int) -> None:
        path = self._open[fd]
        folder = os.path.isdir(path)
        if self.sync_folders if folder else self.sync_files:
            self.log.append(("sync-folder" if folder else "sync", path))

    def close(self, fd: int) -> None:
        os.close(fd)
        del self._open[fd]

    def mkdir(self, path: str) -> None:
        os.mkdir(path)
        self.log.append(("mkdir", path))

    def link(self, source: str, target: str) -> None:
        os.link(source, target)
        self.log.append(("link", source, target))

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)
        self.log.append(("rename", source, target))


class Disk:
    """What may be left of `log`, replayed below another root."""

    def __init__(self, log: list[tuple[Any, ...]], rng: random.Random) -> None:
        self._written: dict[int, bytearray] = {}  # inode -> bytes as written
        self._safe: dict[int, int] = {}  # inode -> bytes that an fsync covered
        self._inode: dict[str, int] = {}  # name -> inode, as the running system saw it
        names: dict[str, list[tuple[str, int | None]]] = {}  # folder -> entries made since it was last synced
        kept: dict[str, int | None] = {}  # name -> inode, or None for a folder, as the disk has it
        for op, path, *rest in log:
            if op == "create":
                self._inode[path] = len(self._written)
                self._written[self._inode[path]] = bytearray()
                names.setdefault(os.path.dirname(path), []).append((path, self._inode[path]))
            elif op == "write":
                self._written[self._inode[path]] += rest[0]
            elif op == "sync":
                self._safe[self._inode[path]] = len(self._written[self._inode[path]])
            elif op == "mkdir":
                names.setdefault(os.path.dirname(path), []).append((path, None))
            elif op in ("link", "rename"):
                self._inode[rest[0]] = self._inode[path]
                names.setdefault(os.path.dirname(rest[0]), []).append((rest[0], self._inode[path]))
            elif op == "sync-folder":
                kept.update(names.pop(path, []))
        for entries in names.values():
            kept.update(entries[: rng.randrange(len(entries) + 1)])
        self.names = kept
        self._rng = rng

    def materialise(self, root: str, target: Path) -> None:
        """Make the files and folders; names whose folder did not survive are gone with it."""
        target.mkdir(parents=True)
        present = {root}
        for path, inode in sorted(self.names.items()):
            if os.path.dirname(path) not in present:
                continue
            place = target / os.path.relpath(path, root)
            if inode is None:
                place.mkdir(exist_ok=True)
                present.add(path)
            else:
                place.write_bytes(self._left(inode))

    def _left(self, inode: int) -> bytes:
        """Synced bytes, and perhaps some of the rest, perhaps as zeros."""
        data, safe = bytes(self._written[inode]), self._safe.get(inode, 0)
        end = self._rng.randrange(safe, len(data) + 1)
        return data[:safe] + (data[safe:end] if self._rng.random() < 0.5 else bytes(end - safe))


def states(log: list[tuple[Any, ...]], n: int, seed: int) -> list[Callable[[str, Path], None]]:
    """`n` disks, each after another number of operations."""
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(log) + 1), min(n, len(log))))
    return [Disk(log[:k], random.Random(rng.random())).materialise for k in cuts]
