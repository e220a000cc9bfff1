"""quality.signals_dolma: what Dolma 1.2 measures as gopher_v1 and gopher_v2, to the letter.

Reads `text` and `language.code`, adds the signals named in stages/kernels/dolma.py, where their definitions and
how they differ from quality.signals are said. Null for languages without spaces between words. The planner inserts it for
the rule sets with ``dialect: dolma``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Score
from stages.kernels.dolma import COUNTED, measure
from stages.quality._counts import PREFIX, count_spaced, example

_DOUBLE: Final = "dolma_double_median_word_length"
MEDIAN: Final = "dolma_median_word_length"


@dataclass(frozen=True, kw_only=True)
class DolmaSignals(Score):
    """Dolma's Gopher attributes as counts, for the rule sets' dialect of that name."""

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text", "language.code")
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        **{PREFIX + name: pa.int64() for name in COUNTED if name != _DOUBLE},
        PREFIX + MEDIAN: pa.float32(),
    }

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = count_spaced(batch, measure, COUNTED)
        double = columns.pop(PREFIX + _DOUBLE)
        # Not by way of float32, which cannot hold the double median of a word of nine million characters: Arrow refuses it.
        median = pc.divide(double.cast(pa.float64()), pa.scalar(2.0, pa.float64()))
        columns[PREFIX + MEDIAN] = median.cast(pa.float32(), safe=False)
        return pa.RecordBatch.from_pydict(columns)

    def warm(self) -> None:
        self.score(example())


STAGE = DolmaSignals
