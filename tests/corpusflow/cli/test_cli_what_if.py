from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_runs import CONFIG, write_config

import corpusflow
from corpusflow.rules import Rule, evaluate
from corpusflow.whatif import Curve, Overlap, what_if

SHORT = CONFIG.partition("output:")[0].replace("  - tokenize", "  # - tokenize")


def ask(call: Any, run: Any, *arguments: object) -> dict[str, Any]:
    result = call("what-if", run, "--json", *arguments)
    assert result.status == 0, result.err
    body: dict[str, Any] = json.loads(result.out)
    return body


def truth(run: Any) -> dict[str, dict[str, Any]]:
    """Counts of every stage, as its records have them."""
    return {c.stage: c.as_data() for c in corpusflow.open_run(str(run)).counts()}


def drops(one: dict[str, Any], side: int) -> dict[str, int]:
    return {r["reason"]: r["dropped"][side] for r in one["rules"] if r["dropped"][side]}


CHANGES: dict[str, list[str]] = {
    "looser": ["quality.gopher.min_words=5"],
    "a rule gone": ["quality.gopher.min_stop_words=0", "quality.gopher.max_bullet_lines=1.0"],
    "two stages": ["quality.gopher.min_words=200", "quality.gopher_repetition.max_top_2gram_chars=0.01"],
    "gate and behind it": ["language.identify.keep=[en]", "quality.gopher.min_words=300"],
}


@pytest.fixture(scope="module")
def short_run(quick_root: Path) -> Path:
    """A run that ends with dedup, to be run again under other thresholds."""
    folder = quick_root / "what-if"
    corpusflow.run(str(write_config(folder, SHORT)))
    return folder


@pytest.mark.parametrize("sets", CHANGES.values(), ids=CHANGES)
def test_counts_are_those_of_a_real_run(call: Any, short_run: Path, sets: list[str]) -> None:
    answer = ask(call, short_run / "run", *(a for s in sets for a in ("--set", s)))
    before = truth(short_run / "run")
    try:
        corpusflow.run(str(short_run / "config.yaml"), sets)
        after = truth(short_run / "run")
    finally:
        corpusflow.run(str(short_run / "config.yaml"))
    assert answer["horizon"] == "dedup.exact"
    assert answer["unmeasured"] == 0
    for one in answer["filters"]:
        for side, counts in enumerate((before, after)):
            expected = counts[one["stage"]]
            assert drops(one, side) == expected["dropped"], one["stage"]
            assert one["kept"][side] == expected["kept"]
    assert answer["kept"] == [before["dedup.exact"]["in"], after["dedup.exact"]["in"]]
    assert answer["kept"][1] - answer["kept"][0] == answer["gained"] - answer["lost"]
    assert [sum(v[i] for v in answer["languages"].values()) for i in (0, 1)] == answer["kept"]
    assert answer["sources"] == {"warc": answer["kept"]}


def test_a_loosened_gate_says_what_was_never_measured(call: Any, short_run: Path) -> None:
    answer = ask(call, short_run / "run", "--set", "language.identify.keep=[en, zh, ja, fr]")
    before = truth(short_run / "run")
    try:
        corpusflow.run(str(short_run / "config.yaml"), ["language.identify.keep=[en, zh, ja, fr]"])
        after = truth(short_run / "run")
    finally:
        corpusflow.run(str(short_run / "config.yaml"))
    gate = next(f for f in answer["filters"] if f["stage"] == "language.identify")
    assert gate["kept"] == [before["language.identify"]["kept"], after["language.identify"]["kept"]]
    assert drops(gate, 1) == after["language.identify"]["dropped"]
    assert answer["unmeasured"] == gate["kept"][1] - gate["kept"][0] > 0
    assert answer["kept"][0] == answer["kept"][1]
    assert "never measured" in call("what-if", short_run / "run", "--set", "language.identify.keep=[en, zh, ja]").out


