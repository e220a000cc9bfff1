"""One shard: rows that make a stage raise, stages that are broken, what is counted and what is left open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle
from toys import ROWS, STAGES, Toy, short_name

import corpusflow
from corpusflow import RunFailedError, StageError
from corpusflow.output import reason_of
from corpusflow.plan import Node
from corpusflow.stream import isolated

NODE = Node(
    index=0,
    stage="toy",
    kind="score",
    label="score",
    reference="toy",
    params={},
    piece=-1,
    fp="f",
    op_fp="o",
    mask_fp="",
    content="c",
    step=0,
    base=-1,
    text_version=0,
    adds={"my.n": "int32"},
)


def batch(values: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.large_string())], names=["text"])


# ---- isolated ----


class Stage:
    """Raises on texts with `!`, refuses those with `?`; counts its calls and the rows it saw."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, given: pa.RecordBatch) -> pa.RecordBatch:
        self.calls += 1
        texts = given.column("text").to_pylist()
        for t in texts:
            if "!" in (t or ""):
                raise ValueError(f"boom: {t}")
        columns = [pa.array([len(t or "") for t in texts], pa.int32())]
        if any("?" in (t or "") for t in texts):
            why = ["asked" if "?" in (t or "") else None for t in texts]
            return pa.RecordBatch.from_arrays([*columns, pa.array(why, pa.string())], names=["my.n", "quarantine"])
        return pa.RecordBatch.from_arrays(columns, names=["my.n"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | st.text("ab!?", max_size=3), max_size=30))
def test_isolated_is_row_by_row(texts: list[str | None]) -> None:
    stage = Stage()
    made = isolated(NODE, stage, batch(texts))
    assert made.num_rows == len(texts)
    why = made.column("quarantine").to_pylist() if "quarantine" in made.schema.names else [None] * len(texts)
    for text, n, reason in zip(texts, made.column("my.n").to_pylist(), why, strict=True):
        if "!" in (text or ""):
            assert (n, reason) == (None, f"ValueError: boom: {text}")
        elif "?" in (text or ""):
            assert reason == "asked"
        else:
            assert (n, reason) == (len(text or ""), None)
    bad = sum("!" in (t or "") for t in texts)
    assert stage.calls <= 1 + 2 * bad * max(1, len(texts)).bit_length(), "one bad row must not cost a call per row"


def test_isolated_lets_through_what_is_no_rows_fault() -> None:
    class PanicException(BaseException):
        """As pyo3 raises it: not an Exception."""

    def raising(error: BaseException) -> Any:
        def run(_: pa.RecordBatch) -> pa.RecordBatch:
            raise error

        return run

    for error in (
        KeyboardInterrupt(),
        SystemExit(),
        MemoryError(),
        StageError("contract"),
        corpusflow.RetryableError("x"),
    ):
        with pytest.raises(type(error)):
            isolated(NODE, raising(error), batch(["a", "b"]))
    made = isolated(NODE, raising(PanicException("stack")), batch(["a", "b"]))
    assert made.column("quarantine").to_pylist() == ["PanicException: stack"] * 2
    made = isolated(NODE, raising(ValueError("lone \ud800 surrogate")), batch(["a"]))
    assert made.column("quarantine").to_pylist() == ["ValueError: lone \\ud800 surrogate"]
    assert isolated(NODE, raising(ValueError("empty")), batch([])).num_rows == 0


@pytest.mark.parametrize(
    ("why", "reason"),
    [("torn: at 3", "torn"), ("ValueError: a: b", "ValueError"), ("plain", "plain"), ("", ""), ("x" * 99, "x" * 60)],
)
def test_reason_of(why: str, reason: str) -> None:
    assert reason_of(why) == reason


# ---- a stage that is wrong ----


def wrong(tmp_path: Path, body: str) -> str:
    """A Score in a file, whose `score` is `body`."""
    (tmp_path / "wrong.py").write_text(
        "import pyarrow as pa\nfrom dataclasses import dataclass\nfrom corpusflow import Score, RetryableError\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Wrong(Score):\n"
        "    reads = ('text',)\n    adds = {'my.n': pa.int32()}\n"
        f"    def score(self, batch):\n        {body}\n"
    )
    return f"{tmp_path}/wrong.py:Wrong"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return batch.slice(1)", r"Wrong returned \d rows for \d"),
        ("return batch", "did not return my.n"),
        (
            "return pa.RecordBatch.from_arrays([pa.array([1.0] * batch.num_rows)], names=['my.n'])",
            "returned my.n as double",
        ),
        ("return None", "Wrong returned NoneType, not a RecordBatch"),
    ],
)
def test_a_broken_contract_stops_the_run_and_names_the_stage(toy: Toy, tmp_path: Path, body: str, says: str) -> None:
    toy.corpus([ROWS])
    with pytest.raises((StageError, RunFailedError), match=says):
        toy.run([(wrong(tmp_path, body), {})])


