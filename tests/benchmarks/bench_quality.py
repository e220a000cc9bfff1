"""Quality signals and rules: MB/s and documents/s of one core, on real web text.

    CORPUSFLOW_TEST_DATA=… pytest -m bench -s tests/benchmarks/bench_quality.py

Text: the resiliparse text of data/parity (12,963 pages, 44 MB, about 40 languages); without it, the sample data repeated.
Rates are of CPU time, best of five. The peer runs where CORPUSFLOW_DATATROVE_PYTHON names the Python of an environment that
has datatrove (peers/datatrove_filters.py), on every CORPUSFLOW_BENCH_EVERY-th (12) of the texts.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusflow import Composite, Filter, Score, Stage, Transform
from corpusflow.rules import evaluate
from stages.quality.c4 import C4
from stages.quality.chinese import Chinese
from stages.quality.fineweb import FineWeb
from stages.quality.gopher import Gopher
from stages.quality.gopher_repetition import GopherRepetition
from stages.quality.signals import Signals
from stages.quality.signals_datatrove import DatatroveSignals
from stages.quality.signals_dclm import DclmSignals
from stages.quality.signals_dictionary import DictionarySignals
from stages.quality.signals_dolma import DolmaSignals
from stages.quality.signals_redpajama import RedPajamaSignals

pytestmark = pytest.mark.bench
PEER = os.environ.get("CORPUSFLOW_DATATROVE_PYTHON")
EVERY = int(os.environ.get("CORPUSFLOW_BENCH_EVERY", "12"))
DATA = Path(os.environ.get("CORPUSFLOW_TEST_DATA", "nowhere")) / "parity" / "text.parquet"
SAMPLE = Path(__file__).parents[2] / "sample_data" / "texts"


@pytest.fixture(scope="module")
def texts() -> pa.Array:
    if DATA.is_file():
        column = pq.read_table(DATA, columns=["text_resiliparse"]).column(0).drop_null()
        return column.cast(pa.large_string()).combine_chunks()
    found = [f.read_text(encoding="utf-8") for f in sorted(SAMPLE.glob("*/*.md"))]
    return pa.array(found * 40, pa.large_string())


def batch_of(texts: pa.Array, language: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([texts, pa.array([language] * len(texts))], names=["text", "language.code"])


def best(run: Callable[[], object], times: int = 5) -> float:
    run()
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def megabytes(texts: pa.Array) -> float:
    return sum(len(t.encode()) for t in texts.to_pylist()) / 1e6


def report(name: str, texts: pa.Array, seconds: float) -> None:
    size = megabytes(texts)
    print(f"\n{name}: {size / seconds:.0f} MB/s, {len(texts) / seconds:,.0f} documents/s ({size:.0f} MB, one core)")


@pytest.mark.parametrize("language", ["en", "zh"], ids=["white space", "unicode boundaries"])
def test_signals(texts: pa.Array, language: str) -> None:
    batch = batch_of(texts, language)
    report(f"quality.signals, {language}", texts, best(lambda: Signals().score(batch)))


def timed(texts: pa.Array, stages: list[Stage]) -> tuple[float, float]:
    """CPU seconds of measuring all signals of some rule sets, and of the rules on top."""
    batch = batch_of(texts, "en")
    scores = [s for s in stages if isinstance(s, Score)]
    filters = [s for s in stages if isinstance(s, Filter)]
    measuring = best(lambda: [s.score(batch) for s in scores])
    columns = {"language.code": batch.column("language.code")}
    for s in scores:
        out = s.score(batch)
        columns |= {n: out.column(n) for n in out.schema.names}
    return measuring, best(lambda: [evaluate(f.rules(), columns, batch.num_rows) for f in filters])


def default_sets() -> list[Stage]:
    return [Signals(), Gopher(), GopherRepetition(), FineWeb(), *C4().expand(), *Chinese().expand()]


def test_default_sets(texts: pa.Array) -> None:
    """Signals of Gopher, repetition, FineWeb, C4 and Chinese rules together, then the rules on top."""
    measuring, deciding = timed(texts, default_sets())
    report("all default sets, signals", texts, measuring)
    print(f"rules on top: {100 * deciding / measuring:.1f} % more")


@pytest.mark.skipif(not PEER, reason="needs $CORPUSFLOW_DATATROVE_PYTHON")
def test_beside_datatrove(texts: pa.Array, tmp_path: Path) -> None:
    """All default sets, and the datatrove dialects, beside datatrove's filters: one process, the same texts, CPU seconds."""
    sample = texts.take(pa.array(range(0, len(texts), EVERY)))
    size = megabytes(sample)
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in sample.to_pylist()), encoding="utf-8")
    script = Path(__file__).parent / "peers" / "datatrove_filters.py"
    out = subprocess.run([str(PEER), str(script), str(path)], capture_output=True, text=True, check=True)
    theirs: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    total = sum(theirs.values())
    print(f"\n{len(sample):,} documents, {size:.1f} MB; MB per CPU second, measuring and deciding")
    for name, seconds in theirs.items():
        print(f"  datatrove {name:28} {size / seconds:8.2f}")
    print(f"  datatrove {'all four':28} {size / total:8.2f}  {len(sample) / total:10,.0f} documents/s")
    dialects = [DatatroveSignals(), Gopher(dialect="datatrove"), GopherRepetition(dialect="datatrove"),
                FineWeb(dialect="datatrove"), *C4(dialect="datatrove").expand()]  # fmt: skip
    for name, stages in (("all default sets", default_sets()), ("the datatrove dialects", dialects)):
        ours = sum(timed(sample, stages))
        print(f"  {name:38} {size / ours:8.2f}  {len(sample) / ours:10,.0f} documents/s  {total / ours:6.0f} times")


