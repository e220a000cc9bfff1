"""What follows an Exchange that found spans: cut them, count what is left, drop what is nearly empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from corpusflow import Filter, Rule, Score, Transform, param
from stages.kernels.buffers import text_buffers
from stages.kernels.cut import SPANS, cut_spans
from stages.kernels.minhash import permutations, signatures


@dataclass(frozen=True, kw_only=True)
class CutSpans(Transform):
    """Removes the spans of ``<prefix>.spans`` from the text."""

    prefix: str = param(doc="Columns are read under this name.")

    version: ClassVar[int] = 1
    adds: ClassVar[Mapping[str, pa.DataType]] = {"text": pa.large_string()}

    def inputs(self) -> tuple[str, ...]:
        return ("text", f"{self.prefix}.spans")

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = cut_spans(batch.column("text"), batch.column(f"{self.prefix}.spans"))
        return pa.RecordBatch.from_arrays([text], names=["text"])

    def warm(self) -> None:
        cut_spans(pa.array(["ab"], pa.large_string()), pa.array([[0, 1]], SPANS))


@dataclass(frozen=True, kw_only=True)
class WordsLeft(Score):
    """Counts the words of what is left: ``<prefix>.words_left``, int32."""

    prefix: str = param(doc="Columns are added under this name.")

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("text",)

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {f"{self.prefix}.words_left": pa.int32()}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        offsets, data, valid = text_buffers(batch.column("text"))
        _, units = signatures(data, offsets, 1, 0, *permutations(1, 0))
        return pa.RecordBatch.from_arrays([pa.array(units.astype(np.int32), mask=~valid)], names=list(self.outputs()))

    def warm(self) -> None:
        self.score(pa.record_batch([pa.array(["ab"], pa.large_string())], names=["text"]))


@dataclass(frozen=True, kw_only=True)
class LeftFilter(Filter):
    """Drops documents of which too little is left."""

    prefix: str = param(doc="Columns are read under this name.")
    reason: str = param(doc="Drop reason.")
    min_words: int = param(1, doc="Words that must be left.")

    def rules(self) -> tuple[Rule, ...]:
        return (Rule(self.reason, f"{self.prefix}.words_left", ">=", self.min_words),)
