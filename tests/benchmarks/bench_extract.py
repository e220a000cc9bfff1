"""Main text of pages: MB of HTML per CPU second, alone, in the sandbox, with reading, and beside trafilatura.

    CORPUSFLOW_TEST_DATA=… pytest -m bench -s tests/benchmarks/bench_extract.py

Needs CORPUSFLOW_TEST_DATA: the 7,773 pages of warc/docs-00 (117 MB) and the 181 of extraction/scrapinghub (31 MB). trafilatura
runs where CORPUSFLOW_PEERS_PYTHON names the Python of an environment that has it (peers/trafilatura_pages.py), on every
CORPUSFLOW_BENCH_EVERY-th page (10) of the crawl, beside ours on the same pages. Rates are of bytes as served, gzip undone.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from corpusflow import Sandbox
from corpusflow.sandbox import Request, Result
from stages.ingest._page import make
from stages.ingest.extract import ExtractText
from stages.ingest.warc import Warc

HERE = Path(__file__).resolve().parent
DATA = os.environ.get("CORPUSFLOW_TEST_DATA")
PEERS = os.environ.get("CORPUSFLOW_PEERS_PYTHON")
EVERY = int(os.environ.get("CORPUSFLOW_BENCH_EVERY", "10"))
TIMES = 3
pytestmark = [pytest.mark.bench, pytest.mark.skipif(not DATA, reason="needs $CORPUSFLOW_TEST_DATA")]

#: (bytes, declared type, codings)
Page = tuple[bytes, str | None, str | None]


def crawl() -> Warc:
    return Warc(paths=(str(Path(str(DATA)) / "warc" / "docs-00.warc.gz"),))


def read(stage: Warc) -> Iterable[pa.RecordBatch]:
    return (batch for split in stage.splits() for batch in stage.read(split))


@pytest.fixture(scope="module")
def pages() -> dict[str, list[Page]]:
    docs: list[Page] = []
    for batch in read(crawl()):
        rows = batch.select(["raw", "content_type", "content_encoding"]).filter(batch.column("raw").is_valid())
        docs += [(r["raw"], r["content_type"], r["content_encoding"]) for r in rows.to_pylist()]
    folder = Path(str(DATA)) / "extraction" / "scrapinghub" / "html"
    articles: list[Page] = [(gzip.decompress(p.read_bytes()), "text/html", None) for p in sorted(folder.glob("*.gz"))]
    return {"warc/docs-00": docs, "extraction/scrapinghub": articles}


def megabytes(pages: Sequence[Page]) -> float:
    return sum(len(p[0]) for p in pages) / 1e6


def cpu_seconds(child: Sandbox | None) -> float:
    """Of this process, of children that are gone, and of the one that a sandbox has now (Linux)."""
    used = os.times()
    seconds = used.user + used.system + used.children_user + used.children_system
    if child is not None and (running := child._child) is not None:
        fields = Path(f"/proc/{running._process.pid}/stat").read_bytes().rpartition(b")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def spent(run: Callable[[], object], child: Sandbox | None = None) -> tuple[float, float]:
    """(CPU seconds, wall seconds), the best of some."""
    found = []
    for _ in range(TIMES):
        cpu, wall = cpu_seconds(child), time.perf_counter()
        run()
        found.append((cpu_seconds(child) - cpu, time.perf_counter() - wall))
    return min(found)


def direct(pages: Iterable[Page]) -> Callable[[], object]:
    """The worker of the sandbox, called in this process."""
    work = make(8 << 20, "blocks")
    work({}, b"<title>a</title><p>b c</p>")
    return lambda: [work({"type": kind, "coding": coding}, data) for data, kind, coding in pages]


def by_trafilatura(pages: Sequence[Page], folder: Path) -> float:
    path = folder / "pages.jsonl"
    path.write_text("".join(json.dumps(base64.b64encode(p[0]).decode()) + "\n" for p in pages), encoding="ascii")
    command = [str(PEERS), str(HERE / "peers" / "trafilatura_pages.py"), str(path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(out.stdout.splitlines()[-1])["rate"])


@pytest.mark.parametrize(("name", "least", "every"), [("warc/docs-00", 20, EVERY), ("extraction/scrapinghub", 80, 1)])
def test_extraction(pages: dict[str, list[Page]], tmp_path: Path, name: str, least: float, every: int) -> None:
    found = pages[name]
    rate = megabytes(found) / spent(direct(found))[0]
    print(f"\n{name}: {len(found):,} pages, {megabytes(found):.0f} MB: {rate:.1f} MB/s (wanted: {least})")
    if PEERS:
        sample = found[::every]
        ours = megabytes(sample) / spent(direct(sample))[0]
        theirs = by_trafilatura(sample, tmp_path)
        of = "all" if every == 1 else f"one in {every}"
        print(
            f"  {of}, {megabytes(sample):.1f} MB: {ours:.1f} MB/s, trafilatura {theirs:.2f}, {ours / theirs:.0f} times (10)"
        )
        assert ours > 10 * theirs


class Within:
    """A sandbox that is none: the worker runs in this process."""

    def __init__(self, stage: ExtractText) -> None:
        self._work = make(stage.max_bytes, stage.engine)

    def map(self, items: Iterable[Request]) -> Iterator[Result]:
        for header, body in items:
            answer, parts = self._work(dict(header), bytes(body))
            yield Result(answer, parts)


def test_ingest_and_what_its_sandbox_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of ingest do all that a run does from file to text and signals; only where pages are parsed differs."""
    stage = ExtractText()
    size = 0.0

    def ingest() -> None:
        nonlocal size
        size = 0.0
        for batch in read(crawl()):
            size += batch.column("raw").nbytes / 1e6
            assert stage.transform(batch).column("quarantine").null_count == batch.num_rows

    box = stage.open()

    def start() -> None:
        box.close()
        box.run([({"type": "text/html", "coding": None}, b"<title>a</title><p>b c</p>")])

    monkeypatch.setattr(ExtractText, "opened", Within(stage))
    ingest()
    within = spent(ingest)
    monkeypatch.setattr(ExtractText, "opened", box)
    ingest()
    running = spent(ingest, child=box)
    started = spent(start, child=box)
    print(f"\nread and extract warc/docs-00, {size:.0f} MB: MB/s per CPU second, and per second of wall clock")
    for what, (cpu, wall) in {
        "pages parsed in the process itself": within,
        "in the sandbox": running,
        "in the sandbox, its start included": (running[0] + started[0], running[1] + started[1]),
    }.items():
        print(f"  {what:36} {size / cpu:6.1f} {size / wall:6.1f}")
    print(f"  wanted: 18. The sandbox costs {running[0] / within[0] - 1:.1%} of CPU time (wanted: 8 %),", end="")
    print(f" its start {started[0]:.2f} CPU s for 50,000 pages")
    box.close()
