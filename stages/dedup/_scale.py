"""What dedup takes at any size: tasks, bytes, requests, memory and core-hours of every phase, from the constants of the code.

Rests on figures measured on one core of a two-core cloud machine (tests/benchmarks/bench_dedup.py, 2,000,000 synthetic
signatures) and on shares that depend on the data: of documents with a near-duplicate, and of edges per document. A test holds
the model's bytes against those of a real run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from stages.dedup import _bands, _clusters, _components, _keyed, _shards, _stars, _verdicts

#: Records, edges or members per second and core, as measured.
BAND_RECORDS: Final = 15e6
EDGE_RECORDS: Final = 10e6
FOREST_EDGES: Final = 5e6
STAR_RECORDS: Final = 4e6
MEMBERS: Final = 2.4e5
LISTS: Final = 1.5e6
KEY_RECORDS: Final = 1.5e6
#: Bytes of a signature of 112 16-bit minima, of a member's id and address compressed, of a verdict.
SIGNATURE: Final = 224
MEMBER_COLUMNS: Final = 18
VERDICT: Final = 29
ID: Final = 14
#: Bytes of the header of a bucket's columns.
HEADER: Final = 420


@dataclass(frozen=True)
class Corpus:
    """A size, and what the data is like.

    Args:
        documents: after exact deduplication, for `minhash_costs`.
        text_bytes: of a document, on average.
        near: share of documents with an edge.
        edges: per document: pairs share several bands.
        removed: share that goes.
    """

    documents: float
    text_bytes: float = 5_500
    near: float = 0.37
    edges: float = 2.2
    removed: float = 0.27

    @property
    def shards(self) -> int:
        """Shards of 256 MB of text or 65,536 documents."""
        return max(1, ceil(self.documents / min(65_536, (256 << 20) / self.text_bytes)))

    @property
    def groups(self) -> int:
        """Tasks over groups of shards."""
        return ceil(self.shards / _shards.group_size_of(self.shards))


@dataclass(frozen=True)
class Cost:
    """One phase. Bytes are on disk; memory is of one worker."""

    phase: str
    tasks: int
    read: float
    written: float
    files: float
    requests: float
    memory: float
    core_hours: float


def minhash_costs(corpus: Corpus, *, bands: int = 14, in_files: bool | None = None, rounds: int = 3) -> list[Cost]:
    """Phases of `dedup.minhash` with ``verify: signature``."""
    n, groups = corpus.documents, corpus.groups
    per_group = n / groups
    records = n * bands
    index = groups * bands * (1 << _shards.bucket_bits_of(corpus.shards)) * 32
    edge_tasks = (
        bands * max(1, ceil(n / _bands._TASK_RECORDS))
        if n > _bands._TASK_RECORDS
        else max(1, ceil(records / _bands._TASK_RECORDS))
    )
    edges = n * corpus.edges
    members = n * corpus.near
    member_files = max(groups, members * 400 / _components._FLUSH_BYTES)
    buckets = 1 << max(
        4, int(members * (SIGNATURE + _clusters._MEMBER_BYTES) // _components._BUCKET_BYTES).bit_length()
    )
    member_bytes = SIGNATURE + 8 * 7 + MEMBER_COLUMNS
    members_written = members * member_bytes + member_files * min(buckets, members / member_files) * HEADER
    elect_tasks = max(1, ceil(members * (SIGNATURE + _clusters._MEMBER_BYTES) / _clusters._TASK_BYTES))
    costs = [
        Cost(
            "bands", groups, n * (SIGNATURE + 4), records * 16 + index, groups, groups * 66,
            per_group * (SIGNATURE + 16 * 4), records / BAND_RECORDS / 3600,
        ),
        Cost(
            "edges", edge_tasks, records * 16 + index, edges * 16, ceil(edges / _bands._FLUSH_EDGES) + edge_tasks,
            edge_tasks * groups * 3, min(n, _bands._TASK_RECORDS) * 16 + _bands._SLICE_RECORDS * 100,
            records / EDGE_RECORDS / 3600,
        ),
    ]  # fmt: skip
    if in_files if in_files is not None else n > _components.FOREST_DOCUMENTS:
        costs += _star_costs(edges, rounds, corpus)
    else:
        costs.append(Cost("components", 1, edges * 16, members * 16, 1, edge_tasks, n * 5, edges / FOREST_EDGES / 3600))
    return [
        *costs,
        Cost(
            "members", groups, members * (SIGNATURE + 150), members_written, member_files, groups * 70,
            3 * _components._FLUSH_BYTES,
            members / MEMBERS / 3600,
        ),
        Cost(
            "elect", elect_tasks, members_written, members * (VERDICT + 25), 2 * elect_tasks,
            elect_tasks * member_files * 4, 3 * _clusters._HELD_BYTES + _verdicts._FLUSH_ROWS * 250, members / MEMBERS / 3600,
        ),
        Cost(
            "lists", groups, members * VERDICT, members * 25, groups, groups * elect_tasks * 3,
            per_group * corpus.near * 300, members / LISTS / 3600,
        ),
    ]  # fmt: skip


def _star_costs(edges: float, rounds: int, corpus: Corpus) -> list[Cost]:
    """Alternating stars. Repeated edges are distinct after the first pass: about one per node, under both of its ends."""
    distinct = corpus.documents * corpus.near
    tasks = max(1, ceil(2 * distinct / _stars._TASK_RECORDS))
    memory = _stars._TASK_RECORDS * 16 + _stars._FLUSH_RECORDS * 64
    read, work = distinct * 16, distinct / STAR_RECORDS / 3600
    phases = 2 * rounds
    return [
        Cost(
            "stars_00", ceil(edges / _bands._FLUSH_EDGES), edges * 16, 4 * read, 2 * tasks, edges / 1e6, memory,
            2 * edges / STAR_RECORDS / 3600,
        ),
        Cost(
            f"stars, {rounds} rounds", phases * tasks, phases * 3 * read, phases * 2 * read, phases * tasks * 4,
            phases * tasks * tasks * 12, memory, phases * 3 * work,
        ),
        Cost("components", tasks, 2 * read, read, tasks, tasks * tasks * 3, memory, work),
    ]  # fmt: skip


def exact_costs(corpus: Corpus) -> list[Cost]:
    """Phases of `dedup.exact`; `removed` is the share with an earlier copy."""
    n, groups = corpus.documents, corpus.groups
    width = 48 + ID
    tasks = max(1, ceil(n / _keyed._TASK_RECORDS))
    pairs = n * min(1.0, 1.5 * corpus.removed)
    return [
        Cost("runs", groups, n * 40, n * width, groups, groups * 70, n / groups * (48 * 3 + 160), n / KEY_RECORDS / 3600),
        Cost(
            "groups", tasks, n * width, pairs * VERDICT, tasks, tasks * groups * 4,
            min(n, _keyed._TASK_RECORDS) * 48 + _keyed._SLICE_RECORDS * 300, n / KEY_RECORDS / 3600,
        ),
        Cost("lists", groups, pairs * VERDICT, pairs * 25, groups, groups * tasks * 3, n / groups * 100, pairs / LISTS / 3600),
    ]  # fmt: skip


def as_costs(costs: list[Cost], corpus: Corpus) -> dict[str, Any]:
    """For `Exchange.costs`."""
    return {
        "phases": [
            {
                "phase": c.phase,
                "tasks": c.tasks,
                "TB read": round(c.read / 1e12, 3),
                "TB written": round(c.written / 1e12, 3),
                "files": round(c.files),
                "requests": round(c.requests),
                "GB a worker": round(c.memory / 1e9, 2),
                "core-hours": round(c.core_hours, 1),
            }
            for c in costs
        ],
        "rests_on": {
            "documents": round(corpus.documents),
            "share with a duplicate": corpus.near,
            "edges a document": corpus.edges,
            "share removed": corpus.removed,
            "bytes written a document": round(sum(c.written for c in costs) / corpus.documents, 1),
            "band records a second and core": BAND_RECORDS,
            "edge records a second and core": EDGE_RECORDS,
            "edges joined a second and core": FOREST_EDGES,
            "star records a second and core": STAR_RECORDS,
            "cluster members a second and core": MEMBERS,
            "verdicts a second and core": LISTS,
            "exact keys a second and core": KEY_RECORDS,
        },
    }


def table(costs: list[Cost]) -> str:
    """For people."""
    rows = [
        f"{'phase':18} {'tasks':>9} {'read TB':>8} {'write TB':>8} {'files':>9} {'requests':>10} {'GB/worker':>9} {'core-h':>8}"
    ]
    rows += [
        f"{c.phase:18} {c.tasks:9,} {c.read / 1e12:8.2f} {c.written / 1e12:8.2f} {c.files:9,.0f} {c.requests:13,.0f} "
        f"{c.memory / 1e9:9.2f} {c.core_hours:8.1f}"
        for c in costs
    ]
    total = sum(c.core_hours for c in costs)
    rows.append(f"{'all':18} {'':9} {sum(c.read for c in costs) / 1e12:8.2f} {sum(c.written for c in costs) / 1e12:8.2f} "
                f"{sum(c.files for c in costs):9,.0f} {sum(c.requests for c in costs):13,.0f} "
                f"{max(c.memory for c in costs) / 1e9:9.2f} {total:8.1f}")  # fmt: skip
    return "\n".join(rows)
