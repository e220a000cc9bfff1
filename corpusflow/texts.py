"""Texts to train or measure a model on: a seeded sample of what survived a stage of a run, or of plain files.

Reads ids first, then the text of the chosen documents only. Promises that the sample depends on ids, seed and number
alone: the `n` documents whose seeded id hash is smallest, in the order in which they lie.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow.api import StageView, open_run
from corpusflow.build import build_stage
from corpusflow.errors import ConfigError
from corpusflow.plan import Shard
from corpusflow.registry import find
from corpusflow.schema import ID, QUARANTINE, SKIPPED, id_hashes
from corpusflow.stage import Source, Split

#: File name ending -> the Source that reads it; compression endings are the Source's business.
_SOURCES: Final = {
    ".jsonl": "ingest.jsonl",
    ".ndjson": "ingest.jsonl",
    ".parquet": "ingest.parquet",
    ".txt": "ingest.text",
}


@dataclass(frozen=True)
class Unit:
    """A shard or a split: its ids, and the texts of some of its rows (ascending positions among the ids)."""

    ids: Callable[[], Iterator[pa.Array]]
    texts: Callable[[np.ndarray], Iterator[str | None]]


def texts_of(where: str, *, stage: str | None = None, documents: int, seed: int) -> Iterator[str]:
    """A sample of texts.

    Args:
        where: a run folder, `folder:stage`, or a path or glob of .jsonl, .parquet or .txt files (compressed or not).
        stage: of the run: what survived it; default: the last stage that is not an export.
        documents: how many.

    Raises:
        ConfigError: neither a run folder nor such a file.
    """
    return sample(units_of(where, stage), documents, seed)


def units_of(where: str, stage: str | None = None) -> list[Unit]:
    """What `where` names, in pieces. See `texts_of`."""
    folder, _, after = where.partition(":")
    for path, name in ((where, stage), (folder, after or stage)):
        if os.path.isfile(os.path.join(path, "plan.json")):
            return _run_units(path, name)
    if stage is not None:
        raise ConfigError(f"{where} is not a run folder: it has no plan.json", hint="--run takes a run folder")
    return _file_units(where)


def _run_units(path: str, stage: str | None) -> list[Unit]:
    run = open_run(path)
    if stage is None:
        sinks = {n.stage for n in run.plan.nodes if n.kind == "sink"}
        stage = [s for s in run.stages if s not in sinks][-1]
    view = run.stage(stage)
    _, base = view.resolve([ID, "text"])
    return [
        Unit(partial(_run_ids, view, shard, base), partial(_run_texts, view, shard, base)) for shard in run.plan.shards
    ]


def _run_ids(view: StageView, shard: Shard, base: int) -> Iterator[pa.Array]:
    for batch in view.shard_batches(shard, [ID], base):
        yield batch.column(ID)


def _run_texts(view: StageView, shard: Shard, base: int, rows: np.ndarray) -> Iterator[str | None]:
    yield from _picked((b.column("text") for b in view.shard_batches(shard, ["text"], base)), rows)


def _picked(columns: Iterator[pa.Array], rows: np.ndarray) -> Iterator[str | None]:
    """The values at positions (ascending) of columns laid end to end."""
    start = 0
    for column in columns:
        first, last = np.searchsorted(rows, [start, start + len(column)])
        for value in column.take(pa.array(rows[first:last] - start)):
            yield value.as_py()
        start += len(column)
        if last == len(rows):
            return


def _file_units(where: str) -> list[Unit]:
    stem = os.path.basename(where)
    for compression in (".gz", ".zst", ".bz2", ".xz"):
        stem = stem.removesuffix(compression)
    name = _SOURCES.get(os.path.splitext(stem)[1])
    if name is None:
        raise ConfigError(
            f"{where} is neither a run folder nor a file of texts",
            hint=f"give a run folder, folder:stage, or files that end in {', '.join(_SOURCES)}",
        )
    source = build_stage(name, find(name), {"paths": [where]})
    if not isinstance(source, Source):
        raise ConfigError(f"{name} is not a Source")
    return [Unit(partial(_split_ids, source, split), partial(_split_texts, source, split)) for split in source.splits()]


def _split_batches(source: Source, split: Split) -> Iterator[pa.RecordBatch]:
    """The documents of a split, without the records that are none."""
    for batch in source.read(split):
        mask = np.ones(batch.num_rows, np.bool_)
        for verdict in (SKIPPED, QUARANTINE):
            if verdict in batch.schema.names:
                mask &= batch.column(verdict).is_null().to_numpy(zero_copy_only=False)
        yield batch.filter(pa.array(mask))


def _split_ids(source: Source, split: Split) -> Iterator[pa.Array]:
    for batch in _split_batches(source, split):
        yield batch.column(ID)


def _split_texts(source: Source, split: Split, rows: np.ndarray) -> Iterator[str | None]:
    yield from _picked((b.column("text") for b in _split_batches(source, split)), rows)


def sample(units: list[Unit], documents: int, seed: int) -> Iterator[str]:
    """The texts of the `documents` documents whose seeded id hash is smallest; texts that are null or empty are left out."""
    chosen = _smallest(units, documents, seed)
    for number, unit in enumerate(units):
        rows = np.sort(chosen["row"][chosen["unit"] == number])
        if len(rows):
            yield from (text for text in unit.texts(rows) if text)


def _smallest(units: list[Unit], documents: int, seed: int) -> np.ndarray:
    """Structured array of `unit` and `row` of the chosen documents; memory grows with `documents`, not with the corpus."""
    kind = np.dtype([("high", np.uint64), ("low", np.uint64), ("unit", np.int32), ("row", np.int64)])
    best = np.empty(0, kind)
    for number, unit in enumerate(units):
        start = 0
        for ids in unit.ids():
            mine = np.empty(len(ids), kind)
            hashes = id_hashes(ids, seed)
            mine["high"], mine["low"], mine["unit"] = hashes[:, 0], hashes[:, 1], number
            mine["row"] = np.arange(start, start + len(ids))
            start += len(ids)
            best = np.concatenate([best, mine])
            if len(best) > 2 * documents:
                best = _cut(best, documents)
    return _cut(best, documents)


def _cut(rows: np.ndarray, most: int) -> np.ndarray:
    order = np.lexsort((rows["low"], rows["high"]))[:most]
    out: np.ndarray = rows[order]
    return out
