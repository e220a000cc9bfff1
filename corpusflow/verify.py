"""Does a run folder still hold what its records say: `corpusflow verify`.

Reads every committed file of the plan's datasets whole (size, xxh3-128, Parquet row counts), records and seals against each
other, the accounting of every shard, pinned models and code, and the exports; then asks each Sink to check its own format.
Writes nothing. `repair.py` mends what is found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from corpusflow.accounting import account
from corpusflow.api import Run
from corpusflow.build import content_sha256
from corpusflow.commit import Dataset, file_digest
from corpusflow.datasets import PlanDataset, datasets_of
from corpusflow.errors import CorpusflowError, CorruptShardError
from corpusflow.listing import changed_inputs
from corpusflow.phases import Inputs, phase_dataset, phases_of
from corpusflow.pinned import pinned_code_path, pinned_path
from corpusflow.plan import Node, Plan, Shard
from corpusflow.publish import MANIFEST, export_folder, manifest_bytes
from corpusflow.record import PartFile, Record, content_digest
from corpusflow.retention import without_groups
from corpusflow.stage import Check, Sink
from corpusflow.storage import storage_for
from corpusflow.takedown.journal import FOLDER, begun

#: What mends a problem: making a shard again, writing a record or manifest from the other, copying a model again,
#: publishing again, nothing.
Remedy = Literal["shard", "record", "manifest", "pinned", "export", ""]

_ROWS: Final = ".parquet"


@dataclass(frozen=True)
class Problem:
    """Something that is not as recorded.

    Attributes:
        path: the file or folder.
        node: index of the plan's node, -1 where it is about none.
        phase: of that node, "" for its own dataset.
        shard: shard or task, -1 where it is about none.
    """

    what: str
    path: str
    node: int = -1
    phase: str = ""
    shard: int = -1
    remedy: Remedy = ""

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {k: v for k, v in asdict(self).items() if v not in (-1, "")}


@dataclass
class Verification:
    """What was read, and what is wrong.

    Attributes:
        unfinished: datasets that the run has not sealed yet, with records so far and expected.
        checks: what the Sinks looked at.
        notes: not damage, but worth knowing.
    """

    files: int = 0
    bytes: int = 0
    records: int = 0
    problems: list[Problem] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    checks: list[tuple[str, Check]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "records": self.records,
            "problems": [p.as_data() for p in self.problems],
            "unfinished": self.unfinished,
            "checks": [{"sink": sink, **asdict(check)} for sink, check in self.checks],
            "notes": self.notes,
        }


Tell = Callable[[str], None]


def verify(run: Run, *, sample: int = 64, libraries: bool = False, tell: Tell = lambda text: None) -> Verification:
    """Check a run folder.

    Args:
        sample: documents per Sink that are followed from its files back to the run.
        libraries: have exports read by the libraries of their formats, too, where these are installed.
        tell: called with a line per dataset as it is done.
    """
    found = Verification()
    if (waiting := begun(run.plan.run_dir)) is not None:
        what = f"takedown {waiting.number} was begun and did not end; the same command goes on with it"
        found.problems.append(Problem(what, f"{run.plan.run_dir}/{FOLDER}"))
    for item in datasets_of(run.plan):
        before = found.files, found.bytes, len(found.problems)
        check_dataset(item, found)
        if found.files > before[0] or len(found.problems) > before[2]:
            wrong = len(found.problems) - before[2]
            tell(
                f"{item.name}: {found.files - before[0]} files, {(found.bytes - before[1]) / 1e6:.1f} MB, "
                + (f"{wrong} PROBLEMS" if wrong else "good")
            )
    _check_accounting(run, found)
    _check_pinned(run.plan, found)
    for node in run.plan.nodes:
        if node.kind == "sink":
            check_export(run.plan, node, found, sample)
            if libraries and not found.problems:
                _open_by_library(run.plan, node, found)
            tell(f"{node.stage}: exports {'checked' if not found.problems else 'looked at'}")
    if changed := changed_inputs(run.plan.shards):
        found.notes.append(
            f"{len(changed)} input file(s) are not what they were when they were listed, the first: {changed[0]}"
        )
    return found


# ---- datasets ----


def check_dataset(item: PlanDataset, found: Verification) -> None:
    """Records, seal and files of one dataset."""
    records = item.dataset.records(item.keys)
    seal = item.dataset.seal_of(item.epoch)
    sealed = _check_manifest(item, found) if seal is not None else None
    mendable = True
    for number, key in item.keys.items():
        record, before = records.get(number), (sealed or {}).get(number)
        if what := _record_problem(item, number, key, record, before, seal is not None):
            path = item.dataset.record_path(number, key, 0 if before is None else before.generation)
            known = before is not None or record is not None
            found.problems.append(_problem(item, number, path, what, "record" if known else "shard"))
            mendable = False
        if record is None or (before is not None and before.generation > record.generation):
            record = before  # which can be written again, and then its files count
        if record is None:
            continue
        found.records += 1
        for part in record.parts:
            _check_part(item, record, part, found)
    if seal is None:
        if records or item.phase == "":
            found.unfinished.append(f"{item.name}: {len(records)} of {len(item.keys)} shards committed")
    elif sealed is not None and mendable:
        path = item.dataset.path(str(seal["manifest"]))
        if content_digest(records.values()) != seal["digest"]:
            found.problems.append(_problem(item, -1, path, "the records do not have the contents that were sealed", ""))
        elif any(n in sealed and sealed[n].attempt != r.attempt for n, r in records.items()):
            what = "the seal's manifest names attempts that others have taken the place of"
            found.problems.append(_problem(item, -1, path, what, "manifest"))


def _record_problem(
    item: PlanDataset, shard: int, key: str, record: Record | None, before: Record | None, sealed: bool
) -> str:
    """What is wrong with the records of a shard, given the one that counts and the one that was sealed; "" if nothing is."""
    if record is None:
        torn = item.dataset.storage.exists(item.dataset.record_path(shard, key, 0))
        return "the commit record is missing or damaged" if sealed or torn else ""
    if before is not None and before.generation > record.generation:
        return f"the commit record is missing or damaged, and an older one (generation {record.generation}) counts"
    paths = [item.dataset.record_path(shard, key, g) for g in range(record.generation)]
    if not all(map(item.dataset.storage.exists, paths)):  # readers that want one shard look from generation 0 on
        return "an earlier generation of the commit record is missing, without which no later one is found"
    return ""


def _problem(item: PlanDataset, shard: int, path: str, what: str, remedy: Remedy) -> Problem:
    return Problem(f"{item.name}: {what}", path, item.node.index, item.phase, shard, remedy)


def _check_manifest(item: PlanDataset, found: Verification) -> dict[int, Record] | None:
    """The sealed records; a manifest that cannot be read is a problem."""
    try:
        sealed = item.dataset.sealed_records(item.epoch)
    except CorruptShardError as e:
        sealed, why = None, e.message
    else:
        why = "is missing"
    if sealed is None:
        seal = item.dataset.seal_of(item.epoch) or {}
        path = item.dataset.path(str(seal.get("manifest", "")))
        found.problems.append(_problem(item, -1, path, f"the seal's manifest: {why}", "manifest"))
    return sealed


def _check_part(item: PlanDataset, record: Record, part: PartFile, found: Verification) -> None:
    found.files += 1
    path = item.dataset.path(part.path)
    what = ""
    try:
        size = item.dataset.storage.stat(path).size
        found.bytes += size
        if size != part.size:
            what = f"{size} bytes, its record says {part.size}"
        elif file_digest(item.dataset.storage, path) != part.digest:
            what = f"other bytes than its record names (xxh3 {part.digest})"
        elif part.rows and path.endswith(_ROWS) and part.rows != (rows := _parquet_rows(item.dataset, path)):
            what = f"{rows} rows, its record says {part.rows}"
    except (FileNotFoundError, NotADirectoryError):
        what = "named by a commit record but missing"
    except (OSError, pa.ArrowInvalid) as e:
        what = f"cannot be read: {e}"
    if what:
        found.problems.append(_problem(item, record.shard, path, what, "shard"))


def _parquet_rows(dataset: Dataset, path: str) -> int:
    with dataset.storage.open(path) as stream:
        rows: int = pq.read_metadata(stream).num_rows
    return rows


# ---- accounting ----


def _check_accounting(run: Run, found: Verification) -> None:
    """in = kept + dropped + quarantined at every stage, and each stage takes in what the one before it kept, shard by shard."""
    plan = run.plan
    counters = {node.index: _counters_of(plan, node) for node in plan.nodes if node.kind != "sink"}
    for shard in plan.shards:
        for row in account(plan, _counters(plan, shard, counters)):
            if not row.exact:
                what = (
                    f"{row.stage}, shard {shard.number}: in {row.entered} is not kept {row.kept} + dropped "
                    f"{row.all_dropped} + quarantined {row.all_quarantined}, or not what the stage before kept"
                )
                found.problems.append(Problem(what, plan.run_dir, shard=shard.number))
    if not found.unfinished and not found.problems:
        for row in run.counts():
            if not row.exact:
                found.problems.append(Problem(f"{row.stage}: the numbers of all shards do not add up", plan.run_dir))


def _counters_of(plan: Plan, node: Node) -> dict[int, Mapping[str, Any]]:
    """Counters of a node's records by shard; the records themselves would be four times as much in memory."""
    keys = {s.number: plan.key(node, s) for s in plan.shards if node.kind != "source" or s.source == node.index}
    records = Dataset(plan.root(node), node.fp).records(keys)
    return {shard: without_groups(record.counters) for shard, record in records.items()}


