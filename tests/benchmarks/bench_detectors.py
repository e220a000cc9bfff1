"""Language, toxicity and personal data: MB/s and documents/s of one core, on pages, novels and Chinese prose.

    CORPUSFLOW_TEST_DATA=… pytest -m bench -s tests/benchmarks/bench_detectors.py

Text: the main text of data/parity (12,103 pages, 31 MB), data/text's English novels and Chinese (14 MB each); without them, the
sample data repeated. Rates are of CPU time, best of three; on a busy machine they are a third lower. datatrove's language filter
runs over the same texts where CORPUSFLOW_DATATROVE_PYTHON names the Python of an environment with datatrove and fasttext
(peers/datatrove_language.py).
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.clean.pii import Redact
from stages.language.identify import LanguageScore
from stages.language.mixed import MixedScore
from stages.toxicity.classifier import ClassifierScore
from stages.toxicity.wordlist import WordlistScore

pytestmark = pytest.mark.bench
DATA = Path(os.environ.get("CORPUSFLOW_TEST_DATA", "nowhere"))
SAMPLE = Path(__file__).parents[2] / "sample_data" / "texts"
PEER = os.environ.get("CORPUSFLOW_DATATROVE_PYTHON")
MODEL = Path(__file__).parents[2] / "stages" / "language" / "models" / "lid.176.ftz"
KINDS = ("pages", "novels", "chinese")


def _texts(kind: str) -> pa.Array:
    if not DATA.is_dir():
        folder = {"pages": "*", "novels": "en", "chinese": "zh-Hans"}[kind]
        found = [f.read_text(encoding="utf-8") for f in sorted(SAMPLE.glob(f"{folder}/*.md"))]
        return pa.array(found * 100, pa.large_string())
    if kind == "pages":
        column = pq.read_table(DATA / "parity" / "text.parquet", columns=["text"]).column(0).drop_null()
        return column.cast(pa.large_string()).combine_chunks()
    name = {"novels": "en_100novels", "chinese": "zh_classical-modern"}[kind]
    with gzip.open(DATA / "text" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as f:
        return pa.array([json.loads(line)["text"] for line in f], pa.large_string())


@pytest.fixture(scope="module", params=KINDS)
def batch(request: pytest.FixtureRequest) -> pa.RecordBatch:
    """`text`, with its language and script."""
    text = pa.RecordBatch.from_arrays([_texts(request.param)], names=["text"])
    found = LanguageScore().score(text)
    return pa.RecordBatch.from_arrays(
        [text.column(0), found.column("language.code"), found.column("language.script")],
        names=["text", "language.code", "language.script"],
    )


def _best(run: Callable[[], object], times: int = 3) -> float:
    run()
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _say(name: str, batch: pa.RecordBatch, seconds: float) -> None:
    size = sum(len(t.encode()) for t in batch.column("text").to_pylist()) / 1e6
    print(f"\n{name}: {size / seconds:.0f} MB/s, {batch.num_rows / seconds:,.0f} documents/s ({size:.0f} MB, one core)")


def test_language(batch: pa.RecordBatch) -> None:
    text = batch.select(["text"])
    for name, stage in (
        ("language.identify, two models", LanguageScore()),
        ("language.identify, lid.176 alone", LanguageScore(second_model="")),
        ("language.mixed", MixedScore()),
    ):
        _say(name, batch, _best(lambda stage=stage: stage.score(text)))  # type: ignore[misc]


def test_language_as_others_call_the_library(batch: pa.RecordBatch) -> None:
    """lid.176 by the library's own `predict` over whole texts, one after the other."""
    fasttext = pytest.importorskip("fasttext")
    model = fasttext.load_model(str(MODEL))
    some = batch.slice(0, 3000)
    texts = [t.replace("\n", " ") + "\n" for t in some.column("text").to_pylist()]
    _say("the library, lid.176", some, _best(lambda: [model.f.predict(t, 1, 0.0, "strict") for t in texts]))


@pytest.mark.skipif(not PEER, reason="needs $CORPUSFLOW_DATATROVE_PYTHON")
def test_language_beside_datatrove(batch: pa.RecordBatch, tmp_path: Path) -> None:
    """Its LanguageFilter with lid.176, over every third text: it takes seconds for what takes us one."""
    some = batch.take(pa.array(range(0, batch.num_rows, 3)))
    path = tmp_path / "texts.jsonl"
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps({"text": t or ""}) + "\n" for t in some.column("text").to_pylist())
    script = Path(__file__).parent / "peers" / "datatrove_language.py"
    command = [str(PEER), str(script), "--texts", str(path), "--model", str(MODEL), "--work", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    text = some.select(["text"])
    _say("language.identify, the same texts", some, _best(lambda: LanguageScore().score(text)))
    _say("language.mixed, the same texts", some, _best(lambda: MixedScore().score(text)))
    for name, seen in json.loads(done.stdout.splitlines()[-1]).items():
        print(f"\ndatatrove's LanguageFilter, {name}: {seen['mb']:.1f} MB/s, {seen['documents']:,.0f} documents/s")


def test_toxicity(batch: pa.RecordBatch) -> None:
    lists, classifier = WordlistScore(), ClassifierScore()
    of_lists = _best(lambda: lists.score(batch))
    of_classifier = _best(lambda: classifier.score(batch))
    _say("toxicity.wordlist", batch, of_lists)
    _say("toxicity.classifier", batch, of_classifier)
    _say("both", batch, of_lists + of_classifier)


def test_personal_data(batch: pa.RecordBatch) -> None:
    stage = Redact()
    _say("clean.pii", batch, _best(lambda: stage.transform(batch.select(["text"]))))
