"""What is to be taken down: files of ids, URLs and domains, and the records of a run that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.errors import ConfigError
from corpusflow.hosts import ascii_form, below, host
from corpusflow.storage import storage_for

#: Columns of a Source's index that a request is held against.
KEYS: Final = ("id", "record_id", "url")


@dataclass(frozen=True)
class Request:
    """What to take down.

    Attributes:
        ids: document ids, or record ids (what the data calls itself).
        urls: exactly as the run has them.
        domains: hosts; each stands for everything below it, too.
    """

    ids: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.ids) + len(self.urls) + len(self.domains)

    def rows(self, table: pa.Table) -> np.ndarray:
        """Rows of a table of KEYS that the request names, ascending int32."""
        ids, urls = pa.array(sorted(self.ids), pa.string()), pa.array(sorted(self.urls), pa.string())
        column = table.column("url")
        hit = pc.or_(
            pc.or_(pc.is_in(table.column("id"), value_set=ids), pc.is_in(table.column("record_id"), value_set=ids)),
            pc.is_in(column, value_set=urls),
        ).to_numpy()
        if self.domains:
            different = column.unique()
            named = [u for u in different.to_pylist() if u is not None and below(host(u), self.domains)]
            hit = hit | pc.is_in(column, value_set=pa.array(named, pa.string())).to_numpy()
        return np.flatnonzero(hit).astype(np.int32)


def read_request(ids: Iterable[str] = (), urls: Iterable[str] = (), domains: Iterable[str] = ()) -> Request:
    """A request from files of one entry per line; empty lines do not count.

    Args:
        ids, urls, domains: paths of UTF-8 files.

    Raises:
        ConfigError: a file is missing or no text, an entry is no domain, or there is no entry at all.
    """
    request = Request(
        frozenset(e for path in ids for e in _entries(path)),
        frozenset(e for path in urls for e in _entries(path)),
        frozenset(_domain(e, path) for path in domains for e in _entries(path)),
    )
    if not request:
        raise ConfigError("there is nothing to take down", hint="--ids FILE, --urls FILE or --domains FILE, one a line")
    return request


def _entries(path: str) -> list[str]:
    try:
        text = storage_for(path).get(path).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as e:
        raise ConfigError(f"{path} is not a file") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path} is not UTF-8: {e.reason} at byte {e.start}") from e
    return [line for raw in text.splitlines() if (line := raw.strip())]


def _domain(entry: str, path: str) -> str:
    name = entry.lower().rstrip(".")
    if "/" in name or ":" in name or " " in name or "." not in name:
        raise ConfigError(f"{path}: {entry!r} is no domain", hint="example.org, without scheme, port and path")
    return ascii_form(name)


@dataclass
class Found:
    """The records that a request names.

    Attributes:
        rows: (folder of a Source's dataset in the run, shard) -> rows of its index, ascending int32.
        names: ids, record ids and URLs of these records, as evidence may cite them.
        unknown: entries of the request that name nothing.
    """

    rows: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records there are."""
        return sum(map(len, self.rows.values()))

    def as_data(self) -> dict[str, object]:
        """JSON form, for the journal of a takedown that is under way."""
        rows = [[folder, shard, rows.tolist()] for (folder, shard), rows in sorted(self.rows.items())]
        return {"rows": rows, "names": sorted(self.names), "unknown": self.unknown}

    @staticmethod
    def from_data(data: Mapping[str, object]) -> Found:
        """Inverse of `as_data`."""
        rows: list[tuple[str, int, list[int]]] = data["rows"]  # type: ignore[assignment]
        names: list[str] = data["names"]  # type: ignore[assignment]
        unknown: list[str] = data["unknown"]  # type: ignore[assignment]
        return Found({(f, s): np.array(r, np.int32) for f, s, r in rows}, set(names), unknown)


def note_found(found: Found, request: Request, place: tuple[str, int], table: pa.Table) -> None:
    """Add what the request names in one Source's index (a table of KEYS)."""
    rows = request.rows(table)
    if not len(rows):
        return
    found.rows[place] = rows
    for row in table.take(pa.array(rows)).to_pylist():
        found.names.update(v for k in KEYS if (v := row[k]) is not None)


def unknown_entries(request: Request, names: set[str]) -> list[str]:
    """Entries that name no record."""
    hosts = {host(n) for n in names if "://" in n}
    seen = {d for name in hosts for d in request.domains if below(name, frozenset({d}))}
    return sorted((request.ids | request.urls) - names) + sorted(request.domains - seen)
