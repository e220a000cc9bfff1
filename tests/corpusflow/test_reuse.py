"""What a changed config measures and reads again, and what `plan` says of it beforehand."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from toys import ROWS, STAGES, Entry, Toy, short_name, stage_name

import corpusflow
from corpusflow import PlanDriftError, RunFailedError
from corpusflow.api import Silent
from corpusflow.config import build_config
from corpusflow.preview import Preview, preview
from corpusflow.results import RunResult
from corpusflow.runner import Runner

GATE = ("Keep", {"column": "toy.lang", "op": "in", "value": ["en"], "gate": True, "reason": "toy_language"})
SOFT = ("Keep", {"column": "toy.size", "op": ">=", "value": 2, "reason": "toy_small"})
PIPELINE: list[Entry] = [("Cut", {"n": 9}), "Language", GATE, "Size", SOFT, "Unique", "Digits"]


@pytest.fixture(autouse=True)
def corpus(toy: Toy) -> None:
    toy.corpus([[*ROWS, {"text": "zwei", "lang": "de"}, {"text": "x", "lang": "en"}], ROWS])


def edited(where: int, **params: Any) -> list[Entry]:
    out = list(PIPELINE)
    name, before = out[where]
    out[where] = (name, {**before, **params})
    return out


def cost(result: RunResult) -> list[tuple[str, int, int, bool]]:
    """(what, tasks, rows measured, whether text was read) of every round that had tasks."""
    return [
        (" + ".join(map(short_name, s.title.split(" + "))), s.tasks, s.measured, s.text_bytes > 0)
        for s in result.steps
        if s.tasks
    ]


def look(toy: Toy, stages: Sequence[Entry], **options: Any) -> Preview:
    """`corpusflow plan`."""
    refresh = options.pop("refresh", False)
    runner = Runner(toy.config(stages, **options), Silent(), refresh=refresh)
    return preview(runner.plan)


def actions(seen: Preview) -> dict[str, tuple[str, str]]:
    """Node -> (action, why); the second Filter called Keep is `Keep.filter 2`."""
    out: dict[str, tuple[str, str]] = {}
    for s in seen.stages:
        name = f"{short_name(s.stage)}.{s.part}"
        out[f"{name} 2" if name in out else name] = (s.action, s.why)
    return out


def test_from_nothing(toy: Toy) -> None:
    seen = look(toy, PIPELINE)
    assert {a for a, _ in actions(seen).values()} == {"run"}
    assert actions(seen)["Lines.source"] == ("run", "new")
    assert not (toy.root / "run").exists(), "plan wrote something"
    result = toy.run(PIPELINE)
    assert [c[1] for c in cost(result)] == [2, 2, 2, 2, 2, 1]
    assert sum(m for _, _, m, _ in cost(result)) == 12 + 3 * 11


def test_nothing_changed(toy: Toy) -> None:
    first = toy.run(PIPELINE)
    for options in ({}, {"batch_rows": 2}, {"workers": 7}, {"attempts": 9}):
        again = toy.run(PIPELINE, **options)
        assert cost(again) == []
        assert again.digest == first.digest
    assert {a for a, _ in actions(look(toy, PIPELINE)).values()} == {"reuse"}


def test_a_soft_threshold_measures_nothing_and_reads_no_text(toy: Toy) -> None:
    first = toy.run(PIPELINE)
    stages = edited(4, value=6)
    seen = actions(look(toy, stages))
    changed = ["Keep.filter 2", "Unique.exchange", "Unique.filter", "Dump.sink"]
    assert [k for k, (a, _) in seen.items() if a != "reuse"] == changed
    assert seen["Keep.filter 2"][1] == "value: 2 -> 6"
    assert all(seen[k][1] == f"what it works on changes with {STAGES}:Keep" for k in changed[1:])
    result = toy.run(stages)
    rounds = cost(result)
    assert rounds[0] == ("Lines … Digits (6 stages)", 2, 0, False) or rounds[0][1:] == (2, 0, False)
    assert all(measured == 0 for _, _, measured, _ in rounds)
    assert [c.kept for c in result.counts] != [c.kept for c in first.counts]
    back = toy.run(PIPELINE)
    assert cost(back) == []
    assert back.digest == first.digest


def test_loosening_a_gate_says_what_it_will_measure(toy: Toy) -> None:
    toy.run(PIPELINE)
    stages = edited(2, value=["en", "de"])
    seen = look(toy, stages)
    (note,) = [n for n in seen.notes if "is loosened" in n]
    assert "12 rows pass (11 before)" in note
    assert "1 rows have to be measured behind it, and extracted from the input again" in note
    assert actions(seen)["Keep.filter"][1] == "value: ['en'] -> ['en', 'de']"
    result = toy.run(stages)
    assert sum(m for _, _, m, _ in cost(result)) == 3, "three Scores behind the gate, one row each"
    assert result.digest == toy.run(stages, run="fresh").digest
    assert cost(toy.run(PIPELINE)) == []


def test_tightening_a_gate_and_changing_nothing_by_it(toy: Toy) -> None:
    toy.run(edited(2, value=["en", "de"]))
    (note,) = [n for n in look(toy, PIPELINE).notes if n.startswith("gate ")]
    assert "is tightened: 11 rows pass (12 before); 0 rows have to be measured behind it" in note
    result = toy.run(PIPELINE)
    assert sum(m for _, _, m, _ in cost(result)) == 0
    assert result.digest == toy.run(PIPELINE, run="fresh").digest
    (note,) = [n for n in look(toy, edited(2, value=["en", "xx"])).notes if n.startswith("gate ")]
    assert "changed but lets the same 11 rows pass" in note


def test_a_torn_note_of_an_earlier_config_costs_its_rows_and_no_more(toy: Toy) -> None:
    """Where there are no hard links, a crash can leave half a PLAN file; later configs look through those of earlier ones."""
    toy.run(PIPELINE)
    for path in (toy.root / "run").rglob("PLAN-*.json"):
        path.write_bytes(path.read_bytes()[:30])
    toy.run(edited(2, value=["en", "de"]))
    got = toy.dumped(export="Dump")
    toy.run(edited(2, value=["en", "de"]), run="other")
    assert got == toy.dumped("other")


def test_a_new_score_measures_only_itself(toy: Toy) -> None:
    toy.run(PIPELINE)
    stages = [*PIPELINE, "vowels"]
    seen = actions(look(toy, stages))
    assert [k for k, (a, _) in seen.items() if a != "reuse"] == ["vowels.score", "Dump.sink"]
    assert seen["vowels.score"] == ("run", "new")
    rounds = cost(toy.run(stages))
    assert rounds[0][1:] == (2, 11, True)
    assert sum(m for _, _, m, _ in rounds) == 11


def test_what_a_stage_itself_says_it_was_called_for(toy: Toy) -> None:
    """Not the engine's own counters: a file that the stage writes a byte to per row."""
    log = toy.root / "calls"
    stages = [*PIPELINE, ("Counted", {"log": str(log)})]
    toy.run(stages)
    assert log.stat().st_size == 11
    toy.run([*edited(4, value=6), ("Counted", {"log": str(log)})])
    toy.run(stages, seed=8)
    assert log.stat().st_size == 11
    toy.run([*edited(2, value=["en", "de"]), ("Counted", {"log": str(log)})])
    assert log.stat().st_size == 11 + 1


