"""Connected components against scipy, in memory and over files: the same answer on graphs of every shape."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from corpusflow import StageError
from stages.dedup import _components, _shards, _stars
from stages.dedup._runs import Run, RunWriter

ROWS = 700  # of every shard


def graphs() -> dict[str, tuple[int, np.ndarray]]:
    rng = np.random.default_rng(3)
    n = 3_000
    near = []
    for start in np.flatnonzero(rng.random(n) < 0.1):  # small clusters and a few large ones, several stars each
        members = rng.permutation(n)[: min(400, int(rng.zipf(1.8)) + 1)]
        near.extend((m, start) for m in members)
    path = np.arange(n - 1)
    shuffled = rng.permutation(n)
    return {
        "none": (n, np.zeros((0, 2), np.int64)),
        "one edge": (n, np.array([[2_999, 0]])),
        "random sparse": (n, rng.integers(0, n, (900, 2))),
        "giant": (n, rng.integers(0, n, (3_600, 2))),
        "star": (n, np.stack([np.arange(1, n), np.zeros(n - 1, np.int64)], axis=1)),
        "star around the largest": (n, np.stack([np.arange(n - 1), np.full(n - 1, n - 1)], axis=1)),
        "path in order": (n, np.stack([path, path + 1], axis=1)),
        "path in random order": (n, np.stack([shuffled[path], shuffled[path + 1]], axis=1)),
        "like near-duplicates": (n, np.array(near)),
    }


GRAPHS = graphs()


def labels_of(dedup_module, folder: Path, n: int, edges: np.ndarray, *, in_files: bool) -> tuple[dict[int, int], int]:
    """Runs the phases between `edges` and `components`; labels by node, and the number of rounds."""
    shards = -(-n // ROWS)
    run = dedup_module.MemoryRun(folder, {s: pa.table({"x": pa.array([0])}) for s in range(shards)}, {}, 10)
    run.committed["bands"] = {s: ([], {"extents": [ROWS], "records": ROWS}, {}) for s in range(shards)}
    edges = edges[edges[:, 0] != edges[:, 1]]
    numbers = (edges // ROWS).astype(np.uint64) << np.uint64(32) | (edges % ROWS).astype(np.uint64)
    numbers = np.stack([numbers.max(axis=1), numbers.min(axis=1)], axis=1) if len(numbers) else numbers
    run.committed["edges"] = {}
    for index, piece in enumerate(np.array_split(numbers, 3)):
        task = dedup_module.MemoryTask(run, "edges", index)
        if len(piece):
            with task.file("edges-000.bin") as stream:
                writer = RunWriter(stream)
                writer.add(piece, np.array([0, len(piece)]))
                writer.close()
        run.committed["edges"][index] = (task.written, {}, {})
    rounds = 0
    phases = [(p.name, p.run, p.tasks) for p in _stars.star_phases()] if in_files else []
    label, tasks = (partial(f, in_files=in_files) for f in (_components.label, _components.label_tasks))
    for name, body, count in [*phases, ("components", label, tasks)]:
        done = {}
        for index in range(count(run)):
            task = dedup_module.MemoryTask(run, name, index)
            body(task)
            done[index] = (task.written, task.noted, task.counted)
        run.committed[name] = done
        rounds += bool(done) and "large" in name
    found: dict[int, int] = {}
    for part in run.parts("components"):
        with Run(run, part) as file:
            for document, component in file.records(0, 0, _shards.group_count(run)).tolist():
                node = (document >> 32) * ROWS + (document & 0xFFFFFFFF)
                assert node not in found
                found[node] = component
    return found, rounds


def expected(n: int, edges: np.ndarray) -> list[set[int]]:
    matrix = coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    _, label = connected_components(matrix, directed=False)
    sets: dict[int, set[int]] = {}
    for node, of in enumerate(label.tolist()):
        sets.setdefault(of, set()).add(node)
    return sorted((s for s in sets.values() if len(s) > 1), key=min)


@pytest.mark.parametrize("way", ["forest", "stars", "stars, hot nodes streamed"])
@pytest.mark.parametrize("name", GRAPHS)
def test_components_are_scipys(
    dedup_module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    n, edges = GRAPHS[name]
    if way != "forest":
        monkeypatch.setattr(_stars, "_TASK_RECORDS", 1_500)
    if "streamed" in way:
        monkeypatch.setattr(_stars, "_SLICE_RECORDS", 20)
        monkeypatch.setattr(_stars, "_FLUSH_RECORDS", 300)
        monkeypatch.setattr(_components, "_FLUSH_LABELS", 300)
    labels, rounds = labels_of(dedup_module, tmp_path, n, edges, in_files=way != "forest")
    sets: dict[int, set[int]] = {}
    for node, component in labels.items():
        sets.setdefault(component, set()).add(node)
    assert sorted(sets.values(), key=min) == expected(n, edges)
    assert rounds <= (0 if way == "forest" else 14)


def test_rounds_on_near_duplicates_are_few(dedup_module, tmp_path: Path) -> None:
    assert labels_of(dedup_module, tmp_path, *GRAPHS["like near-duplicates"], in_files=True)[1] <= 5


def test_too_many_documents_for_memory_is_an_error_with_a_way_out(
    dedup_module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_components, "FOREST_DOCUMENTS", 1_000)
    with pytest.raises(StageError, match="do not fit") as caught:
        labels_of(dedup_module, tmp_path, *GRAPHS["one edge"], in_files=False)
    assert "components: files" in str(caught.value)


def test_what_does_not_settle_is_said(dedup_module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stars, "ROUNDS", 2)
    with pytest.raises(Exception, match="did not settle in 2 rounds"):
        labels_of(dedup_module, tmp_path, *GRAPHS["path in order"], in_files=True)
