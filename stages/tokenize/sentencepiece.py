"""Token ids by a sentencepiece model (https://github.com/google/sentencepiece): BPE, unigram, word or char.

Reads `text`, adds `tokenize.tokens`. Promises the ids that the sentencepiece library gives for the whole document, whatever
batch it comes in. BPE and unigram models run on kernels of our own that are proved to give the same ids
(`_spm_exact`); others, and models the proof does not cover, on the library.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import sentencepiece

from ._score import Encoder, Library, Opened, TokenScore, Vocabulary
from ._spm_exact import disagreement, kernel_encoder, refusal
from ._spm_model import load
from ._spm_train import fertility, processor_of, train

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SentencePiece(TokenScore):
    """Token ids by a sentencepiece model.

    Adds: `tokenize.tokens`, list of uint16 (largest id below 65,500) or uint32.
    Source: Kudo and Richardson 2018, "SentencePiece: A simple and language independent subword tokenizer".
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("sentencepiece",)

    def vocabulary(self) -> Vocabulary:
        return load(self.model)[1]

    def open(self) -> Opened:
        processor = processor_of(self.model)
        return Opened(self._encoder(library(processor)), processor.decode)

    def _encoder(self, engine: Library) -> Encoder:
        why = self.why_library()
        if why is None:
            kernels = kernel_encoder(load(self.model)[0])
            probe = disagreement(kernels, engine)
            if probe is None:
                return kernels
            why = f"the installed library gives other ids for {probe[:40]!r}"
        _LOG.warning("tokenize.sentencepiece: %s runs on the library, at a tenth of the speed: %s", self.model, why)
        return engine

    def why_library(self) -> str | None:
        """Why this model's ids come from the library itself and not from the kernels; None where they do not."""
        return refusal(load(self.model)[0])

    def facts(self) -> Mapping[str, Any]:
        why = self.why_library()
        return {**super().facts(), "kind": "sentencepiece", "encoder": "kernels" if why is None else f"library: {why}"}

    #: `corpusflow train tokenizer`
    train = staticmethod(train)

    @staticmethod
    def evaluate(*, texts: Iterator[str], model: str, beside: str | None = None) -> dict[str, Any]:
        """Tokens per character and per word of a model, by script.

        Args:
            texts: documents to measure on.
            model: path of the .model file.
            beside: path of another to measure beside it.
        """
        processors = {"model": processor_of(model)} | ({"beside": processor_of(beside)} if beside else {})
        sample = list(texts)
        return {name: fertility(processor, sample) for name, processor in processors.items()}


def library(processor: sentencepiece.SentencePieceProcessor) -> Library:
    """The sentencepiece library itself, one thread."""
    return Library(lambda texts: processor.encode(texts, out_type=int, num_threads=1))


STAGE = SentencePiece
