from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corpusflow
from corpusflow.plan import SOURCE_BASE
from corpusflow.reader import ShardReader


def dropped_ids(folder: Any, stage: str) -> dict[str, str]:
    """id -> reason of what a stage dropped, found without the code under test."""
    out = {}
    for shard, node, rows, reasons in corpusflow.open_run(str(folder)).stage(stage).dropped():
        reader = ShardReader(corpusflow.open_run(str(folder)).plan, shard)
        ids = reader.locate(rows, node.base).column("id").to_pylist()
        out.update(zip(ids, reasons, strict=True))
    return out


def test_overview_has_every_stage(call: Any, small_run: Any) -> None:
    result = call("inspect", small_run, "--json")
    stages = [s["stage"] for s in json.loads(result.out)["stages"]]
    assert stages[:3] == ["ingest.warc", "ingest.extract", "clean.unicode"]
    assert stages[-3:] == ["export.parquet", "export.megatron", "export.bin"]
    assert "quality.gopher" in call("inspect", small_run).out


def test_stage_counts_and_samples(call: Any, small_run: Any) -> None:
    truth = dropped_ids(small_run, "quality.gopher")
    (report,) = json.loads(call("inspect", small_run, "--stage", "quality.gopher", "--samples", 1000, "--json").out)
    assert report["in"] == report["kept"] + sum(report["dropped"].values())
    sampled = {s["id"]: reason for reason, some in report["samples"].items() for s in some if reason != "kept"}
    assert sampled == truth
    assert len(report["samples"]["kept"]) == report["kept"]
    few = report["samples"]["gopher_few_words"][0]
    rule = next(r for r in few["rules"] if r["reason"] == "gopher_few_words")
    assert rule["signal"] == "quality.words"
    assert rule["threshold"] == 50
    assert rule["value"] < 50
    assert not rule["passed"]
    assert len(few["text"]) <= 200


def test_stage_for_people(call: Any, small_run: Any) -> None:
    out = call("inspect", small_run, "--stage", "quality.gopher", "--samples", 2).out
    assert re.search(r"gopher_few_words: quality\.words = \d+, needs >= 50  <- fails", out)
    assert re.search(r"in \d+ = kept \d+ \+ dropped \d+ \+ quarantined 0", out)


def test_one_reason(call: Any, small_run: Any) -> None:
    (report,) = json.loads(
        call("inspect", small_run, "--stage", "quality.gopher", "--reason", "gopher_few_words", "--json").out
    )
    assert list(report["samples"]) == ["gopher_few_words"]
    call("inspect", small_run, "--stage", "quality.gopher", "--reason", "few_words").fails(
        2, "hint", "gopher_few_words"
    )


def test_a_source_shows_what_it_skipped(call: Any, small_run: Any) -> None:
    (report,) = json.loads(call("inspect", small_run, "--stage", "ingest.warc", "--json").out)
    assert report["in"] == report["kept"] + sum(report["dropped"].values()) + sum(report["quarantined"].values())
    assert set(report["samples"]) == {*report["dropped"], "kept"}


def test_samples_are_the_same_every_time(call: Any, small_run: Any) -> None:
    first = call("inspect", small_run, "--stage", "quality.gopher", "--json").out
    assert call("inspect", small_run, "--stage", "quality.gopher", "--json").out == first


def test_shard_names_its_files_and_records(call: Any, small_run: Any) -> None:
    body = json.loads(call("inspect", small_run, "--shard", 1, "--json").out)
    assert body["input"][0]["path"].endswith(".warc.gz")
    assert all(stage["committed"] for stage in body["stages"])
    for stage in body["stages"]:
        for file in stage["files"]:
            assert Path(file["path"]).stat().st_size == file["bytes"]
    assert "shard 1" in call("inspect", small_run, "--shard", 1).out
    call("inspect", small_run, "--shard", 99).fails(2, "no shard 99", "hint")


def test_quarantine_says_where_the_bytes_lie(call: Any, small_run: Any, tmp_path: Path) -> None:
    entries = [json.loads(line) for line in call("quarantine", "list", small_run, "--json").out.splitlines()]
    cut = next(e for e in entries if e["reason"] == "cut_off")
    assert cut["stage"] == "ingest.warc"
    raw = Path(cut["path"]).read_bytes()[cut["offset"] : cut["offset"] + cut["length"]]
    assert raw.startswith(b"\x1f\x8b")
    target = tmp_path / "record.gz"
    shown = call("quarantine", "show", small_run, cut["id"], "--bytes", target)
    assert target.read_bytes() == raw
    assert "cut_off" in shown.out
    assert (
        call("inspect", small_run, "--quarantine", "--json").out == call("quarantine", "list", small_run, "--json").out
    )
    call("quarantine", "show", small_run, cut["id"], "--bytes", target).fails(2, "exists already")
    call("quarantine", "show", small_run, "nobody").fails(2, "not in quarantine", "hint")


