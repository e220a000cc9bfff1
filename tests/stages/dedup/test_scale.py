"""The cost model of dedup against a run, and what it says of 30, 45 and 150 billion documents."""

from __future__ import annotations

from pathlib import Path

import memory_engine
import pytest

from stages.dedup._scale import Corpus, exact_costs, minhash_costs, table
from stages.dedup.minhash import NearDuplicates


def run_all(run: memory_engine.MemoryRun, stage: NearDuplicates) -> dict[str, tuple[int, float]]:
    """Phase -> (tasks, bytes written)."""
    out = {}
    for phase in stage.phases():
        count = len(run.shards) if phase.tasks is None else phase.tasks(run)
        run.committed[phase.name], done = {}, {}
        for index in range(count):
            task = memory_engine.MemoryTask(run, phase.name, index)
            phase.run(task)
            done[index] = (task.written, task.noted, task.counted)
        run.committed[phase.name] = done
        out[phase.name] = (count, float(sum(p.size for p in run.parts(phase.name))))
    return out


def test_bytes_are_those_of_a_run(tmp_path: Path) -> None:
    documents, shards = 130_000, 130
    run = memory_engine.Synthetic(tmp_path, documents, documents // shards)
    measured = run_all(run, NearDuplicates(verify="signature"))
    nodes = run.counters("components")["nodes"]
    shares = {"near": nodes / documents, "edges": run.counters("edges")["edges"] / documents}
    corpus = Corpus(documents, text_bytes=(256 << 20) / 1_000, **shares)
    assert corpus.shards == shards
    for cost in minhash_costs(corpus):
        tasks, size = measured[cost.phase]
        assert cost.tasks == tasks, cost.phase
        # footers of small files are not worth a term
        assert cost.written == pytest.approx(size, rel=0.25, abs=tasks * 12_000), cost.phase


@pytest.mark.parametrize("billions", [0.001, 1, 30, 45, 150])
def test_memory_and_files_stay_small_at_any_size(billions: float) -> None:
    n = billions * 1e9
    exact, near = exact_costs(Corpus(n, removed=0.3)), minhash_costs(Corpus(n))
    print(f"\n{billions} billion documents\n{table(exact)}\n{table(near)}")
    for cost in exact + near:
        assert cost.memory <= 3e9, cost.phase
        assert cost.files <= 30 + n / 100_000, cost.phase
        assert cost.requests <= 0.1 * n + 10_000, cost.phase
    assert sum(c.written for c in near) / n < 620
    assert sum(c.core_hours for c in exact + near) < 4 * max(1.0, billions)


@pytest.mark.parametrize("bands", [14, 26])
def test_stages_tell_their_costs(bands: int) -> None:
    told = NearDuplicates(bands=bands).costs(45e9, 5_500)
    costs = minhash_costs(Corpus(45e9, 5_500), bands=bands)
    assert [p["phase"] for p in told["phases"]] == [c.phase for c in costs]
    assert sum(p["TB written"] for p in told["phases"]) == pytest.approx(sum(c.written for c in costs) / 1e12, abs=0.01)
    assert told["rests_on"]["documents"] == 45e9
    forced = NearDuplicates(components="files").costs(1e6, 5_500)["phases"]
    assert "stars_00" in [p["phase"] for p in forced]
