"""quality.signals_datatrove: what datatrove 0.10 measures in its Gopher, repetition and FineWeb filters, to the letter.

Reads `text` and `language.code`, adds the signals named in stages/kernels/datatrove.py, where their definitions and
how they differ from quality.signals are said. Null for languages without spaces between words. The planner inserts it for
the rule sets with ``dialect: datatrove``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from corpusflow import Score
from stages.kernels.datatrove import COUNTED, measure
from stages.quality._counts import PREFIX, count_spaced, example


@dataclass(frozen=True, kw_only=True)
class DatatroveSignals(Score):
    """Counts by datatrove's definitions, for the rule sets' dialect of that name."""

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text", "language.code")
    adds: ClassVar[Mapping[str, pa.DataType]] = {PREFIX + name: pa.int32() for name in COUNTED}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(count_spaced(batch, measure, COUNTED))

    def warm(self) -> None:
        self.score(example())


STAGE = DatatroveSignals
