"""Scores that are one kernel: a matrix of counts for the documents of some languages, null for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from stages.kernels.buffers import TextBuffers, number_column, text_buffers
from stages.kernels.words import WHITESPACE, word_units

PREFIX = "quality."

#: Makes an array (signals, n) of the documents where the mask holds.
Measure = Callable[[TextBuffers, np.ndarray], np.ndarray]


def count_spaced(batch: pa.RecordBatch, measure: Measure, names: Sequence[str]) -> dict[str, pa.Array]:
    """Columns `quality.<name>` of documents in languages that put spaces between words; null elsewhere."""
    text = text_buffers(batch.column("text"))
    applied = text.valid & (word_units(batch.column("language.code")) == WHITESPACE)
    counts = measure(text, applied)
    return {PREFIX + name: number_column(counts[i], applied) for i, name in enumerate(names)}


def example() -> pa.RecordBatch:
    """A batch to compile kernels on."""
    return pa.RecordBatch.from_pydict(
        {"text": pa.array(["It rained all day.\nHome"], pa.large_string()), "language.code": pa.array(["en"])}
    )
