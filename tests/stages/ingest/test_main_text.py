"""The score of main text by the article extraction benchmark's definition, on real pages."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from stages.ingest import _train_main_text as training
from stages.ingest._page import make

DATA = os.environ.get("CORPUSFLOW_TEST_DATA", "")
pytestmark = pytest.mark.skipif(not DATA, reason="CORPUSFLOW_TEST_DATA is not set")


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall)


def test_pages_as_a_run_extracts_them() -> None:
    """All of the way from bytes to text; the model was trained on these pages, so this is no score, but a guard of the way."""
    folder = Path(DATA) / "extraction" / "scrapinghub"
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    work = make(8 << 20, "blocks")
    found = []
    for name, known in sorted(truth.items()):
        page = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        _, parts = work({"type": "text/html", "coding": None}, page)
        found.append(training.precision_recall(parts[0].decode() if parts else "", known["articleBody"]))
    precision, recall = np.mean(found, axis=0)
    assert len(found) == 181
    print(f"P {precision:.4f}  R {recall:.4f}  F1 {f1(precision, recall):.4f}")
    assert f1(precision, recall) > 0.96


@pytest.mark.slow
def test_pages_that_the_model_was_not_trained_on() -> None:
    """Five seeded two-fold swaps: each half tested by a model of the other half and the other sets."""
    others = [
        *training.articles(DATA, "newspaper4k"),
        *training.readable(DATA),
        *training.documentation(DATA),
    ]
    results = training.two_folds(training.articles(DATA, "scrapinghub"), others)
    precision, recall, mean = np.mean(results, axis=0)
    print(f"mean of {len(results)} halves: P {precision:.4f}  R {recall:.4f}  F1 {mean:.4f}")
    assert mean >= 0.95
    assert precision >= 0.93
