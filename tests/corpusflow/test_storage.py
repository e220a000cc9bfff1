"""What the commit protocol rests on: exclusive puts, whole files or none, and injected faults."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import xxhash

from corpusflow import ConfigError, RetryableError, faults, storage_for
from corpusflow.storage import LocalStorage, Storage, Upload

Arm = Callable[[str | None], None]


@pytest.fixture
def disk() -> Storage:
    return LocalStorage()


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Iterator[Arm]:
    """``fault("link:1:EIO")`` arms a fault point of this process."""

    def arm(spec: str | None) -> None:
        monkeypatch.setattr(faults, "_SPEC", spec)
        monkeypatch.setattr(faults, "_seen", 0)

    yield arm
    arm(None)


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


# ---- put_exclusive ----


def test_put_exclusive(disk: Storage, tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b" / "x")
    assert disk.put_exclusive(path, b"one")
    assert not disk.put_exclusive(path, b"two")
    assert disk.get(path) == b"one"
    assert files(tmp_path) == ["a/b/x"]


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_one_of_many_threads_wins(disk: Storage, tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    for round_ in range(20):
        path = str(tmp_path / f"r{round_}")
        start = threading.Barrier(8)

        def put(i: int, path: str = path, start: threading.Barrier = start) -> bool:
            start.wait()
            return disk.put_exclusive(path, bytes([i]) * 100)

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(put, range(8)))
        assert won.count(True) == 1
        assert disk.get(path) == bytes([won.index(True)]) * 100
    assert len(files(tmp_path)) == 20


def _no_links(source: str, target: str) -> None:
    raise OSError(errno.EPERM, "no links here", source)


_RACE = """
import os, sys, time
from corpusflow.storage import LocalStorage
path, i, go = sys.argv[1:]
LocalStorage()
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.0001)
print(LocalStorage().put_exclusive(path, bytes([int(i)]) * 50_000), flush=True)
"""


def test_one_of_many_processes_wins(disk: Storage, tmp_path: Path) -> None:
    for round_ in range(3):
        path, go = str(tmp_path / f"r{round_}"), tmp_path / f"go{round_}"
        racers = [
            subprocess.Popen([sys.executable, "-c", _RACE, path, str(i), str(go)], stdout=subprocess.PIPE, text=True)
            for i in range(4)
        ]
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        go.touch()
        won = [racer.communicate()[0].strip() for racer in racers]
        assert sorted(won) == ["False", "False", "False", "True"]
        assert disk.get(path) == bytes([won.index("True")]) * 50_000


# ---- uploads ----


def test_upload(disk: Storage, tmp_path: Path) -> None:
    with disk.create(str(tmp_path / "d" / "x")) as upload:
        assert upload.write(b"abc") == 3
        upload.write(memoryview(b"def"))
        assert upload.tell() == upload.size == 6
    assert disk.get(str(tmp_path / "d" / "x")) == b"abcdef"
    assert upload.digest() == xxhash.xxh3_128(b"abcdef").hexdigest()
    with pytest.raises(FileExistsError):
        disk.create(str(tmp_path / "d" / "x"))


def test_a_failed_upload_leaves_nothing(disk: Storage, tmp_path: Path) -> None:
    def half(upload: Upload) -> None:
        with upload:
            upload.write(b"abc")
            raise KeyError

    with pytest.raises(KeyError):
        half(disk.create(str(tmp_path / "x")))
    upload = disk.create(str(tmp_path / "y"))
    upload.write(b"abc")
    upload.abort()
    upload.abort()
    assert upload.write(b"late") == 4  # Arrow's writers flush when they are collected
    upload.close()
    assert files(tmp_path) == []


@pytest.mark.parametrize("point", ["write", "fsync"])
@pytest.mark.parametrize("code", ["EIO", "ENOSPC"])
def test_a_full_disk_leaves_no_half_file(disk: Storage, tmp_path: Path, fault: Arm, point: str, code: str) -> None:
    fault(f"{point}:1:{code}")
    with pytest.raises(OSError, match=f"injected {code}") as caught, disk.create(str(tmp_path / "x")) as upload:
        upload.write(b"abc")
    assert caught.value.errno == getattr(errno, code)
    assert caught.value.filename == str(tmp_path / "x")  # which disk it was
    assert files(tmp_path) == []


@pytest.mark.parametrize("point", ["open", "write", "fsync", "fsync-dir", "link"])
def test_put_exclusive_that_fails_leaves_nothing_torn(disk: Storage, tmp_path: Path, fault: Arm, point: str) -> None:
    for n in range(1, 9):
        path = str(tmp_path / f"x{n}")
        fault(f"{point}:{n}:EIO")
        try:
            disk.put_exclusive(path, b"abc")
        except OSError:
            fault(None)
            assert [f for f in files(tmp_path) if ".tmp" in f] == []
            assert not os.path.exists(path) or disk.get(path) == b"abc"
            assert disk.put_exclusive(path, b"abc") or disk.get(path) == b"abc"
        else:
            break
    assert 1 < n < 8, "the point was never passed, or never left"


def test_faults_count_points_of_a_kind(fault: Arm) -> None:
    fault("b:2:EIO")
    faults.point("a")
    faults.point("b")
    faults.point("a")
    with pytest.raises(OSError, match="injected EIO at b"):
        faults.point("b")
    faults.point("b")
    fault("any:1:ENOSPC")
    with pytest.raises(OSError, match="injected ENOSPC at z"):
        faults.point("z")


# ---- the rest ----


def test_replace_and_publish(disk: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = str(tmp_path / "s"), str(tmp_path / "e" / "t")
    disk.replace(source, b"one")
    disk.replace(source, b"two")
    assert disk.get(source) == b"two"
    for _ in range(2):  # the second time, both names are one file
        disk.publish(source, target)
        assert disk.get(target) == b"two"
    assert os.stat(source).st_ino == os.stat(target).st_ino
    monkeypatch.setattr(os, "link", _no_links)
    disk.publish(source, target)
    assert disk.get(target) == b"two"
    assert os.stat(source).st_ino != os.stat(target).st_ino
    assert files(tmp_path) == ["e/t", "s"]


def test_ranges_lists_and_walks(disk: Storage, tmp_path: Path) -> None:
    for name in ("b", "a", "d/c", "d/.tmp-1"):
        disk.put_exclusive(str(tmp_path / name), name.encode() * 3)
    (tmp_path / ".tmp-x").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    assert [os.path.basename(i.path) for i in disk.list(str(tmp_path))] == ["a", "b"]
    assert [os.path.relpath(i.path, tmp_path) for i in disk.walk(str(tmp_path))] == ["a", "b", "d/c"]
    assert list(disk.list(str(tmp_path / "nothing"))) == []
    assert disk.get_range(str(tmp_path / "a"), 1, 2) == b"a"
    assert disk.get_range(str(tmp_path / "a"), 2, 100) == b"a"
    assert disk.get_range(str(tmp_path / "a"), 5, 2) == b""
    assert disk.exists(str(tmp_path / "a"))
    assert not disk.exists(str(tmp_path / "a" / "b"))
    disk.delete(str(tmp_path / "a"))
    disk.delete(str(tmp_path / "a"))
    with pytest.raises(FileNotFoundError):
        disk.get(str(tmp_path / "a"))
    free = disk.free_bytes(str(tmp_path / "not" / "yet" / "there"))
    assert free is not None
    assert free > 0


def test_a_walk_beside_another_driver(disk: Storage, tmp_path: Path) -> None:
    """Files that another driver renames between listing and looking are passed over."""
    for i in range(3):
        (tmp_path / f"f{i}").write_bytes(b"")
    walk = disk.walk(str(tmp_path))
    assert next(walk).path.endswith("f0")
    (tmp_path / "f1").unlink()
    assert [os.path.basename(i.path) for i in walk] == ["f2"]


def test_etag_changes_with_the_file(disk: Storage, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    before = disk.stat(str(path))
    os.utime(path, ns=(1, 1))
    assert disk.stat(str(path)).etag != before.etag
    path.write_bytes(b"abcd")
    assert disk.stat(str(path)).size == 4


def test_passing_faults_are_retryable(disk: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(*_: object) -> None:
        raise OSError(errno.ESTALE, "stale handle", "x")

    monkeypatch.setattr("builtins.open", stale)
    with pytest.raises(RetryableError, match="stale handle"):
        disk.get(str(tmp_path / "x"))


def test_schemes() -> None:
    assert isinstance(storage_for("/a/b"), LocalStorage)
    with pytest.raises(ConfigError, match="no storage for s3://"):
        storage_for("s3://bucket/key")


def test_no_right_to_write(disk: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "no", "x")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(ConfigError, match="permission denied") as caught:
        disk.put_exclusive(str(tmp_path / "new" / "x"), b"")
    assert "run.dir" in str(caught.value.hint)


def test_a_temporary_name_that_another_driver_took_away(
    disk: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.replace
    taken: list[str] = []

    def robbed(source: str, target: str) -> None:
        if len(taken) % 3 < 2:
            os.unlink(source)
        taken.append(source)
        rename(source, target)

    monkeypatch.setattr(os, "replace", robbed)
    disk.replace(str(tmp_path / "a"), b"one")
    disk.publish(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (disk.get(str(tmp_path / "b")), len(taken)) == (b"one", 6)
    with pytest.raises(FileNotFoundError):
        disk.publish(str(tmp_path / "none"), str(tmp_path / "c"))
