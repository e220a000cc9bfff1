"""`what-if` on a million documents: seconds from the command line's call to the answer.

    CORPUSFLOW_TEST_DATA=… pytest -m bench -s tests/benchmarks/bench_what_if.py

The run is a real one over the sample crawl (over data/warc, where CORPUSFLOW_TEST_DATA is set), its committed columns
repeated to 1,000,000 documents in 16 shards; checked against the counts of the real run, times the repetition.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small_runs import CONFIG, write_config

import corpusflow
from corpusflow.api import Run
from corpusflow.checkpoint import PartWriter, read_part
from corpusflow.commit import Dataset
from corpusflow.plan import Node, Plan, Shard
from corpusflow.record import Record
from corpusflow.whatif import WhatIf, what_if

pytestmark = pytest.mark.bench
DOCUMENTS = 1_000_000
SHARDS = 16
DATA = Path(os.environ.get("CORPUSFLOW_TEST_DATA", "nowhere")) / "warc"
SETS = ["quality.gopher.min_words=80", "quality.gopher_repetition.max_dup_lines=0.2"]


def real_run(folder: Path) -> Path:
    text = CONFIG.partition("output:")[0].replace("  - tokenize", "  # - tokenize")
    if DATA.is_dir():
        text = text.replace(text[text.index("[") : text.index("], group")], f"[{DATA}/docs-00.warc.gz")
    corpusflow.run(str(write_config(folder, text)))
    return folder / "run"


def repeated(run: Run, folder: Path) -> tuple[Run, int]:
    """A run folder whose 16 shards each hold all records of the real run, enough times over; and how often in all."""
    plan = run.plan
    documents = sum(r.counters["kept"] for r in run.committed(plan.sources[0]).values())
    times = math.ceil(DOCUMENTS / documents / SHARDS)
    shards = tuple(replace(plan.shards[0], number=n, key=f"{n:064x}", files=()) for n in range(SHARDS))
    big = replace(plan, run_dir=str(folder), shards=shards)
    sizes = {n.index: bases(run, n) for n in plan.nodes if n.kind in ("source", "wide")}
    for node in plan.nodes:
        for shard in shards:
            repeat(run, big, node, shard, times, sizes)
    out = Run.__new__(Run)
    out.plan, out.folder = big, run.folder
    return out, times * SHARDS


def bases(run: Run, node: Node) -> list[int]:
    """Rows of a base, per shard of the real run."""
    return [sum(p.rows for p in r.parts if p.label == "rows") for _, r in sorted(run.committed(node).items())]


def repeat(run: Run, big: Plan, node: Node, shard: Shard, times: int, sizes: dict[int, list[int]]) -> None:
    """One node's record: the real run's shards one behind the other, `times` over, rows numbered on."""
    real = Dataset(run.plan.root(node), node.fp)
    records = [r for _, r in sorted(run.committed(node).items())]
    target = Dataset(big.root(node), node.fp)
    attempt = target.attempt(shard.number, big.key(node, shard))
    parts = [r.part("rows") for r in records]
    if any(p is not None for p in parts):
        tables = []
        start = 0
        base = sizes[run.plan.sources[0].index if node.base < 0 else node.base] if node.kind != "source" else []
        for _ in range(times):
            for i, part in enumerate(parts):
                if part is not None:
                    tables.append(shifted(read_part(real, part), start))
                start += base[i] if base else 0
        table = pa.concat_tables(tables)
        with PartWriter(attempt, "rows", table.schema) as writer:
            writer.write(table)
    attempt.commit(total(records, times))


def shifted(table: pa.Table, start: int) -> pa.Table:
    """Row numbers moved on; text and everything else that is long left out."""
    for i, field in enumerate(table.schema):
        if field.name == "row":
            rows = table.column(i).to_numpy().astype(np.int64) + start
            table = table.set_column(i, field, pa.array(rows.astype(np.int32)))
        elif field.name in ("text", "meta"):
            table = table.set_column(i, field, pa.nulls(table.num_rows, field.type))
    return table


def total(records: list[Record], times: int) -> dict[str, object]:
    kept = sum(r.counters.get("kept", 0) for r in records) * times
    return {"in": kept, "kept": kept}


def test_a_million_documents(tmp_path: Path) -> None:
    run = corpusflow.open_run(str(real_run(tmp_path / "real")))
    small = what_if(run, SETS)
    big, times = repeated(run, tmp_path / "big")
    seconds = []
    for _ in range(5):
        start, cpu = time.perf_counter(), time.process_time()
        answer: WhatIf = what_if(big, SETS, samples=0)
        seconds.append((time.perf_counter() - start, time.process_time() - cpu))
    entered = answer.filters[0].entered[0]
    wall, cpu = min(seconds)
    print(
        f"\nwhat-if on {entered:,} documents, {len(big.plan.shards)} shards: {wall:.2f} s, {cpu:.2f} CPU s (best of 5)"
    )
    for one, many in zip(small.filters, answer.filters, strict=True):
        assert many.entered == [n * times for n in one.entered]
        assert many.kept == [n * times for n in one.kept]
        for a, b in zip(one.rules, many.rules, strict=True):
            assert b.dropped == [n * times for n in a.dropped]
    assert answer.lost == small.lost * times