def test_documents_that_move(call: Any, small_run: Any) -> None:
    answer = ask(call, small_run, "--set", "quality.gopher.min_words=120", "--samples", 100)
    moved = answer["samples"]
    assert len(moved) == answer["lost"] > 0
    words = corpusflow.open_run(str(small_run)).stage("quality.gopher").table(["id", "quality.words", "text"])
    by_id = {r["id"]: r for r in words.to_pylist()}
    for one in moved:
        assert (one["now"], one["then"], one["reason"]) == ("kept", "dropped", "gopher_few_words")
        assert one["value"] == by_id[one["id"]]["quality.words"] < 120
        assert one["text"] == by_id[one["id"]]["text"][:200]
    back = ask(call, small_run, "--set", "quality.gopher.min_words=5")["samples"]
    assert back
    assert all((m["now"], m["then"]) == ("dropped", "kept") and m["value"] < 50 for m in back)
    out = call("what-if", small_run, "--set", "quality.gopher.min_words=120").out
    assert "kept -> dropped" in out
    assert "50 -> 120" in out
    assert "share kept by quality.words" in out


def test_a_rule_behind_the_last_exchange_is_known_to_the_end(call: Any, small_run: Any) -> None:
    answer = ask(call, small_run)
    assert answer["horizon"] == ""
    counts = truth(small_run)
    assert answer["kept"] == [counts["dedup.exact"]["kept"]] * 2
    assert {f["stage"] for f in answer["filters"]} >= {"ingest.extract", "dedup.exact"}


def test_overlap_and_alone(call: Any, small_run: Any) -> None:
    """Against the same worked out in Python from the signals of everything the gates let pass."""
    run = corpusflow.open_run(str(small_run))
    answer = ask(call, small_run)
    nodes = [n for n in run.plan.nodes if n.kind == "filter" and n.stage.startswith("quality.")]
    names = sorted({c for n in nodes for c in n.reads})
    from corpusflow.reader import ShardReader

    fails: dict[str, list[bool]] = {}
    for shard in run.plan.shards:
        reader = ShardReader(run.plan, shard)
        base = nodes[0].base
        rows = np.arange(reader.rows_in(base), dtype=np.int32)
        providers = {c: i for n in nodes for c, i in n.providers.items()}
        columns = {c: reader.column(c, run.plan.nodes[providers[c]], rows, base) for c in names}
        for node in nodes:
            for rule, row in zip(node.rule_list, evaluate(node.rule_list, columns, len(rows)).fails, strict=True):
                fails.setdefault(rule.reason, []).extend(row.tolist())
    matrix = np.array(list(fails.values()))
    alone = matrix & (matrix.sum(0) == 1)
    expected = {r: int(n) for r, n in zip(fails, alone.sum(1), strict=True)}
    found = {r["reason"]: r["only_this_rule"] for f in answer["filters"] for r in f["rules"]}
    dedup = set(drops(next(f for f in answer["filters"] if f["stage"] == "dedup.exact"), 0))
    assert dedup == {"exact_duplicate"}
    assert {k: v for k, v in found.items() if k in expected} == expected
    overlap = answer["overlap"]
    assert overlap["documents"] == matrix.shape[1]
    for i, a in enumerate(overlap["rules"]):
        for j, b in enumerate(overlap["rules"]):
            if a in fails and b in fails:
                assert overlap["both"][i][j] == int((np.array(fails[a]) & np.array(fails[b])).sum())


def test_curve_against_counting() -> None:
    words = pa.array([10, 20, 20, 30, None, 40], pa.int32())
    lines = pa.array([1, 2, 0, 3, 1, 4], pa.int32())
    rule = Rule("few", "q.words", ">=", 20)
    curve = Curve(0, Rule("few", "q.words", ">=", 15), rule)
    curve.add({"q.words": words}, np.array([True, True, True, True, True, False]))
    (group,) = curve.as_data()["groups"]
    assert curve.documents == 5
    assert (group["applies_to"], group["now"], group["then"]) == (4, 15, 20)
    assert dict(map(tuple, group["points"])) == {10: 1.0, 15: 0.75, 20: 0.75, 30: 0.25}
    ratio = Curve(0, None, Rule("many", "q.words", "<", 10.5, per="q.lines"))
    ratio.add({"q.words": words, "q.lines": lines}, np.ones(6, bool))
    (group,) = ratio.as_data()["groups"]
    assert dict(map(tuple, group["points"])) == {10.0: 0.0, 10.5: 1.0}, "no line: not applicable"
    table = Curve(0, None, Rule("low", "q.words", ">=", {"en": 20, "zh": None, "*": 30}, by="l.code"))
    table.add({"q.words": words, "l.code": pa.array(["en", "zh", "en", "fr", "en", None])}, np.ones(6, bool))
    groups = {g["key"]: g for g in table.as_data()["groups"]}
    assert set(groups) == {"en", "fr"}
    assert groups["en"]["points"] == [[10, 1.0], [20, 0.5]]
    assert groups["fr"]["then"] == 30


