"""An index of what a run kept, which later crawls are deduplicated against without touching this one's output.

Reads the keys that the run's dedup stages measured (`dedup.exact.hash`, `dedup.url.hash`, `dedup.minhash.signature`, whichever
there are) of the documents that survive, and their ids. Writes ``exports/index/``; see `_index`. A later run names the
folder: ``dedup.minhash: {against: [runs/2024-10/exports/index]}``, and its own index says
``dedup.index: {extends: [runs/2024-10/exports/index]}``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class Index(Sink):
    """Writes the keys of kept documents for later runs to compare with."""

    name: str = param("dedup", doc="What the index is called.")
    extends: tuple[str, ...] = param((), doc="Folders of the indexes this run was deduplicated against.")

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("id", "dedup.exact.hash?", "dedup.url.hash?", "dedup.minhash.signature?")
    resources: ClassVar[Resources] = Resources(memory=2000 << 20)

    def phases(self) -> tuple[Phase, ...]:
        return (Phase("write", _write, _shards.group_count),)

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
    columns = ["id", *(_KEYS[kind] for kind in present), *([_SIGNATURE] if signed else [])]
    batches = [batch for _, shard in _shards.group_shards(task, task.index) for batch in task.survivors(shard, columns)]
    bits = _shards.bucket_bits(task)
    rows: dict[str, int] = {}
    documents = sum(b.num_rows for b in batches)
    for kind in present:
        rows[kind] = _write_keys(task, kind, batches, bits)
    if signed:
        rows["bands"] = rows["signatures"] = _write_signatures(task, batches, bits)
    task.note(documents=documents, rows=rows, bits=bits)
    task.count("in", documents)
    task.count("kept", documents)


def _write_keys(task: PhaseTask, kind: str, batches: list[pa.RecordBatch], bits: int) -> int:
    keys = [np.zeros((0, 2), np.uint64)]
    ids = [pa.array([], pa.string())]
    for batch in batches:
        keyed = batch.filter(batch.column(_KEYS[kind]).is_valid())
        offsets, data, _ = text_buffers(keyed.column(_KEYS[kind]).cast(pa.binary()))
        keys.append(data[offsets[0] : offsets[-1]].view(">u8").reshape(-1, 2).astype(np.uint64))
        ids.append(keyed.column("id"))
    together = np.concatenate(keys)
    order, offsets = partition_order(top_bits(together[:, 0], bits), 1 << bits)
    names = pa.concat_arrays(ids).take(pa.array(order))
    with task.file(f"{kind}.bin") as stream:
        run = RunWriter(stream)
        run.add(together[order], offsets, pa.record_batch([names], names=["id"]))
        run.close()
    return len(together)


def _write_signatures(task: PhaseTask, batches: list[pa.RecordBatch], bits: int) -> int:
    """Bands by key, and signatures by position, of the documents that have one."""
    facts = task.facts(_SIGNATURE)
    bands, per_band = int(facts["bands"]), int(facts["rows"])
    held: list[np.ndarray] = []
    ids = [pa.array([], pa.string())]
    for batch in batches:
        signed = batch.filter(batch.column(_SIGNATURE).is_valid())
        if signed.num_rows:
            held.append(minima(signed.column(_SIGNATURE), bands * per_band).copy())
            ids.append(signed.column("id"))
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
    if held:
        stored[:, : bands * per_band] = np.concatenate(held).astype(np.uint16)
    blocks = np.minimum(np.arange(-(-n // BLOCK) + 1) * BLOCK, n)
    with task.file("signatures.bin") as stream:
        run = RunWriter(stream)
        run.add(stored.view(np.uint64), blocks, pa.record_batch([pa.concat_arrays(ids)], names=["id"]))
        run.close()
    return n


STAGE = Index
