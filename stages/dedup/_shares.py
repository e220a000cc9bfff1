"""What share of each source, language and host near-duplicate removal took: the figures that tell a rule gone wrong.

A task per shard group counts its documents; `merged` adds the counts up. Sources and languages are exact; of hosts each
task tells only of those with most documents and most removals.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import PhaseTask
from stages.dedup import _shards, _verdicts
from stages.dedup._members import VERDICT
from stages.dedup.url import hosts

#: Shares by what, and from which column.
LANGUAGE: Final = "language.code"
SHARES: Final = pa.schema(
    [("by", pa.string()), ("value", pa.string()), ("documents", pa.int64()), ("removed", pa.int64())]
)
#: Hosts that a task tells of, by documents and again by removals.
_HOSTS: Final = 500


def count_shares(task: PhaseTask) -> None:
    """A phase's body, one task per shard group."""
    columns = ["source", "url", *([LANGUAGE] if task.has(LANGUAGE) else [])]
    counted: list[pa.Table] = []
    for _, shard in _shards.group_shards(task, task.index):
        listed = _verdicts.shard_list(shard, task, "lists", VERDICT)
        gone = listed.column("row").filter(listed.column("twin").is_valid()).to_numpy()
        for batch in task.survivors(shard, columns):
            removed = pa.array(np.isin(batch.column("row").to_numpy(zero_copy_only=False), gone).astype(np.int64))
            counted.append(_counts("source", batch.column("source"), removed))
            counted.append(_counts("host", hosts(batch.column("url")), removed))
            if LANGUAGE in columns:
                counted.append(_counts("language", batch.column(LANGUAGE), removed))
    with task.parquet("shares.parquet", SHARES) as writer:
        writer.write(_top(_sum(counted)))


def merged(task: PhaseTask) -> pa.Table:
    """The counts of all tasks of `shares`, most removals first."""
    return _top(_sum([task.read_parquet(p) for p in task.parts("shares")]))


def _counts(by: str, values: pa.Array, removed: pa.Array) -> pa.Table:
    table = pa.table({"value": values.cast(pa.string()), "removed": removed})
    sums = table.group_by("value").aggregate([("removed", "count"), ("removed", "sum")])
    columns = [pa.array([by] * len(sums)), *(sums.column(c) for c in ("value", "removed_count", "removed_sum"))]
    return pa.Table.from_arrays(columns, schema=SHARES)


def _sum(tables: list[pa.Table]) -> pa.Table:
    if not tables:
        return SHARES.empty_table()
    sums = pa.concat_tables(tables).group_by(["by", "value"]).aggregate([("documents", "sum"), ("removed", "sum")])
    return pa.Table.from_arrays(
        [sums.column(c) for c in ("by", "value", "documents_sum", "removed_sum")], schema=SHARES
    )  # fmt: skip


def _top(counts: pa.Table) -> pa.Table:
    """All sources and languages, and some hosts; in an order that depends on the counts alone."""
    keys = [("by", "ascending"), ("removed", "descending"), ("documents", "descending"), ("value", "ascending")]
    counts = counts.sort_by(keys)
    is_host = pc.equal(counts.column("by"), "host")
    all_hosts = counts.filter(is_host)
    by_documents = all_hosts.sort_by([("documents", "descending"), ("value", "ascending")]).slice(0, _HOSTS)
    some = pa.concat_tables([all_hosts.slice(0, _HOSTS), by_documents]).group_by(SHARES.names).aggregate([])
    return pa.concat_tables([counts.filter(pc.invert(is_host)), some.select(SHARES.names).cast(SHARES)]).sort_by(keys)
