"""An index of what a run kept, which later crawls are deduplicated against without touching this one's output.

Reads the keys that the run's dedup stages measured (`dedup.exact.hash`, `dedup.url.hash`, `dedup.minhash.signature`, whichever
there are) of the documents that survive, and their ids. Writes ``exports/index/``; see `_index`. A later run names the
folder: ``dedup.minhash: {against: [runs/2024-10/exports/index]}``, and its own index says
``dedup.index: {extends: [runs/2024-10/exports/index]}``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import ConfigError, Phase, PhaseInputs, PhaseTask, Published, Resources, Sink, param
from stages.dedup import _shards
from stages.dedup._bands import minima
from stages.dedup._index import BLOCK, FORMAT, DedupIndex, load_index, verify_index
from stages.dedup._runs import RunWriter
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import band_keys
from stages.kernels.sortruns import partition_order, top_bits

_KEYS: Final = {"exact": "dedup.exact.hash", "url": "dedup.url.hash"}
_SIGNATURE: Final = "dedup.minhash.signature"
#: Shards of a task: 32 of 50,000 documents each take 1.5 GB (signatures, twice for a moment, and ids). With 96, and batches
#: held whole, it was 6.
_MOST: Final = 32


@dataclass(frozen=True, kw_only=True)
class Index(Sink):
    """Writes the keys of kept documents for later runs to compare with."""

    name: str = param("dedup", doc="What the index is called.")
    extends: tuple[str, ...] = param((), doc="Folders of the indexes this run was deduplicated against.")

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("id", "dedup.exact.hash?", "dedup.url.hash?", "dedup.minhash.signature?")
    resources: ClassVar[Resources] = Resources(memory=2000 << 20)

    def phases(self) -> tuple[Phase, ...]:
        return (Phase("write", _write, partial(_shards.group_count, most=_MOST)),)

    def publish(self, inputs: PhaseInputs) -> Published:
        parts = {f"{p.name.partition('.')[0]}-{p.task:05d}.bin": p for p in inputs.parts("write")}
        notes = inputs.info("write")
        kinds = sorted({name.partition("-")[0] for name in parts})
        if not kinds:
            raise ConfigError("dedup.index: no dedup stage measured anything", hint="add dedup.exact or dedup.minhash")
        known = [load_index(path) for path in self.extends]
        settings: dict[str, Any] = {kind: dict(inputs.facts(column)) for kind, column in _KEYS.items() if kind in kinds}
        if "bands" in kinds:
            settings["minhash"] = dict(inputs.facts(_SIGNATURE))
        info = {
            "format": FORMAT,
            "format_version": 1,
            "name": self.name,
            "version": 1 + max((int(k.info["version"]) for k in known), default=0),
            "documents": sum(int(n["documents"]) for n in notes.values()),
            "settings": settings,
            "extends": [{"path": k.path, "digest": k.digest} for k in known],
            "files": [
                {
                    "kind": name.partition("-")[0],
                    "name": name,
                    "size": part.size,
                    "rows": int(notes[part.task]["rows"][name.partition("-")[0]]),
                    "digest": part.digest,
                    "bits": int(notes[part.task]["bits"]),
                }
                for name, part in sorted(parts.items())
            ],
        }
        return Published(parts, {"index.json": json.dumps(info, indent=1, ensure_ascii=False) + "\n"})

    @staticmethod
    def describe(path: str) -> dict[str, Any]:
        """What an index holds, for people and scripts: `index.json`, and the size of all it stands for."""
        index: DedupIndex = load_index(path)
        return {
            **index.info,
            "digest": index.digest,
            "files_in_all": len(index.files),
            "bytes_in_all": sum(f.size for f in index.files),
            "documents_in_all": sum(f.rows for f in index.files if f.kind in ("signatures", "exact"))
            // max(1, len({f.kind for f in index.files} & {"signatures", "exact"})),
        }

    @staticmethod
    def check(path: str) -> list[str]:
        """What is wrong with an index; see `_index.verify_index`."""
        return verify_index(path)


def _write(task: PhaseTask) -> None:
    present = [kind for kind, column in _KEYS.items() if task.has(column)]
    signed = task.has(_SIGNATURE)
    bits = _shards.bucket_bits(task)
    keys: dict[str, list[np.ndarray]] = {kind: [np.zeros((0, 2), np.uint64)] for kind in present}
    ids: dict[str, list[pa.Array]] = {kind: [pa.array([], pa.string())] for kind in (*present, "signatures")}
    signatures: list[np.ndarray] = []
    permutations = _permutations(task) if signed else 0
    documents = 0
    for _, shard in _shards.group_shards(task, task.index, _MOST):
        for batch in task.survivors(shard, ["id", *(_KEYS[k] for k in present), *([_SIGNATURE] if signed else [])]):
            documents += batch.num_rows
            for kind in present:
                keyed = _with(batch, _KEYS[kind])
                offsets, data, _ = text_buffers(keyed.column(_KEYS[kind]).cast(pa.binary()))
                keys[kind].append(data[offsets[0] : offsets[-1]].view(">u8").reshape(-1, 2).astype(np.uint64))
                ids[kind].append(keyed.column("id"))
            if signed and (found := _with(batch, _SIGNATURE)).num_rows:
                signatures.append(minima(found.column(_SIGNATURE), permutations).copy())
                ids["signatures"].append(found.column("id"))
    rows: dict[str, int] = {}
    for kind in present:
        rows[kind] = _write_keys(task, kind, np.concatenate(keys.pop(kind)), pa.concat_arrays(ids.pop(kind)), bits)
    if signed:
        rows["bands"] = rows["signatures"] = _write_signatures(
            task, signatures, pa.concat_arrays(ids["signatures"]), bits
        )
    task.note(documents=documents, rows=rows, bits=bits)
    task.count("in", documents)
    task.count("kept", documents)


def _with(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Ids and values of the rows that have one, apart from the batch."""
    return batch.select(["id", column]).filter(batch.column(column).is_valid())


