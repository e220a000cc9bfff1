"""The dedup index: what a run kept, in the form later runs compare with.

A folder of run files and ``index.json``, written by the Sink `dedup.index` and never changed again. It may extend other indexes:
a crawl's index names the ones it was deduplicated against, so the latest folder stands for all. Old documents always win.

    index.json            format, name, version, documents, settings of each key, `extends`, files with sizes and digests
    exact-00000.bin       128-bit text hashes (words) and ids, by hash
    url-00000.bin         the same of addresses
    bands-00000.bin       a segment per band: band key, number of the document
    signatures-00000.bin  number of the document, its minima (words) and ids, in blocks of BLOCK documents
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from corpusflow import ConfigError, CorruptShardError, Part, PlanDriftError, storage_for
from stages.dedup._runs import Run

FORMAT: Final = "corpusflow.dedup-index"
#: Documents of a block of signatures: what one lookup reads.
BLOCK: Final = 1024
#: Numbers of indexed documents: the file in the upper half of 63 bits, the position in it below.
INDEXED: Final = np.uint64(1 << 63)


@dataclass(frozen=True)
class IndexFile:
    """One file of an index."""

    kind: str
    path: str
    size: int
    rows: int
    digest: str
    bits: int


@dataclass(frozen=True)
class DedupIndex:
    """An index with all it extends.

    Args:
        path: its folder.
        info: `index.json`.
        digest: of `index.json`, which names the digests of everything else.
        files: of this index and of those it extends, the oldest first; their order numbers the documents.
    """

    path: str
    info: Mapping[str, Any]
    digest: str
    files: tuple[IndexFile, ...]

    def of(self, kind: str) -> tuple[IndexFile, ...]:
        """Files of one kind."""
        return tuple(f for f in self.files if f.kind == kind)


def load_index(path: str) -> DedupIndex:
    """Open an index.

    Raises:
        ConfigError: there is none, or it is of another format.
    """
    return _load(path, ())


def _load(path: str, seen: tuple[str, ...]) -> DedupIndex:
    path = path.rstrip("/")
    if path in seen:
        raise ConfigError(f"dedup index {path} extends itself")
    try:
        raw = storage_for(path).get(f"{path}/index.json")
    except (FileNotFoundError, NotADirectoryError) as e:
        raise ConfigError(
            f"no dedup index in {path}", hint="give the folder that `dedup.index` wrote: <run>/exports/index"
        ) from e
    info = json.loads(raw)
    if info.get("format") != FORMAT or info.get("format_version") != 1:
        raise ConfigError(f"{path}/index.json is not a dedup index of this version")
    files: list[IndexFile] = []
    for older in info["extends"]:
        known = _load(older["path"], (*seen, path))
        if known.digest != older["digest"]:
            raise PlanDriftError(f"{older['path']} is not the dedup index that {path} extends: its contents differ")
        files.extend(f for f in known.files if f not in files)
    files.extend(
        IndexFile(f["kind"], f"{path}/{f['name']}", f["size"], f["rows"], f["digest"], f["bits"]) for f in info["files"]
    )
    return DedupIndex(path, info, xxhash.xxh3_128_hexdigest(raw), tuple(files))


def check_against(stage: str, paths: Sequence[str], key: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Digests of the indexes a stage compares with.

    Raises:
        ConfigError: one lacks the key, or made it with other settings.
    """
    digests = []
    for path in paths:
        index = load_index(path)
        theirs = index.info["settings"].get(key)
        if theirs is None:
            raise ConfigError(
                f"{stage}.against: {path} holds no {key} keys", hint="its run must have had that dedup stage"
            )
        if different := [k for k, v in settings.items() if theirs.get(k) != v]:
            told = ", ".join(f"{k} {theirs.get(k)!r} instead of {settings[k]!r}" for k in different)
            raise ConfigError(f"{stage}.against: {path} was made with {told}", hint="use the settings of the index")
        digests.append(index.digest)
    return tuple(digests)