def _counters(
    plan: Plan, shard: Shard, counters: Mapping[int, Mapping[int, Mapping[str, Any]]]
) -> dict[int, Mapping[str, Any]]:
    """Counters of one shard by node, up to the first node that has not committed it; other Sources count nothing."""
    out: dict[int, Mapping[str, Any]] = {}
    for node in plan.nodes:
        if node.kind == "source" and node.index != shard.source:
            out[node.index] = {"in": 0, "kept": 0}
            continue
        found = counters.get(node.index, {}).get(shard.number)
        if found is None:
            return out if node.kind == "sink" else {i: c for i, c in out.items() if _whole(plan, i, node)}
        out[node.index] = found
    return out


def _whole(plan: Plan, index: int, missing: Node) -> bool:
    """Whether a node belongs to an earlier entry of the config than one that has not committed yet."""
    return plan.nodes[index].where != missing.where


# ---- pinned files ----


def _check_pinned(plan: Plan, found: Verification) -> None:
    for sha, _, path in pinned_copies(plan):
        if not os.path.exists(path):
            found.problems.append(Problem("pinned copy of a model or of code is missing", path, remedy="pinned"))
        elif content_sha256(path) != sha:
            what = "pinned copy of a model or of code has another SHA-256"
            found.problems.append(Problem(what, path, remedy="pinned"))


