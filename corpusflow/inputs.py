"""Files in, splits out: what every Source over files shares.

Reads globs and list files; promises that a path matched twice is read once, that the order depends on names alone, and
that small files are grouped so that a million of them does not make a million tasks.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from corpusflow.errors import ConfigError
from corpusflow.stage import MB, FileRange, Source, Split, param
from corpusflow.storage import FileInfo, storage_for

#: Most files in one group, so that a million empty files still make tasks of seconds.
_GROUP_FILES: Final = 4_096


@dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """A Source whose input is files."""

    paths: tuple[str, ...] = param(doc="Files, folders or globs (`**` crosses folders).", semantic=False)
    name: str | None = param(None, doc="What `source` and ids say; the format's name if not given.")
    group_bytes: int = param(
        8 * MB,
        semantic=False,
        doc="Files smaller than this share a shard with their neighbours, up to this many bytes.",
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
        for item in self.files():
            if item.size >= self.group_bytes:
                pieces = self.cut(item)
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

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        """A large file in pieces that `read` can start in; formats that cannot be entered in the middle return it whole."""
        return (item,)

    def files(self) -> list[FileRange]:
        """Every input file once, by relative path.

        Raises:
            ConfigError: a path does not exist, a glob matches nothing, or two bases give one relative path.
        """
        by_path: dict[str, FileRange] = {}
        relative: dict[str, str] = {}
        for pattern in self.paths:
            for info, below in _match(pattern):
                key = os.path.realpath(info.path)
                if key in by_path:
                    continue
                if (other := relative.get(below)) is not None:
                    raise ConfigError(
                        f"{info.path} and {other} would both be called {self.source_name}/{below} in document ids",
                        hint="give the folders to two inputs with different names (name: …)",
                    )
                relative[below] = info.path
                by_path[key] = FileRange(info.path, below, info.size, info.etag)
        return sorted(by_path.values(), key=lambda f: f.relative_path)


def _match(pattern: str) -> Iterator[tuple[FileInfo, str]]:
    """Files that a pattern names, each with its path below the pattern's base (the part without wildcards)."""
    storage = storage_for(pattern)
    if not glob.has_magic(pattern):
        if os.path.isdir(pattern):
            found = list(storage.walk(pattern))
            if not found:
                raise ConfigError(
                    f"no files in input folder {pattern}", hint="check `paths`; relative ones start at " + os.getcwd()
                )
            for info in found:
                yield info, os.path.relpath(info.path, pattern)
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
        yield storage.stat(path), os.path.relpath(path, base or ".")


def _base(pattern: str) -> str:
    """The folder part in front of the first wildcard."""
    parts = pattern.split("/")
    fixed = []
    for part in parts[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return "/".join(fixed) or ("/" if pattern.startswith("/") else "")
