"""WARC to tokens, whole: MB of HTML per CPU second over the whole process tree, beside datatrove's FineWeb recipe.

    pytest -m bench -s tests/benchmarks/bench_pipeline.py

Needs CORPUSFLOW_TEST_DATA (its warc/docs-00.warc.gz). The peer runs where CORPUSFLOW_DATATROVE_PYTHON names the Python of an
environment with datatrove (peers/datatrove_fineweb.py says how to make one). CORPUSFLOW_BENCH_COPIES (4) sets the size: each
copy is 117 MB of HTML. Dedup is off on both sides, since the copies differ in ids and URLs only.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.bench

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = os.environ.get("CORPUSFLOW_TEST_DATA")
PEER = os.environ.get("CORPUSFLOW_DATATROVE_PYTHON")
COPIES = int(os.environ.get("CORPUSFLOW_BENCH_COPIES", "4"))

FILTERS = [
    "quality.gopher_repetition",
    "quality.gopher",
    {"quality.c4": {"require_terminal": False}},
    "quality.fineweb",
]
ENGLISH = {"language.identify": {"keep": ["en"], "min_score": 0.65}}


def repeated(source: Path, folder: Path, copies: int) -> int:
    """Write `copies` of a WARC file with record ids and URLs of their own; returns the HTML and XHTML pages in all."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    folder.mkdir(parents=True, exist_ok=True)
    pages = 0
    for copy in range(copies):
        with (folder / f"copy-{copy}.warc.gz").open("wb") as out:
            for record in ArchiveIterator(str(source), record_types=WarcRecordType.response, parse_http=False):
                headers = {str(k): str(v) for k, v in record.headers.items()}
                url = headers["WARC-Target-URI"].strip("<>")
                headers["WARC-Target-URI"] = url.replace("://", f"://copy{copy}.", 1)
                headers["WARC-Record-ID"] = f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{copy} {record.record_id}')}>"
                lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
                block = record.reader.read()
                out.write(gzip.compress(f"WARC/1.0\r\n{lines}\r\n".encode() + block + b"\r\n\r\n", 6, mtime=0))
                pages += 1
    return pages


def html_bytes(folder: Path) -> int:
    """Bytes of HTTP bodies in a folder of WARC files."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    total = 0
    for path in sorted(folder.glob("*.warc.gz")):
        for record in ArchiveIterator(str(path), record_types=WarcRecordType.response):
            total += len(record.reader.read())
    return total


def config(folder: Path, run: Path, stages: list[Any]) -> str:
    """A config file for a run over a folder of WARC files."""
    body = {
        "name": "bench",
        "input": [{"ingest.warc": {"paths": [f"{folder}/*.warc.gz"]}}],
        "stages": [*stages, {"tokenize.sentencepiece": {"model": f"{ROOT}/sample_data/tokenizer/web.model"}}],
        "output": [{"export.parquet": {"columns": ["id", "url", "text"]}}, "export.bin"],
        "run": {"dir": str(run), "executor": "ray", "workers": 2},
    }
    path = run.with_suffix(".yaml")
    path.write_text(json.dumps(body), encoding="utf-8")
    return str(path)


def measured(name: str, tmp: Path, command: list[str], **env: str) -> dict[str, Any]:
    """Run a command under tree_cpu.py; its usage."""
    out = tmp / f"{name}.json"
    full = [sys.executable, str(HERE / "tree_cpu.py"), "--out", str(out), "--", *command]
    done = subprocess.run(full, cwd=tmp, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{name} failed:\n{done.stderr[-3000:]}")
    usage: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return usage


def kept_urls(run: Path) -> set[str]:
    """URLs in a run's Parquet export."""
    urls: set[str] = set()
    for path in sorted((run / "exports" / "parquet").glob("*.parquet")):
        urls.update(pq.read_table(path, columns=["url"]).column("url").to_pylist())
    return urls


