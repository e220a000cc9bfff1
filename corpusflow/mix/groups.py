"""The documents of an export by the value of a signal, or by domain: a mixture's part per language, per host.

Reads the export's document indexes and one column of the run's survivors. Ids are matched by a 128-bit hash: 16 bytes a
document in memory, whatever their length.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.api import Run
from corpusflow.errors import ConfigError, did_you_mean
from corpusflow.feed.files import TokenFiles
from corpusflow.hosts import host
from corpusflow.schema import id_hashes

DOMAIN: Final = "domain"
#: What documents without a value are called.
NONE: Final = "none"
_MOST: Final = 1_000


def documents_by(run: Run, files: TokenFiles, by: str) -> dict[str, np.ndarray]:
    """Value -> numbers of the split's documents that have it, int64 ascending; by value.

    Raises:
        ConfigError: the run has no such column, a document of the export is not among its survivors, or there are too many
            values to be parts of a mixture.
    """
    keys, values = _survivors(run, by)
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    keys, codes = keys[order], values.indices.to_numpy(zero_copy_only=False)[order]
    names = [NONE if v is None else str(v) for v in values.dictionary.to_pylist()]
    if len(names) > _MOST:
        raise ConfigError(f"{by} has {len(names):,} values; a mixture takes {_MOST:,}", hint="use another signal")
    wanted = np.concatenate([id_hashes(ids) for ids in files.document_ids()] or [np.empty((0, 2), np.uint64)])
    at = np.searchsorted(keys[:, 0], wanted[:, 0])
    at[at == len(keys)] = 0
    # equal first halves are as good as impossible (2**-64 a pair), and would be found here
    missing = np.flatnonzero((keys[at] != wanted).any(axis=1)) if len(keys) else np.arange(len(wanted))
    if len(missing):
        raise ConfigError(
            f"{len(missing):,} documents of {files.folder} are not among the run's survivors",
            hint="the export is of an earlier plan of the folder: run it again",
        )
    found = codes[at]
    return {names[c]: np.flatnonzero(found == c) for c in sorted(np.unique(found).tolist(), key=lambda c: names[c])}


def _survivors(run: Run, by: str) -> tuple[np.ndarray, pa.DictionaryArray]:
    """(hashes of ids uint64 (n, 2), values) of what reached the Sinks."""
    stages = [s for s in run.stages if any(n.kind != "sink" for n in run.plan.stage_nodes(s))]
    view = run.stage(stages[-1])
    column = "url" if by == DOMAIN else by
    if column not in view.columns:
        raise ConfigError(
            f"{run.plan.run_dir} has no column {by!r}", hint=did_you_mean(by, (*view.columns, DOMAIN)) or "domain"
        )
    keys, values = [], []
    for batch in view.batches(["id", column]):
        keys.append(id_hashes(batch.column("id")))
        value = batch.column(column)
        values.append(_hosts(value) if by == DOMAIN else value.cast(pa.string()))
    encoded = pa.chunked_array(values, pa.string()).combine_chunks().fill_null(NONE).dictionary_encode()
    return np.concatenate(keys or [np.empty((0, 2), np.uint64)]), encoded


def _hosts(urls: pa.Array) -> pa.Array:
    different = pc.unique(urls)
    hosts = pa.array([None if u is None else host(u) or None for u in different.to_pylist()], pa.string())
    return hosts.take(pc.index_in(urls, value_set=different))
