"""`corpusflow plan --size`: a finished run at another size of input."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from small_runs import Call, SmallRun

import corpusflow
from corpusflow.errors import ConfigError
from corpusflow.forecast import forecast, parse_size


def test_documents_and_hours_grow_with_the_input(call: Call, small_run: SmallRun) -> None:
    run = corpusflow.open_run(str(small_run.folder))
    given = sum(s.length for s in run.plan.shards)
    counts = {c.stage: c for c in run.counts()}
    told = json.loads(call("plan", small_run.config, "--size", f"{given * 1000}", "--json").out)
    assert told["input_bytes"] == given * 1000
    assert [a for a in told["assumed"] if "run some gigabytes" in a] == told["assumed"]
    assert {s["stage"]: round(s["documents"]) for s in told["stages"]} == {
        name: 1000 * c.entered for name, c in counts.items() if c.entered
    }
    hours = {s["stage"]: s["core_hours"] for s in told["stages"]}
    for name in ("ingest.warc", "quality.signals", "tokenize.sentencepiece", "export.bin"):
        assert hours[name] == pytest.approx(counts[name].seconds * 1000 / 3600)
    # a barrier's small tasks are start-up: its own model counts, not their pace
    phases = sum(p["core-hours"] for p in told["barriers"]["dedup.exact"]["phases"])
    assert phases <= hours["dedup.exact"] < phases + 0.5 * counts["dedup.exact"].seconds * 1000 / 3600
    for stage, barrier in told["barriers"].items():
        assert barrier["rests_on"]["documents"] == 1000 * counts[stage].entered
        assert {"phase", "tasks", "TB written", "requests", "GB a worker"} <= set(barrier["phases"][0])
    assert "dedup.exact" in told["barriers"]


def test_what_has_not_run_is_assumed_and_said(call: Call, small_run: SmallRun, tmp_path: object) -> None:
    done = call("plan", small_run.config, "--set", f"run.dir={tmp_path}/new", "--size", "1PB")
    assert done.status == 0
    assert "1000.0 TB of input: 37,037,037,037 documents of 5,500 bytes of text" in done.out
    assert done.out.count("assumed: ") == 2
    assert "what dedup.exact rests on" in done.out
    assert call("plan", small_run.config, "--size", "much").status == 2


@pytest.mark.parametrize(
    ("text", "size"), [("1PB", 1e15), ("2.5 tb", 2.5e12), ("300g", 3e11), ("12", 12), ("1kB", 1e3)], ids=str
)
def test_sizes(text: str, size: float) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "PB", "-1TB", "0GB", "1 XB", "1e3"])
def test_other_words_are_no_sizes(text: str) -> None:
    with pytest.raises(ConfigError, match="is no size"):
        parse_size(text)


def test_what_was_taken_over_has_no_pace(call: Call, small_run: SmallRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = corpusflow.open_run(str(small_run.folder))
    counts = run.counts()
    free = [replace(c, seconds=0.0) if c.stage == "tokenize.sentencepiece" else c for c in counts]
    monkeypatch.setattr("corpusflow.forecast.account", lambda *_: free)
    done = call("plan", small_run.config, "--size", "1TB")
    assert "assumed: nothing for tokenize.sentencepiece: all of it was taken over from an earlier run" in done.out
    (row,) = [line.split() for line in done.out.splitlines() if line.startswith("tokenize.sentencepiece")]
    assert len(row) == 2
    assert any(line.startswith("all ") for line in done.out.splitlines())


def test_hours_have_a_price(call: Call, small_run: SmallRun) -> None:
    told = json.loads(call("plan", small_run.config, "--size", "3TB", "--price", "0.04", "--json").out)
    assert told["core_hours"] == pytest.approx(sum(s["core_hours"] for s in told["stages"]))
    assert told["cost"] == pytest.approx(0.04 * told["core_hours"])
    done = call("plan", small_run.config, "--size", "3TB", "--price", "0.04")
    assert f" in all, {told['cost'] / 3:,.2f} a terabyte of input" in done.out
    call("plan", small_run.config, "--price", "0.04").fails(2, "--price is of a forecast", "--size 1PB")
    assert call("plan", small_run.config, "--size", "3TB", "--price", "-1").status == 2


def test_two_barriers_of_a_kind(small_run: SmallRun) -> None:
    """Each gives up the seconds of its own tasks, not those of both."""
    plan = corpusflow.open_run(str(small_run.folder)).plan
    (node,) = (n for n in plan.nodes if n.kind == "exchange" and n.stage == "dedup.exact")
    twin = replace(node, index=len(plan.nodes), where="elsewhere")
    both = replace(plan, nodes=(*plan.nodes, twin))
    own = forecast(plan, 1e12).stages
    twice = forecast(both, 1e12).stages
    assert {s["stage"]: s["core_hours"] for s in own}["dedup.exact"] == pytest.approx(
        next(s["core_hours"] for s in twice if s["stage"] == "dedup.exact")
    )
