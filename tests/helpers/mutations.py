"""The commit protocol, broken in one place each: applied in a child process, to show that the fault tests would notice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def record_before_data() -> None:
    """The record is published first, the bytes it names reach the disk afterwards."""
    from corpusflow import commit, faults, storage

    late: list[storage._LocalUpload] = []
    real_commit = commit.Attempt.commit
    real_close = storage._LocalUpload.close
    real_write = storage._LocalUpload.write

    def write(self: storage._LocalUpload, data: Any) -> int:
        if "/data/" not in self._path:
            return real_write(self, data)
        held = self.__dict__.setdefault("held", [])
        held.append(bytes(memoryview(data).cast("B")))
        self._passed(memoryview(held[-1]))
        return len(held[-1])

    def close(self: storage._LocalUpload) -> None:
        if "/data/" in self._path and self.__dict__.get("held") is not None:
            late.append(self)
        else:
            real_close(self)

    def commit_first(self: commit.Attempt, *args: Any, **kwargs: Any) -> commit.Record:
        record = real_commit(self, *args, **kwargs)
        for upload in late:
            for data in upload.__dict__.pop("held"):
                faults.point("write")
                os.write(upload._fd, data)
            real_close(upload)
        late.clear()
        return record

    storage._LocalUpload.write = write  # type: ignore[method-assign]
    storage._LocalUpload.close = close  # type: ignore[method-assign]
    commit.Attempt.commit = commit_first  # type: ignore[method-assign]


def names_used_again() -> None:
    """Every attempt at a shard writes the same file names, over whatever is there."""
    from corpusflow import storage

    real_open = os.open

    def open_anyway(path: str, flags: int, mode: int = 0o777, **options: Any) -> int:
        if "/data/" in str(path):
            flags = (flags & ~os.O_EXCL) | os.O_TRUNC
        return real_open(path, flags, mode, **options)

    import secrets

    secrets.token_hex = lambda n=8: "0" * (2 * n)  # type: ignore[assignment]
    storage.os.open = open_anyway  # type: ignore[assignment]


def rename_for_link() -> None:
    """The last record of a shard wins, not the first."""
    from corpusflow.storage import LocalStorage

    def put(self: LocalStorage, path: str, data: bytes) -> bool:
        from corpusflow import faults

        faults.point("link")
        self.replace(path, data)
        return True

    LocalStorage.put_exclusive = put  # type: ignore[method-assign]


def trust_the_listing() -> None:
    """A shard counts as done when its folder holds files, as elsewhere."""
    from corpusflow.commit import Dataset
    from corpusflow.record import PartFile, Record

    real = Dataset.record

    def listed(self: Dataset, shard: int, key: str) -> Record | None:
        found = real(self, shard, key)
        folder = self.path(f"data/{shard:08d}")
        files = list(self.storage.list(folder))
        if found is not None or not files:
            return found
        parts = tuple(
            PartFile("rows", f"data/{shard:08d}/{os.path.basename(i.path)}", i.size, "", 0) for i in files[:1]
        )
        counters: Mapping[str, Any] = {"in": 0, "kept": 0}
        return Record(self.fp, shard, key, "listed", parts, counters)

    Dataset.record = listed  # type: ignore[method-assign]


def die_at(n: int) -> None:
    """No mutation: SIGKILL at the n-th fault point, besides the fault that was asked for."""
    import signal

    from corpusflow import faults

    real, seen = faults.point, [0]

    def point(name: str) -> None:
        real(name)
        seen[0] += 1
        if seen[0] == n:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.point = point
