"""Takedowns of toy runs: what goes, what stays, every kill point, later runs of the folder."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leftovers import holding
from toys import Entry, Toy

import corpusflow
from corpusflow import faults
from corpusflow.api import Run
from corpusflow.commit import Dataset
from corpusflow.datasets import datasets_of
from corpusflow.errors import ConfigError, StageError
from corpusflow.results import run_digest
from corpusflow.takedown import journal
from corpusflow.takedown.perform import find, take_down
from corpusflow.takedown.request import Request
from corpusflow.verify import verify

GATE = ("Keep", {"column": "toy.lang", "op": "in", "value": ["en"], "gate": True, "reason": "toy_language"})
SOFT = ("Keep", {"column": "toy.size", "op": ">=", "value": 3, "reason": "toy_small"})
STAGES: list[Entry] = [("Cut", {"n": 40}), "Language", GATE, "Size", SOFT, "Unique", "Codes"]
OUTPUT: list[Entry] = [("Dump", {"columns": ("id", "text", "rest", "toy.codes")})]

#: A document of each fate: kept, dropped by the gate and by the soft rule, a duplicate and its twin, quarantined by a Score,
#: by the Source, skipped by it.
FATES = {
    "kept": "unique words of one document",
    "gate": "ein anderes Wort",
    "small": "ab",
    "twin": "said twice, word for word",
    "bad": "much too much!",
}


def rows(shard: int) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [
        {"text": f"{text} {'' if kind == 'twin' else shard}"[: 2 if kind == "small" else None], "lang": "en"}
        for kind, text in FATES.items()
    ]
    out[1]["lang"] = "de"
    return [
        *out,
        {"text": f"unreadable {shard}", "lang": "en", "bad": f"broken: record {shard}"},
        {"text": f"no page {shard}", "lang": "en", "skip": "not_a_page"},
        *({"text": f"filler number {i} of shard {shard}", "lang": "en"} for i in range(6)),
    ]


@pytest.fixture
def made(toy: Toy) -> Path:
    """A finished run of three shards."""
    toy.corpus([rows(s) for s in range(3)])
    toy.run(STAGES, OUTPUT)
    return toy.root / "run"


def identity(shard: int, row: int) -> str:
    return f"lines/{shard:02d}.jsonl#{row}"


def of(*places: tuple[int, int]) -> Request:
    return Request(ids=frozenset(identity(s, r) for s, r in places))


def good(folder: Path) -> Run:
    run = corpusflow.open_run(str(folder))
    found = verify(run)
    assert [p.what for p in found.problems] == []
    assert found.unfinished == []
    assert all(c.exact for c in run.counts())
    return run


def gone(folder: Path, *places: tuple[int, int]) -> None:
    texts = [rows(s)[r]["text"].encode() for s, r in places if rows(s)[r]["text"] not in ("ab", FATES["twin"] + " ")]
    # a Dump lists codes as numbers; the id would do, but the text must be gone, too
    needles = [*(f'"{identity(s, r)}"'.encode() for s, r in places), *texts]
    assert holding(folder, [*needles, *(identity(s, r).encode() + b"\0" for s, r in places)]) == {}


EVERY_FATE = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6)]


def test_documents_of_every_fate_go_and_nothing_else(toy: Toy, made: Path) -> None:
    before = toy.dumped()
    assert holding(made, [rows(0)[0]["text"].encode()]), "the search finds what is there"
    outcome = take_down(str(made), of(*EVERY_FATE))
    assert (outcome.records, outcome.unknown) == (7, [])
    good(made)
    gone(made, *EVERY_FATE)
    removed = {identity(s, r) for s, r in EVERY_FATE}
    assert toy.dumped() == [d for d in before if d["id"] not in removed]
    assert len(toy.dumped()) < len(before)
    counts = {c.stage.rpartition(":")[2]: c for c in corpusflow.open_run(str(made)).counts()}
    assert counts["Lines"].dropped == {"not_a_page": 2, "takedown": 7}
    assert counts["Lines"].quarantined == {"broken": 2}


def test_advice_and_the_log_go_along(made: Path) -> None:
    """What was noted of a failed attempt may quote a document; the log may name it."""
    log = made / "run.log"
    others = f"failed at {identity(0, 0)}7 and {identity(0, 0)}+80\nfailed at {identity(1, 7)}\n"
    log.write_text(f"failed at {identity(0, 0)}\n{others}")
    plan = corpusflow.open_run(str(made)).plan
    (wide,) = plan.wides
    Dataset(plan.root(wide), wide.fp).note_failure(0, "ab", {"error": f"boom: {rows(0)[0]['text']}"})
    take_down(str(made), of((0, 0)))
    gone(made, (0, 0))
    assert log.read_text() == f"failed at takedown\n{others}"


def test_shards_without_the_documents_keep_their_records(made: Path) -> None:
    plan = corpusflow.open_run(str(made)).plan

    def parts() -> dict[tuple[str, int], Any]:
        return {
            (i.name, n): (r.generation, [(p.path, p.digest) for p in r.parts])
            for i in datasets_of(plan)
            for n, r in i.dataset.records(i.keys).items()
            if i.node.kind != "exchange"
        }

    before = parts()
    take_down(str(made), of((1, 0), (1, 7)))
    after = parts()
    changed = {key for key in before if before[key] != after[key]}
    assert {n for name, n in changed if "[total]" not in name} == {1}
    assert all(after[key][0] == before[key][0] + 1 for key in changed)


def test_a_twin_that_went_is_not_cited_and_stays_a_reason(toy: Toy, made: Path) -> None:
    kept = {d["id"] for d in toy.dumped()}
    (twin,) = [(s, 3) for s in range(3) if identity(s, 3) in kept]
    take_down(str(made), of(twin))
    good(made)
    gone(made, twin)
    assert not any(FATES["twin"] in d["text"] for d in toy.dumped()), "its duplicates do not take its place"
    values = [
        v
        for shard, node, at, _ in corpusflow.open_run(str(made)).stage(_stage("Unique", made)).dropped()
        for v in _twins(made, shard, node, at)
    ]
    assert values == ["takedown", "takedown"]


def _stage(short: str, folder: Path) -> str:
    return next(s for s in corpusflow.open_run(str(folder)).stages if s.endswith(f":{short}"))


def _twins(folder: Path, shard: Any, node: Any, at: Any) -> list[str]:
    from corpusflow.reader import ShardReader

    reader = ShardReader(corpusflow.open_run(str(folder)).plan, shard)
    out: list[str] = reader.signals(node, at, node.base)["toy.unique.twin"].to_pylist()
    return out


def test_later_runs_of_the_folder_do_not_bring_them_back(toy: Toy, made: Path) -> None:
    """A changed Transform reads the input again; a loosened gate and threshold let other rows in."""
    take_down(str(made), of((0, 0), (0, 1), (0, 2), (2, 4), (2, 8)))
    loose: list[Entry] = [("Cut", {"n": 30}), "Language", "Size", "Digits"]
    result = toy.run(loose, [("Dump", {"columns": ("id", "text")})])
    assert not result.warnings
    good(made)
    gone(made, (0, 0), (2, 8))
    ids = {d["id"] for d in toy.dumped()}
    assert ids == {identity(s, r) for s in range(3) for r in range(13) if r not in (5, 6)} - {
        identity(*p) for p in ((0, 0), (0, 1), (0, 2), (0, 4), (1, 4), (2, 4), (2, 8))
    }


def test_a_refreshed_input_is_held_against_the_list(toy: Toy, made: Path) -> None:
    take_down(str(made), of((0, 0)))
    toy.corpus([[{"text": "new", "lang": "en"}, *rows(0)[1:]], rows(1), rows(2), rows(3)])
    toy.run(STAGES, OUTPUT, refresh=True)
    good(made)
    assert identity(0, 0) not in {d["id"] for d in toy.dumped()}
    assert identity(3, 0) in {d["id"] for d in toy.dumped()}


def test_a_second_takedown_adds_to_the_first(toy: Toy, made: Path) -> None:
    take_down(str(made), of((0, 0), (1, 7)))
    second = take_down(str(made), of((0, 8), (1, 8)))
    good(made)
    gone(made, (0, 0), (1, 7), (0, 8), (1, 8))
    assert Path(second.book).name == "0002.json"
    with pytest.raises(ConfigError, match="names no record"):
        take_down(str(made), of((0, 8)))


def test_older_plans_of_the_folder_are_searched_too(toy: Toy, made: Path) -> None:
    other: list[Entry] = [("Cut", {"n": 20}), "Language", "Size"]
    toy.run(other, [("Dump", {"columns": ("id", "text")})])
    take_down(str(made), of((0, 7)))
    good(made)
    gone(made, (0, 7))
    toy.run(STAGES, OUTPUT)
    good(made)
    gone(made, (0, 7))


def test_the_book_says_what_was_done_and_names_nobody(made: Path) -> None:
    plan = corpusflow.open_run(str(made)).plan
    before = run_digest(plan)
    outcome = take_down(str(made), Request(ids=frozenset({identity(0, 0), "nobody"})))
    body = json.loads(Path(outcome.book).read_text())
    assert (body["records"], body["unknown"], body["request"]) == (1, 1, {"ids": 2, "urls": 0, "domains": 0})
    assert (body["digest_before"], body["digest"]) == (before, run_digest(plan))
    assert body["published"] == ["Dump"]
    wide = next(w for w in body["rewritten"] if "/wide-" in w["dataset"])
    assert wide["shard"] == 0
    (node,) = plan.wides
    record = Dataset(plan.root(node), node.fp).record(0, plan.key(node, plan.by_number[0]))
    assert record is not None
    assert wide["after"] == [[p.label, p.digest] for p in record.parts]
    assert wide["before"][0] != wide["after"][0]
    assert journal.digest("nobody") in body["refused"]["ids"]
    assert journal.begun(str(made)) is None


def test_a_half_done_run_starts_its_half_done_parts_over(toy: Toy, made: Path) -> None:
    plan = corpusflow.open_run(str(made)).plan
    sink = next(n for n in plan.nodes if n.kind == "sink")
    next(Path(plan.root(sink), "total").glob("_SEALED*")).unlink()
    exchange = next(n for n in plan.nodes if n.kind == "exchange")
    next(Path(plan.root(exchange)).glob("_SEALED*")).unlink()
    outcome = take_down(str(made), of((0, 0)))
    assert len(outcome.started_over) >= 2
    gone(made, (0, 0))
    toy.run(STAGES, OUTPUT)
    good(made)
    gone(made, (0, 0))


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the project catches it."""


