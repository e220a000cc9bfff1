"""Where bytes lie. The only module that opens a path.

Promises, which the commit protocol rests on and any other backend (an object store) must keep:
    put_exclusive   all or nothing, and exactly one of any number of concurrent creators wins
    create          a new file under a name never used before; durable once closed; `abort` leaves nothing
    get, get_range, list, delete, replace, publish   as named
Nothing here decides what is true of a run: commit.py does, and it never trusts a listing of data files.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import stat
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from corpusflow import faults
from corpusflow.errors import ConfigError, CorruptShardError, RetryableError

#: Errors of a shared filesystem that a second try may not see.
_PASSING: Final = frozenset({errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.ESTALE, errno.ETIMEDOUT})


@dataclass(frozen=True)
class FileInfo:
    """A file as listed: `etag` changes whenever the bytes may have changed; `modified` is in seconds, for `gc` alone."""

    path: str
    size: int
    etag: str
    modified: float = 0.0


class Upload(io.RawIOBase):
    """A new file being written; counts and hashes (xxh3-128) what passes through.

    Closing makes it durable. `abort` removes it. Leaving a ``with`` block by an exception aborts: half a file must never
    look like a whole one.
    """

    size: int = 0

    def __init__(self) -> None:
        super().__init__()
        self._hash = xxhash.xxh3_128()
        self._tail: tuple[int, xxhash.xxh3_128] | None = None

    def digest(self) -> str:
        """32 hex digits over everything written so far."""
        return str(self._hash.hexdigest())

    def mark(self) -> None:
        """Hash what comes from here on by itself, too."""
        self._tail = (self.size, xxhash.xxh3_128())

    def tail(self) -> tuple[int, str]:
        """(where `mark` was called, 32 hex digits over what was written since); (0, "") if it never was."""
        return (0, "") if self._tail is None else (self._tail[0], str(self._tail[1].hexdigest()))

    def _passed(self, view: memoryview) -> None:
        """Count and hash what was written."""
        self._hash.update(view)
        if self._tail is not None:
            self._tail[1].update(view)
        self.size += len(view)

    def abort(self) -> None:
        """Forget the file."""
        raise NotImplementedError(type(self).__name__)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class Storage(ABC):
    """One place where a run, or an input, lies."""

    @abstractmethod
    def put_exclusive(self, path: str, data: bytes) -> bool:
        """Create `path` with `data`; False if it exists already. Durable when it returns True."""

    @abstractmethod
    def create(self, path: str) -> Upload:
        """Open a new file; its folders are made. FileExistsError if the name was ever used."""

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Put advisory data (progress, pointers) in place of whatever is there, atomically."""

    @abstractmethod
    def publish(self, source: str, target: str) -> None:
        """Let `target` be the bytes of `source`, atomically, without moving them: hard link, or server-side copy."""

    @abstractmethod
    def get(self, path: str) -> bytes:
        """All bytes. FileNotFoundError if absent."""

    @abstractmethod
    def get_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes [start, end), fewer at the end of the file."""

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """A seekable stream."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files directly in a folder, by name; nothing if it does not exist."""

    @abstractmethod
    def folders(self, prefix: str) -> Iterator[str]:
        """Paths of the folders directly in a folder, by name; nothing if it does not exist."""

    @abstractmethod
    def walk(self, root: str) -> Iterator[FileInfo]:
        """All regular files below a folder, by path; symbolic links to folders are not followed."""

    @abstractmethod
    def stat(self, path: str) -> FileInfo:
        """One file. FileNotFoundError if absent."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file; absent is fine."""

    def leftovers(self, root: str) -> Iterator[FileInfo]:
        """What writes that never ended left below a folder; nothing where the store leaves nothing."""
        return iter(())

    def prune(self, root: str) -> None:  # noqa: B027 - object stores have no folders
        """Remove empty folders below a folder."""

    @abstractmethod
    def free_bytes(self, path: str) -> int | None:
        """Room left where `path` will lie; None where there is no such limit."""

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