# ---- input ----


def test_new_files_run_alone(toy: Toy) -> None:
    toy.run(PIPELINE)
    toy.corpus([[*ROWS, {"text": "zwei", "lang": "de"}, {"text": "x", "lang": "en"}], ROWS, ROWS[:3]])
    frozen = toy.run(PIPELINE)
    assert cost(frozen) == [], "the listing is frozen until it is asked to be refreshed"
    seen = actions(look(toy, PIPELINE, refresh=True))
    assert seen["Size.score"] == ("part", "1 of 3 shards are not committed yet")
    assert seen["Dump.sink"] == ("run", f"what it works on changes with {STAGES}:Lines")
    result = toy.run(PIPELINE, refresh=True)
    assert cost(result)[0][1:3] == (1, 4 * 3)
    assert result.counts[0].entered == 7 + 5 + 3
    fresh = toy.run(PIPELINE, run="fresh")
    assert [(c.stage, c.entered, c.kept) for c in result.counts] == [(c.stage, c.entered, c.kept) for c in fresh.counts]
    assert toy.dumped() != []
    assert cost(toy.run(PIPELINE, refresh=True)) == []
    assert cost(toy.run(PIPELINE)) == []


def test_a_second_input_with_columns_of_its_own(toy: Toy) -> None:
    """What is stored of the first input's documents has that column, too: it was not in the checkpoints of before."""
    for name in ("a", "b"):
        lines = [json.dumps({"text": f"text {i} of {name}", "topic": f"topic {i}"}) for i in range(3)]
        (toy.root / f"{name}.jsonl").write_text("\n".join(lines))

    def run(folder: str, *inputs: dict[str, Any]) -> RunResult:
        config = {
            "name": "two",
            "input": [{"ingest.jsonl": {"paths": [str(toy.root / f"{i['name']}.jsonl")], **i}} for i in inputs],
            "stages": [stage_name("Upper")],
            "output": [{stage_name("Dump"): {"columns": ["id", "text", *(["topic"] if len(inputs) > 1 else [])]}}],
            "run": {"dir": str(toy.root / folder), "executor": "inline"},
        }
        return corpusflow.run(build_config(config))

    one, two = {"name": "a"}, {"name": "b", "columns": {"topic": "topic"}}
    run("run", one)
    result = run("run", one, two)
    assert [(r["id"], r["topic"]) for r in toy.dumped()] == [
        *((f"a/a.jsonl#{place}", None) for place in (0, 44, 88)),
        *((f"b/b.jsonl#{place}", f"topic {i}") for i, place in enumerate((0, 44, 88))),
    ]
    assert result.digest == run("fresh", one, two).digest
    assert run("run", one).digest == run("other", one).digest