@pytest.mark.skipif(DATA is None, reason="set CORPUSFLOW_TEST_DATA")
def test_pipeline(tmp_path: Path) -> None:
    """Prints; asserts only that every page was read and that nothing was lost."""
    folder = tmp_path / "warc"
    pages = repeated(Path(str(DATA)) / "warc" / "docs-00.warc.gz", folder, COPIES)
    size = html_bytes(folder)
    print(f"\n{COPIES} files, {pages:,} pages, {size / 1e6:.1f} MB of HTML")
    tiny = tmp_path / "tiny"
    repeated(ROOT / "sample_data" / "web" / "web-00.warc.gz", tiny, 1)

    recipes = {
        "extraction before the language gate": ["ingest.extract", ENGLISH, *FILTERS],
        "with a prefilter": [{"language.prefilter": {"keep": ["en"]}}, "ingest.extract", ENGLISH, *FILTERS],
    }
    corpusflow = [sys.executable, "-m", "corpusflow", "run", "--json"]
    fixed = None
    runs: dict[str, Path] = {}
    rows = []
    for i, (name, stages) in enumerate(recipes.items()):
        if i == 0:
            warm = config(tiny, tmp_path / "warm", stages)
            measured("warm", tmp_path, [*corpusflow, warm])  # compiles kernels
            again = config(tiny, tmp_path / "fixed", stages)
            fixed = measured("fixed", tmp_path, [*corpusflow, again])
        runs[name] = tmp_path / f"run{i}"
        usage = measured(f"run{i}", tmp_path, [*corpusflow, config(folder, runs[name], stages)])
        rows.append((f"corpusflow, {name}", usage))
        outcome = json.loads((runs[name] / "run.json").read_text(encoding="utf-8"))
        by_stage = {c["stage"]: c for c in outcome["counts"]}
        assert by_stage["ingest.warc"]["kept"] == pages, "a page was not read"
        for count in outcome["counts"]:
            assert count["exact"], count
    if PEER is not None:
        work = tmp_path / "datatrove"
        work.mkdir()
        command = [PEER, str(HERE / "peers" / "datatrove_fineweb.py"), "--warcs", str(folder), "--work", str(work)]
        command += ["--model", str(ROOT / "stages" / "language" / "models" / "lid.176.ftz"), "--workers", "2"]
        rows.append(("datatrove, FineWeb recipe", measured("datatrove", tmp_path, command)))

    print(f"{'':44} {'CPU s':>8} {'MB/CPU-s':>9} {'wall s':>8} {'peak tree MB':>13} {'peak process MB':>16}")
    for name, usage in rows:
        rate = size / 1e6 / usage["cpu_s"]
        print(
            f"{name:44} {usage['cpu_s']:8.1f} {rate:9.2f} {usage['wall_s']:8.1f} {usage['peak_tree_mb']:13.0f} "
            f"{usage['peak_process_mb']:16.0f}"
        )
    if fixed is not None:
        print(f"{'of it Ray and start-up (a run of 57 pages)':44} {fixed['cpu_s']:8.1f} {'':9} {fixed['wall_s']:8.1f}")
    first, *_ = runs
    for name, run in runs.items():
        print(f"kept, {name}: {len(kept_urls(run)):,} pages")
    if PEER is not None:
        ratio = rows[-1][1]["cpu_s"] / rows[0][1]["cpu_s"]
        prefiltered = rows[-1][1]["cpu_s"] / rows[1][1]["cpu_s"]
        print(f"corpusflow / datatrove, per CPU second: {ratio:.1f} times ({prefiltered:.1f} with a prefilter)")
        theirs = {json.loads(line)["metadata"]["url"] for line in kept_lines(tmp_path / "datatrove" / "kept")}
        ours = kept_urls(runs[first])
        both = ours & theirs
        print(f"kept by both {len(both):,}, ours only {len(ours - both):,}, theirs only {len(theirs - both):,}")


def kept_lines(folder: Path) -> list[str]:
    """Lines of datatrove's JSONL output."""
    lines: list[str] = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as f:
            lines.extend(f)
    return lines
