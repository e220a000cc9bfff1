"""What could not be processed: every quarantined record of a run, with where its bytes lie.

Reads Sources' indexes and the quarantine parts of commit records. Promises one entry per quarantined document, by stage in
plan order, then shard, then row. A document that was replayed (replay.py) counts as its last replay left it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from corpusflow.api import Run
from corpusflow.checkpoint import read_part
from corpusflow.errors import ConfigError, typed
from corpusflow.plan import Node, Shard
from corpusflow.reader import ROWS, ShardReader
from corpusflow.schema import ID
from corpusflow.storage import storage_for

_MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Entry:
    """One record: `path`, `offset` and `length` say where its bytes lie, as stored; `detail` is the exception."""

    id: str
    url: str | None
    path: str
    offset: int
    length: int | None
    stage: str
    reason: str
    detail: str

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


@dataclass(frozen=True)
class Waiting:
    """A document in quarantine: the shard it was last tried in, and the part of the stage that could not process it."""

    entry: Entry
    shard: Shard
    node: Node


def quarantined(run: Run, stage: str | None = None, reason: str | None = None) -> Iterator[Entry]:
    """The entries, of one stage and reason if given.

    Raises:
        ConfigError: the run has no such stage.
    """
    return (w.entry for w in waiting(run, stage) if reason in (None, w.entry.reason))


def waiting(run: Run, stage: str | None = None) -> Iterator[Waiting]:
    """What is in quarantine, of one stage if given, with what a replay has to know.

    Raises:
        ConfigError: the run has no such stage.
    """
    last = last_tried(run)
    for name in [stage] if stage is not None else run.stages:
        view = run.stage(name)
        for shard in run.plan.shards:
            for node, table in view.shard_quarantined(shard):
                for row in table.to_pylist():
                    if last.get(row["id"], shard.number) == shard.number:
                        yield Waiting(Entry(**{k: row[k] for k in Entry.__dataclass_fields__}), shard, node)


def last_tried(run: Run) -> dict[str, int]:
    """Id -> number of the last replay that found it in the input."""
    last: dict[str, int] = {}
    for shard in sorted((s for s in run.plan.shards if s.only), key=lambda s: s.number):
        reader = ShardReader(run.plan, shard)
        record = reader.record(reader.source_node())
        part = record.part(ROWS) if record is not None else None
        if part is not None:
            ids = read_part(reader.dataset(reader.source_node()), part, [ID]).column(ID).to_pylist()
            last |= dict.fromkeys(ids, shard.number)
    return last


def find_entry(run: Run, key: str) -> list[Entry]:
    """Entries of a document, by id or URL (a document can fail in one stage only, but a URL can occur twice).

    Raises:
        ConfigError: no such document in quarantine.
    """
    found = [e for e in quarantined(run) if key in (e.id, e.url)]
    if not found:
        raise ConfigError(
            f"{key!r} is not in quarantine", hint=f"{typed('quarantine', 'list', run.plan.run_dir)}  shows what is"
        )
    return found


def stored_bytes(entry: Entry) -> bytes:
    """The record's bytes as they lie in the input (compressed, where the file is).

    Raises:
        ConfigError: the entry's place is a row number, or larger than 64 MiB, or the file is gone.
    """
    if entry.length is None:
        raise ConfigError(
            f"{entry.id} has no byte range: {entry.path} is addressed by row {entry.offset}",
            hint="open the file with a reader of its format",
        )
    if entry.length > _MOST_BYTES:
        raise ConfigError(
            f"{entry.id} is {entry.length} bytes; at most {_MOST_BYTES} are shown",
            hint=f"cut them out with: tail -c +{entry.offset + 1} {entry.path} | head -c {entry.length}",
        )
    try:
        return storage_for(entry.path).get_range(entry.path, entry.offset, entry.offset + entry.length)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise ConfigError(f"{entry.path}, which held {entry.id}, is gone") from e