def test_a_changed_file_is_refused_until_it_is_asked_for(toy: Toy) -> None:
    toy.run(PIPELINE)
    path = toy.root / "in" / "01.jsonl"
    path.write_text(path.read_text() * 2)
    with pytest.raises(
        PlanDriftError, match=r"1 input file\(s\) changed since they were listed, the first: .*01\.jsonl"
    ) as caught:
        toy.run(PIPELINE)
    assert "--refresh" in str(caught.value.hint)
    result = toy.run(PIPELINE, refresh=True)
    assert cost(result)[0][1:3] == (1, 4 * 10)
    path.unlink()
    with pytest.raises(PlanDriftError, match="changed"):
        toy.run(PIPELINE)
    assert toy.run(PIPELINE, refresh=True).counts[0].entered == 7


def test_a_file_that_left_and_came_back_is_the_shard_it_was(toy: Toy) -> None:
    toy.run(PIPELINE)
    path = toy.root / "in" / "01.jsonl"
    path.rename(toy.root / "aside")
    toy.run(PIPELINE, refresh=True)
    (toy.root / "aside").rename(path)
    result = toy.run(PIPELINE, refresh=True)
    assert sum(m for _, _, m, _ in cost(result)) == 0


def test_moved_input_and_moved_run_folder_are_reused(toy: Toy) -> None:
    first = toy.run(PIPELINE)
    (toy.root / "in").rename(toy.root / "input")
    (toy.root / "run").rename(toy.root / "elsewhere")
    source = {"paths": [str(toy.root / "input")]}
    again = toy.run(PIPELINE, run="elsewhere", source=source)
    assert cost(again) == []
    assert again.digest == first.digest
    more = toy.run([*PIPELINE, "vowels"], run="elsewhere", source=source)
    assert more.counts[0].kept == first.counts[0].kept
    assert not (toy.root / "run").exists()
    opened = corpusflow.open_run(str(toy.root / "elsewhere"))
    name = next(s for s in opened.stages if s.endswith(":Size"))
    assert opened.stage(name).table(["id", "text"]).num_rows == 11


def test_a_trial_and_the_whole_are_two_inputs(toy: Toy) -> None:
    trial = toy.run(PIPELINE, limit=4)
    assert trial.counts[0].entered == 4
    whole = toy.run(PIPELINE)
    assert whole.counts[0].entered == 12
    numbers = [(c.stage, c.entered, c.kept, c.dropped) for c in whole.counts]
    assert numbers == [(c.stage, c.entered, c.kept, c.dropped) for c in toy.run(PIPELINE, run="fresh").counts]
    assert cost(toy.run(PIPELINE, limit=4)) == []


