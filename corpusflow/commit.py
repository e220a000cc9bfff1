"""Commit records and seals: what is true of a run.

A dataset is one folder, named by a fingerprint::

    PLAN-<epoch>.json                              what it was made for; exclusive create
    data/<shard>/<part>-<attempt>.<ext>            attempt-unique names, never reused, never listed
    _commits/<shard>-<key>.<gen>.json              one small record per shard, written last, exclusive create
    _failures/<shard>-<attempt>.json               advice for people; never read for correctness
    _SEALED-<epoch>.json + manifest-<digest>.parquet   all records of an epoch

Promises: a reader that trusts records and seals sees the output of exactly one whole attempt per shard, whatever crashed,
was killed, ran twice or is still running somewhere. Nothing is deleted on failure, no decision uses a clock, no lock is
needed. A record or a seal is valid if its own checksum is; the highest valid generation of a record counts.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from corpusflow.errors import CorruptShardError, PlanDriftError, StageError, typed
from corpusflow.fingerprint import fingerprint
from corpusflow.record import PartFile, Record, content_digest
from corpusflow.storage import Storage, Upload, parquet_table, storage_for

_READERS = 16
_MAX_GENERATION = 99


class Attempt:
    """One try at one shard: files under names nobody else uses, then the record."""

    def __init__(self, dataset: Dataset, shard: int, key: str) -> None:
        self.dataset = dataset
        self.shard = shard
        self.key = key
        self.id = secrets.token_hex(8)
        self._parts: list[PartFile] = []
        self._count = 0
        self._started = time.time()

    def create(self, extension: str) -> tuple[str, Upload]:
        """(path relative to the dataset, the open file); hand both to `add` once the file is closed."""
        name = f"data/{self.shard:08d}/{self._count:03d}-{self.id}.{extension}"
        self._count += 1
        return name, self.dataset.storage.create(self.dataset.path(name))

    def add(self, label: str, path: str, upload: Upload, rows: int) -> None:
        """Name a finished file in the record to come."""
        self._parts.append(PartFile(label, path, upload.size, upload.digest(), rows, *upload.tail()))

    @property
    def parts(self) -> tuple[PartFile, ...]:
        """The files that the record to come names so far."""
        return tuple(self._parts)

    def carry(self, part: PartFile) -> None:
        """Name a file of an earlier record of the shard, which is as it was, in the record to come."""
        self._parts.append(part)

    def commit(
        self,
        counters: Mapping[str, Any],
        info: Mapping[str, Any] | None = None,
        libraries: Mapping[str, str] | None = None,
        advice: Mapping[str, Any] | None = None,
        generation: int = 0,
    ) -> Record:
        """Publish the record, or find that another attempt did.

        Returns:
            the record that counts: ours, or the other's.

        Raises:
            StageError: no generation is free (someone tears records on purpose).
        """
        record = Record(
            fp=self.dataset.fp,
            shard=self.shard,
            key=self.key,
            attempt=self.id,
            parts=tuple(self._parts),
            counters=counters,
            info=info or {},
            libraries=libraries or {},
            advice={
                **(advice or {}),
                "started": round(self._started, 3),
                "finished": round(time.time(), 3),
                "host": socket.gethostname(),
                "pid": os.getpid(),
            },
        )
        condemned = _condemned.get((self.dataset.root, self.shard))
        if condemned is not None:
            generation = condemned.generation + 1
            _refuse_other_content(self.dataset, condemned, record)
        data = record.encode()
        for gen in range(generation, _MAX_GENERATION):
            path = self.dataset.record_path(self.shard, self.key, gen)
            if self.dataset.storage.put_exclusive(path, data):
                return replace(record, generation=gen)
            # Taken: by another attempt, by ourselves (a lost reply made the storage layer try twice), or torn.
            other = Record.decode(self.dataset.storage.get(path), gen)
            if other is None:
                continue
            if other.attempt != self.id and not other.same_as(record):
                self.dataset.note_failure(self.shard, self.id, {"nondeterminism": True, "other": other.attempt})
            return other
        raise StageError(f"no free generation for shard {self.shard} in {self.dataset.root}")


#: (dataset folder, shard) -> the record whose files are damaged; see `condemn`.
_condemned: dict[tuple[str, int], Record] = {}


@contextmanager
def condemn(records: Mapping[tuple[str, int], Record]) -> Iterator[None]:
    """Treat records as absent in this process: what is committed meanwhile in their place is their next generation.

    For `verify --repair`. An attempt whose contents differ from the condemned record's is refused, since what was made
    from the old files would not fit the new ones.
    """
    _condemned.update(records)
    try:
        yield
    finally:
        for place in records:
            _condemned.pop(place, None)


def _refuse_other_content(dataset: Dataset, old: Record, new: Record) -> None:
    if old.same_as(new):
        return
    drift = [
        f"{k} {v} -> {new.libraries.get(k)}" for k, v in sorted(old.libraries.items()) if new.libraries.get(k) != v
    ]
    raise CorruptShardError(
        f"shard {old.shard} of {dataset.root}, made again, is not what its record says it was"
        + (f" (libraries: {', '.join(drift)})" if drift else ""),
        hint="install the library versions of the record, or start another run folder"
        if drift
        else "its input may have changed; start another run folder",
    )


class Dataset:
    """The committed shards of one stage (or of one phase of it).

    Args:
        root: its folder.
        fp: the full fingerprint it is named by.
    """

    def __init__(self, root: str, fp: str, storage: Storage | None = None) -> None:
        self.root = root
        self.fp = fp
        self.storage = storage or storage_for(root)

    def path(self, name: str) -> str:
        """Full path of a file of the dataset."""
        return f"{self.root}/{name}"

    def record_path(self, shard: int, key: str, generation: int) -> str:
        """Where the record of a shard lies."""
        return self.path(f"_commits/{shard:08d}-{key[:12]}.{generation:02d}.json")

    def record(self, shard: int, key: str) -> Record | None:
        """The record that counts for a shard, or None if there is none yet."""
        best = None
        for generation in range(_MAX_GENERATION):
            try:
                data = self.storage.get(self.record_path(shard, key, generation))
            except (FileNotFoundError, NotADirectoryError):
                break
            best = self._accept(Record.decode(data, generation), key) or best
        return best

    def records(self, keys: Mapping[int, str]) -> dict[int, Record]:
        """Records of all shards that have one: one listing, then one read each, 16 at a time."""
        wanted = {f"{shard:08d}-{key[:12]}": (shard, key) for shard, key in keys.items()}
        listed: list[tuple[str, int, int, str]] = []
        for info in self.storage.list(self.path("_commits")):
            name, _, generation = os.path.basename(info.path).removesuffix(".json").partition(".")
            if name in wanted and generation.isdigit():
                listed.append((info.path, int(generation), *wanted[name]))

        def read(one: tuple[str, int, int, str]) -> Record | None:
            path, generation, _, key = one
            return self._accept(Record.decode(self.storage.get(path), generation), key)

        found: dict[int, Record] = {}
        if len(listed) < _READERS:
            records: Iterable[Record | None] = map(read, listed)
        else:
            with ThreadPoolExecutor(_READERS) as pool:
                records = list(pool.map(read, listed))
        for record in records:
            if record is not None and (record.shard not in found or record.generation > found[record.shard].generation):
                found[record.shard] = record
        return found

    def sealed_records(self, epoch: int) -> dict[int, Record] | None:
        """All records of a sealed epoch, from its manifest: one read however many shards. None while it is not sealed."""
        seal = self.seal_of(epoch)
        if seal is None:
            return None
        try:
            data = self.storage.get(self.path(seal["manifest"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            table = parquet_table(data)
            rows = zip(table.column("record").to_pylist(), table.column("generation").to_pylist(), strict=True)
            read = [
                None if generation is None else Record.decode(text.encode(), generation) for text, generation in rows
            ]
            if len(read) != seal["shards"] or None in read:
                raise ValueError("a record is missing or damaged")
        except (OSError, pa.ArrowException, ValueError, KeyError, AttributeError) as e:
            # of bytes that are not those written
            raise CorruptShardError(
                f"{self.path(seal['manifest'])} cannot be read: {str(e) or type(e).__name__}",
                hint=f"{typed('verify', run_of(self.root), '--repair')}  writes it again",
            ) from e
        return {r.shard: r for r in read if r is not None and not self._is_condemned(r)}

    def _accept(self, record: Record | None, key: str) -> Record | None:
        if record is None or record.fp != self.fp or record.key != key or self._is_condemned(record):
            return None
        return record

    def _is_condemned(self, record: Record) -> bool:
        old = _condemned.get((self.root, record.shard)) if _condemned else None
        return old is not None and record.generation <= old.generation

    def attempt(self, shard: int, key: str) -> Attempt:
        """Start a try at a shard."""
        return Attempt(self, shard, key)

    def note_failure(self, shard: int, attempt: str, what: Mapping[str, Any]) -> None:
        """Leave advice for people."""
        data = json.dumps({"at": round(time.time(), 3), **what}, ensure_ascii=False).encode()
        self.storage.put_exclusive(self.path(f"_failures/{shard:08d}-{attempt}.json"), data)

    def failures(self) -> list[dict[str, Any]]:
        """All advice noted so far, oldest name first."""
        out = []
        for info in self.storage.list(self.path("_failures")):
            entry = json.loads(self.storage.get(info.path))
            entry["shard"] = int(os.path.basename(info.path).partition("-")[0])
            out.append(entry)
        return out

    def plan(self, epoch: int, content: Mapping[str, Any], *, allow_drift: bool = False) -> None:
        """Pin what the dataset is made for, libraries included.

        Raises:
            PlanDriftError: it was begun under other versions of libraries that make its output.
        """
        for info in self.storage.list(self.root):  # of any epoch: their shards are the same dataset
            if not allow_drift and os.path.basename(info.path).startswith("PLAN-"):
                self._refuse_drift(self.storage.get(info.path), content)
        data = (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
        name = f"PLAN-{epoch:04d}.json"
        if not self._put(name, data, _readable_json) and not allow_drift:
            self._refuse_drift(self.storage.get(self.path(name)), content)

    @staticmethod
    def _refuse_drift(before: bytes, content: Mapping[str, Any]) -> None:
        if not _readable_json(before):
            return
        pinned, now = json.loads(before).get("libraries", {}), content.get("libraries", {})
        drifted = [
            f"{k} {pinned.get(k, 'absent')} -> {now.get(k, 'absent')}"
            for k in sorted({*pinned, *now})
            if pinned.get(k) != now.get(k)
        ]
        if drifted:
            raise PlanDriftError(
                f"{content.get('stage')} was begun under other library versions ({', '.join(drifted)}); "
                "its output may differ from shard to shard",
                hint=f"install {', '.join(f'{k}=={v}' for k, v in sorted(pinned.items()))}, "
                "or accept it with --allow-version-drift, or start another run folder",
            )

    def seal(self, epoch: int, records: Sequence[Record]) -> str:
        """Fix the records of an epoch; returns their digest. Doing it twice is harmless."""
        ordered = sorted(records, key=lambda r: r.shard)
        digest = content_digest(ordered)
        manifest, data = _manifest_name(digest), _manifest_bytes(ordered)
        # one that lies there may be torn, or name attempts of before a repair: of a seal that was lost
        self._put(manifest, data, lambda there: there == data)
        self._put(
            f"_SEALED-{epoch:04d}.json", _seal_bytes(digest, len(ordered)), lambda there: _seal(there) is not None
        )
        return digest

    def _put(self, name: str, data: bytes, readable: Callable[[bytes], bool]) -> bool:
        """put_exclusive, or in place of what a crash left torn (where the filesystem has no hard links)."""
        if self.storage.put_exclusive(self.path(name), data):
            return True
        if not readable(self.storage.get(self.path(name))):
            self.storage.replace(self.path(name), data)
            return True
        return False

    def sealed(self, epoch: int) -> str | None:
        """The digest of a sealed epoch."""
        seal = self.seal_of(epoch)
        return None if seal is None else str(seal["digest"])

    def seals(self) -> list[int]:
        """The epochs that are sealed."""
        names = [os.path.basename(i.path) for i in self.storage.list(self.root)]
        return [int(n[8:-5]) for n in names if n.startswith("_SEALED-") and n.endswith(".json")]

    def seal_of(self, epoch: int) -> Mapping[str, Any] | None:
        """The seal of an epoch: `digest`, `manifest`, `shards` (how many)."""
        try:
            return _seal(self.storage.get(self.path(f"_SEALED-{epoch:04d}.json")))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_manifest_again(self, epoch: int, records: Sequence[Record]) -> None:
        """Put the manifest of a sealed epoch in place anew, from records of the same contents (after a repair).

        Raises:
            CorruptShardError: the contents are not those that were sealed.
        """
        seal = self.seal_of(epoch)
        ordered = sorted(records, key=lambda r: r.shard)
        if seal is None or content_digest(ordered) != seal["digest"]:
            raise CorruptShardError(
                f"the records of {self.root} do not have the contents that were sealed",
                hint="start another run folder, or delete this dataset's folder and run again",
            )
        self.storage.replace(self.path(seal["manifest"]), _manifest_bytes(ordered))

    def seal_again(self, changed: Mapping[tuple[int, str], Record]) -> list[str]:
        """Let every seal name other records of some shards, by (shard, key), whatever their contents (after a takedown).

        Returns:
            the names of manifests that no seal names any more; the caller deletes them.
        """
        named: set[str] = set()
        for epoch in self.seals():
            name = f"_SEALED-{epoch:04d}.json"
            before = self.sealed_records(epoch) or {}
            after = [changed.get((r.shard, r.key), r) for r in before.values()]
            seal = self.seal_of(epoch)
            if seal is not None and any(r.attempt != before[r.shard].attempt for r in after):
                ordered = sorted(after, key=lambda r: r.shard)
                digest = content_digest(ordered)
                manifest = _manifest_name(digest)
                self.storage.replace(self.path(manifest), _manifest_bytes(ordered))
                self.storage.replace(self.path(name), _seal_bytes(digest, len(ordered)))
                seal = {"manifest": manifest}
            named.add(str((seal or {}).get("manifest")))
        listed = [os.path.basename(i.path) for i in self.storage.list(self.root)]
        return [n for n in listed if n.startswith("manifest-") and n not in named]

    def verify(self, record: Record, *, digests: bool = True) -> None:
        """Hold the files of a record against it.

        Raises:
            CorruptShardError: a file is missing, has another size, or (with `digests`) other bytes.
        """
        for part in record.parts:
            path = self.path(part.path)
            hint = f"{typed('verify', run_of(self.root), '--repair')}  makes this shard again"
            try:
                size = self.storage.stat(path).size
            except FileNotFoundError as e:
                raise CorruptShardError(f"{path} is named by a commit record but missing", hint=hint) from e
            if size != part.size:
                raise CorruptShardError(f"{path} has {size} bytes, its record says {part.size}", hint=hint)
            if digests and file_digest(self.storage, path) != part.digest:
                raise CorruptShardError(
                    f"{path} does not have the bytes its record names (xxh3 {part.digest})", hint=hint
                )


def _readable_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _manifest_name(digest: str) -> str:
    return f"manifest-{digest[:16]}.parquet"


def _seal_bytes(digest: str, shards: int) -> bytes:
    body = {"digest": digest, "manifest": _manifest_name(digest), "shards": shards}
    return json.dumps({**body, "self": fingerprint(body)}).encode()


def _seal(data: bytes) -> Mapping[str, Any] | None:
    """A seal; None where the bytes are torn or altered, so that it is made again. Older ones have no checksum."""
    try:
        body: dict[str, Any] = json.loads(data)
        claimed = body.pop("self", None)
        whole = body["manifest"] == _manifest_name(body["digest"]) and body["shards"] >= 0 and len(body) == 3
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return body if whole and claimed in (None, fingerprint(body)) else None


def _manifest_bytes(records: Sequence[Record]) -> bytes:
    table = pa.table(
        {
            "shard": pa.array([r.shard for r in records], pa.int32()),
            "key": pa.array([r.key for r in records], pa.string()),
            "generation": pa.array([r.generation for r in records], pa.int8()),
            "record": pa.array([r.encode().decode() for r in records], pa.string()),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def run_of(root: str) -> str:
    """The run folder a dataset lies in, for messages."""
    place = root
    while place and place != os.path.dirname(place):
        if os.path.isfile(os.path.join(place, "plan.json")):
            return place
        place = os.path.dirname(place)
    return os.path.dirname(root)


def file_digest(storage: Storage, path: str) -> str:
    """xxh3-128 of a file's bytes, in 32 hex digits."""
    import xxhash

    digest = xxhash.xxh3_128()
    with storage.open(path) as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    return str(digest.hexdigest())
