"""Flat token files with numpy's own header: `numpy.load(path, mmap_mode="r")` opens one and knows its type.

Reads `id` and `tokenize.tokens`; writes `train-00000-of-00004.npy`: one dimension of uint16 or uint32 with `sequence` not
given, rows of `sequence` tokens otherwise; the same for `validation`, `manifest.json`, and the document indexes. Borders of
documents within rows are those of `.documents.parquet` (offsets into the flat file), of padded rows those of `.pieces.parquet`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from corpusflow import PhaseTask

from ._samples import Samples, SampleSink


@dataclass(frozen=True, kw_only=True)
class Npy(SampleSink):
    """Flat token files in numpy's .npy format, version 1.0."""

    version: ClassVar[int] = 3
    format_name: ClassVar[str] = "npy"

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        blocks = list(samples)
        count = sum(len(b.lengths) for b in blocks)
        total = sum(len(b.tokens) for b in blocks)
        dtype = blocks[0].tokens.dtype.newbyteorder("<")
        shape = (total,) if self.sequence is None else (count, self.sequence)
        with task.file(f"{split}.npy") as stream:
            header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, header)
            for block in blocks:
                stream.write(np.ascontiguousarray(block.tokens.astype(dtype, copy=False)).data.cast("B"))
        return count

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        return (np.load(path, mmap_mode="r") for path in paths)

    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        yield np.load(io.BytesIO(stream.read()), allow_pickle=False).ravel()


STAGE = Npy
