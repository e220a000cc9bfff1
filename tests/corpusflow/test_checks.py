"""check_stage and check_barrier catch a stage for each clause of the contract, and let the right ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_stages as toy
import wrong_stages as wrong

from corpusflow import Stage, StageError, check_barrier, check_stage
from corpusflow.checks import SAMPLE_TEXTS, sample_batch

WRONG = Path(wrong.__file__)


@pytest.mark.parametrize(
    "stage",
    [
        toy.Digits(),
        toy.Language(),
        toy.Cut(),
        toy.Keep(column="toy.size", op=">=", value=3),
        toy.Upper(),
        toy.Unique(),
        wrong.Base(),
        wrong.SaysNaN(),
        wrong.RefusesSome(),
    ],
    ids=lambda s: type(s).__name__,
)
def test_right_stages_pass(stage: Stage) -> None:
    check_stage(stage)


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        (wrong.NoPlanHoldsIt(), "which no plan can hold"),
        (wrong.CountsTheBatch(), "depends on where a batch is cut"),
        (wrong.ComparesWithTheRowBefore(), "depends on where a batch is cut"),
        (wrong.IgnoresTheOffset(), "depends on where a batch is cut"),
        (wrong.WrongType(), "returned my.n as double, declared as int32"),
        (wrong.MissingColumn(), "did not return my.n; it returned my.other"),
        (wrong.ExtraColumn(), "returned my.extra, which it does not declare"),
        (wrong.DropsRows(), f"rows for {len(SAMPLE_TEXTS)}"),
        (wrong.DropsInATransform(), f"rows for {len(SAMPLE_TEXTS)}"),
        (wrong.ReadsMore(), r"it is given text"),
        (wrong.KeepsState(), "gave another result for the same batch"),
        (wrong.Random(), "gave another result for the same batch"),
        (wrong.WritesIntoItsInput(), "wrote into the batch it was given"),
        (wrong.RaisesOnNull(), "raised TypeError"),
        (wrong.FailsWhenEmpty(), "returned 1 rows for an empty batch"),
        (wrong.NoSignal(), "is a Score and adds 'n'"),
        (wrong.Unpicklable(), "cannot be pickled"),
        (wrong.NoDoc(), "parameter n of NoDoc is not declared with param"),
        (wrong.EmptyDoc(), "parameter n of EmptyDoc is not declared with param"),
        (wrong.TwoReasonsAlike(), "uses a drop reason twice"),
        (wrong.ShoutingReason(), "is not snake_case"),
        (wrong.Nested(), "expands to another Composite"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, Stage) else "",
)
def test_wrong_stages_are_caught(stage: Stage, says: str) -> None:
    with pytest.raises(StageError, match=says):
        check_stage(stage)


def test_a_set_does_not_survive_yaml() -> None:
    with pytest.raises(StageError, match="do not survive YAML"):
        check_stage(wrong.NotYaml())


@pytest.mark.parametrize(
    ("stage", "says"), [(wrong.SameIdTwice, "gave the id 'x/y#0' twice"), (wrong.ReadsDifferently, "differently")]
)
def test_wrong_sources_are_caught(stage: type[wrong.FileSource], says: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(StageError, match=says):
        check_stage(stage(paths=(str(tmp_path),)))


def test_examples_are_tried_too() -> None:
    import pyarrow as pa

    examples = pa.record_batch([pa.array(["boom#"], pa.large_string()), pa.array(["u"])], names=["text", "url"])
    with pytest.raises(StageError, match="raised RuntimeError: upper: no"):
        check_stage(toy.Upper(), examples=examples)


def test_sample_batch_has_what_a_stage_reads() -> None:
    batch = sample_batch(toy.Dump(columns=("id", "text", "quality.words?")))
    assert batch.schema.names == ["id", "text", "quality.words"]
    assert batch.num_rows == len(SAMPLE_TEXTS)
    assert batch.column("text").to_pylist() == list(SAMPLE_TEXTS)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("FirstComes", "depends on how documents are cut into shards"),
        ("FilePerShard", "depends on how documents are cut into shards"),
        ("ForgetsRows", "gave columns for 1 rows of shard 0, .* survived"),
        ("WritesOutside", "names a file outside its folder"),
    ],
)
def test_wrong_barriers_are_caught(name: str, says: str) -> None:
    with pytest.raises(StageError, match=says):
        check_barrier(f"{WRONG}:{name}")


def test_right_barriers_pass() -> None:
    check_barrier(f"{Path(toy.__file__)}:Unique")
