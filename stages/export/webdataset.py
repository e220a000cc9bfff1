"""WebDataset shards: tar files of samples, each a `.npy` of token ids and a `.json` with the document's id.

Reads `id` and `tokenize.tokens`; writes `train-00000-of-00004.tar`, the same for `validation`, `manifest.json`, and the
document indexes. Keys are numbers within the file: ids hold characters that a key may not. With `sequence`, the `.json` also has
`seq_lengths`, tokens of each document in the sample.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from corpusflow import PhaseTask

from ._samples import Samples, SampleSink


@dataclass(frozen=True, kw_only=True)
class WebDataset(SampleSink):
    """Tar shards for the webdataset library."""

    version: ClassVar[int] = 2
    format_name: ClassVar[str] = "webdataset"
    library: ClassVar[str] = "webdataset"

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        count = 0
        with (
            task.file(f"{split}.tar") as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
        ):
            for block in samples:
                for name, tokens, parts in block:
                    array = io.BytesIO()
                    np.save(array, tokens, allow_pickle=False)
                    about: dict[str, Any] = {"id": name}
                    if self.sequence is not None:
                        about["seq_lengths"] = parts.tolist()
                    _add(tar, f"{count:09d}.json", json.dumps(about, ensure_ascii=False).encode())
                    _add(tar, f"{count:09d}.npy", array.getvalue())
                    count += 1
        return count

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        # a file, and a split, may hold fewer tokens than a sequence
        reader: Any = import_module("webdataset")
        rows: Any = reader.WebDataset([str(p) for p in paths], shardshuffle=False, empty_check=False)
        return (sample["npy"] for sample in rows.decode())

    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        with tarfile.open(fileobj=stream) as tar:
            for member in tar:
                if member.name.endswith(".npy") and (data := tar.extractfile(member)) is not None:
                    yield np.load(io.BytesIO(data.read()), allow_pickle=False)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)  # its time and owner are 0: bytes depend on the samples alone
    entry.size = len(data)
    entry.mode = 0o444
    tar.addfile(entry, io.BytesIO(data))


STAGE = WebDataset
