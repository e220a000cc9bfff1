"""toxicity.classifier: scores of paragraphs and documents, what each action does, thresholds by language, training, measuring."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError, check_stage
from corpusflow.rules import evaluate
from stages.toxicity import _train
from stages.toxicity.classifier import Classifier, ClassifierFilter, ClassifierScore, DropParagraphs

SCORE = ClassifierScore()
CUT = DropParagraphs()
#: Each long enough to be a paragraph of its own.
RIVER = (
    "The river rose in the night and the lower road was under water by morning; nobody had expected it so soon, and the "
    "school stayed closed until the bridge had been looked at by the engineers from the county."
)
ABUSE = (
    "You fucking idiots are all retarded bitches, go kill yourselves, you stupid worthless trash, and take your ugly whore "
    "of a sister with you, you pathetic piece of shit, nobody wants such scum as you are around here."
)
FLOOD = "昨夜河水上涨，清晨时低处的道路已被淹没，学校停课一天，村民们把桌椅搬到楼上，等待水位下降以后再打扫房间。"
CASINO = "澳门新葡京赌场官网注册送彩金，百家乐老虎机真人荷官在线，最新棋牌app下载，娱乐城首存优惠，注册即送彩金。"


def measure(*texts: str | None, stage: ClassifierScore = SCORE) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.large_string())], names=["text"])
    rows: list[dict[str, Any]] = stage.score(batch).to_pylist()
    return rows


def cut(*texts: str | None, stage: DropParagraphs = CUT) -> list[tuple[str | None, int | None]]:
    batch = stage.transform(pa.RecordBatch.from_arrays([pa.array(texts, pa.large_string())], names=["text"]))
    return list(zip(batch["text"].to_pylist(), batch["toxicity.cut_paragraphs"].to_pylist(), strict=True))


@pytest.mark.parametrize("action", ["drop", "paragraph", "label"])
def test_contract(action: str) -> None:
    check_stage(Classifier(action=action, max_score={"zh": 0.6, "*": 0.7}, max_worst=0.95))


@pytest.mark.parametrize("text", [ABUSE, CASINO, ABUSE.upper(), ABUSE.replace("o", "ö")])
def test_toxic_text_scores_high(text: str) -> None:
    (row,) = measure(text)
    assert row["toxicity.score"] > 0.9
    assert row["toxicity.toxic_paragraphs"] == 1


@pytest.mark.parametrize("text", [RIVER, FLOOD, "", "a", "!!!", "😀😀", "\n\n\n", "-" * 100_000])
def test_ordinary_text_scores_low(text: str) -> None:
    (row,) = measure(text)
    assert row["toxicity.worst"] < 0.3
    assert row["toxicity.toxic_paragraphs"] == 0


def test_document_is_the_mean_by_length_and_worst_the_highest() -> None:
    (ordinary, toxic, both) = measure(RIVER, ABUSE, f"{RIVER}\n\n{ABUSE}\n\n{RIVER}")
    a, b = 2 * len(RIVER), len(ABUSE)
    expected = (a * ordinary["toxicity.score"] + b * toxic["toxicity.score"]) / (a + b)
    assert both["toxicity.score"] == pytest.approx(expected, abs=1e-3)  # a paragraph counts its line end, too
    assert both["toxicity.worst"] == toxic["toxicity.score"]
    assert (both["toxicity.paragraphs"], both["toxicity.toxic_paragraphs"]) == (3, 1)


def test_null_text_has_no_scores() -> None:
    assert set(measure(None)[0].values()) == {None}
    assert cut(None) == [(None, None)]


def test_a_document_depends_on_itself_alone() -> None:
    texts = [RIVER, None, ABUSE, "", f"{FLOOD}\n{CASINO}", *(f"{RIVER} {i}\n\n{ABUSE * (i % 3)}" for i in range(40))]
    together = measure(*texts)
    assert measure(*texts[::-1])[::-1] == together
    assert [measure(text)[0] for text in texts] == together


def test_hostile_documents_pass() -> None:
    texts = [
        "a" * 10_000_000,
        "a " * 1_000_000,
        "\n" * 2_000_000,
        "😀" * 500_000,
        "é\n" * 300_000,
        f"{ABUSE}\n" * 5_000,
    ]
    rows = measure(*texts)
    assert rows[-1]["toxicity.score"] > 0.9
    assert cut(texts[-1])[0][0] == ""


def test_toxic_paragraphs_are_cut_and_every_other_byte_stays() -> None:
    assert cut(f"{RIVER}\n\n{ABUSE}\n\n{FLOOD}", f" {FLOOD}\t\n", f"{ABUSE}\n\n\n{RIVER}\r\n", ABUSE) == [
        (f"{RIVER}\n\n{FLOOD}", 1),
        (f" {FLOOD}\t\n", 0),
        (f"{RIVER}\r\n", 1),
        ("", 1),
    ]


@given(st.lists(st.sampled_from([RIVER, FLOOD, ABUSE, CASINO, "", "é", "\t", RIVER + ABUSE]), max_size=12))
@settings(max_examples=60, deadline=None)
def test_cutting_removes_whole_lines_and_is_done_once(lines: list[str]) -> None:
    text = "\n".join(lines)
    ((left, count),) = cut(text)
    assert count == measure(text)[0]["toxicity.toxic_paragraphs"]
    assert cut(left) == [(left, 0)]
    waiting = iter(lines)
    assert left is not None
    assert all(any(line == other for other in waiting) for line in left.split("\n") if line)


def test_actions_are_stages() -> None:
    kinds = {action: [type(s) for s in Classifier(action=action).expand()] for action in ("drop", "paragraph", "label")}
    assert kinds == {
        "drop": [ClassifierScore, ClassifierFilter],
        "paragraph": [DropParagraphs, ClassifierScore, ClassifierFilter],
        "label": [ClassifierScore],
    }
    with pytest.raises(ConfigError, match="cannot 'remove'"):
        Classifier(action="remove")


def test_thresholds_by_language() -> None:
    with pytest.raises(ConfigError, match=r"max_score: 'chinese' is not among .*\nhint: did you mean zh"):
        ClassifierFilter(max_score={"chinese": 0.4, "*": 0.7})
    with pytest.raises(ConfigError, match=r'max_score: a table for zh without .*\nhint: add "[*]": 0.7'):
        ClassifierFilter(max_score={"zh": 0.4})
    rules = ClassifierFilter(max_score={"zh": 0.4, "*": 0.7}, max_worst=0.9).rules()
    columns = {
        "toxicity.score": pa.array([0.5, 0.5, 0.8, 0.1, None], pa.float32()),
        "toxicity.worst": pa.array([0.5, 0.5, 0.8, 0.95, None], pa.float32()),
        "language.code": pa.array(["en", "zh", "de", "en", "en"]),
    }
    verdict = evaluate(rules, columns, 5)
    assert [rules[i].reason if i >= 0 else None for i in verdict.first] == [
        None, "toxicity_score", "toxicity_score", "toxicity_worst_paragraph", None,
    ]  # fmt: skip
    assert ClassifierFilter(max_score=0.7).rules()[0].by is None


def test_models_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.ftz").write_bytes(b"nothing of the kind")
    with pytest.raises(ConfigError, match="not a fastText model"):
        measure("a", stage=ClassifierScore(model=str(tmp_path / "bad.ftz")))


def _labelled(path: Path, count: int) -> None:
    rows = []
    for i in range(count):
        toxic = i % 2 == 1
        rows.append({"text": f"{ABUSE if toxic else RIVER} {i}", "toxic": toxic, "lang": "en", "source": f"s{i % 3}"})
    with gzip.open(path, "wt", encoding="utf-8") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)


def test_train_then_evaluate(tmp_path: Path) -> None:
    pytest.importorskip("fasttext")
    data, ordinary, out = (str(tmp_path / name) for name in ("data.jsonl.gz", "ordinary.jsonl", "model.ftz"))
    _labelled(Path(data), 400)
    Path(ordinary).write_text(
        "".join(json.dumps({"text": f"{FLOOD} {i}\n\n{RIVER}"}) + "\n" for i in range(100)), encoding="utf-8"
    )
    made = Classifier.train(
        data=[data], ordinary=[ordinary], out=out, without_source="s0", advertisements=50, features=2_000, epochs=2
    )
    again = Classifier.train(
        data=[data],
        ordinary=[ordinary],
        out=out + "2",
        without_source="s0",
        advertisements=50,
        features=2_000,
        epochs=2,
    )
    assert Path(out).read_bytes() == Path(out + "2").read_bytes()
    assert made["toxic"] == again["toxic"]
    result = Classifier.evaluate(data=[data], model=out)
    held = [i for i in range(400) if zlib.crc32(f"{ABUSE if i % 2 else RIVER} {i}".encode()) % 7 == 0]
    assert result["texts"] == len(held)
    assert result["auc"] == 1.0
    assert sum(result[k] for k in ("toxic_flagged", "toxic_kept", "other_flagged", "other_kept")) == len(held)
    left_out = Classifier.evaluate(data=[data], model=out, source="s0", holdout=0)
    assert left_out["texts"] == 134
    assert list(left_out["by_source"]) == ["s0"]


def test_held_out_rows_are_not_trained_on(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl.gz"
    _labelled(data, 200)
    trained = {text for text, _ in _train.labelled_rows([str(data)], 7, "s1")}
    measured = {row["text"] for row in _train.evaluation_rows([str(data)], 7, "")}
    assert trained
    assert measured
    assert not trained & measured
    assert all(int(text.rpartition(" ")[2]) % 3 != 1 for text in trained)
    ordinary = tmp_path / "ordinary.jsonl"
    documents = [f"{RIVER} number {i}" for i in range(60)]
    ordinary.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
    negatives = {text for text, _ in _train.ordinary_rows([str(ordinary)])}
    assert negatives == {text for text in documents if zlib.crc32(text.encode()) % 2}


def test_report_counts_and_orders_mistakes() -> None:
    rows = [
        {"text": c, "toxic": t, "lang": lang}
        for c, t, lang in zip("abcd", (1, 1, 0, 0), ("en", "zh", "en", "zh"), strict=True)
    ]
    report = _train.report(rows, np.array([0.9, 0.2, 0.8, 0.1]), 0.7)
    counts = ("toxic_flagged", "toxic_kept", "other_flagged", "other_kept")
    assert [report[k] for k in counts] == [1, 1, 1, 1]
    assert [report["by_language"]["en"][k] for k in counts] == [1, 0, 1, 0]
    assert [w["text"] for w in report["worst"]][:2] in (["b", "c"], ["c", "b"])
    assert {row["over"]: (row["precision"], row["recall"]) for row in report["thresholds"]}[0.8] == (1.0, 0.5)


def test_area_under_the_curve() -> None:
    assert _train.auc(np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, False, True, True])) == 1.0
    assert _train.auc(np.array([0.4, 0.3, 0.2, 0.1]), np.array([False, False, True, True])) == 0.0
    assert _train.auc(np.array([0.5, 0.5, 0.5]), np.array([False, True, True])) == 0.5
    assert _train.auc(np.array([0.1, 0.35, 0.4, 0.8]), np.array([False, True, False, True])) == 0.75
    assert _train.auc(np.array([0.5]), np.array([True])) is None


@pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="needs CORPUSFLOW_TEST_DATA")
def test_shipped_model_on_held_out_rows() -> None:
    """Rows whose crc32 is a multiple of 7 were not trained on."""
    path = str(Path(os.environ["CORPUSFLOW_TEST_DATA"]) / "toxicity" / "labelled.jsonl.gz")
    result = Classifier.evaluate(data=[path])
    assert result["auc"] >= 0.92
    assert result["by_language"]["en"]["auc"] >= 0.93
    assert result["by_language"]["zh"]["auc"] >= 0.93


@pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="needs CORPUSFLOW_TEST_DATA")
@pytest.mark.parametrize("name", ["en_100novels", "zh_classical-modern", "zh_poetry", "eltec_novels", "tldr_pages"])
def test_ordinary_documents_are_kept(name: str) -> None:
    path = Path(os.environ["CORPUSFLOW_TEST_DATA"]) / "text" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as f:
        texts = [json.loads(line)["text"] for line in f]
    batch = SCORE.score(pa.RecordBatch.from_arrays([pa.array(texts, pa.large_string())], names=["text"]))
    over = np.asarray(batch["toxicity.score"]) > 0.7
    assert over.sum() <= max(1, len(texts) / 1000)
