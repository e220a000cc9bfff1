"""The run folder: where the plan, the frozen input listing, pinned models and user code lie.

plan.json                    the plan of the latest `run`, as people read it
plans/<digest>.json          every plan this folder has seen; workers read theirs here
plans/shards-<epoch>.parquet the frozen input listings; what each was made from is in its schema's metadata
models/  code/               copies of model files and user stage files, named by SHA-256
run.json  run.log            versions, resolved config, counters; the log
<stage>/<part>-<fp>/         one dataset per stage (commit.py)
exports/<sink>/              results under stable names
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from corpusflow.build import content_sha256
from corpusflow.config import Config
from corpusflow.errors import ConfigError, CorruptShardError, PlanDriftError
from corpusflow.fingerprint import fingerprint
from corpusflow.listing import Listing, best_listing, changed_inputs, make_shards, with_replays
from corpusflow.pinned import at_home, pinned_code_path, pinned_path
from corpusflow.plan import Plan, Shard, shard_table, shards_from_table
from corpusflow.planner import Planner
from corpusflow.storage import local_path, parquet_table, read_json, storage_for

_MADE_FROM = b"corpusflow.made_from"


class RunDir:
    """A run folder."""

    def __init__(self, path: str) -> None:
        self.path = local_path(path)
        self.storage = storage_for(self.path)

    def file(self, *names: str) -> str:
        """Full path of something in the folder."""
        return "/".join((self.path, *names))

    # ---- plans ----

    def latest_plan(self) -> Plan:
        """The plan of the latest run.

        Raises:
            ConfigError: no run was started here.
        """
        try:
            data = read_json(self.file("plan.json"), hint="`corpusflow run` with the run's config writes it again")
        except (FileNotFoundError, NotADirectoryError) as e:
            raise ConfigError(
                f"{self.path} is not a run folder: it has no plan.json",
                hint="start one with `corpusflow run configs/web.yaml`",
            ) from e
        return Plan.from_data(data, self._shards(data["epoch"]))

    def plans(self) -> Iterator[Plan]:
        """Every plan the folder has seen, as it lies now, the latest one last."""
        latest = at_home(self.latest_plan(), self.path)
        for info in sorted(self.storage.list(self.file("plans")), key=lambda i: i.path):
            if info.path.endswith(".json"):
                data = read_json(info.path, hint="`corpusflow run` with its config writes it again; or delete it")
                plan = at_home(Plan.from_data(data, self._shards(data["epoch"])), self.path)
                if plan != latest:
                    yield plan
        yield latest

    def store_plan(self, plan: Plan) -> str:
        """Put a plan where workers find it; returns its path.

        Named by all of its content: parameters that are in no fingerprint (a timeout, where the folder lies) are for
        workers to know, too.
        """
        path = self.file("plans", f"{fingerprint(plan.as_data())[:12]}.json")
        if not self.storage.put_exclusive(path, plan.encode()) and self.storage.get(path) != plan.encode():
            self.storage.replace(path, plan.encode())  # torn by a crash, where there are no hard links
        self.storage.replace(self.file("plan.json"), plan.encode())
        return path

    # ---- listings ----

    def listing(self, planner: Planner, *, refresh: bool = False) -> Listing:
        """The input: as frozen by an earlier run with the same `input`, else listed now.

        Args:
            refresh: list again; pieces that are still the same keep their number, so only new ones run.

        Raises:
            PlanDriftError: a file changed since it was listed.
        """
        made_from = _made_from(planner)
        tables = {e: t for e in self._epochs() if (t := self._table(e)) is not None}
        same = [e for e, t in tables.items() if t.schema.metadata.get(_MADE_FROM) == made_from]
        epoch = self.next_epoch()
        if same and not refresh:
            found = best_listing(planner, {e: shards_from_table(tables[e]) for e in same})
            shards = found.shards
            if changed := changed_inputs(shards):
                raise PlanDriftError(
                    f"{len(changed)} input file(s) changed since they were listed, the first: {changed[0]}",
                    hint="add --refresh to take the input as it is now (only what changed runs again)",
                )
            return found if found.stored else Listing(epoch, shards, stored=False)
        # Of all epochs: a piece that left the input and came back is still the shard it was.
        previous = {s.key: s for t in tables.values() for s in shards_from_table(t)}
        shards = make_shards(planner, tuple(previous.values()), epoch)
        if not shards:
            raise ConfigError("the input holds nothing to read", hint="check `input:`")
        if tables:
            shards = with_replays(planner, shards, shards_from_table(tables[max(tables)]))
        if same and shards == shards_from_table(tables[same[-1]]):
            return Listing(same[-1], shards, stored=True)
        return Listing(epoch, shards, stored=False)

    def store_listing(self, planner: Planner, listing: Listing) -> Listing:
        """Freeze a listing. Where another driver froze one meanwhile, that one counts, or ours becomes the next."""
        while not listing.stored:
            table = shard_table(listing.shards).replace_schema_metadata({_MADE_FROM: _made_from(planner)})
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
            # One file, published whole: a listing without the note of what it was made from would pass for another's.
            if self.storage.put_exclusive(self._listing_file(listing.epoch), sink.getvalue().to_pybytes()):
                return Listing(listing.epoch, listing.shards, stored=True)
            listing = self.listing(planner)
        return listing

    def add_replays(self, planner: Planner, shards: tuple[Shard, ...]) -> Listing:
        """Freeze a listing that has replays besides what the latest has; their epoch is its own.

        Raises:
            PlanDriftError: another driver froze a listing meanwhile.
        """
        listing = Listing(shards[-1].epoch, shards, stored=False)
        stored = self.store_listing(planner, listing)
        if stored.shards != shards:
            raise PlanDriftError(f"another process listed the input of {self.path} meanwhile", hint="try again")
        return stored

    def next_epoch(self) -> int:
        """The one that the next listing has."""
        return max(self._epochs(), default=-1) + 1

    def next_number(self) -> int:
        """One that no shard of any listing has."""
        tables = (self._table(epoch) for epoch in self._epochs())
        return 1 + max((s.number for t in tables if t is not None for s in shards_from_table(t)), default=-1)

    def _listing_file(self, epoch: int) -> str:
        return self.file("plans", f"shards-{epoch:04d}.parquet")

    def _epochs(self) -> list[int]:
        names = [os.path.basename(i.path) for i in self.storage.list(self.file("plans"))]
        return [int(n[7:11]) for n in names if n.startswith("shards-") and n.endswith(".parquet")]

    def _table(self, epoch: int) -> pa.Table | None:
        """A stored listing; None if a crash left it torn (where the filesystem has no hard links), or it is damaged."""
        data = self.storage.get(self._listing_file(epoch))
        try:
            return parquet_table(data)
        except (OSError, pa.ArrowInvalid):
            return None

    def _shards(self, epoch: int) -> tuple[Shard, ...]:
        try:
            table = self._table(epoch)
        except (FileNotFoundError, NotADirectoryError):
            table = None
        if table is None:
            raise CorruptShardError(
                f"{self._listing_file(epoch)} is missing or cannot be read",
                hint="`corpusflow run` with the run's config lists the input again; or start another run folder",
            )
        return shards_from_table(table)

    # ---- drivers ----

    def other_driver(self) -> int | None:
        """The process id of another live driver of this folder on this machine; notes ours down if there is none.

        Advice only: two drivers waste work, never results.
        """
        try:
            other = json.loads(self.storage.get(self.file("driver.json")))
            if other["host"] == os.uname().nodename and other["pid"] != os.getpid() and _alive(other["pid"]):
                return int(other["pid"])
        except (OSError, ValueError, KeyError):
            pass  # none, or not ours to read
        body = json.dumps({"host": os.uname().nodename, "pid": os.getpid()}).encode()
        self.storage.replace(self.file("driver.json"), body)
        return None

    def leave(self) -> None:
        """Take our note away."""
        try:
            if json.loads(self.storage.get(self.file("driver.json")))["pid"] == os.getpid():
                self.storage.delete(self.file("driver.json"))
        except (OSError, ValueError, KeyError):
            pass

    # ---- pinned files ----

    def pin(self, plan: Plan) -> None:
        """Copy models and user code in, so that every worker, now and at resume, reads the same bytes.

        Raises:
            PlanDriftError: the copy there is not what its name says.
        """
        for sha, path in plan.models.items():
            if path:
                self._pin(path, pinned_path(self.path, sha, path), sha)
        for path, sha in plan.code.items():
            self._pin(path, pinned_code_path(self.path, sha, path), sha)

    def _pin(self, source: str, target: str, sha: str) -> None:
        if os.path.isdir(source):
            for info in self.storage.walk(source):
                self._copy(info.path, f"{target}/{os.path.relpath(info.path, source)}")
        else:
            self._copy(source, target)
        if content_sha256(target) != sha:
            raise PlanDriftError(
                f"{target} does not have the SHA-256 it is named by", hint=f"delete it and run again: rm -r {target}"
            )

    def _copy(self, source: str, target: str) -> None:
        if not self.storage.exists(target):
            self.storage.put_exclusive(target, storage_for(source).get(source))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _made_from(planner: Planner) -> bytes:
    """What a listing depends on besides the disk."""
    run = planner.config.run
    inputs = [[s.name, dict(s.params)] for s in planner.config.input]
    place = os.getcwd() if _relative(planner.config) else ""
    seed = planner.config.seed if run.sample is not None else 0
    return fingerprint(inputs, place, run.limit, run.sample, seed).encode()


def _relative(config: Config) -> bool:
    """Whether any input path is relative, so that it means another file elsewhere."""
    for source in config.input:
        paths = source.params.get("paths", [])
        for path in [paths] if isinstance(paths, str) else paths:
            if not os.path.isabs(str(path)) and "://" not in str(path):
                return True
    return False