def _permutations(task: PhaseTask) -> int:
    facts = task.facts(_SIGNATURE)
    return int(facts["bands"]) * int(facts["rows"])


def _write_keys(task: PhaseTask, kind: str, keys: np.ndarray, ids: pa.Array, bits: int) -> int:
    order, offsets = partition_order(top_bits(keys[:, 0], bits), 1 << bits)
    with task.file(f"{kind}.bin") as stream:
        run = RunWriter(stream)
        run.add(keys[order], offsets, pa.record_batch([ids.take(pa.array(order))], names=["id"]))
        run.close()
    return len(keys)


def _write_signatures(task: PhaseTask, held: list[np.ndarray], ids: pa.Array, bits: int) -> int:
    """Bands by key, and signatures by position, of the documents that have one."""
    facts = task.facts(_SIGNATURE)
    bands, per_band = int(facts["bands"]), int(facts["rows"])
    n = sum(len(m) for m in held)
    numbers = np.arange(n, dtype=np.uint64)
    with task.file("bands.bin") as stream:
        run = RunWriter(stream)
        for band in range(bands):
            keys = np.concatenate([np.zeros(0, np.uint64), *(band_keys(m, band, per_band) for m in held)])
            order, offsets = partition_order(top_bits(keys, bits), 1 << bits)
            run.add(np.stack([keys[order], numbers[order]], axis=1), offsets)
        run.close()
    words = -(-bands * per_band // 4)
    stored = np.zeros((n, words * 4), np.uint16)
    at = 0
    for some in held:
        stored[at : at + len(some), : bands * per_band] = some.astype(np.uint16)
        at += len(some)
    blocks = np.minimum(np.arange(-(-n // BLOCK) + 1) * BLOCK, n)
    with task.file("signatures.bin") as stream:
        run = RunWriter(stream)
        run.add(stored.view(np.uint64), blocks, pa.record_batch([ids], names=["id"]))
        run.close()
    return n


STAGE = Index