def test_c4_lines(texts: pa.Array) -> None:
    batch = batch_of(texts, "en")
    (lines,) = (p for p in C4().expand() if isinstance(p, Transform))
    report("quality.c4, rewriting the text", texts, best(lambda: lines.transform(batch)))


def test_chinese_on_chinese() -> None:
    if not (SAMPLE / "zh-Hans").is_dir():
        pytest.skip("no Chinese sample texts")
    found = [f.read_text(encoding="utf-8") for d in ("zh-Hans", "zh-Hant") for f in sorted((SAMPLE / d).glob("*.md"))]
    texts = pa.array(found * 200, pa.large_string())
    batch = batch_of(texts, "zh")
    stage = Chinese()
    assert isinstance(stage, Composite)
    scores = [Signals(), *(p for p in stage.expand() if isinstance(p, Score))]
    report("quality.chinese on Chinese", texts, best(lambda: [s.score(batch) for s in scores]))


@pytest.mark.parametrize("score", [DatatroveSignals(), DclmSignals(), DolmaSignals()], ids=lambda s: type(s).__name__)
def test_dialects(texts: pa.Array, score: Score) -> None:
    batch = batch_of(texts, "en")
    report(type(score).__name__, texts, best(lambda: score.score(batch), times=2))


def test_dictionary_words() -> None:
    """Chinese cut by a dictionary, measured apart: the segmenter takes nearly all of the time."""
    pytest.importorskip("rjieba")
    found = [f.read_text(encoding="utf-8") for d in ("zh-Hans", "zh-Hant") for f in sorted((SAMPLE / d).glob("*.md"))]
    texts = pa.array(found * 20, pa.large_string())
    batch = batch_of(texts, "zh")
    report("quality.signals_dictionary on Chinese", texts, best(lambda: DictionarySignals().score(batch), times=2))


PIECES = ["a", " ", "a ", "\n", ".\n", "a. ", "?-", ")", "中", "word ", "… ", "ab\n\n", "e.g. ", "http://a.b/c?d ", "\u0301",
          "#", "- a\n", "x,y"]  # fmt: skip


def test_eight_megabytes_take_ten_times_the_time_of_one_at_most() -> None:
    """One document of one short piece again and again. User time alone is counted in ticks of 4 ms on some systems."""

    def seconds(score: Score, piece: str, size: int) -> float:
        batch = batch_of(pa.array([piece * (size // len(piece.encode()))], pa.large_string()), "en")
        start = time.process_time()
        score.score(batch)
        return time.process_time() - start

    scores = [Signals(), DatatroveSignals(), DclmSignals(), DolmaSignals(), RedPajamaSignals()]
    scores += [p for p in C4().expand() if isinstance(p, Score)]
    for score in scores:
        worst = (0.0, "")
        for piece in PIECES:
            seconds(score, piece, 1000)
            small = min(seconds(score, piece, 1 << 20) for _ in range(5))
            large = min(seconds(score, piece, 8 << 20) for _ in range(3))
            worst = max(worst, (large / small, piece))
        print(f"\n{type(score).__name__}: 8 MB take {worst[0]:.1f} times as long as 1 MB at most ({worst[1]!r})")
        assert worst[0] <= 10
