"""A commit record: which files one attempt of one shard made, and their digests. Its own checksum tells a whole one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from corpusflow.fingerprint import canonical_json, fingerprint

_VERSION = 1


@dataclass(frozen=True)
class PartFile:
    """A committed file. `path` is relative to the dataset; `digest` is xxh3-128 of its bytes.

    A Parquet file's pages carry checksums, its footer does not, and a flipped bit there loses rows without a word:
    `footer_digest` is xxh3-128 of the bytes from `footer` on, checked whenever the file is opened.
    """

    label: str
    path: str
    size: int
    digest: str
    rows: int
    footer: int = 0
    footer_digest: str = ""

    def as_list(self) -> list[Any]:
        """As it stands in a record."""
        return [self.label, self.path, self.size, self.digest, self.rows, self.footer, self.footer_digest]


@dataclass(frozen=True)
class Record:
    """What one attempt of one shard made. `advice` (times, host) is not part of its identity."""

    fp: str
    shard: int
    key: str
    attempt: str
    parts: tuple[PartFile, ...]
    counters: Mapping[str, Any]
    info: Mapping[str, Any] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    advice: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0

    def content(self) -> list[Any]:
        """What must be equal between runs: everything but attempt names and advice."""
        parts = [[p.label, p.size, p.digest, p.rows] for p in self.parts]
        return [self.shard, self.key, parts, self.counters, self.info]

    def same_as(self, other: Record) -> bool:
        """Whether the contents are equal, one of them fresh and the other read back (tuples come back as lists)."""
        return fingerprint(self.content()) == fingerprint(other.content())

    def encode(self) -> bytes:
        """JSON with its own SHA-256 in `self`."""
        body = {
            "v": _VERSION,
            "fp": self.fp,
            "shard": self.shard,
            "key": self.key,
            "attempt": self.attempt,
            "parts": [p.as_list() for p in self.parts],
            "counters": self.counters,
            "info": self.info,
            "libraries": self.libraries,
            "advice": self.advice,
        }
        body["self"] = hashlib.sha256(canonical_json(body).encode()).hexdigest()
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes, generation: int) -> Record | None:
        """None where the bytes are torn or altered."""
        try:
            body = json.loads(data)
            claimed = body.pop("self")
            if hashlib.sha256(canonical_json(body).encode()).hexdigest() != claimed:
                return None
            return Record(
                fp=body["fp"],
                shard=body["shard"],
                key=body["key"],
                attempt=body["attempt"],
                parts=tuple(PartFile(*p) for p in body["parts"]),
                counters=body["counters"],
                info=body["info"],
                libraries=body["libraries"],
                advice=body["advice"],
                generation=generation,
            )
        except (ValueError, KeyError, TypeError):
            return None

    def part(self, label: str) -> PartFile | None:
        """The file of that label, if the attempt wrote one."""
        return next((p for p in self.parts if p.label == label), None)


def content_digest(records: Iterable[Record]) -> str:
    """One digest over the contents of records, whoever made them and when: `fingerprint` of the list of them, made one by one,
    since the list of a million takes 1.4 GB."""
    digest = hashlib.sha256(b"[[")
    for i, record in enumerate(sorted(records, key=lambda r: r.shard)):
        digest.update((("," if i else "") + canonical_json(record.content())).encode(errors="surrogatepass"))
    digest.update(b"]]")
    return digest.hexdigest()
