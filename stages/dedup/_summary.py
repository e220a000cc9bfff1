"""What a near-duplicate run looks like: sizes of clusters, the largest ones, how alike removals are, and what the bands promise.

Each task of `elect` notes two histograms and writes its largest clusters (`clusters.parquet`); `summarise` makes of them
`summary.json` and one `clusters.parquet`.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from corpusflow import PhaseTask
from stages.dedup._bands import documents_of
from stages.dedup._settings import found_at

CLUSTERS: Final = pa.schema(
    [
        ("cluster", pa.int64()),
        ("documents", pa.int64()),
        ("kept", pa.int64()),
        ("least_similarity", pa.float32()),
        ("mean_similarity", pa.float32()),
        ("most_similarity", pa.float32()),
        ("best_id", pa.string()),
        ("best_url", pa.string()),
        ("best_text", pa.string()),
        ("other_ids", pa.list_(pa.string())),
    ]
)
#: Largest clusters that are told of, and how much of each.
_TOP: Final = 50
SHOWN: Final = 6
_CHARACTERS: Final = 300
_SIZE_BINS: Final = 40  # by powers of two
_SIMILARITY_BINS: Final = 20
#: A component with more of the documents than this is a warning: chains of unlike documents, or a template.
_LARGE_SHARE: Final = 0.001


@dataclass(frozen=True)
class Sample:
    """A cluster's best document and some of the others."""

    id: str
    url: str | None
    text: str | None
    others: tuple[str, ...]


class Statistics:
    """What one task saw."""

    def __init__(self) -> None:
        self._sizes = np.zeros(_SIZE_BINS, np.int64)
        self._similarity = np.zeros(_SIMILARITY_BINS, np.int64)
        self._largest: list[tuple[int, int, dict[str, Any]]] = []

    def sizes(self, sizes: np.ndarray) -> None:
        """Clusters of some sizes, int64."""
        self._sizes += np.bincount(np.log2(sizes).astype(np.int64), minlength=_SIZE_BINS)

    def similarity(self, values: np.ndarray) -> None:
        """Similarities of removed documents to their twins."""
        bins = np.minimum((values * _SIMILARITY_BINS).astype(np.int64), _SIMILARITY_BINS - 1)
        self._similarity += np.bincount(bins, minlength=_SIMILARITY_BINS)

    def is_large(self, size: int) -> bool:
        """Whether a cluster of that size may be among the largest."""
        return len(self._largest) < _TOP or size >= self._largest[0][0]

    def cluster(self, name: int, size: int, removed: np.ndarray, sample: Sample) -> None:
        """Tell of one cluster; `removed` are the similarities of those that go."""
        removed = np.sort(removed)  # sums must not depend on the order of files
        row = {
            "cluster": name,
            "documents": size,
            "kept": size - len(removed),
            "least_similarity": float(removed.min()) if len(removed) else None,
            "mean_similarity": float(removed.mean(dtype=np.float64)) if len(removed) else None,
            "most_similarity": float(removed.max()) if len(removed) else None,
            "best_id": sample.id,
            "best_url": sample.url,
            "best_text": None if sample.text is None else sample.text[:_CHARACTERS],
            "other_ids": list(sample.others),
        }
        _push(self._largest, row)

    def write(self, task: PhaseTask) -> None:
        """Note histograms and write the largest clusters."""
        task.note(sizes=_trimmed(self._sizes), similarity=self._similarity.tolist())
        _write_clusters(task, self._largest)


def _push(largest: list[tuple[int, int, dict[str, Any]]], row: dict[str, Any]) -> None:
    # a tie goes to the smaller name, whatever came first
    heapq.heappush(largest, (row["documents"], -row["cluster"], row))
    if len(largest) > _TOP:
        heapq.heappop(largest)


def _trimmed(counts: np.ndarray) -> list[int]:
    used = np.flatnonzero(counts)
    out: list[int] = counts[: int(used[-1]) + 1 if len(used) else 0].tolist()
    return out


def _write_clusters(task: PhaseTask, largest: list[tuple[int, int, dict[str, Any]]]) -> None:
    with task.parquet("clusters.parquet", CLUSTERS) as writer:
        rows = [row for _, _, row in sorted(largest, key=lambda entry: (-entry[0], -entry[1]))]
        writer.write(pa.Table.from_pylist(rows, schema=CLUSTERS))


def summarise(task: PhaseTask, *, bands: int, rows: int, min_similarity: float) -> None:
    """A phase's body, one task: the whole of what the tasks of `elect` saw."""
    sizes, similarity = np.zeros(_SIZE_BINS, np.int64), np.zeros(_SIMILARITY_BINS, np.int64)
    for note in task.info("elect").values():
        sizes[: len(note["sizes"])] += np.array(note["sizes"], np.int64)
        similarity += np.array(note["similarity"], np.int64)
    largest: list[tuple[int, int, dict[str, Any]]] = []
    for part in task.parts("elect"):
        if part.name == "clusters.parquet":
            for row in task.read_parquet(part).to_pylist():
                _push(largest, row)
    documents = documents_of(task)
    size = max((entry[0] for entry in largest), default=0)
    summary = {
        "documents": documents,
        "clusters": int(sizes.sum()),
        "removed": int(similarity.sum()),
        "clusters_by_size": {f"{1 << i}-{(2 << i) - 1}": int(n) for i, n in enumerate(sizes) if n},
        "removed_by_similarity": {
            f"{i / _SIMILARITY_BINS:.2f}": int(n) for i, n in enumerate(similarity) if n
        },
        "largest_cluster": size,
        "warnings": _warnings(size, documents),
        "min_similarity": min_similarity,
        "found_by_bands": {f"{s / 20:.2f}": round(found_at(s / 20, bands, rows), 4) for s in range(1, 21)},
    }  # fmt: skip
    with task.file("summary.json") as stream:
        stream.write(json.dumps(summary, indent=1).encode() + b"\n")
    _write_clusters(task, largest)
    task.note(largest_cluster=size, warnings=summary["warnings"])


def _warnings(size: int, documents: int) -> list[str]:
    if size <= max(100, documents * _LARGE_SHARE):
        return []
    share = size / documents
    return [
        f"one cluster holds {size:,} documents, {share:.1%} of all: a template, or chains of unlike documents; look at it"
    ]
