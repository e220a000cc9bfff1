"""Sources: MB/s of one core from files to batches, beside the libraries that others read them with.

    CORPUSFLOW_TEST_DATA=… pytest -m bench -s tests/benchmarks/bench_ingest.py

WARC: data/warc/docs-00 (7,773 pages, 117 MB of payload); without it, the sample crawl repeated. JSONL and Parquet: the texts
of data/parity (12,963 pages, 44 MB); without it, the sample texts repeated. Rates are of payload or text and of CPU time, best
of three; files are in the page cache.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import fastwarc.warc as fastwarc
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from corpusflow import FileSource
from stages.ingest.arrow import Arrow
from stages.ingest.csv import Csv
from stages.ingest.jsonl import Jsonl
from stages.ingest.parquet import Parquet
from stages.ingest.warc import Warc

pytestmark = pytest.mark.bench
DATA = Path(os.environ.get("CORPUSFLOW_TEST_DATA", "nowhere"))
SAMPLE = Path(__file__).parents[2] / "sample_data"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    if (path := DATA / "parity" / "text.parquet").is_file():
        columns = pq.read_table(path, columns=["url", "text_resiliparse", "html_bytes"])
        return columns.rename_columns(["url", "text", "html_bytes"]).filter(columns.column(1).is_valid())
    texts = [f.read_text(encoding="utf-8") for f in sorted((SAMPLE / "texts").glob("*/*.md"))] * 40
    return pa.table({"url": [f"https://example.org/{i}" for i in range(len(texts))], "text": texts})


@pytest.fixture(scope="module")
def warc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (path := DATA / "warc" / "docs-00.warc.gz").is_file():
        return path
    path = tmp_path_factory.mktemp("warc") / "sample.warc.gz"
    path.write_bytes((SAMPLE / "web" / "web-00.warc.gz").read_bytes() * 200)
    return path


def best(run: Callable[[], int], times: int = 3) -> tuple[int, float]:
    """(bytes it read, CPU seconds)."""
    found = []
    for _ in range(times):
        start = time.process_time()
        size = run()
        found.append((size, time.process_time() - start))
    return min(found, key=lambda f: f[1])


def source(stage: FileSource, column: str) -> Callable[[], int]:
    def run() -> int:
        size = 0
        for split in stage.splits():
            for batch in stage.read(split):
                size += batch.column(column).nbytes
        return size

    return run


def report(what: str, runs: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Megabytes a second of each; all of what the first one reads, so that others are not paid for reading more."""
    rates: dict[str, float] = {}
    size = 0
    for name, run in runs.items():
        got, seconds = best(run)
        size = size or got
        rates[name] = size / 1e6 / seconds
    print(f"\n{what}, {size / 1e6:.0f} MB: " + ", ".join(f"{name} {rate:.0f} MB/s" for name, rate in rates.items()))
    return rates


def test_warc(warc: Path) -> None:
    def by_fastwarc() -> int:
        with warc.open("rb") as f:
            return sum(len(r.reader.read()) for r in fastwarc.ArchiveIterator(f, parse_http=True))

    def by_warcio() -> int:
        with warc.open("rb") as f:
            return sum(len(r.content_stream().read()) for r in ArchiveIterator(f))

    def gunzip() -> int:
        with gzip.open(warc) as f:
            return sum(len(b) for b in iter(lambda: f.read(1 << 20), b""))

    stage = Warc(paths=(str(warc),))
    rates = report(
        "WARC.gz",
        {"ingest.warc": source(stage, "raw"), "fastwarc": by_fastwarc, "warcio": by_warcio, "gzip alone": gunzip},
    )
    assert rates["ingest.warc"] > rates["warcio"]


def test_jsonl(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    lines = b"".join(orjson.dumps(r) + b"\n" for r in table.to_pylist())
    path.write_bytes(zstandard.compress(lines, 3))
    (tmp_path / "b.jsonl").write_bytes(lines)

    def line_by_line(loads: Callable[[bytes], dict[str, str]]) -> Callable[[], int]:
        def run() -> int:
            with path.open("rb") as f, io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(f), 1 << 20) as g:
                texts = [loads(line)["text"] for line in g]
                return pa.array(texts, pa.large_string()).nbytes

        return run

    # The peers give the text and nothing else: no ids, no places, no `meta`, and no look at what a damaged frame spoils.
    rates = report(
        "JSONL.zst",
        {
            "ingest.jsonl": source(Jsonl(paths=(str(path),)), "text"),
            "zstandard and orjson": line_by_line(orjson.loads),
            "zstandard and json": line_by_line(json.loads),
        },
    )
    report("JSONL, plain", {"ingest.jsonl": source(Jsonl(paths=(str(tmp_path / "b.jsonl"),)), "text")})
    assert rates["ingest.jsonl"] > 0.4 * rates["zstandard and json"]


def test_tables(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=5_000, write_page_checksum=True)

    def by_pyarrow() -> int:
        return sum(b.column("text").nbytes for b in pq.ParquetFile(path).iter_batches(1_000, use_threads=False))

    stage = Parquet(paths=(str(path),))
    report(
        "Parquet (zstd)",
        {
            "ingest.parquet": source(stage, "text"),
            "without meta": source(Parquet(paths=(str(path),), meta=False), "text"),
            "pyarrow alone": by_pyarrow,
        },
    )
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=5_000)
    report("Arrow IPC", {"ingest.arrow": source(Arrow(paths=(str(tmp_path / "a.arrow"),)), "text")})


def test_csv(table: pa.Table, tmp_path: Path) -> None:
    import csv

    path = tmp_path / "a.csv"
    with path.open("w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(table.schema.names)
        writer.writerows(r.values() for r in table.to_pylist())

    def by_csv() -> int:
        csv.field_size_limit(1 << 40)
        with path.open(newline="") as f:
            return pa.array([r["text"] for r in csv.DictReader(f)], pa.large_string()).nbytes

    report("CSV", {"ingest.csv": source(Csv(paths=(str(path),)), "text"), "csv alone": by_csv})
