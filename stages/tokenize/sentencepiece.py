"""Token ids by a sentencepiece model (https://github.com/google/sentencepiece): BPE, unigram, word or char.

Reads `text`, adds `tokenize.tokens`. Promises the ids that the sentencepiece library gives for the whole document, whatever
batch it comes in. BPE and unigram models run on kernels of our own that are proved to give the same ids
(`_spm_exact`); others, and models the proof does not cover, on the library.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import sentencepiece

from ._score import Encoder, TokenScore, Vocabulary, model_bytes
from ._spm_exact import disagreement, kernel_encoder, refusal
from ._spm_model import load
from ._spm_train import train

_LOG = logging.getLogger(__name__)

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
        library = Library(model_bytes(self.model)[0])
        why = self.why_library()
        if why is None:
            kernels = kernel_encoder(load(self.model)[0])
            probe = disagreement(kernels, library)
            if probe is None:
                return kernels
            why = f"the installed library gives other ids for {probe[:40]!r}"
        _LOG.warning("tokenize.sentencepiece: %s runs on the library, at a tenth of the speed: %s", self.model, why)
        return library

    def why_library(self) -> str | None:
        """Why this model's ids come from the library itself and not from the kernels; None where they do not."""
        return refusal(load(self.model)[0])

    def facts(self) -> Mapping[str, Any]:
        why = self.why_library()
        return {**super().facts(), "kind": "sentencepiece", "encoder": "kernels" if why is None else f"library: {why}"}

    @classmethod
    def train(cls, *, texts: Iterator[str], out: str, **options: Any) -> dict[str, Any]:
        """Train a model on texts and write it to `out`; see `stages.tokenize._spm_train.train` for the options."""
        return train(texts=texts, out=out, **options)


class Library:
    """The sentencepiece library itself, one thread, in batches."""

    def __init__(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encode(self, text: pa.Array, before: int | None, after: int | None) -> tuple[np.ndarray, np.ndarray]:
        """See `Encoder`."""
        lengths = np.zeros(len(text) + 1, np.int64)
        pieces = []
        head = [] if before is None else [before]
        tail = [] if after is None else [after]
        at = 0
        for batch in _calls(text):
            known = [t for t in batch if t is not None]
            encoded = iter(self._processor.encode(known, out_type=int, num_threads=1))
            for value in batch:
                at += 1
                if value is not None:
                    pieces.append(np.array([*head, *next(encoded), *tail], np.int32))
                    lengths[at] = len(pieces[-1])
        return np.cumsum(lengths), np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _calls(text: pa.Array) -> Iterator[list[str | None]]:
    batch: list[str | None] = []
    size = 0
    for scalar in text:
        value = scalar.as_py()
        batch.append(value)
        size += len(value or "")
        if size >= _CALL_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


STAGE = SentencePiece