def test_a_listing_that_a_crash_left_alone_is_nobody_elses(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver killed right after it froze a --limit listing must not hand that listing to the whole run."""
    from corpusflow.rundir import RunDir

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunDir, "pin", crash)
        with pytest.raises(KeyboardInterrupt):
            toy.run(PIPELINE, limit=2)
    assert toy.run(PIPELINE).counts[0].entered == 12


def test_a_sample_counts_what_it_leaves_out(toy: Toy) -> None:
    toy.corpus([[{"text": f"t{i}", "lang": "en", "bad": "torn: x" if i % 5 == 0 else None} for i in range(200)]])
    result = toy.run(["Size"], sample=0.3)
    (source,) = [c for c in result.counts if c.stage.endswith("Lines")]
    assert source.entered == 200
    assert source.exact
    assert 30 < source.kept < 70
    assert source.kept + source.all_dropped + source.all_quarantined == 200
    assert set(source.dropped) == {"not_sampled"}
    one, other = (toy.run(["Size"], sample=0.3, run=f"r{s}", seed=s).digest for s in (1, 2))
    assert one != other


# ---- libraries ----


def test_other_library_versions_are_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    toy.run(PIPELINE)
    monkeypatch.setattr("corpusflow.planner.version", lambda name: "99.0")
    for refresh in (False, True):
        with pytest.raises(PlanDriftError, match=rf"pyarrow {pa.__version__} -> 99\.0") as caught:
            toy.run(PIPELINE, refresh=refresh)
        assert f"install pyarrow=={pa.__version__}" in str(caught.value.hint)
        assert "--allow-version-drift" in str(caught.value.hint)
    assert cost(toy.run(PIPELINE, allow_version_drift=True)) == []
    (toy.root / "in" / "02.jsonl").write_text('{"text": "new", "lang": "en"}\n')
    with pytest.raises(PlanDriftError):
        toy.run(PIPELINE, refresh=True)


# ---- the process that runs twice ----


def test_an_edited_stage_file_is_read_again_in_the_same_process(toy: Toy, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    code = (
        "import corpusflow\n"
        "@corpusflow.document_score(adds={'my.n': 'int32'})\n"
        "def n(text: str) -> int:\n"
        "    return len(text) + PLUS\n"
    )
    results = []
    for plus in (0, 100, 0):
        mine.write_text(code.replace("PLUS", str(plus)))
        toy.run([(f"{mine}:n", {})], [("Dump", {"columns": ["my.n?"]})])
        results.append(toy.dumped()[0]["my.n"])
    assert results == [7, 107, 7]
    mine.unlink()  # the run folder has its copy
    opened = corpusflow.open_run(str(toy.root / "run"))
    assert opened.stage(f"{mine}:n").table(["my.n"]).column("my.n")[0].as_py() == 7


def test_stages_in_a_relative_file(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import corpusflow\n@corpusflow.document_score(adds={'my.n': 'int32'})\ndef n(text):\n    return len(text)\n"
    )
    toy.run([("./mine.py:n", {})])
    monkeypatch.chdir("/")
    assert corpusflow.open_run(str(toy.root / "run")).stage("./mine.py:n").table(["my.n"]).num_rows == 12
    assert os.path.isdir(toy.root / "run" / "mine.n")


def test_nothing_left_is_an_error_that_says_where(toy: Toy) -> None:
    with pytest.raises(RunFailedError, match=r"no document is left for .*Dump: the last 12 ended at .*Keep") as caught:
        toy.run(["Size", ("Keep", {"column": "toy.size", "op": ">", "value": 99, "reason": "toy_tiny"})])
    assert "toy_tiny" in caught.value.message
    assert "corpusflow inspect" in str(caught.value.hint)
    toy.corpus([[{"text": "a!"}, {"text": "b!"}], [{"text": "c!"}]])
    with pytest.raises(RunFailedError, match=r"no document is left .* ended at .*Size .*not_measured"):
        toy.run(["Size"], refresh=True)
