"""quality.classifier: the built-in model on texts it never saw, a model of one's own, calibration."""

from __future__ import annotations

import gzip
import json
import os
import random
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
from stages.kernels.buffers import text_buffers
from stages.kernels.flatten import MARKED, PLAIN, flatten
from stages.quality._calibrate import auc, isotonic, measure
from stages.quality._spoil import WAYS, spoil
from stages.quality.classifier import Classifier, ClassifierRule, ClassifierScore

DATA = Path(os.environ.get("CORPUSFLOW_TEST_DATA", "nowhere"))
SAMPLE = Path(__file__).parents[3] / "sample_data" / "texts"
MODEL = Path(__file__).parents[3] / "stages" / "quality" / "models" / "en-zh"


def scores(texts: list[str | None], model: str = "en-zh") -> list[float | None]:
    batch = pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.large_string())})
    found: list[float | None] = ClassifierScore(model=model).score(batch).column("quality.score").to_pylist()
    return found


def good_samples() -> list[str]:
    folders = ("en", "zh-Hans", "zh-Hant")
    return [
        f.read_text(encoding="utf-8").split("---\n", 2)[-1] for d in folders for f in sorted((SAMPLE / d).glob("*.md"))
    ]


def test_good_texts_score_high_and_spoiled_ones_low() -> None:
    good = good_samples()
    bad = [make(text, random.Random(i)) for i, text in enumerate(good) for make in WAYS.values()]
    high, low = np.array(scores(list(good))), np.array(scores(list(bad)))
    assert (high >= 0.5).mean() >= 0.9
    assert (low < 0.5).mean() >= 0.9
    assert auc(np.r_[high, low], np.r_[np.ones(len(high), bool), np.zeros(len(low), bool)]) > 0.97


@pytest.mark.skipif(not (DATA / "quality").is_dir(), reason="set CORPUSFLOW_TEST_DATA to the folder with quality/")
def test_documents_people_judged() -> None:
    with gzip.open(DATA / "quality" / "labelled.jsonl.gz", "rt", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    unseen = [r for r in rows if r["source"] == "dclm_human" and zlib.crc32(r["text"].encode()) % 100 >= 60]
    found = measure(np.array(scores([r["text"] for r in unseen])), np.array([r["label"] == "good" for r in unseen]))
    print(found)
    assert found["auc"] > 0.82


def test_null_empty_and_long_texts() -> None:
    found = scores([None, "", "x " * 100_000])
    assert found[0] is None
    assert found[1] == 0.0
    assert found[2] is not None


def test_contract_and_rule() -> None:
    check_stage(Classifier())
    columns = {"quality.score": pa.array([0.4, 0.6, None]), "language.code": pa.array(["en", "zh", "en"])}
    assert evaluate(ClassifierRule(min_score=0.5).rules(), columns, 3).kept.tolist() == [False, True, True]
    assert evaluate(ClassifierRule(min_score={"zh": 0.7}).rules(), columns, 3).kept.tolist() == [True, False, True]
    with pytest.raises(ConfigError, match=r"quality.classifier.min_score: 'english' is not among"):
        ClassifierRule(min_score={"english": 0.7})
    assert ClassifierRule().rules() == ()
    assert Classifier(column="edu", min_score=0.1).expand()[1].rules()[0].reason == "classifier_low_edu"  # type: ignore[attr-defined]


def test_unknown_models_and_labels_are_refused() -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        scores(["x"], "no-such-model")
    with pytest.raises(ConfigError, match="has no label 'hq'"):
        ClassifierScore(label="hq").score(pa.RecordBatch.from_pydict({"text": pa.array(["x"], pa.large_string())}))


@pytest.mark.slow
def test_a_model_of_ones_own(tmp_path: Path) -> None:
    pytest.importorskip("fasttext")
    good = [f"{t[:400]} {i}" for i, t in enumerate(good_samples() * 3)]
    settings: dict[str, Any] = {"dim": 8, "epochs": 25, "learning_rate": 0.5, "buckets": 20_000, "features": 20_000}
    card = Classifier.train(positive=iter(good), out=str(tmp_path / "mine"), **settings)
    assert card["measured"]["auc"] > 0.9
    again = Classifier.train(positive=iter(reversed(good)), out=str(tmp_path / "again"), **settings)
    assert again == card  # the order of the texts, and the run, do not matter
    assert (tmp_path / "mine" / "model.ftz").read_bytes() == (tmp_path / "again" / "model.ftz").read_bytes()
    found = Classifier.evaluate(
        positive=iter(good[:50]), negative=iter([spoil(t, 99)[1] for t in good[:50]]), model=str(tmp_path / "mine")
    )
    assert found["auc"] > 0.9
    assert scores(good[:1], str(tmp_path / "mine"))[0] is not None
    with pytest.raises(ConfigError, match="exists already"):
        Classifier.train(positive=iter(good), out=str(tmp_path / "mine"))


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=5), st.integers(1, 30))
def test_flatten(texts: list[str | None], most: int) -> None:
    buffers = text_buffers(pa.array(texts, pa.large_string()))
    for form in (PLAIN, MARKED):
        data, offsets = flatten(buffers, most, form)
        for i, text in enumerate(texts):
            head = (text or "").encode()[:most].decode("utf-8", "ignore")
            expected = head
            if form == MARKED:
                expected = "".join(
                    " ¶ " if c == "\n" else "0" if c in "0123456789" else c.lower() if c.isascii() else c for c in head
                )
            expected = "".join(" " if ord(c) < 32 or ord(c) == 127 else c for c in expected)
            assert bytes(data[offsets[i] : offsets[i + 1]]).decode() == expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_calibration_is_monotone_and_never_certain(pairs: list[tuple[float, bool]]) -> None:
    raw, good = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    table = np.array(isotonic(raw, good))
    assert (np.diff(table[:, 0]) >= 0).all()
    assert (np.diff(table[:, 1]) >= 0).all()
    assert 0 < table[0, 1] <= table[-1, 1] < 1


def test_auc_counts_ties_half() -> None:
    assert auc(np.array([0.1, 0.5, 0.5, 0.9]), np.array([False, False, True, True])) == 0.875
    assert auc(np.array([0.5, 0.5]), np.array([False, True])) == 0.5


def test_spoiling_is_the_same_everywhere() -> None:
    text = "The river rose in the night. 河水在夜里涨了起来，低处的路已经淹在水下。"
    assert spoil(text, 1) == spoil(text, 1)
    assert {spoil(text, seed)[0] for seed in range(40)} == set(WAYS)
    card = json.loads((MODEL / "card.json").read_text())
    assert card["measured"]["auc"] > 0.99