def stopping(monkeypatch: pytest.MonkeyPatch, at: int) -> list[int]:
    """Let the process die at the `at`-th fault point; the list counts them."""
    seen = [0]

    def point(_: str) -> None:
        seen[0] += 1
        if seen[0] == at:
            raise Killed

    monkeypatch.setattr(faults, "point", point)
    return seen


@pytest.mark.parametrize("places", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_killed_anywhere_it_is_finished_by_the_next_call(
    toy: Toy, made: Path, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    request = of((0, 0), (0, 3), (1, 4), (1, 1))

    def copy(name: str) -> Path:
        shutil.copytree(made, toy.root / name)
        return toy.root / name

    whole = copy("whole")
    seen = stopping(monkeypatch, -1)
    take_down(str(whole), request)
    points = seen[0]
    digest = run_digest(good(whole).plan)
    assert points > 150
    for k in [*range(1, points, points // places), points]:
        folder = copy(f"killed-{k}")
        stopping(monkeypatch, k)
        with pytest.raises(Killed):
            take_down(str(folder), request)
        stopping(monkeypatch, -1)
        if 10 < k < points:
            assert "takedown 1 was begun" in verify(corpusflow.open_run(str(folder))).problems[0].what
            with pytest.raises(StageError, match="takedown 1 was begun"):
                toy.run(STAGES, OUTPUT, run=folder.name)
        take_down_again(str(folder), request)
        assert run_digest(good(folder).plan) == digest, k
        gone(folder, (0, 0), (1, 4), (1, 1))
        shutil.rmtree(folder)


def take_down_again(folder: str, request: Request) -> None:
    """The same command once more; where the last step of all was cut short, there is nothing left to do."""
    with contextlib.suppress(ConfigError):
        take_down(folder, request)


def test_another_driver_is_waited_for(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpusflow.rundir.RunDir.other_driver", lambda self: 4711)
    with pytest.raises(StageError, match="4711"):
        take_down(str(made), of((0, 0)))


MISSES: dict[str, Callable[[], Request]] = {
    "nothing of the run": lambda: of((9, 9)),
    "an id in other case": lambda: Request(ids=frozenset({identity(0, 0).upper()})),
    "part of an id": lambda: Request(ids=frozenset({"lines/00.jsonl"})),
}


@pytest.mark.parametrize("what", MISSES)
def test_a_request_that_names_nothing_changes_nothing(made: Path, what: str) -> None:
    with pytest.raises(ConfigError, match="names no record"):
        take_down(str(made), MISSES[what]())
    assert not (made / "takedowns").exists()
    assert find(corpusflow.open_run(str(made)), of((0, 0))).records == 1