def pinned_copies(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """(SHA-256, where it came from, the run folder's copy) of every model and user file."""
    for sha, path in plan.models.items():
        if path:
            yield sha, path, pinned_path(plan.run_dir, sha, path)
    for path, sha in plan.code.items():
        yield sha, path, pinned_code_path(plan.run_dir, sha, path)


# ---- exports ----


def check_export(plan: Plan, node: Node, found: Verification, sample: int) -> None:
    """The published files of a Sink, and what the Sink itself finds wrong with them."""
    if any(phase_dataset(plan, node, p.name).sealed(0) is None for p in phases_of(node)):
        return
    sink = node.build()
    if not isinstance(sink, Sink):
        return
    damaged = any(p.remedy != "export" for p in found.problems)  # what the Sink would read cannot be trusted
    try:
        found.problems += _published_problems(plan, node, sink)
        if not damaged:
            for check in sink.verify(Inputs(plan, node), sample):
                found.checks.append((node.stage, check))
                found.problems += [Problem(p, export_folder(plan, node), node.index) for p in check.problems]
    except CorpusflowError as e:
        if not damaged:
            found.problems.append(Problem(f"{node.stage}: {e.message}", export_folder(plan, node), node.index))


def _open_by_library(plan: Plan, node: Node, found: Verification) -> None:
    """What the library of a Sink's format reads in its published files; a note where it cannot be asked."""
    sink, folder = node.build(), export_folder(plan, node)
    if not isinstance(sink, Sink) or not os.path.isdir(folder):
        return
    try:
        for check in sink.open_by_library(Inputs(plan, node), folder):
            found.checks.append((node.stage, check))
            found.problems += [Problem(p, folder, node.index) for p in check.problems]
    except ModuleNotFoundError as e:
        found.notes.append(f"{node.stage} was not read by its own library: no package {e.name}")


def _published_problems(plan: Plan, node: Node, sink: Sink) -> Iterator[Problem]:
    folder = export_folder(plan, node)
    storage = storage_for(folder)
    published = sink.publish(Inputs(plan, node))

    def problem(name: str, what: str) -> Problem:
        return Problem(f"{node.stage}: {what}", f"{folder}/{name}", node.index, remedy="export")

    for name, part in sorted(published.parts.items()):
        path = f"{folder}/{name}"
        try:
            if storage.stat(path).size != part.size or file_digest(storage, path) != part.digest:
                yield problem(name, "other bytes than the part it stands for")
        except (FileNotFoundError, NotADirectoryError):
            yield problem(name, "missing from the export")
    texts = {n: t.encode() for n, t in published.texts.items() if n != MANIFEST}
    texts[MANIFEST] = manifest_bytes(plan, node, published)
    for name, text in sorted(texts.items()):
        try:
            if storage.get(f"{folder}/{name}") != text:
                yield problem(name, "another text than the Sink writes")
        except (FileNotFoundError, NotADirectoryError):
            yield problem(name, "missing from the export")
    known = {*published.parts, *texts}
    for info in storage.walk(folder):
        if (name := os.path.relpath(info.path, folder)) not in known:
            yield problem(name, "not a file of this export")
