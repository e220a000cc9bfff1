"""Files in, splits out: what every Source over files shares.

Reads globs and list files; promises that a path matched twice is read once, that the order depends on names alone, and
that small files are grouped so that a million of them does not make a million tasks, and large ones cut.
"""

from __future__ import annotations

import glob
import gzip
import io
import itertools
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from corpusflow.errors import ConfigError
from corpusflow.stage import MB, FileRange, Source, Split, param
from corpusflow.storage import FileInfo, storage_for

#: Most files in one group, so that a million empty files still make tasks of seconds.
_GROUP_FILES: Final = 4_096
#: A list of 10 M files; more is a bomb.
_LIST_BYTES: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """A Source whose input is files."""

    paths: tuple[str, ...] = param(
        semantic=False,
        doc="Files, folders or globs (`**` crosses folders); '@list' for a file, plain or .gz, that names a file a line.",
    )
    base: str | None = param(
        None, semantic=False, doc="Folder that the lines of '@list' start from; the list's own if not given."
    )
    name: str | None = param(None, doc="What `source` and ids say; the format's name if not given.")
    group_bytes: int = param(
        8 * MB,
        semantic=False,
        doc="Files smaller than this share a shard with their neighbours, up to this many bytes.",
    )

    split_size: int = param(
        256 * MB,
        semantic=False,
        doc="Files with more bytes than this, as stored, are read as several shards where the format allows; 0 for never.",
    )

    #: What `source` says when the config does not name it; set by each format.
    default_name: ClassVar[str] = "files"

    @property
    def source_name(self) -> str:
        """The `source` column of every document."""
        return self.name or self.default_name

    def splits(self) -> Iterator[Split]:
        group: list[FileRange] = []
        size = 0
        files = self.files()
        if (first := next((f for f in files if f.size), None)) is not None:
            self.check_input(first)
        for item in files:
            large = 0 < self.split_size < item.size
            if large or item.size >= self.group_bytes:
                pieces = self.cut(item) if large else (item,)
                if group:
                    yield Split(tuple(group))
                    group, size = [], 0
                for piece in pieces:
                    yield Split((piece,))
                continue
            if group and (size + item.size > self.group_bytes or len(group) == _GROUP_FILES):
                yield Split(tuple(group))
                group, size = [], 0
            group.append(item)
            size += item.size
        if group:
            yield Split(tuple(group))

    def check_input(self, item: FileRange) -> None:
        """Hold the parameters against the input's first file, when it is listed: what is not there is a mistake in the config.

        Where a later file does not have it, `read` says so in its rows: one odd file among thousands must not end a run.

        Raises:
            ConfigError: they do not fit.
        """

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        """A file of more than `split_size` in pieces that `read` can start in; whole where it cannot be entered in the middle."""
        return (item,)

    def ranges(self, item: FileRange) -> tuple[FileRange, ...]:
        """A file in equal ranges of at most `split_size` bytes, cut without regard to what lies there."""
        n = -(-item.size // self.split_size)
        bounds = [item.size * i // n for i in range(n + 1)]
        return tuple(replace(item, start=a, end=b) for a, b in itertools.pairwise(bounds))

    def files(self) -> list[FileRange]:
        """Every input file once, by relative path.

        Raises:
            ConfigError: a path does not exist, a glob matches nothing, a list names what is not there, or two bases give one
                relative path.
        """
        by_path: dict[str, FileRange] = {}
        relative: dict[str, str] = {}
        folders: dict[str, str] = {}  # real paths of folders: of each file's own they would cost ten seconds in 100,000
        for path in self.paths:
            for item in self.listed(path):
                folder, name = os.path.split(item.path)
                if os.path.islink(item.path):
                    key = os.path.realpath(item.path)
                else:
                    if folder not in folders:
                        folders[folder] = os.path.realpath(folder)
                    key = f"{folders[folder]}/{name}"
                if key in by_path:
                    continue
                below = item.relative_path
                if (other := relative.get(below)) is not None:
                    raise ConfigError(
                        f"{item.path} and {other} would both be called {self.source_name}/{below} in document ids",
                        hint="give the folders to two inputs with different names (name: …)",
                    )
                relative[below] = item.path
                by_path[key] = item
        return sorted(by_path.values(), key=lambda f: f.relative_path)

    def listed(self, path: str) -> Iterator[FileRange]:
        """The files that one of `paths` names."""
        found = _listed(path[1:], self.base) if path.startswith("@") else _match(path)
        for info, below in found:
            yield FileRange(info.path, below, info.size, info.etag)


def _listed(where: str, base: str | None) -> Iterator[tuple[FileInfo, str]]:
    """Files that a list names, each with its line. What a list says leads nowhere but below its base."""
    try:
        data = storage_for(where).get(where)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as e:
        raise ConfigError(
            f"list file {where} does not exist", hint="check `paths`: @ stands in front of a list of files"
        ) from e
    try:
        text = (_gunzipped(where, data) if data.startswith(b"\x1f\x8b") else data).decode()
    except UnicodeDecodeError as e:
        raise ConfigError(f"list file {where} is not text", hint="it names one input file a line, plain or .gz") from e
    folder = os.path.dirname(where) if base is None else base
    for number, line in enumerate(text.splitlines(), 1):
        name = line.strip()
        if not name:
            continue
        if name.startswith("/") or ".." in name.split("/") or "\0" in name or "://" in name:
            raise ConfigError(
                f"{where}, line {number}: {name[:200]!r} is not a path below the base",
                hint="or name the file in `paths`",
            )
        path = os.path.join(folder, name)
        try:
            yield storage_for(path).stat(path), os.path.normpath(name)
        except (FileNotFoundError, NotADirectoryError) as e:
            raise ConfigError(
                f"{where}, line {number}: {path} does not exist", hint="base: the folder that the lines start from"
            ) from e


def _gunzipped(where: str, data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            text = stream.read(_LIST_BYTES + 1)
    except (EOFError, OSError, zlib.error) as e:
        raise ConfigError(f"list file {where} is damaged: {e}") from e
    if len(text) > _LIST_BYTES:
        raise ConfigError(f"list file {where} has more than {_LIST_BYTES} bytes")
    return text


def _match(pattern: str) -> Iterator[tuple[FileInfo, str]]:
    """Files that a pattern names, each with its path below the pattern's base (the part without wildcards)."""
    storage = storage_for(pattern)
    if not glob.has_magic(pattern) or os.path.lexists(pattern):  # `page [1].txt` is a file's name, too
        if os.path.isdir(pattern):
            found = list(storage.walk(pattern))
            if not found:
                raise ConfigError(
                    f"no files in input folder {pattern}", hint="check `paths`; relative ones start at " + os.getcwd()
                )
            for info in found:
                yield info, _below(info.path, pattern)
            return
        try:
            info = storage.stat(pattern)
        except (FileNotFoundError, NotADirectoryError) as e:
            raise ConfigError(
                f"input file {pattern} does not exist", hint="check `paths`; relative ones start at " + os.getcwd()
            ) from e
        yield info, os.path.basename(pattern)
        return
    base = _base(pattern)
    matched = [p for p in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(p)]
    if not matched:
        raise ConfigError(f"no file matches {pattern}", hint="check `paths`; relative ones start at " + os.getcwd())
    for path in matched:
        yield storage.stat(path), _below(path, base)


def _below(path: str, base: str) -> str:
    """The part of a path below a folder it was found in."""
    if base and path.startswith(base.rstrip("/") + "/"):
        return path[len(base.rstrip("/")) :].lstrip("/")
    return os.path.relpath(path, base or ".")


def _base(pattern: str) -> str:
    """The folder part in front of the first wildcard."""
    parts = pattern.split("/")
    fixed = []
    for part in parts[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return "/".join(fixed) or ("/" if pattern.startswith("/") else "")
