"""What one task of an election saw: sizes of clusters, how alike removals are, and the largest clusters with samples.

The histograms are noted, the clusters written (`clusters.parquet`); `_summary` adds them up.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from corpusflow import PhaseTask

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
SIZE_BINS: Final = 40  # by powers of two
SIMILARITY_BINS: Final = 20


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
        self._sizes = np.zeros(SIZE_BINS, np.int64)
        self._similarity = np.zeros(SIMILARITY_BINS, np.int64)
        self._largest: list[tuple[int, int, dict[str, Any]]] = []

    def sizes(self, sizes: np.ndarray) -> None:
        """Clusters of some sizes, int64."""
        self._sizes += np.bincount(np.log2(sizes).astype(np.int64), minlength=SIZE_BINS)

    def similarity(self, values: np.ndarray) -> None:
        """Similarities of removed documents to their twins."""
        bins = np.minimum((values * SIMILARITY_BINS).astype(np.int64), SIMILARITY_BINS - 1)
        self._similarity += np.bincount(bins, minlength=SIMILARITY_BINS)

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
        push(self._largest, row)

    def write(self, task: PhaseTask) -> None:
        """Note histograms and write the largest clusters."""
        task.note(sizes=_trimmed(self._sizes), similarity=self._similarity.tolist())
        write_clusters(task, self._largest)


def push(largest: list[tuple[int, int, dict[str, Any]]], row: dict[str, Any]) -> None:
    """Keep a row of CLUSTERS if it is among the largest."""
    # a tie goes to the smaller name, whatever came first
    heapq.heappush(largest, (row["documents"], -row["cluster"], row))
    if len(largest) > _TOP:
        heapq.heappop(largest)


def _trimmed(counts: np.ndarray) -> list[int]:
    used = np.flatnonzero(counts)
    out: list[int] = counts[: int(used[-1]) + 1 if len(used) else 0].tolist()
    return out


def write_clusters(task: PhaseTask, largest: list[tuple[int, int, dict[str, Any]]]) -> None:
    """The largest clusters, largest first."""
    with task.parquet("clusters.parquet", CLUSTERS) as writer:
        rows = [row for _, _, row in sorted(largest, key=lambda entry: (-entry[0], -entry[1]))]
        writer.write(pa.Table.from_pylist(rows, schema=CLUSTERS))
