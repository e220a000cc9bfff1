"""quality.classifier: a learned score of quality, from any fastText classifier.

Reads `text`, adds `quality.score` (float32, 0 to 1): the calibrated chance that a document is good, by the model's card.
With `min_score` it drops what scores below; without, it only scores, for quality.threshold or, in two passes, stats.quantile
("the top tenth", as DCLM keeps it)::

    - quality.classifier: {min_score: 0.5}
    - quality.classifier: {model: models/openhermes_reddit_eli5.bin, label: hq, column: dclm_score, min_score: 0.018112}

The built-in model, `en-zh`, knows English and Chinese; its card is beside it. `corpusflow train quality.classifier`
makes one of your own texts, `corpusflow eval quality.classifier` measures any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from corpusflow import Composite, Filter, Rule, Score, Stage, param
from stages.kernels.buffers import number_column, text_buffers
from stages.quality import _train
from stages.quality._model import QualityModel, read
from stages.quality._thresholds import LANGUAGE, PREFIX, Threshold, check_tables


@dataclass(frozen=True, kw_only=True)
class _Model:
    """What is scored, by what."""

    model: str = param("en-zh", model="models", doc="fastText model: a file, or a folder with model.ftz and card.json.")
    label: str | None = param(None, doc="The model's label that means good; null: what its card says.")
    column: str = param("score", doc="The signal is called quality.<column>.")


@dataclass(frozen=True, kw_only=True)
class ClassifierScore(_Model, Score):
    """The calibrated chance that a document is good."""

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text",)

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {PREFIX + self.column: pa.float32()}

    def open(self) -> QualityModel:
        return read(self.model, self.label)

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = text_buffers(batch.column("text"))
        model: QualityModel = self.opened
        return pa.RecordBatch.from_pydict({PREFIX + self.column: number_column(model.scores(text), text.valid)})

    def warm(self) -> None:
        self.score(pa.RecordBatch.from_pydict({"text": pa.array(["It rained."], pa.large_string())}))


@dataclass(frozen=True, kw_only=True)
class ClassifierRule(Filter):
    """Keeps documents the model takes for good."""

    column: str = param("score", doc="The signal is called quality.<column>.")
    min_score: Threshold = param(
        None, doc="Smallest score kept, or a table by language, of which others pass; null: no rule."
    )

    def __post_init__(self) -> None:
        check_tables("quality.classifier", self, ())

    def rules(self) -> tuple[Rule, ...]:
        if self.min_score is None:
            return ()
        table = isinstance(self.min_score, dict)
        return (
            Rule(
                reason=f"classifier_low_{self.column}",
                column=PREFIX + self.column,
                op=">=",
                value=self.min_score,
                by=LANGUAGE if table else None,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Classifier(_Model, Composite):
    """Scores documents with a learned model of quality and keeps those that score well."""

    min_score: Threshold = param(
        None, doc="Smallest score kept, or a table by language, of which others pass; null: only score."
    )

    train = staticmethod(_train.train)
    evaluate = staticmethod(_train.evaluate)

    def expand(self) -> tuple[Stage, ...]:
        score = ClassifierScore(model=self.model, label=self.label, column=self.column)
        return score, ClassifierRule(column=self.column, min_score=self.min_score)


STAGE = Classifier