def test_curves_thin_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    from corpusflow.whatif import survival

    monkeypatch.setattr(survival, "_MOST_VALUES", 1_000)
    curve = Curve(0, None, Rule("few", "q.words", ">=", 500))
    for _ in range(40):
        curve.add({"q.words": pa.array(np.random.default_rng(1).permutation(1_000))}, np.ones(1_000, bool))
    data = curve.as_data()
    assert data["one_in"] >= 32
    share = dict(map(tuple, data["groups"][0]["points"]))[500]
    assert abs(share - 0.5) < 0.06


def test_overlap_over_several_shards() -> None:
    overlap = Overlap(["a", "b", "c"])
    rows = np.arange(4)
    known = np.array([True, True, True, True, False])
    overlap.add([(0, rows, np.array([1, 1, 0, 0], bool)), (2, rows, np.array([0, 1, 1, 0], bool))], known)
    overlap.add([(1, np.array([1, 2, 3]), np.array([0, 1, 1], bool))], known)
    data = overlap.as_data()
    assert data == {
        "documents": 8,
        "rules": ["a", "b", "c"],
        "only": [1, 2, 1],
        "both": [[2, 0, 1], [0, 2, 0], [1, 0, 2]],
    }


def test_reads_no_text_but_of_samples(small_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from corpusflow import reader

    def refuse(*_: Any) -> Any:
        raise AssertionError("documents were read")

    monkeypatch.setattr(reader.ShardReader, "documents", refuse)
    answer = what_if(corpusflow.open_run(str(small_run)), ["quality.gopher.min_words=200"], samples=0)
    assert answer.lost > 0


@pytest.mark.parametrize(
    ("sets", "parts"),
    [
        (["quality.gofer.min_words=3"], ["no stage of this run is called 'quality.gofer'", "quality.gopher"]),
        (["quality.gopher.min_word=3"], ["no parameter 'min_word'", "did you mean min_words?"]),
        (["quality.gopher.min_words=many"], ["quality.gopher.min_words"]),
        (["quality.gopher.min_words"], ["expected key=value"]),
        (["clean.unicode.form=NFKC"], ["clean.unicode"]),
        (["dedup.exact.ignore_case=false"], ["changes what is measured", "corpusflow run"]),
    ],
)
def test_what_cannot_be_asked(call: Any, small_run: Any, sets: list[str], parts: list[str]) -> None:
    call("what-if", small_run, *(a for s in sets for a in ("--set", s))).fails(2, *parts)


def test_stages_by_number_and_table_keys(call: Any, small_run: Any) -> None:
    named = ask(call, small_run, "--set", "quality.gopher.min_words=120", "--samples", 0)
    numbered = ask(call, small_run, "--set", "stages.4.min_words=120", "--samples", 0)
    assert numbered == named
    table = ask(call, small_run, "--set", "language.identify.min_score={en: 0.999, '*': 0.65}")
    one_key = ask(
        call, small_run, "--set", "language.identify.min_score.en=0.999", "--set", "language.identify.min_score.*=0.65"
    )
    assert one_key == table
    call("what-if", small_run, "--curve", "few_words").fails(2, "no rule drops", "gopher_few_words")
    assert "gopher_long_words" in call("what-if", small_run, "--curve", "gopher_long_words").out
