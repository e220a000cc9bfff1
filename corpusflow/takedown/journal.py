"""The books of takedowns in a run folder: one that is under way, those that are done, and what is refused ever since.

    takedowns/0001.begun.json    while it is under way: which rows of which shards, and the names evidence may cite
    takedowns/0001.json          afterwards: what was rewritten. No id or URL in clear: hashes, against which whatever is
                                 read from the input again is held, so that the folder never brings a document back

A takedown that was killed is found by the first file and goes on where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from corpusflow.errors import StageError
from corpusflow.hosts import host
from corpusflow.storage import storage_for
from corpusflow.takedown.request import Found, Request

FOLDER: Final = "takedowns"
_BEGUN: Final = ".begun.json"


@dataclass(frozen=True)
class Begun:
    """A takedown under way."""

    number: int
    found: Found
    refused: Mapping[str, list[str]]
    request: Mapping[str, int]

    def covers(self, request: Request) -> bool:
        """Whether it takes down everything that a request asks for."""
        asked = {"ids": request.ids, "urls": request.urls, "domains": request.domains}
        return all({digest(n) for n in names} <= set(self.refused[key]) for key, names in asked.items())


def begun(run_dir: str) -> Begun | None:
    """The takedown that was begun and has not ended, if there is one."""
    for name in _names(run_dir):
        if name.endswith(_BEGUN):
            data = json.loads(storage_for(run_dir).get(f"{run_dir}/{FOLDER}/{name}"))
            return Begun(int(name[:4]), Found.from_data(data["found"]), data["refused"], data["request"])
    return None


def begin(run_dir: str, request: Request, found: Found) -> Begun:
    """Write down what will be done, before anything is.

    Raises:
        StageError: another one is under way.
    """
    number = 1 + max((int(n[:4]) for n in _names(run_dir)), default=0)
    refused = {
        "ids": sorted({digest(n) for n in (request.ids | found.names)}),
        "urls": sorted(map(digest, request.urls)),
        "domains": sorted(map(digest, request.domains)),
    }
    asked = {"ids": len(request.ids), "urls": len(request.urls), "domains": len(request.domains)}
    body = {"found": found.as_data(), "refused": refused, "request": asked}
    path = f"{run_dir}/{FOLDER}/{number:04d}{_BEGUN}"
    if not storage_for(run_dir).put_exclusive(path, json.dumps(body, ensure_ascii=False).encode()):
        raise StageError(f"{path} exists: another takedown of this run was just begun", hint="run the command again")
    _read.cache_clear()
    return Begun(number, found, refused, asked)


def end(run_dir: str, which: Begun, outcome: Mapping[str, Any]) -> str:
    """Write down what was done; returns the file. The names are gone from the folder after this."""
    storage = storage_for(run_dir)
    body = {
        "takedown": which.number,
        "request": which.request,
        "records": which.found.records,
        "unknown": len(which.found.unknown),
        **outcome,
        "refused": which.refused,
    }
    path = f"{run_dir}/{FOLDER}/{which.number:04d}.json"
    storage.replace(path, (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode())
    storage.delete(f"{run_dir}/{FOLDER}/{which.number:04d}{_BEGUN}")
    _read.cache_clear()
    return path


def digest(name: str) -> str:
    """xxh3-128 of a name, in hex: enough to know it again."""
    return str(xxhash.xxh3_128_hexdigest(name.encode("utf-8", "surrogatepass")))


def _names(run_dir: str) -> list[str]:
    return sorted(os.path.basename(i.path) for i in storage_for(run_dir).list(f"{run_dir}/{FOLDER}"))


@dataclass(frozen=True)
class Refusals:
    """What must not be read from the input again."""

    ids: frozenset[str]
    urls: frozenset[str]
    domains: frozenset[str]

    def rows(self, batch: pa.RecordBatch) -> np.ndarray:
        """Bool array: records of a Source's batch that were taken down."""
        hit = np.zeros(batch.num_rows, np.bool_)
        for column in ("id", "record_id"):
            hit |= _known(batch.column(column), self.ids)
        urls = batch.column("url")
        hit |= _known(urls, self.urls)
        if self.domains:
            hit |= np.fromiter((u is not None and self._domain(host(u)) for u in urls.to_pylist()), np.bool_, len(hit))
        return hit

    def _domain(self, name: str) -> bool:
        while name:
            if digest(name) in self.domains:
                return True
            name = name.partition(".")[2]
        return False


def _known(column: pa.Array, digests: frozenset[str]) -> np.ndarray:
    if not digests:
        return np.zeros(len(column), np.bool_)
    named = [v for v in pc.unique(column).to_pylist() if v is not None and digest(v) in digests]
    out: np.ndarray = pc.is_in(column, value_set=pa.array(named, pa.string())).to_numpy(zero_copy_only=False)
    return out


def refusals(run_dir: str) -> Refusals | None:
    """What takedowns of this folder refuse; None where there was none."""
    names = tuple(_names(run_dir))
    return _read(run_dir, names) if names else None


@lru_cache(maxsize=8)
def _read(run_dir: str, names: tuple[str, ...]) -> Refusals:
    storage = storage_for(run_dir)
    every = [json.loads(storage.get(f"{run_dir}/{FOLDER}/{n}"))["refused"] for n in names]
    return Refusals(*(frozenset(v for one in every for v in one[key]) for key in ("ids", "urls", "domains")))
