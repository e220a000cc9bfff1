"""MosaicML streaming shards (MDS), for StreamingDataset: composer, llm-foundry and others.

Reads `id` and `tokenize.tokens`; writes `train/train-00000-of-00004.mds` and `train/index.json`, the same for `validation`,
`manifest.json`, and the document indexes. A sample has `id` (str) and `tokens` (ndarray of uint16 or uint32); with `sequence`
also `seq_lengths` (ndarray of int32), tokens of each document in it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import numpy as np

from corpusflow import ConfigError, PhaseInputs, PhaseTask

from ._publish import flat, numbered
from ._samples import Samples, SampleSink
from ._shuffle import WRITE

_LARGEST: Final = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True)
class Mds(SampleSink):
    """MDS shards for MosaicML's streaming library.

    Source: mosaicml/streaming, streaming/base/format/mds: number of samples uint32, offsets uint32, the columns as JSON,
    then the samples.
    """

    version: ClassVar[int] = 3
    format_name: ClassVar[str] = "mds"
    library: ClassVar[str] = "streaming"

    def file_name(self, split: str, stem: str, suffix: str) -> str:
        return f"{split}/{flat(split, stem, suffix)}"

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        encoded: list[bytes] = []
        dtype = np.dtype(np.uint16)
        for block in samples:
            dtype = block.tokens.dtype
            encoded += [self._sample(name.encode(), tokens, parts) for name, tokens, parts in block]
        columns = json.dumps(self._columns(dtype.name), sort_keys=True).encode()
        head = 4 + 4 * (len(encoded) + 1) + len(columns)
        offsets = head + np.concatenate([[0], np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))])
        if offsets[-1] > _LARGEST:
            raise ConfigError(
                f"export.mds: a file of {offsets[-1]} bytes; the format counts them in 32 bits",
                hint=f"fewer file_tokens than {self.file_tokens}, and shuffle: true, without which a file is a whole shard",
            )
        with task.file(f"{split}.mds") as stream:
            stream.write(struct.pack("<I", len(encoded)) + offsets.astype("<u4").tobytes() + columns)
            for start in range(0, len(encoded), 1024):
                stream.write(b"".join(encoded[start : start + 1024]))
        return len(encoded)

    def _sample(self, name: bytes, tokens: np.ndarray, parts: np.ndarray) -> bytes:
        """Sizes of the columns that have no fixed one, uint32 each, then the columns by name."""
        if self.sequence is not None:
            borders = _array(parts)
            return struct.pack("<II", len(name), len(borders)) + name + borders + _little(tokens)
        data = _array(tokens)
        return struct.pack("<II", len(name), len(data)) + name + data

    def _columns(self, dtype: str) -> dict[str, Any]:
        fixed = self.sequence
        columns: dict[str, tuple[str, int | None]] = {"id": ("str", None), "tokens": (f"ndarray:{dtype}", None)}
        if fixed is not None:
            columns = {
                "id": ("str", None),
                "seq_lengths": ("ndarray:int32", None),
                "tokens": (f"ndarray:{dtype}:{fixed}", fixed * np.dtype(dtype).itemsize),
            }
        return {
            "version": 2,
            "format": "mds",
            "compression": None,
            "hashes": [],
            "size_limit": None,
            "column_names": list(columns),
            "column_encodings": [encoding for encoding, _ in columns.values()],
            "column_sizes": [size for _, size in columns.values()],
        }

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        rows: Any = import_module("streaming").LocalDataset(str(folder), split)
        return (rows[i]["tokens"] for i in range(len(rows)))

    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        data = stream.read()
        (count,) = struct.unpack_from("<I", data)
        offsets = struct.unpack_from(f"<{count + 1}I", data, 4)
        little = dtype.newbyteorder("<")
        for start, end in pairwise(offsets):
            if self.sequence is not None:
                yield np.frombuffer(data, little, self.sequence, end - self.sequence * dtype.itemsize)
                continue
            name, size = struct.unpack_from("<II", data, start)
            at = start + 8 + name
            shape = 1 + (1 << (data[at] & 3))
            yield np.frombuffer(data, little, (size - shape) // dtype.itemsize, at + shape)

    def texts(self, inputs: PhaseInputs) -> dict[str, str]:
        shards: dict[str, list[dict[str, Any]]] = {}
        info = inputs.info(WRITE)
        for split, stem, task in numbered(inputs):
            size = next(p.size for p in inputs.parts(WRITE, task) if p.name == f"{split}.mds")
            shards.setdefault(split, []).append(
                {
                    **self._columns(info[task]["dtype"]),
                    "samples": info[task][split]["samples"],
                    "raw_data": {"basename": f"{stem}.mds", "bytes": size, "hashes": {}},
                    "zip_data": None,
                }
            )
        return {
            f"{split}/index.json": json.dumps({"version": 2, "shards": listed}, sort_keys=True) + "\n"
            for split, listed in shards.items()
        }


def _array(values: np.ndarray) -> bytes:
    """Of one dimension, its size in the smallest type that takes it: (dimensions << 2 | type), size, the values."""
    kind, form = (0, "B") if len(values) < 1 << 8 else (1, "H") if len(values) < 1 << 16 else (2, "I")
    return struct.pack(f"<B{form}", 1 << 2 | kind, len(values)) + _little(values)


def _little(values: np.ndarray) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


STAGE = Mds
