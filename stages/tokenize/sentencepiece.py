"""Token ids by a sentencepiece model (https://github.com/google/sentencepiece): BPE, unigram, word or char.

Reads `text`, adds `tokenize.tokens`. Promises the ids that the sentencepiece library gives for the whole document, whatever
batch it comes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import sentencepiece

from ._score import Encoder, TokenScore, Vocabulary, model_bytes
from ._spm_model import load
from ._spm_train import train

#: Characters handed to the engine in one call: enough to make the call's cost vanish, little enough to bound its lists.
_CALL_CHARACTERS: Final = 4 << 20


@dataclass(frozen=True, kw_only=True)
class SentencePiece(TokenScore):
    """Token ids by a sentencepiece model.

    Adds: `tokenize.tokens`, list of uint16 (largest id below 65,500) or uint32.
    Source: Kudo and Richardson 2018, "SentencePiece: A simple and language independent subword tokenizer".
    """

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("sentencepiece",)

    def vocabulary(self) -> Vocabulary:
        return load(self.model)[1]

    def open(self) -> Encoder:
        return Engine(model_bytes(self.model)[0])

    @classmethod
    def train(cls, *, texts: Iterator[str], out: str, **options: Any) -> dict[str, Any]:
        """Train a model on texts and write it to `out`; see `stages.tokenize._spm_train.train` for the options."""
        return train(texts=texts, out=out, **options)


class Engine:
    """The sentencepiece library itself, one thread, in batches."""

    def __init__(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encode(self, text: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
        """See `Encoder`."""
        lengths = np.zeros(len(text) + 1, np.int64)
        pieces = []
        at = 0
        for batch in _calls(text):
            for ids in self._processor.encode(batch, out_type=int, num_threads=1):
                at += 1
                lengths[at] = len(ids)
                pieces.append(np.array(ids, np.int32))
        return np.cumsum(lengths), np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _calls(text: pa.LargeStringArray) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for value in text:
        batch.append(value.as_py() or "")
        size += len(batch[-1])
        if size >= _CALL_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


STAGE = SentencePiece
