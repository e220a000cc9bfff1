"""The input listing as shards: what was listed before keeps its number, what is new comes after it.

Reads the input's folders; writes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from corpusflow.errors import ConfigError
from corpusflow.fingerprint import fingerprint
from corpusflow.inputs import FileSource
from corpusflow.plan import STAGE_FOLDER, Shard
from corpusflow.planner import Planner
from corpusflow.stage import Source
from corpusflow.storage import storage_for


@dataclass(frozen=True)
class Listing:
    """A frozen input listing: which epoch of the run folder it is, and whether it lies there already."""

    epoch: int
    shards: tuple[Shard, ...]
    stored: bool


def best_listing(planner: Planner, listings: Mapping[int, tuple[Shard, ...]]) -> Listing:
    """Of stored listings of one input, by epoch, the latest; of those like it but for replays, the one with the most.

    Replays of documents that a stage of the plan did process, under the parameters it now has, are no part of it: where the
    latest has such, and no other has not, a listing without them has to be stored.
    """
    latest = max(listings)
    shards = listings[latest]
    if not any(s.only for listed in listings.values() for s in listed):
        return Listing(latest, shards, stored=True)
    input_keys = [s.key for s in shards if not s.only]
    live = _live(planner, shards)
    fitting = [
        epoch
        for epoch, listed in listings.items()
        if [s.key for s in listed if not s.only] == input_keys and all(live(s) for s in listed)
    ]
    if not fitting:
        return Listing(latest, tuple(s for s in shards if live(s)), stored=False)
    best = max(fitting, key=lambda epoch: (len(listings[epoch]), epoch))
    return Listing(best, listings[best], stored=True)


def with_replays(planner: Planner, shards: tuple[Shard, ...], latest: tuple[Shard, ...]) -> tuple[Shard, ...]:
    """A fresh listing, and the replays of the latest one whose shard is in it still."""
    replays = [s for s in latest if s.only]
    if not replays:
        return shards
    files = {s.number: s.files for s in shards}  # where they lie now
    live = _live(planner, shards)
    kept = (replace(s, files=files[s.replays]) for s in replays if s.replays in files and live(s))
    return tuple(sorted((*shards, *kept), key=lambda s: s.number))


def _live(planner: Planner, shards: tuple[Shard, ...]) -> Callable[[Shard], bool]:
    """Whether all stages that a replay was made for are in the plan."""
    fps = {node.fp for node in planner.plan(shards, 0).nodes}
    return lambda shard: set(shard.under) <= fps


def make_shards(planner: Planner, previous: tuple[Shard, ...], epoch: int) -> tuple[Shard, ...]:
    """List the input. Pieces that were listed before keep their number and epoch; new ones come after them.

    Raises:
        ConfigError: an input does not exist or matches nothing.
    """
    run = planner.config.run
    known = {s.key: s for s in previous}
    number = 1 + max((s.number for s in previous), default=-1)
    listed: list[tuple[int, tuple[Any, ...]]] = []
    for i, item in enumerate(planner.sources):
        source = item.part
        if not isinstance(source, Source):
            continue
        try:
            listed += [
                (i, tuple((f.path, f.relative_path, f.size, f.etag, f.start, f.end) for f in split.files))
                for split in source.splits()
            ]
        except ConfigError as e:
            place = planner.config.where_wrong("input", i, e.message)
            raise ConfigError(f"{place}: {e.message}", hint=e.hint) from e
    _refuse_equal_ids(planner, listed)
    _refuse_own_files(planner, listed)
    limits = _limits(run.limit, len(listed))
    shards = []
    for (i, files), limit in zip(listed, limits, strict=True):
        if limit == 0:
            continue
        seed = planner.config.seed if run.sample is not None else 0
        key = fingerprint(planner.source_op(i), [f[1:] for f in files], limit, run.sample, seed)
        before = known.get(key)
        files = tuple((os.path.abspath(f[0]), *f[1:]) for f in files)
        if before is not None:
            shards.append(replace(before, files=files))
            continue
        shards.append(Shard(number, epoch, i, files, limit, key))
        number += 1
    return tuple(sorted(shards, key=lambda s: s.number))


def _refuse_equal_ids(planner: Planner, listed: list[tuple[int, tuple[Any, ...]]]) -> None:
    """Two inputs of one name must not hold files of one relative path: their documents would have the same ids.

    Raises:
        ConfigError: they do.
    """
    owner: dict[tuple[str, str], tuple[int, str]] = {}
    for i, files in listed:
        source = planner.sources[i].part
        if not isinstance(source, FileSource):
            continue
        for path, relative, *_ in files:
            first, other = owner.setdefault((source.source_name, relative), (i, path))
            if first != i:
                raise ConfigError(
                    f"{planner.sources[i].where}: {path} and {other} would both be called {source.source_name}/{relative} "
                    "in document ids",
                    hint="give one of the two inputs a name of its own (name: …)",
                )


#: What a run makes in its folder, stage folders by their form: earlier configs had other stages.
_OWN: Final = re.compile(
    rf"(plans|models|code|exports|canaries|takedowns)/|(plan|run|driver)\.json$|run\.log$|{STAGE_FOLDER}/"
)


def _refuse_own_files(planner: Planner, listed: list[tuple[int, tuple[Any, ...]]]) -> None:
    """A run folder below an input folder: listed again, the run would take what it made for more input.

    Raises:
        ConfigError: it does.
    """
    own = planner.run_dir + "/"
    for i, files in listed:
        for path, *_ in files:
            absolute = os.path.abspath(path)
            if absolute.startswith(own) and _OWN.match(absolute.removeprefix(own)):
                raise ConfigError(
                    f"{planner.sources[i].where}: the input reads {path}, which this run made itself in {planner.run_dir}",
                    hint="move the run folder out of the input's folder, or name the input's files more closely (paths: …)",
                )


def _limits(limit: int | None, shards: int) -> list[int | None]:
    """`limit` records spread evenly: the first shards read one more."""
    if limit is None:
        return [None] * shards
    return [limit // shards + (i < limit % shards) for i in range(shards)] if shards else []


def changed_inputs(shards: tuple[Shard, ...]) -> list[str]:
    """Input files that are not what they were when listed: gone, or with another size or time."""
    seen: dict[str, str | None] = {}
    changed = []
    for shard in shards:
        for path, _, _, etag, _, _ in shard.files:
            if path not in seen:
                try:
                    seen[path] = storage_for(path).stat(path).etag
                except (FileNotFoundError, NotADirectoryError):
                    seen[path] = None
                if seen[path] != etag:
                    changed.append(path)
    return changed
