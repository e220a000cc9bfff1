"""Flat token files: nothing but tokens in a `.bin`, with a JSON header beside it.

Reads `id` and `tokenize.tokens`; writes `train-00000-of-00004.bin` (little-endian uint16 or uint32, documents one after the
other), `.json` (dtype, token and document count, tokenizer SHA-256, begin and end ids), `.documents.parquet` (id, token
offset and length of each document), the same for `validation`, and `manifest.json`. `numpy.memmap(path, dtype)` opens one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from corpusflow import PhaseInputs, PhaseTask, Published

from ._publish import numbered, published
from ._shuffle import WRITE
from ._tokens import Piece, TokenSink, write_tokens


@dataclass(frozen=True, kw_only=True)
class Bin(TokenSink):
    """Flat token files for `numpy.memmap`, as nanoGPT and many trainers of one's own read them."""

    version: ClassVar[int] = 1
    format_name: ClassVar[str] = "bin"

    def write_file(self, task: PhaseTask, split: str, pieces: Iterable[Piece]) -> dict[str, int]:
        with task.file(f"{split}.bin") as stream:
            write_tokens(stream, pieces)
        return {}

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        return (np.memmap(path, dtype.newbyteorder("<"), "r") for path in paths)

    def publish(self, inputs: PhaseInputs) -> Published:
        header = self.header(inputs)
        info: Any = inputs.info(WRITE)
        texts = {}
        for split, stem, task in numbered(inputs):
            own = {
                "format": "corpusflow.tokens",
                "version": 1,
                **info[task][split],
                "document_index": f"{stem}.documents.parquet",
                **header,
            }
            texts[f"{stem}.json"] = json.dumps(own, indent=1, ensure_ascii=False) + "\n"
        return published(inputs, self.format_name, header, texts)


STAGE = Bin
