"""MosaicML streaming shards (MDS), for StreamingDataset: composer, llm-foundry and others.

Reads `id` and `tokenize.tokens`; writes `train/train-00000-of-00004.mds` and `train/index.json`, the same for `validation`,
`manifest.json`, and the document indexes. A sample has `id` (str) and `tokens` (ndarray of uint16 or uint32).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from corpusflow import PhaseInputs, PhaseTask

from ._publish import numbered
from ._samples import Samples, SampleSink
from ._shuffle import WRITE


@dataclass(frozen=True, kw_only=True)
class Mds(SampleSink):
    """MDS shards for MosaicML's streaming library.

    Source: mosaicml/streaming, streaming/base/format/mds: number of samples uint32, offsets uint32, the columns as JSON,
    then the samples.
    """

    version: ClassVar[int] = 1
    format_name: ClassVar[str] = "mds"
    folders: ClassVar[bool] = True

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        encoded: list[bytes] = []
        dtype = np.dtype(np.uint16)
        for block in samples:
            dtype = block.tokens.dtype
            encoded += [self._sample(name.encode(), tokens) for name, tokens in block]
        columns = json.dumps(self._columns(dtype.name), sort_keys=True).encode()
        head = 4 + 4 * (len(encoded) + 1) + len(columns)
        offsets = head + np.concatenate([[0], np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))])
        with task.file(f"{split}.mds") as stream:
            stream.write(struct.pack("<I", len(encoded)) + offsets.astype("<u4").tobytes() + columns)
            for start in range(0, len(encoded), 1024):
                stream.write(b"".join(encoded[start : start + 1024]))
        return len(encoded)

    def _sample(self, name: bytes, tokens: np.ndarray) -> bytes:
        """Sizes of the columns that have no fixed one, uint32 each, then the columns by name."""
        data = tokens.astype(tokens.dtype.newbyteorder("<"), copy=False).tobytes()
        if self.sequence is not None:
            return struct.pack("<I", len(name)) + name + data
        # one dimension, its size in the smallest type that takes it: (dimensions << 2 | type), size
        kind, form = (0, "B") if len(tokens) < 1 << 8 else (1, "H") if len(tokens) < 1 << 16 else (2, "I")
        shape = struct.pack(f"<B{form}", 1 << 2 | kind, len(tokens))
        return struct.pack("<II", len(name), len(shape) + len(data)) + name + shape + data

    def _columns(self, dtype: str) -> dict[str, Any]:
        fixed = self.sequence
        return {
            "version": 2,
            "format": "mds",
            "compression": None,
            "hashes": [],
            "size_limit": None,
            "column_names": ["id", "tokens"],
            "column_encodings": ["str", f"ndarray:{dtype}" if fixed is None else f"ndarray:{dtype}:{fixed}"],
            "column_sizes": [None, None if fixed is None else fixed * np.dtype(dtype).itemsize],
        }

    def texts(self, inputs: PhaseInputs) -> dict[str, str]:
        shards: dict[str, list[dict[str, Any]]] = {}
        info = inputs.info(WRITE)
        for split, stem, task in numbered(inputs):
            size = next(p.size for p in inputs.parts(WRITE, task) if p.name == f"{split}.mds")
            shards.setdefault(split, []).append(
                {
                    **self._columns(info[task]["dtype"]),
                    "samples": info[task][f"{split}_samples"],
                    "raw_data": {"basename": f"{stem}.mds", "bytes": size, "hashes": {}},
                    "zip_data": None,
                }
            )
        return {
            f"{split}/index.json": json.dumps({"version": 2, "shards": listed}, sort_keys=True) + "\n"
            for split, listed in shards.items()
        }


STAGE = Mds
