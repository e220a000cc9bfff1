"""A takedown from beginning to end: what the request names, every dataset of every plan, exports, old files, the books.

Reads and writes the run folder, in this process. Deletes files that hold the documents, and only after everything that named
them names something else. Killed anywhere, it is finished by the next call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from corpusflow.api import Run, open_run
from corpusflow.card import card
from corpusflow.checkpoint import read_part
from corpusflow.commit import Dataset
from corpusflow.datasets import PlanDataset, datasets_of
from corpusflow.errors import ConfigError, StageError
from corpusflow.phases import Inputs, phase_dataset, phases_of
from corpusflow.plan import Node, Plan
from corpusflow.publish import MANIFEST, export_folder, publish
from corpusflow.reader import ROWS
from corpusflow.record import Record
from corpusflow.results import run_digest
from corpusflow.stage import Sink
from corpusflow.storage import Storage
from corpusflow.takedown import journal
from corpusflow.takedown.parts import as_text
from corpusflow.takedown.request import KEYS, Found, Request, note_found, unknown_entries
from corpusflow.takedown.shards import Remover

Tell = Callable[[str], None]
_COMMITS: Final = "_commits"


@dataclass
class Outcome:
    """What a takedown did.

    Attributes:
        records: index rows it emptied, documents and others (request records that share a page's URL).
        unknown: entries of the request that name nothing in the run.
        rewritten: per shard or task: its dataset, and (label, digest) of its parts before and after.
        started_over: folders of Exchanges and Sinks that were half done, and are made again by the next `run`.
        book: file in the run folder that says all this.
    """

    records: int = 0
    unknown: list[str] = field(default_factory=list)
    rewritten: list[dict[str, Any]] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    started_over: list[str] = field(default_factory=list)
    deleted_files: int = 0
    deleted_bytes: int = 0
    digest: tuple[str, str] = ("", "")
    book: str = ""

    def as_data(self) -> dict[str, Any]:
        """JSON form, for the books: without what the request said."""
        return {
            "digest_before": self.digest[0],
            "digest": self.digest[1],
            "rewritten": self.rewritten,
            "published": self.published,
            "started_over": self.started_over,
            "deleted_files": self.deleted_files,
            "deleted_bytes": self.deleted_bytes,
        }


def find(run: Run, request: Request) -> Found:
    """The records that a request names, in all plans of the folder.

    Raises:
        ConfigError: it names none.
    """
    found = Found()
    seen: set[tuple[str, int]] = set()
    for plan in run.folder.plans():
        for node in plan.sources:
            dataset = Dataset(plan.root(node), node.fp)
            keys = {s.number: plan.key(node, s) for s in plan.shards if s.source == node.index}
            for shard, record in sorted(dataset.records(keys).items()):
                part = record.part(ROWS)
                if part is None or (node.folder, shard) in seen:
                    continue
                seen.add((node.folder, shard))
                note_found(found, request, (node.folder, shard), read_part(dataset, part, list(KEYS)))
    found.unknown = unknown_entries(request, found.names)
    if not found.records:
        raise ConfigError(
            f"the request names no record of {run.plan.run_dir}",
            hint="ids and URLs must be as the run has them: corpusflow inspect RUN --id …",
        )
    return found


def take_down(path: str, request: Request, tell: Tell = lambda text: None) -> Outcome:
    """Take documents out of a run folder.

    Raises:
        ConfigError: no run, or the request names nothing in it.
        StageError: another driver is at work there.
    """
    run = open_run(path)
    other = run.folder.other_driver()
    if other is not None:
        raise StageError(
            f"process {other} is working in {run.plan.run_dir}", hint="wait for it to end, or stop it with Ctrl-C"
        )
    try:
        waiting = journal.begun(run.plan.run_dir)
        if waiting is not None:
            tell(f"takedown {waiting.number} was begun and did not end: going on with it")
            outcome = _Takedown(run, waiting, tell).run()
            if waiting.covers(request):
                return outcome
        which = journal.begin(run.plan.run_dir, request, find(run, request))
        return _Takedown(run, which, tell).run()
    finally:
        run.folder.leave()


class _Takedown:
    """The steps of one, each of which can be done twice."""

    def __init__(self, run: Run, which: journal.Begun, tell: Tell) -> None:
        self.run_folder = run.folder
        self.plans = list(run.folder.plans())
        self.latest = run.plan
        self.which = which
        self.tell = tell
        self.storage = run.folder.storage
        self.outcome = Outcome(which.found.records, which.found.unknown)
        self._touched: dict[str, tuple[Dataset, set[int]]] = {}

    def run(self) -> Outcome:
        """All of it."""
        before = run_digest(self.latest)
        seen: set[tuple[str, int]] = set()
        for plan in self.plans:
            self._start_over(plan)
            remover = Remover(plan, self.which.found, self.which.number)
            for item in datasets_of(plan):
                if (item.dataset.root, item.epoch) not in seen:
                    seen.add((item.dataset.root, item.epoch))
                    if item.node.kind == "sink" and remover.recut(item):
                        self._forget(plan, item.node)
                    else:
                        self._one(remover, item)
        for plan in self.plans:
            self._publish(plan)
        self._delete_old()
        self._mend_texts()
        self.outcome.digest = before, run_digest(self.latest)
        self._check()
        self.outcome.book = journal.end(self.latest.run_dir, self.which, self.outcome.as_data())
        return self.outcome

    # ---- datasets ----

    def _one(self, remover: Remover, item: PlanDataset) -> None:
        changed = remover.remove(item)
        if not changed:
            return
        folder = os.path.relpath(item.dataset.root, self.latest.run_dir)
        for shard, (_, new) in sorted(changed.items()):
            old = self._generation_before(item.dataset, new)
            self.outcome.rewritten.append(
                {
                    "dataset": folder,
                    "shard": shard,
                    "before": [[p.label, p.digest] for p in old.parts] if old is not None else [],
                    "after": [[p.label, p.digest] for p in new.parts],
                }
            )
        self._touched[item.dataset.root] = (
            item.dataset,
            set(changed) | self._touched.get(item.dataset.root, (item.dataset, set()))[1],
        )
        self.tell(f"{item.name}: {len(changed)} of {len(item.keys)} {'tasks' if item.phase else 'shards'} rewritten")

    def _generation_before(self, dataset: Dataset, record: Record) -> Record | None:
        path = dataset.record_path(record.shard, record.key, record.generation - 1)
        return Record.decode(self.storage.get(path), record.generation - 1) if record.generation else None

    def _start_over(self, plan: Plan) -> None:
        """Half-done Exchanges, with what hangs on them, and half-done Sinks: the next run makes them anew."""
        cut = len(plan.nodes)
        for node in plan.nodes:
            if node.kind == "exchange" and not _finished(plan, node):
                cut = min(cut, node.index)
            measured = node.kind == "score" and not node.survivors_only and node.base < cut
            if (node.index >= cut and not measured) or (node.kind == "sink" and not _finished(plan, node)):
                self._forget(plan, node)

    def _forget(self, plan: Plan, node: Node) -> None:
        """Delete all that an Exchange or a Sink has made: seals first, then records, so that the rest counts for nothing."""
        root = plan.root(node)
        files = list(self.storage.walk(root))
        for info in sorted(files, key=lambda i: (not _is_seal(i.path), f"/{_COMMITS}/" not in i.path, i.path)):
            self._delete(info.path, info.size)
        if node.kind == "sink" and self._published_fp(folder := export_folder(plan, node)) == node.fp:
            for info in list(self.storage.walk(folder)):
                self._delete(info.path, info.size)
        if files:
            self.outcome.started_over.append(os.path.relpath(root, plan.run_dir))

    def _published_fp(self, folder: str) -> str | None:
        """Fingerprint of the Sink whose files an export folder holds."""
        try:
            return str(json.loads(self.storage.get(f"{folder}/{MANIFEST}")).get("fingerprint"))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    # ---- what hangs on them ----

    def _publish(self, plan: Plan) -> None:
        """Exports whose Sink changed; a folder that now holds another Sink's files is that one's."""
        for node in plan.nodes:
            if node.kind != "sink" or not _finished(plan, node):
                continue
            folder = export_folder(plan, node)
            shown = self._published_fp(folder)
            # none: a publication that a kill cut short, which is the latest plan's to make again
            if shown == node.fp or (shown is None and plan.fp == self.latest.fp):
                changed = any(root.startswith(plan.root(node) + "/") for root in self._touched)
                if changed:
                    self.outcome.published.append(os.path.basename(folder))
                publish(plan, node)

    def _delete_old(self) -> None:
        for dataset, shards in self._touched.values():
            for name in dataset.seal_again({}):
                self._delete(dataset.path(name))
            named = {dataset.path(p.path) for p in _current_parts(dataset, shards)}
            for shard in sorted(shards):
                for info in list(self.storage.walk(dataset.path(f"data/{shard:08d}"))):
                    if info.path not in named:
                        self._delete(info.path, info.size)
        for info in list(self.storage.leftovers(self.latest.run_dir)):
            self._delete(info.path, info.size)
        self.storage.prune(self.latest.run_dir)

    def _delete(self, path: str, size: int | None = None) -> None:
        self.outcome.deleted_bytes += self.storage.stat(path).size if size is None else size
        self.storage.delete(path)
        self.outcome.deleted_files += 1

    def _mend_texts(self) -> None:
        """Files for people: the log and advice on failures may cite the documents; the counts have changed."""
        folder = self.latest.run_dir
        names = self.which.found.names
        _rewrite(self.storage, f"{folder}/run.log", names)
        for dataset, _ in self._touched.values():
            for info in list(self.storage.list(dataset.path("_failures"))):
                self._delete(info.path, info.size)  # an exception may quote the text
        run = Run(folder)
        counts = run.counts()
        try:
            body = json.loads(self.storage.get(f"{folder}/run.json"))
        except (FileNotFoundError, ValueError):
            return
        if "counts" in body:  # of a run that ended
            digest = run_digest(self.latest)
            body |= {"counts": [c.as_data() for c in counts], "digest": digest, "takedowns": self.which.number}
            data = (json.dumps(body, indent=1, ensure_ascii=False, default=str) + "\n").encode()
            self.storage.replace(f"{folder}/run.json", data)
            sinks = [n for n in self.latest.nodes if n.kind == "sink"]
            exports = [os.path.basename(export_folder(self.latest, n)) for n in sinks]
            if exports:
                text = card(self.latest, counts, digest, exports)
                self.storage.replace(f"{folder}/exports/README.md", text.encode())

    def _check(self) -> None:
        """Nothing that was asked for is found any more.

        Raises:
            StageError: something is, which is a fault of ours.
        """
        names = pa.array(sorted(self.which.found.names), pa.string())
        for plan in self.plans:
            for node in plan.nodes:
                if node.kind == "source":
                    self._check_index(plan, node)
                elif node.kind == "sink" and _finished(plan, node):
                    sink = node.build()
                    for phase in phases_of(node):
                        if isinstance(sink, Sink) and sink.holding(Inputs(plan, node), phase.name, names):
                            raise StageError(f"{phase_dataset(plan, node, phase.name).root} still holds a document")

    def _check_index(self, plan: Plan, node: Node) -> None:
        dataset = Dataset(plan.root(node), node.fp)
        rows = {
            s.number: r for s in plan.shards if (r := self.which.found.rows.get((node.folder, s.number))) is not None
        }
        keys = {s.number: plan.key(node, s) for s in plan.shards if s.source == node.index and s.number in rows}
        for shard, record in dataset.records(keys).items():
            part = record.part(ROWS)
            if part is not None:
                table = read_part(dataset, part, list(KEYS)).take(pa.array(rows[shard]))
                if any(table.column(k).null_count != table.num_rows for k in KEYS):
                    raise StageError(f"shard {shard} of {dataset.root} still names a document")


def _finished(plan: Plan, node: Node) -> bool:
    """Whether an Exchange or a Sink is sealed in all its phases, and an Exchange's columns, too."""
    phases = all(phase_dataset(plan, node, p.name).seal_of(0) is not None for p in phases_of(node))
    return phases and (node.kind == "sink" or Dataset(plan.root(node), node.fp).seal_of(plan.epoch) is not None)


def _is_seal(path: str) -> bool:
    return os.path.basename(path).startswith("_SEALED")


def _current_parts(dataset: Dataset, shards: set[int]) -> Iterator[Any]:
    """The parts of the records that count, of some shards, whatever their keys."""
    best: dict[str, Record] = {}
    for info in dataset.storage.list(dataset.path(_COMMITS)):
        stem, _, generation = os.path.basename(info.path).removesuffix(".json").partition(".")
        if int(stem.partition("-")[0]) not in shards:
            continue
        record = Record.decode(dataset.storage.get(info.path), int(generation))
        if record is not None and (stem not in best or record.generation > best[stem].generation):
            best[stem] = record
    for record in best.values():
        yield from record.parts


def _rewrite(storage: Storage, path: str, names: set[str]) -> None:
    try:
        edited = as_text(storage.get(path), names)
    except (FileNotFoundError, UnicodeDecodeError):
        return
    if edited is not None:
        storage.replace(path, edited)