def test_explain_a_dropped_document(call: Any, small_run: Any) -> None:
    key, reason = next(iter(dropped_ids(small_run, "quality.gopher").items()))
    story = json.loads(call("explain", small_run, key, "--json").out)
    assert story["fate"] == f"dropped by quality.gopher: {reason}"
    assert story["id"] == key
    stages = [s["stage"] for s in story["stages"]]
    assert stages[0] == "ingest.warc"
    assert "tokenize.sentencepiece" not in stages
    gopher = next(s for s in story["stages"] if s["stage"] == "quality.gopher")
    failed = [r["reason"] for r in gopher["rules"] if not r["passed"]]
    assert failed[0] == reason
    assert call("inspect", small_run, "--id", key, "--json").out == call("explain", small_run, key, "--json").out


def test_explain_a_kept_document_by_url(call: Any, small_run: Any) -> None:
    run = corpusflow.open_run(str(small_run))
    kept = run.stage("export.bin").table(["id", "url", "text", "tokenize.tokens"]).slice(0, 1).to_pylist()[0]
    story = json.loads(call("explain", small_run, kept["url"], "--json").out.splitlines()[0])
    assert story["id"] == kept["id"]
    assert story["fate"] == "kept to the end"
    assert story["excerpt"] == kept["text"][:200]
    megatron = next(s for s in story["stages"] if s["stage"] == "export.megatron")["places"][0]
    assert megatron["tokens"] == len(kept["tokenize.tokens"])
    data = (small_run.folder / "exports" / "megatron" / megatron["file"]).read_bytes()
    start = 2 * megatron["token"]
    span = data[start : start + 2 * megatron["tokens"]]
    assert list(memoryview(span).cast("H")) == kept["tokenize.tokens"]
    out = call("explain", small_run, kept["url"]).out
    assert "kept to the end" in out
    assert "train-00000-of-00001.parquet" in out


def test_explain_names_the_twin(call: Any, small_run: Any) -> None:
    run = corpusflow.open_run(str(small_run))
    key = next(iter(dropped_ids(small_run, "dedup.exact")))
    story = json.loads(call("explain", small_run, key, "--json").out)
    twin = next(s["signals"]["dedup.exact.twin"] for s in story["stages"] if s["part"] == "exchange")
    assert twin in run.stage("dedup.exact").table(["id"])["id"].to_pylist()


def test_explain_every_fate_agrees_with_the_counts(call: Any, small_run: Any) -> None:
    """Every record of a shard that is not kept, and some that are: stories end as the commit records count them."""
    from corpusflow.explain import Place, tell

    run = corpusflow.open_run(str(small_run))
    shard = min(run.plan.shards, key=lambda s: s.length)
    reader = ShardReader(run.plan, shard)
    sink = run.plan.nodes[-1]
    alive = np.flatnonzero(reader.fate(sink.index, sink.base).alive).astype(np.int32)
    kept = set(reader.rows_at(alive, sink.base, SOURCE_BASE).tolist())
    assert kept
    ends: dict[str, int] = {}
    for row in sorted((set(range(reader.rows_in(SOURCE_BASE))) - kept) | set(sorted(kept)[::10])):
        fate = tell(run, Place(shard, row), reader).fate
        end = "quarantined" if fate.startswith("quarantined") else fate
        ends[end] = ends.get(end, 0) + 1
    for node in run.plan.nodes:
        record = None if node.kind == "sink" else reader.record(node)
        for reason, n in (record.counters.get("dropped", {}) if record else {}).items():
            word = "skipped" if node.kind == "source" else "dropped"
            assert ends.pop(f"{word} by {node.stage}: {reason}") == n
    ends.pop("quarantined", 0)
    assert set(ends) == {"kept to the end"}


@pytest.mark.parametrize("command", [["explain"], ["inspect", "--id"]])
def test_explain_an_unknown_document(call: Any, small_run: Any, command: list[str]) -> None:
    call(command[0], small_run, *command[1:], "http://nowhere.example/").fails(2, "no record", "hint")


def test_control_characters_do_not_reach_the_terminal() -> None:
    from corpusflow.cli._documents import plain

    assert plain("a\x1b[31mb\u202ec\nd") == "a\\u001b[31mb\\u202ec d"