def test_a_stage_that_fails_on_most_documents_is_broken(toy: Toy, tmp_path: Path) -> None:
    toy.corpus([[{"text": f"t{i}"} for i in range(300)]])
    with pytest.raises(StageError, match=r"failed on \d+ of 300 documents, first: ZeroDivisionError") as caught:
        toy.run([(wrong(tmp_path, "return 1 / 0"), {})])
    assert "fault of the stage" in str(caught.value.hint)
    assert not list((toy.root / "run").rglob("_commits/*Wrong*"))


def test_too_much_quarantine_stops_the_run(toy: Toy) -> None:
    toy.corpus([[{"text": "a!" if i < 120 else "ok"} for i in range(400)], [{"text": "ok"}] * 400])
    with pytest.raises(
        RunFailedError, match=r"could not process 120 of .* documents \(most often: ValueError\)"
    ) as caught:
        toy.run(["Size"])
    assert "run.max_quarantine" in str(caught.value.hint)
    result = toy.run(["Size"], max_quarantine=0.2)
    assert result.counts[-1].kept == 680


def test_passing_faults_are_tried_again(toy: Toy, tmp_path: Path) -> None:
    toy.corpus([ROWS])
    marks = tmp_path / "marks"
    marks.mkdir()
    body = (
        "import os\n"
        f"        n = len(os.listdir({str(marks)!r}))\n"
        f"        open({str(marks)!r} + f'/{{n}}', 'x').close()\n"
        "        if n < TIMES:\n"
        "            raise RetryableError('the disk is away')\n"
        "        return pa.RecordBatch.from_arrays([pa.array([1] * batch.num_rows, pa.int32())], names=['my.n'])"
    )
    assert toy.run([(wrong(tmp_path, body.replace("TIMES", "2")), {})]).counts[-1].kept == len(ROWS)
    for mark in marks.iterdir():
        mark.unlink()
    with pytest.raises(RunFailedError, match="shard 0 failed 3 times; the last: the disk is away"):
        toy.run([(wrong(tmp_path, body.replace("TIMES", "3")), {})], run="other")


# ---- quarantine ----


def test_quarantined_rows_say_where_their_bytes_are(toy: Toy) -> None:
    rows = [
        {"text": "fine"},
        {"text": "bang!"},
        {"text": "asks?"},
        {"bad": "torn: at 3"},
        {"text": "fine", "skip": "x"},
    ]
    toy.corpus([rows, [{"text": "fine"}]])
    toy.run(["Size"])
    opened = corpusflow.open_run(str(toy.root / "run"))
    (table,) = opened.stage(f"{STAGES}:Size").quarantined()
    assert table.select(["id", "offset", "reason", "detail"]).to_pylist() == [
        {"id": "lines/00.jsonl#1", "offset": 1, "reason": "ValueError", "detail": "ValueError: boom: bang!"},
        {"id": "lines/00.jsonl#2", "offset": 2, "reason": "asked", "detail": "asked: too much"},
    ]
    assert set(table.column("stage").to_pylist()) == {f"{STAGES}:Size"}
    (unreadable,) = opened.stage(f"{STAGES}:Lines").quarantined()
    assert unreadable.column("detail").to_pylist() == ["torn: at 3"]


def test_a_loss_before_a_checkpoint_stays_lost_behind_a_barrier(toy: Toy) -> None:
    """Found by the oracle: the second Transform rewrote a document that a Score had refused before the wide checkpoint."""
    stages: list[Any] = [
        ("Cut", {"n": 9}),
        "vowels",
        ("Keep", {"column": "toy.vowels", "op": ">=", "value": 0, "gate": True}),
        "Unique",
        "Upper",
    ]
    files = [[{"text": None}, {"text": "one"}], [{"text": "two"}]]
    toy.corpus(files)
    result = toy.run(stages)
    expected = Oracle(files, [(s, {}) if isinstance(s, str) else s for s in stages])
    assert [r["text"] for r in toy.dumped()] == ["ONE", "TWO"]
    assert [(short_name(c.stage), c.kept) for c in result.counts] == [(r.stage, r.kept) for r in expected.rows]


# ---- limits ----


@pytest.mark.parametrize("limit", [1, 3, 4, 7, 99])
def test_limit_reads_that_many_records(toy: Toy, limit: int) -> None:
    toy.corpus([ROWS, ROWS[:1], ROWS])
    result = toy.run(["Size"], limit=limit, batch_rows=2)
    assert result.counts[0].entered == sum(min(n, share) for n, share in zip((5, 1, 5), shares(limit), strict=True))


def shares(limit: int) -> list[int]:
    return [limit // 3 + (i < limit % 3) for i in range(3)]
