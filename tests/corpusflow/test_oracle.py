"""Random pipelines over random documents, against an interpreter that knows no batch, shard, checkpoint or plan.

Whatever the batches, whatever was committed before, whatever was configured before in the same run folder: the same
survivors, the same numbers in the closing table, the same digest as from nothing.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from oracle import Oracle
from toys import Toy, short_name

import corpusflow
from corpusflow import RunFailedError
from corpusflow.results import RunResult

Stages = list[tuple[str, dict[str, Any]]]
SIGNALS = (
    "toy.size",
    "toy.digits",
    "toy.half",
    "toy.lang",
    "toy.vowels",
    "toy.codes",
    "toy.changed",
    "toy.unique.twin",
)
COLUMNS = ["id", "text", "lang", "rest?", *(f"{c}?" for c in SIGNALS)]
OUTPUT = [("Dump", {"columns": COLUMNS})]
NUMBERS = ("toy.size", "toy.digits", "toy.half", "toy.vowels")

texts = st.none() | st.builds(
    lambda t, fault: t + fault, st.text("aAb12", max_size=7), st.sampled_from([""] * 14 + list("!?#~%&"))
)
records = st.fixed_dictionaries(
    {"text": texts, "lang": st.sampled_from(["EN", "zh", None])},
    optional={
        "skip": st.sampled_from([None, None, None, "request"]),
        "bad": st.sampled_from([None, None, "torn: at 3"]),
    },
)
corpora = st.lists(st.lists(records, max_size=9), min_size=1, max_size=3)


@st.composite
def rules(draw: st.DrawFn, columns: list[str]) -> dict[str, Any]:
    """A Keep over a column that some stage makes."""
    column = draw(st.sampled_from(columns))
    rule: dict[str, Any] = {"column": column, "gate": draw(st.booleans()), "reason": f"not_{draw(st.integers(0, 2))}"}
    if column == "toy.lang":
        op = draw(st.sampled_from(["in", "not in", "==", "!="]))
        return rule | {"op": op, "value": "en" if op in ("==", "!=") else draw(st.sampled_from([["en"], ["zh", "de"]]))}
    if column not in NUMBERS:
        return rule | {"op": draw(st.sampled_from(["is null", "not null"]))}
    rule |= {"op": draw(st.sampled_from([">=", "<=", ">", "<", "==", "!="])), "value": draw(st.integers(0, 4))}
    numbers = [c for c in columns if c in NUMBERS]
    form = draw(st.integers(0, 5))
    if form == 0:
        rule |= {"per": draw(st.sampled_from(numbers)), "value": draw(st.integers(0, 2))}
    elif form == 1 and "toy.lang" in columns:
        table = draw(st.dictionaries(st.sampled_from(["en", "zh", "*"]), st.integers(0, 4) | st.none(), min_size=1))
        rule |= {"by": "toy.lang", "value": table}
    return rule


@st.composite
def pipelines(draw: st.DrawFn) -> Stages:
    """Stages in any order; each Score once, rules only on what some stage of the config makes."""
    scores = draw(st.lists(st.sampled_from(["Size", "Digits", "Half", "Language", "vowels"]), unique=True, min_size=1))
    if "Half" in scores and "Size" not in scores:
        scores.append("Size")
    adds = {
        "Size": "toy.size",
        "Digits": "toy.digits",
        "Half": "toy.half",
        "Language": "toy.lang",
        "vowels": "toy.vowels",
    }
    stages: Stages = [(s, {}) for s in scores]
    stages += draw(
        st.lists(st.sampled_from([("Upper", {}), ("Cut", {"n": 3}), ("Cut", {"n": 5}), ("Tidy", {})]), max_size=2)
    )
    stages += draw(st.sampled_from([[], [("Codes", {})]]))
    stages += draw(st.sampled_from([[], [("Unique", {"gate": False})], [("Unique", {"gate": True})]]))
    stages = draw(st.permutations(stages))
    made = [adds[s] for s in scores]
    out: Stages = []
    for name, params in stages:
        if name in ("Upper", "Cut"):
            params = params | {"keep": draw(st.sampled_from([False, False, True]))}
        out.append((name, params))
        made += {"Upper": ["toy.changed"], "Unique": ["toy.unique.twin", "toy.unique.key"]}.get(name, [])
        out += [("Keep", rule) for rule in draw(st.lists(rules(made), max_size=2))]
    return out


@pytest.fixture(scope="module")
def home(quick_root: Path) -> Iterator[Path]:
    folder = quick_root / "oracle"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(toy: Toy, stages: Stages, **options: Any) -> RunResult | None:
    """The result, or None where no document was left."""
    try:
        return toy.run(stages, OUTPUT, **options)
    except RunFailedError as e:
        if "no document is left" not in str(e):
            raise
        return None


def agree(toy: Toy, result: RunResult, expected: Oracle, run: str = "run") -> None:
    """Hold a run against the oracle."""
    rows = [
        (short_name(c.stage), c.inserted, c.entered, c.kept, c.dropped, c.all_quarantined, c.measured)
        for c in result.counts
    ]
    assert rows == [
        (r.stage, r.inserted, r.entered, r.kept, r.dropped, r.quarantined, r.measured) for r in expected.rows
    ]
    assert all(c.exact for c in result.counts)
    got = toy.dumped(run)
    wanted = []
    known = {c for i in expected.items for c in i.adds} | {"text", "lang"}
    for d in expected.kept:
        wanted.append({"id": d.id} | {c: d.values.get(c) for c in map(_plain, COLUMNS[1:]) if c in known})
    assert got == wanted
    opened = corpusflow.open_run(str(toy.root / run))
    once = [
        s for s in opened.stages if sum(n.stage == s and n.kind not in ("wide", "sink") for n in opened.plan.nodes) == 1
    ]
    for stage in once:
        assert opened.stage(stage).table(["id"]).column("id").to_pylist() == expected.after[short_name(stage)]


def _plain(column: str) -> str:
    return column.removesuffix("?")


def quick(examples: int) -> Any:
    return settings(
        max_examples=examples,
        phases=[Phase.explicit, Phase.reuse, Phase.generate] if not os.environ.get("SHRINK") else list(Phase),
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def check_against_the_oracle(home: Path, files: list[Any], stages: Stages, batch_rows: int, rng: random.Random) -> None:
    toy = Toy(home)
    try:
        toy.corpus(files)
        expected = Oracle(files, stages, OUTPUT)
        first = run(toy, stages)
        assert (first is None) == (not expected.kept)
        if first is None:
            event("nothing left")
            return
        agree(toy, first, expected)
        other = run(toy, stages, run="other", batch_rows=batch_rows)
        assert other is not None
        assert other.digest == first.digest, "the digest depends on how rows were cut into batches"
        forget(toy.root / "other", rng)
        again = run(toy, stages, run="other", batch_rows=batch_rows + 1)
        assert again is not None
        assert again.digest == first.digest, "the digest depends on what was committed before"
        agree(toy, again, expected, "other")
    finally:
        toy.remove()


def forget(folder: Path, rng: random.Random) -> None:
    """Delete the folders of some stages or of some of their phases, as if they had never run."""
    for stage in sorted(folder.glob("*/*-*/")):
        if stage.parent.name in ("plans", "code", "exports"):
            continue
        chance = rng.random()
        phases = [p for p in sorted(stage.iterdir()) if p.is_dir() and p.name not in ("data", "_commits", "_failures")]
        if chance < 0.25:
            shutil.rmtree(stage)
        elif chance < 0.5 and phases:
            shutil.rmtree(phases[-1])
        elif chance < 0.6:
            for seal in stage.glob("_SEALED*"):
                seal.unlink()
            for record in stage.glob("_commits/*"):
                if rng.random() < 0.5:
                    record.unlink()


@quick(25)
@given(corpora, pipelines(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_any_pipeline(home: Path, files: list[Any], stages: Stages, batch_rows: int, rng: random.Random) -> None:
    check_against_the_oracle(home, files, stages, batch_rows, rng)


@pytest.mark.slow
@settings(quick(1), max_examples=1500, derandomize=False)
@given(corpora, pipelines(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_any_pipeline_at_length(
    home: Path, files: list[Any], stages: Stages, batch_rows: int, rng: random.Random
) -> None:
    check_against_the_oracle(home, files, stages, batch_rows, rng)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Stages, Stages]:
    """A config, and the same with one thing changed."""
    before = draw(pipelines())
    after = [(n, dict(p)) for n, p in before]
    kind = draw(st.sampled_from(["drop", "swap", "value", "value", "gate", "keep", "other"]))
    rules_at = [i for i, (n, _) in enumerate(after) if n == "Keep"]
    where = draw(
        st.sampled_from(rules_at) if kind in ("value", "gate") and rules_at else st.integers(0, len(after) - 1)
    )
    name, params = after[where]
    needed = {"Size", "Digits", "Half", "Language", "vowels", "Upper", "Unique"}
    if kind == "drop" and name not in needed:
        del after[where]
    elif kind == "swap" and where:
        after[where - 1], after[where] = after[where], after[where - 1]
    elif kind == "value" and isinstance(params.get("value"), int):
        params["value"] += draw(st.sampled_from([-1, 1]))
    elif kind in ("gate", "keep") and kind in params:
        params[kind] = not params[kind]
    elif name == "Digits":
        params["modulo"] = 2
    elif name == "Cut":
        params["n"] = 4
    return before, after


def check_a_change(home: Path, files: list[Any], before: Stages, after: Stages) -> None:
    toy = Toy(home)
    try:
        toy.corpus(files)
        try:
            expected = Oracle(files, after, OUTPUT)
        except StopIteration:  # the swap put a reader before the only stage that makes its column
            return
        run(toy, before)
        changed = run(toy, after)
        fresh = run(toy, after, run="fresh")
        assert (changed is None) == (fresh is None) == (not expected.kept)
        if changed is None or fresh is None:
            return
        agree(toy, changed, expected)
        assert changed.digest == fresh.digest, "a stage was reused though what it depends on changed"
        first = run(toy, before)
        if first is not None:
            assert not any(s.tasks for s in first.steps), "changing back ran something"
    finally:
        toy.remove()


@quick(20)
@given(corpora, changes())
def test_changing_a_config_in_its_run_folder(home: Path, files: list[Any], change: tuple[Stages, Stages]) -> None:
    check_a_change(home, files, *change)


@pytest.mark.slow
@settings(quick(1), max_examples=1500, derandomize=False)
@given(corpora, changes())
def test_changing_a_config_at_length(home: Path, files: list[Any], change: tuple[Stages, Stages]) -> None:
    check_a_change(home, files, *change)