class _LocalUpload(Upload):
    def __init__(self, path: str) -> None:
        super().__init__()
        faults.point("open")
        self._path = path
        self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)

    def write(self, data: object, /) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        if self._fd < 0:
            return len(view)  # aborted: Arrow's writers still flush a footer when they are collected
        done = 0
        try:
            while done < len(view):
                faults.point("write")
                done += os.write(self._fd, view[done:])
        except OSError as e:
            e.filename = self._path  # a full disk does not say which
            raise
        self._passed(view)
        return len(view)

    def close(self) -> None:
        if self._fd < 0:
            return
        try:
            faults.point("fsync")
            os.fsync(self._fd)
        except BaseException as e:
            if isinstance(e, OSError):
                e.filename = self._path
            self.abort()
            raise
        os.close(self._fd)
        self._fd = -1
        _sync_folder(os.path.dirname(self._path))
        super().close()

    def abort(self) -> None:
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        Path(self._path).unlink(missing_ok=True)
        super().close()


#: So often a file is written again whose temporary name has gone before it could be renamed.
_TRIES: Final = 5


class LocalStorage(Storage):
    """A local or shared POSIX filesystem."""

    def put_exclusive(self, path: str, data: bytes) -> bool:
        if os.path.lexists(path):  # a restart meets most of what it would put
            return False
        folder = os.path.dirname(path)
        _make_folder(folder)
        temporary = os.path.join(folder, f".tmp-{uuid.uuid4().hex}")
        try:
            with _LocalUpload(temporary) as upload:
                upload.write(data)
            faults.point("link")
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as e:
            # Some filesystems (exFAT, FUSE mounts) have no hard links: an exclusive open still elects one winner, and
            # a torn record fails its self-checksum and counts as absent.
            if e.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
                raise
            try:
                with _LocalUpload(path) as upload:
                    upload.write(data)
            except FileExistsError:
                return False
        finally:
            Path(temporary).unlink(missing_ok=True)
        _sync_folder(folder)
        return True

    def create(self, path: str) -> Upload:
        _make_folder(os.path.dirname(path))
        return _LocalUpload(path)

    def replace(self, path: str, data: bytes) -> None:
        def write(temporary: str) -> None:
            with _LocalUpload(temporary) as upload:
                upload.write(data)
            faults.point("replace")

        self._put(path, write)

    def publish(self, source: str, target: str) -> None:
        def link(temporary: str) -> None:
            faults.point("publish")
            try:
                os.link(source, temporary)
            except OSError as e:
                if e.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.ENOSYS):
                    raise
                with open(source, "rb") as stream, _LocalUpload(temporary) as upload:
                    shutil.copyfileobj(stream, upload, 1 << 20)

        self._put(target, link)

    def _put(self, path: str, make: Callable[[str], None]) -> None:
        """Let a file be made under a temporary name, and rename it."""
        folder = os.path.dirname(path)
        _make_folder(folder)
        for left in reversed(range(_TRIES)):
            temporary = os.path.join(folder, f".tmp-{uuid.uuid4().hex}")
            try:
                make(temporary)
                os.replace(temporary, path)
                break
            except FileNotFoundError:
                # another driver, which publishes here too, took it for one that a kill left behind
                if not left:
                    raise
            finally:
                # also because rename(2) of two links to one inode does nothing and leaves the temporary name behind
                Path(temporary).unlink(missing_ok=True)
        _sync_folder(folder)

    def get(self, path: str) -> bytes:
        try:
            with open(path, "rb") as f:
                return f.read()
        except OSError as e:
            raise _retryable(e) from e

    def get_range(self, path: str, start: int, end: int) -> bytes:
        with open(path, "rb") as f:
            f.seek(start)
            return f.read(max(0, end - start))

    def open(self, path: str) -> IO[bytes]:
        return open(path, "rb")

    def list(self, prefix: str) -> Iterator[FileInfo]:
        try:
            with os.scandir(prefix) as entries:
                found = sorted(entries, key=lambda e: e.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode) and not entry.name.startswith(".tmp-"):
                yield _info(entry.path, status)

    def folders(self, prefix: str) -> Iterator[str]:
        try:
            with os.scandir(prefix) as entries:
                found = sorted(e.path for e in entries if e.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return
        yield from found

    def walk(self, root: str) -> Iterator[FileInfo]:
        for folder, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(files):
                path = os.path.join(folder, name)
                try:
                    status = os.lstat(path)
                except FileNotFoundError:  # renamed or deleted meanwhile: another driver publishes, too
                    continue
                if stat.S_ISREG(status.st_mode) and not name.startswith(".tmp-"):
                    yield _info(path, status)

    def stat(self, path: str) -> FileInfo:
        return _info(path, os.stat(path))

    def delete(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def leftovers(self, root: str) -> Iterator[FileInfo]:
        for folder, _, files in os.walk(root):
            for name in sorted(files):
                if name.startswith(".tmp-"):
                    path = os.path.join(folder, name)
                    with contextlib.suppress(FileNotFoundError):  # the write of another driver, which has ended
                        yield _info(path, os.lstat(path))

    def prune(self, root: str) -> None:
        for folder, _, _ in os.walk(root, topdown=False):
            if folder != root:
                with contextlib.suppress(OSError):  # not empty
                    os.rmdir(folder)

    def free_bytes(self, path: str) -> int | None:
        place = Path(path).absolute()
        while not place.exists():
            place = place.parent
        return shutil.disk_usage(place).free


def _info(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(path, status.st_size, f"{status.st_size:x}-{status.st_mtime_ns:x}", status.st_mtime)


def _retryable(e: OSError) -> OSError | RetryableError:
    if e.errno in _PASSING:
        return RetryableError(f"reading {e.filename}: {e.strerror}")
    return e


def _make_folder(folder: str) -> None:
    """mkdir -p, each new level made durable in its parent."""
    if not folder or os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    _make_folder(parent)
    try:
        os.mkdir(folder)
    except FileExistsError:
        return
    except PermissionError as e:
        raise ConfigError(
            f"cannot write to {parent}: permission denied", hint="choose another run folder: --set run.dir=…"
        ) from e
    _sync_folder(parent)


def _sync_folder(folder: str) -> None:
    faults.point("fsync-dir")
    fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.EBADF, errno.EROFS):  # filesystems that cannot sync a folder
            raise
    finally:
        os.close(fd)


_LOCAL = LocalStorage()


def storage_for(path: str) -> Storage:
    """The backend a path or URL belongs to.

    Raises:
        ConfigError: no backend for its scheme.
    """
    if path.startswith("~/"):  # made absolute, it would be a folder called `~` in the current one
        raise ConfigError(f"{path}: ~ is a word of the shell", hint=f"give the path: {os.path.expanduser(path)}")
    scheme, separator, rest = path.partition("://")
    if separator:
        raise ConfigError(
            f"no storage for {scheme}:// (of {path})",
            hint=f"give the path: {rest}"
            if scheme == "file"
            else "mount it, or copy it to a local folder, and give that path",
        )
    return _LOCAL


def local_path(path: str) -> str:
    """The absolute path of what a user names.

    Raises:
        ConfigError: it is a URL; made absolute, it would be a folder called ``s3:`` in the current one.
    """
    storage_for(path)
    return os.path.abspath(path)


def parquet_table(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """A small Parquet file, read by the thread that asks.

    Arrow's own threads are no faster here, and a process that ends right after they started is aborted once in a hundred times
    ("terminate called without an active exception", status 134 instead of its own).

    Raises:
        pa.ArrowInvalid: it is none.
        OSError: a page does not have its checksum.
    """
    with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
        return file.read(columns=None if columns is None else list(columns), use_threads=False)


def read_json(path: str, *, hint: str) -> Any:
    """What a JSON file of ours holds. FileNotFoundError if absent.

    Raises:
        CorruptShardError: it is no JSON any more; `hint` says what makes it again.
    """
    try:
        return json.loads(storage_for(path).get(path))
    except ValueError as e:
        raise CorruptShardError(f"{path} is damaged: {e}", hint=hint) from e
