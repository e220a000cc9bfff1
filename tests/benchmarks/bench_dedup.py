"""Dedup: MB per CPU second of each kernel beside its peers, and whole runs with their memory and disk.

    pytest -m bench -s tests/benchmarks/bench_dedup.py

Needs CORPUSFLOW_TEST_DATA for real text: data/text, and the pages of data/warc. Peers run where CORPUSFLOW_PEERS_PYTHON and
CORPUSFLOW_DATATROVE_PYTHON name Pythons of environments that have them (peers/minhash_peers.py). CORPUSFLOW_BENCH_DOCUMENTS
(20000; a million are 4.3 GB) sets the size of the whole run, CORPUSFLOW_BENCH_SIGNATURES (1e6) that of the synthetic one, which
goes through every global phase without text.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import memory_engine
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.dedup._substrings import RepeatedSpans
from stages.dedup.exact import ExactHash
from stages.dedup.minhash import MinHashSignature, NearDuplicates
from stages.dedup.url import UrlHash
from stages.kernels.buffers import text_buffers
from stages.kernels.line_hashes import line_hashes
from stages.kernels.shingles import shingle_sets
from stages.kernels.winnow import seeds

pytestmark = pytest.mark.bench

HERE = Path(__file__).resolve().parent
DATA = os.environ.get("CORPUSFLOW_TEST_DATA")
PEERS = [p for n in ("PEERS", "DATATROVE") if (p := os.environ.get(f"CORPUSFLOW_{n}_PYTHON"))]
DOCUMENTS = int(float(os.environ.get("CORPUSFLOW_BENCH_DOCUMENTS", "20000")))
SIGNATURES = int(float(os.environ.get("CORPUSFLOW_BENCH_SIGNATURES", "1e6")))
needs_data = pytest.mark.skipif(not DATA, reason="needs $CORPUSFLOW_TEST_DATA")


def texts(*names: str) -> list[str]:
    out: list[str] = []
    for name in names:
        with gzip.open(Path(str(DATA)) / "text" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            out.extend(json.loads(line)["text"] for line in lines)
    return out


def rate(size: int, run: Any, repeats: int = 3) -> float:
    """MB per CPU second, the best of some."""
    run()
    best = 1e9
    for _ in range(repeats):
        begin = time.process_time()
        run()
        best = min(best, time.process_time() - begin)
    return size / best / 1e6


def pieces(values: Sequence[str], size: int = 4_000) -> list[str]:
    """Texts cut into documents of a crawl's size."""
    return [t[i : i + size] for t in values for i in range(0, len(t), size)]


@needs_data
@pytest.mark.parametrize("name", ["en_100novels", "zh_classical-modern"])
def test_kernels(name: str) -> None:
    documents = pieces(texts(name))
    column = pa.array(documents, pa.large_string())
    batch = pa.record_batch([column], names=["text"])
    offsets, data, valid = text_buffers(column)
    size = int(offsets[-1])
    units = int(MinHashSignature().score(batch).column(1).to_numpy().sum())
    print(f"\n{name}: {len(documents):,} documents, {size / 1e6:.1f} MB; MB/s per core")
    measured = {
        "exact hash": lambda: ExactHash().score(batch),
        "signature, 112 permutations, word 5-grams": lambda: MinHashSignature().score(batch),
        "signature, 260 permutations, character 24-grams": lambda: MinHashSignature(
            bands=20, rows=13, shingle=24, unit="characters"
        ).score(batch),
        "shingle sets (exact verification)": lambda: shingle_sets(data, offsets, 5, 0, units + len(documents)),
        "line hashes": lambda: line_hashes(data, offsets, valid, 0, paragraphs=False, least=1),
        "seeds of substrings": lambda: seeds(data, offsets, valid, 32, 169),
    }
    for what, run in measured.items():
        print(f"  {what:50} {rate(size, run):8.1f}")
    urls = pa.record_batch(
        [pa.array([f"https://www.example.org/a/{i}?utm_source=b&id={i}" for i in range(len(documents))]), column],
        names=["url", "text"],
    )
    begin = time.process_time()
    UrlHash().score(urls)
    print(f"  {'addresses per second':50} {len(documents) / (time.process_time() - begin):8.0f}")


