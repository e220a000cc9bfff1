"""quality.dclm: the line corrections of DCLM's baseline, which are RefinedWeb's (Penedo et al. 2023, arXiv 2306.01116, G.2).

Lines that are no text are removed (stages/kernels/dclm_lines.py); a page that loses more than one word in twenty that way
is dropped instead. As in quality.c4, a Score counts what would be left, a Filter decides, a Transform rewrites what stays.
DCLM runs this after quality.gopher and quality.gopher_repetition, `dialect: dclm` both. English only, unless a table of
thresholds names other languages; their lines are corrected in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Composite, Filter, Rule, Score, Stage, Transform
from stages.kernels.buffers import number_column, text_buffers
from stages.kernels.dclm_lines import COUNTED, clean_lines
from stages.kernels.words import WHITESPACE, word_units
from stages.quality._counts import PREFIX, example
from stages.quality._thresholds import ENGLISH, Threshold, at_least, check_tables, limit

_INPUTS: Final = ("text", "language.code")
_LEAST_KEPT: Final = 0.95


def _cleaned(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    text = text_buffers(batch.column("text"))
    applied = text.valid & (word_units(batch.column("language.code")) == WHITESPACE)
    return applied, *clean_lines(text, applied)


@dataclass(frozen=True, kw_only=True)
class DclmLineCounts(Score):
    """Words before and after the line corrections, and how many lines go."""

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = _INPUTS
    adds: ClassVar[Mapping[str, pa.DataType]] = {PREFIX + name: pa.int32() for name in COUNTED}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        applied, _, _, counts = _cleaned(batch)
        return pa.RecordBatch.from_pydict(
            {PREFIX + name: number_column(counts[i], applied) for i, name in enumerate(COUNTED)}
        )

    def warm(self) -> None:
        self.score(example())


@dataclass(frozen=True, kw_only=True)
class DclmLines(Transform):
    """Removes lines that are no text."""

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = _INPUTS
    adds: ClassVar[Mapping[str, pa.DataType]] = {"text": pa.large_string()}

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        column = batch.column("text")
        _, offsets, data, _ = _cleaned(batch)
        nulls = None if column.null_count == 0 else pa.array(column.is_valid()).buffers()[1]
        buffers = [nulls, pa.py_buffer(offsets), pa.py_buffer(data[: offsets[-1]])]
        return pa.RecordBatch.from_arrays(
            [pa.Array.from_buffers(pa.large_string(), len(column), buffers)], names=["text"]
        )

    def warm(self) -> None:
        self.transform(example())


@dataclass(frozen=True, kw_only=True)
class DclmPages(Filter):
    """Keeps pages that the line corrections leave nearly whole."""

    min_words_left: Threshold = limit(_LEAST_KEPT, "Smallest share of words in the lines that stay.")

    def __post_init__(self) -> None:
        check_tables("quality.dclm", self, ENGLISH)

    def rules(self) -> tuple[Rule, ...]:
        return tuple(
            at_least("dclm_lines_removed", "dclm_words_after", "dclm_words_before", self.min_words_left, ENGLISH)
        )


@dataclass(frozen=True, kw_only=True)
class Dclm(Composite):
    """Corrects lines as DCLM does and drops pages that lose more than one word in twenty."""

    min_words_left: Threshold = limit(_LEAST_KEPT, "Smallest share of words in the lines that stay.")

    def expand(self) -> tuple[Stage, ...]:
        return DclmLineCounts(), DclmPages(min_words_left=self.min_words_left), DclmLines()


STAGE = Dclm