def open_indexes(paths: Sequence[str], digests: Sequence[str]) -> list[DedupIndex]:
    """The indexes that the plan was made with.

    Raises:
        PlanDriftError: one has changed since.
    """
    indexes = [load_index(p) for p in paths]
    for index, digest in zip(indexes, digests, strict=True):
        if index.digest != digest:
            raise PlanDriftError(f"dedup index {index.path} has changed since the run was planned")
    return indexes


def files_of(indexes: Sequence[DedupIndex], kind: str) -> list[IndexFile]:
    """Files of one kind in all indexes, each once; their positions number them."""
    return list(dict.fromkeys(f for index in indexes for f in index.of(kind)))


class _Opener:
    """Opens index files for `Run`."""

    def open(self, part: Part) -> IO[bytes]:
        return storage_for(part.path).open(part.path)


class IndexRun(Run):
    """A run file of an index."""

    def __init__(self, file: IndexFile) -> None:
        super().__init__(_Opener(), Part(0, file.kind, file.path, file.size, file.rows, file.digest))
        self.bits = file.bits

    def within(self, segment: int, lo: int, hi: int, bits: int) -> np.ndarray:
        """Records whose key is in buckets [lo, hi) of `bits` bits, however this file is cut."""
        return self._within(segment, lo, hi, bits)[0]

    def within_columns(self, segment: int, lo: int, hi: int, bits: int) -> pa.Table | None:
        """Their columns."""
        _, chosen, own_lo, own_hi = self._within(segment, lo, hi, bits)
        table = self.columns(segment, own_lo, own_hi)
        return None if table is None else table.take(pa.array(chosen))

    def _within(self, segment: int, lo: int, hi: int, bits: int) -> tuple[np.ndarray, np.ndarray, int, int]:
        first, last = lo << (64 - bits), (hi << (64 - bits)) - 1
        own_lo, own_hi = first >> (64 - self.bits), (last >> (64 - self.bits)) + 1
        records = self.records(segment, own_lo, own_hi)
        chosen = np.flatnonzero((records[:, 0] >= np.uint64(first)) & (records[:, 0] <= np.uint64(last)))
        return records[chosen], chosen, own_lo, own_hi


class IndexKeys:
    """Keys of an index as records of a run that win every election: rank 0, numbers from INDEXED on."""

    def __init__(self, file: IndexFile, bits: int, words: int) -> None:
        self._run = IndexRun(file)
        self._bits = bits
        self._words = words

    def __enter__(self) -> IndexKeys:
        return self

    def __exit__(self, *_: object) -> None:
        self._run.__exit__()

    def records(self, segment: int, lo: int, hi: int) -> np.ndarray:
        """As `Run.records`."""
        keys = self._run.within(segment, lo, hi, self._bits)
        out = np.zeros((len(keys), self._words), np.uint64)
        out[:, :2] = keys
        out[:, -1] = INDEXED + np.arange(len(keys), dtype=np.uint64)
        return out

    def columns(self, segment: int, lo: int, hi: int) -> pa.Table | None:
        """As `Run.columns`."""
        return self._run.within_columns(segment, lo, hi, self._bits)


def verify_index(path: str) -> list[str]:
    """Read every file of an index, and of those it extends, and hold it against its digest: what is wrong with them."""
    wrong = []
    for file in load_index(path).files:
        storage = storage_for(file.path)
        digest = xxhash.xxh3_128()
        size = 0
        try:
            with storage.open(file.path) as stream:
                while data := stream.read(1 << 20):
                    digest.update(data)
                    size += len(data)
        except FileNotFoundError:
            wrong.append(f"{file.path} is missing")
            continue
        if size != file.size or (file.digest and digest.hexdigest() != file.digest):
            wrong.append(f"{file.path}: contents do not match index.json")
            continue
        try:
            with IndexRun(file):
                pass
        except CorruptShardError as e:
            wrong.append(str(e))
    return wrong