@needs_data
@pytest.mark.skipif(not PEERS, reason="needs $CORPUSFLOW_PEERS_PYTHON or $CORPUSFLOW_DATATROVE_PYTHON")
def test_signatures_beside_peers(tmp_path: Path) -> None:
    documents = pieces(texts("en_100novels"))[:2_000]
    batch = pa.record_batch([pa.array(documents, pa.large_string())], names=["text"])
    size = sum(len(t.encode()) for t in documents)
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in documents), encoding="utf-8")
    found: dict[str, float | str] = {}
    for python in PEERS:
        command = [python, str(HERE / "peers" / "minhash_peers.py"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            if not isinstance(found.get(name), float):
                found[name] = value
    print(f"\nsignatures of {size / 1e6:.1f} MB, 112 permutations, word 5-grams: MB per CPU second")
    print(f"  {'corpusflow':12} {rate(size, lambda: MinHashSignature().score(batch)):8.2f}")
    for name, value in found.items():
        print(f"  {name:12} {value if isinstance(value, str) else f'{value:8.2f}'}")


def run_phases(stage: Any, run: memory_engine.MemoryRun, size: float, what: str) -> None:
    """Every phase, its time, what it leaves on disk, and the largest memory so far."""
    total = disk = 0.0
    print(f"\n{'phase':12} {'tasks':>6} {'CPU s':>8} {what + ' on disk':>16} {'peak GB':>8}")
    for phase in stage.phases():
        count = len(run.shards) if phase.tasks is None else phase.tasks(run)
        run.committed[phase.name], done = {}, {}
        begin = time.process_time()
        for index in range(count):
            task = memory_engine.MemoryTask(run, phase.name, index)
            phase.run(task)
            done[index] = (task.written, task.noted, task.counted)
        spent = time.process_time() - begin
        run.committed[phase.name] = done
        written = sum(p.size for p in run.parts(phase.name)) / size
        total, disk = total + spent, disk + written
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{phase.name:12} {count:6} {spent:8.1f} {written:16.3f} {peak:8.2f}  {run.counters(phase.name) or ''}")
    print(f"{'all':12} {'':6} {total:8.1f} {disk:16.3f}")


def test_global_phases_on_synthetic_signatures(tmp_path: Path) -> None:
    run = memory_engine.Synthetic(tmp_path, SIGNATURES)
    begin = time.process_time()
    for batch in run.survivors(0, ["dedup.minhash.signature"]):
        del batch
    made = (time.process_time() - begin) * len(run.shards)
    print(f"\n{SIGNATURES:,} signatures; making them takes {made:.1f} CPU s of `bands`")
    run_phases(NearDuplicates(verify="signature"), run, SIGNATURES, "B/doc")


@needs_data
def test_substrings_on_real_text(tmp_path: Path) -> None:
    values = texts("zh_classical-modern", "en_100novels", "tldr_pages", "zh_poetry", "eltec_novels", "ja_aozora")
    table = pa.table({"id": [f"t/{i}" for i in range(len(values))], "text": pa.array(values, pa.large_string())})
    size = sum(len(t.encode()) for t in values)
    stage = RepeatedSpans()
    stage.warm()
    run = memory_engine.MemoryRun(
        tmp_path, {i: table.slice(i * 9_000, 9_000) for i in range(-(-len(table) // 9_000))}, {}, 2_000
    )
    print(f"\n{size / 1e6:.1f} MB of text")
    run_phases(stage, run, size, "B/B")


def pages() -> list[str]:
    """The main text of the pages of data/warc."""
    return [t for t in pq.read_table(Path(str(DATA)) / "parity" / "text.parquet").column("text").to_pylist() if t]


def crawl(folder: Path, documents: int) -> int:
    """Parquet files of documents made of real paragraphs, 30 % of them near-duplicates; returns bytes of text."""
    rng = random.Random(1)
    values = [*texts("en_100novels", "zh_classical-modern", "eltec_novels"), *pages()]
    paragraphs = [p for t in values for p in t.split("\n") if len(p) > 60]
    recent: list[list[str]] = []
    size = 0
    folder.mkdir()
    for number, start in enumerate(range(0, documents, 20_000)):
        rows = []
        for i in range(start, min(start + 20_000, documents)):
            if recent and rng.random() < 0.3:
                chosen = list(rng.choice(recent))
                for _ in range(rng.randint(0, 2)):
                    words = chosen[-1].split(" ")
                    words[rng.randrange(len(words))] = f"edit{i}"
                    chosen[-1] = " ".join(words)
            else:
                chosen, length = [], 0
                wanted = rng.randint(500, 7_500)
                while length < wanted:
                    chosen.append(rng.choice(paragraphs))
                    length += len(chosen[-1].encode())
                if len(recent) < 5_000:
                    recent.append(chosen)
                else:
                    recent[rng.randrange(5_000)] = chosen
            rows.append("\n".join(chosen))
        size += sum(len(r.encode()) for r in rows)
        urls = [f"https://example{i % 997}.org/{start + i}" for i in range(len(rows))]
        pq.write_table(pa.table({"text": rows, "url": urls}), folder / f"part-{number:05d}.parquet", compression="zstd")
    return size


@needs_data
def test_whole_run(tmp_path: Path) -> None:
    size = crawl(tmp_path / "in", DOCUMENTS)
    config = {
        "name": "bench",
        "input": [{"ingest.parquet": {"paths": [str(tmp_path / "in")]}}],
        "stages": ["dedup.minhash"],
        "output": [],
        "run": {"dir": str(tmp_path / "run"), "executor": "ray", "workers": 2},
    }
    code = (
        "import corpusflow, json\n"
        f"done = corpusflow.run(json.loads({json.dumps(json.dumps(config))}))\n"
        "for c in done.counts: print(c.stage, c.entered, c.kept, dict(c.dropped))\n"
        "for s in done.steps: print(f'{s.title}: {s.seconds:.1f} s')\n"
        "print(f'{done.seconds:.1f} s, Ray {done.start_seconds:.1f} s of them; largest worker {done.peak_memory / 1e6:.0f} MB')"
    )
    usage = tmp_path / "usage.json"
    command = [sys.executable, str(HERE / "tree_cpu.py"), "--out", str(usage), "--", sys.executable, "-c", code]
    subprocess.run(command, check=True)
    used = json.loads(usage.read_text())
    disk = sum(p.stat().st_size for p in (tmp_path / "run" / "dedup.minhash").rglob("*") if p.is_file())
    print(
        f"\n{DOCUMENTS:,} documents, {size / 1e6:.0f} MB in {used['wall_s']:.0f} s, {used['cpu_s']:.0f} CPU s of the whole tree"
    )
    print(f"  {size / 1e6 / used['wall_s']:.1f} MB/s over 2 workers, {size / 1e6 / used['cpu_s']:.1f} per CPU second")
    print(f"  {disk / DOCUMENTS:.0f} bytes a document on disk, input and output apart")
