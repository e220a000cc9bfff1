"""What a near-duplicate run looks like, for reports: clusters by size, the largest ones, how alike removals are, what the bands
promise, and shares by source, language and host.

Reads what the tasks of `elect` and `shares` noted and wrote; writes `summary.json`, `clusters.parquet` and `shares.parquet`.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from corpusflow import PhaseTask
from stages.dedup._bands import documents_of
from stages.dedup._settings import found_at
from stages.dedup._shares import SHARES, merged
from stages.dedup._statistics import SIMILARITY_BINS, SIZE_BINS, push, write_clusters

#: A component with more of the documents than this is a warning: chains of unlike documents, or a template.
_LARGE_SHARE: Final = 0.001


def summarise(task: PhaseTask, *, bands: int, rows: int, min_similarity: float) -> None:
    """A phase's body, one task: the whole of what the tasks of `elect` saw."""
    sizes, similarity = np.zeros(SIZE_BINS, np.int64), np.zeros(SIMILARITY_BINS, np.int64)
    for note in task.info("elect").values():
        sizes[: len(note["sizes"])] += np.array(note["sizes"], np.int64)
        similarity += np.array(note["similarity"], np.int64)
    largest: list[tuple[int, int, dict[str, Any]]] = []
    for part in task.parts("elect"):
        if part.name == "clusters.parquet":
            for row in task.read_parquet(part).to_pylist():
                push(largest, row)
    documents = documents_of(task)
    size = max((entry[0] for entry in largest), default=0)
    summary = {
        "documents": documents,
        "clusters": int(sizes.sum()),
        "removed": int(similarity.sum()),
        "clusters_by_size": {f"{1 << i}-{(2 << i) - 1}": int(n) for i, n in enumerate(sizes) if n},
        "removed_by_similarity": {
            f"{i / SIMILARITY_BINS:.2f}": int(n) for i, n in enumerate(similarity) if n
        },
        "largest_cluster": size,
        "warnings": _warnings(size, documents),
        "min_similarity": min_similarity,
        "found_by_bands": {f"{s / 20:.2f}": round(found_at(s / 20, bands, rows), 4) for s in range(1, 21)},
    }  # fmt: skip
    with task.file("summary.json") as stream:
        stream.write(json.dumps(summary, indent=1).encode() + b"\n")
    write_clusters(task, largest)
    with task.parquet("shares.parquet", SHARES) as writer:
        writer.write(merged(task))
    task.note(largest_cluster=size, warnings=summary["warnings"])


def _warnings(size: int, documents: int) -> list[str]:
    if size <= max(100, documents * _LARGE_SHARE):
        return []
    share = size / documents
    return [
        f"one cluster holds {size:,} documents, {share:.1%} of all: a template, or chains of unlike documents; look at it"
    ]
