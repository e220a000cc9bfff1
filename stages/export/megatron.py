"""Token files that Megatron-LM's IndexedDataset opens: a `.bin` of tokens and an `.idx` beside it.

Reads `id` and `tokenize.tokens`; writes `train-00000-of-00004.bin`, `.idx` and `.documents.parquet` (id, token offset and
length of each document), the same for `validation`, `manifest.json`, and per split a file for Megatron's `--data-args-path`.
Tokens are uint16 if and only if the largest id is below 65,500, as Megatron itself would choose, int32 otherwise.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from corpusflow import Part, PhaseInputs, PhaseTask, Published
from stages.kernels.megatron_index import write_index

from ._publish import numbered, published
from ._shuffle import SPLITS, WRITE
from ._tokens import Piece, TokenSink, write_tokens


@dataclass(frozen=True, kw_only=True)
class Megatron(TokenSink):
    """Token files for Megatron-LM, NeMo and whatever else reads its IndexedDataset.

    Source: NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py; one sequence per document.
    """

    version: ClassVar[int] = 1
    format_name: ClassVar[str] = "megatron"
    library: ClassVar[str] = "megatron.core"

    def write_file(self, task: PhaseTask, split: str, pieces: Iterable[Piece]) -> dict[str, int]:
        with task.file(f"{split}.bin") as stream:
            lengths, dtype = write_tokens(stream, pieces)
        with task.file(f"{split}.idx") as stream:
            write_index(stream, lengths, dtype)
        return {}

    def check_format(
        self, inputs: PhaseInputs, parts: Mapping[str, Part], lengths: np.ndarray, dtype: np.dtype[Any]
    ) -> Iterator[str]:
        expected = io.BytesIO()
        write_index(expected, lengths, dtype)
        with inputs.open(parts["idx"]) as stream:
            if stream.read() != expected.getvalue():
                yield "the .idx file is not the index of these documents"

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        indexed: Any = import_module("megatron.core.datasets.indexed_dataset")
        for path in paths:
            sequences = indexed.IndexedDataset(str(path.with_suffix("")))
            yield from (sequences[i] for i in range(len(sequences)))

    def publish(self, inputs: PhaseInputs) -> Published:
        return published(inputs, self.format_name, self.header(inputs), blends(inputs))


def blends(inputs: PhaseInputs) -> dict[str, str]:
    """`train.blend.txt`: weight (tokens) and prefix of each file, on one line, as Megatron's `--data-args-path` wants it."""
    info: Any = inputs.info(WRITE)
    out = {}
    for split in SPLITS:
        files = [f"{info[task][s]['tokens']} {stem}" for s, stem, task in numbered(inputs) if s == split]
        if files:
            out[f"{split}.blend.txt"] = " ".join(files) + "\n"
    return out


STAGE = Megatron
