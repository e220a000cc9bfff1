"""The token files of an export as one long array: `export.megatron` and `export.bin` folders, by their manifest.

Reads manifest.json, the .bin files (memory-mapped) and the document indexes. Promises that a file which is not of the size
its manifest says, or is replaced while it is read, is refused, and that a token's document can be told.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from corpusflow.errors import ConfigError, CorruptShardError
from corpusflow.storage import FileInfo, local_path, read_json, storage_for

_FORMATS: Final = ("megatron", "bin")
#: Files a process has mapped at once: each map holds a file descriptor, of which there are 1,024 by default, and 15 T tokens lie
#: in 112,000 files. Mapping one again takes 40 µs.
_MAPPED: Final = 256


@dataclass(frozen=True)
class Span:
    """Tokens [start, start + length) of the split are the document `id`; its tokens lie in `file`."""

    id: str
    start: int
    length: int
    file: str


class TokenFiles:
    """One split of an export.

    Args:
        folder: of the export: `runs/web/exports/megatron`.
        split: "train" or "validation".

    Raises:
        ConfigError: no manifest, another format, or no such split.
        CorruptShardError: a file is missing or not of the recorded size.
    """

    def __init__(self, folder: str, split: str = "train") -> None:
        self.folder = local_path(folder)
        self.split = split
        self.manifest: Mapping[str, Any] = _manifest(self.folder)
        files = [f for f in self.manifest["files"] if f["split"] == split]
        if not files:
            raise ConfigError(
                f"{folder} has no split {split!r}", hint=f"it has {', '.join(self.manifest['splits']) or 'no tokens'}"
            )
        self.dtype = np.dtype(self.manifest["dtype"]).newbyteorder("<")
        self._names: list[Mapping[str, Any]] = files
        self._files = [self._look(f) for f in files]
        #: int64 (files + 1,): first token of each file, then the number of tokens.
        self.starts = np.concatenate([[0], np.cumsum([f["tokens"] for f in files])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getstate__(self) -> tuple[Any, ...]:
        return self.folder, self.split  # maps cannot be pickled; a worker opens its own

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @property
    def tokenizer(self) -> Mapping[str, Any]:
        """What the run noted of its tokenizer: ids of begin and end tokens, SHA-256."""
        facts: Mapping[str, Any] = self.manifest["tokenizer"]
        return facts

    def read(self, start: int, length: int) -> np.ndarray:
        """Tokens [start, start + length) of the split, across files: of the files' dtype, a view where it can be.

        Raises:
            IndexError: outside of the split.
        """
        if start < 0 or length < 0 or start + length > len(self):
            raise IndexError(f"tokens {start} to {start + length} of {len(self)}")
        return self._read(start, length)

    def _read(self, start: int, length: int) -> np.ndarray:
        """Tokens of the export's split, whatever part of it this is."""
        pieces = []
        file = int(np.searchsorted(self.starts, start, "right")) - 1
        while length > 0:
            at = start - int(self.starts[file])
            piece = _mapped(self._files[file], self.dtype)[at : at + length]
            pieces.append(piece)
            start += len(piece)
            length -= len(piece)
            file += 1
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [np.zeros(0, self.dtype)])

    @cached_property
    def document_starts(self) -> np.ndarray:
        """int64 (documents + 1,): first token of each document, then the number of tokens."""
        return self._borders_of_all()

    def _borders_of_all(self) -> np.ndarray:
        """`document_starts` of the export's split, whatever part of it this is."""
        parts = [self._index(i, ["offset"]).column("offset").to_numpy() + s for i, s in enumerate(self.starts[:-1])]
        return np.concatenate([*parts, self.starts[-1:]])

    def document_ids(self) -> Iterator[Any]:
        """Ids of the split's documents, a string array per file."""
        for i in range(len(self._names)):
            yield self._index(i, ["id"]).column("id").combine_chunks()

    def trace(self, token: int) -> Span:
        """The document that token number `token` of the split belongs to.

        Raises:
            IndexError: outside of the split.
        """
        if not 0 <= token < len(self):
            raise IndexError(f"token {token} of {len(self)}")
        return self._trace(token)

    def _trace(self, token: int) -> Span:
        """The document of a token of the export's split, whatever part of it this is."""
        file = int(np.searchsorted(self.starts, token, "right")) - 1
        index = self._index(file, ["id", "offset", "length"])
        offsets = index.column("offset").to_numpy()
        row = int(np.searchsorted(offsets, token - int(self.starts[file]), "right")) - 1
        return Span(
            id=index.column("id")[row].as_py(),
            start=int(self.starts[file] + offsets[row]),
            length=index.column("length")[row].as_py(),
            file=self._names[file]["parts"]["bin"]["name"],
        )

    def _index(self, file: int, columns: list[str]) -> Any:
        name = self._names[file]["parts"]["documents.parquet"]["name"]
        path = os.path.join(self.folder, name)
        with storage_for(path).open(path) as stream:
            return pq.read_table(stream, columns=columns, page_checksum_verification=True)

    def _look(self, file: Mapping[str, Any]) -> FileInfo:
        part = file["parts"]["bin"]
        path = os.path.join(self.folder, part["name"])
        expected = file["tokens"] * self.dtype.itemsize
        try:
            found = storage_for(path).stat(path)
        except FileNotFoundError as e:
            raise CorruptShardError(f"{path} is missing", hint="corpusflow verify RUN") from e
        if found.size != expected or found.size != part["bytes"]:
            raise CorruptShardError(
                f"{path} has {found.size} bytes, {expected} expected for {file['tokens']} tokens",
                hint="corpusflow verify RUN",
            )
        return found


@lru_cache(maxsize=_MAPPED)
def _mapped(file: FileInfo, dtype: np.dtype[Any]) -> np.ndarray:
    """All tokens of a file, read from the disk as they are looked at.

    Raises:
        CorruptShardError: it is not the file any more that was found when the export was opened.
    """
    try:
        with storage_for(file.path).open(file.path) as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if file.size else b""
        now = storage_for(file.path).stat(file.path)
    except (FileNotFoundError, ValueError) as e:  # ValueError: it is empty now
        raise CorruptShardError(f"{file.path} is missing", hint="its export was made anew: open it again") from e
    if now.etag != file.etag:
        raise CorruptShardError(f"{file.path} was replaced", hint="its export was made anew: open it again")
    return np.frombuffer(mapped, dtype)


def _manifest(folder: str) -> Mapping[str, Any]:
    path = os.path.join(folder, "manifest.json")
    try:
        manifest: Mapping[str, Any] = read_json(path, hint="corpusflow run  with the run's config writes it again")
    except (FileNotFoundError, NotADirectoryError) as e:
        raise ConfigError(
            f"{folder} is not an export: it has no manifest.json", hint="give a folder below RUN/exports/"
        ) from e
    if manifest.get("format") not in _FORMATS:
        raise ConfigError(
            f"{folder} holds {manifest.get('format')}, not token files",
            hint=f"one of export.{', export.'.join(_FORMATS)}",
        )
    return manifest
