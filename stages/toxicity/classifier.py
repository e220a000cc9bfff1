"""toxicity.classifier: how likely a document, and its worst paragraph, is hateful, abusive, obscene or adult advertising.

Reads `text`; adds `toxicity.score` (float32: mean over the paragraphs, weighted by their length), `toxicity.worst` (float32: the
highest of a paragraph), `toxicity.paragraphs` and `toxicity.toxic_paragraphs` (int32: how many there are, and how many score
`paragraph_score` or more). Text without words has score 0, null text nulls. Paragraphs are lines gathered until a blank
line or 600 bytes.

`action` says what becomes of it: `drop` documents over the limits, `paragraph` (cut the toxic paragraphs out, then drop what is
still over the limits) or `label` (only measure). Scores have the same bits on every CPU. The model is one of words and
pairs of words and over-fits its sources like every such model: see its card for what that means, and look at what is dropped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Composite, ConfigError, Filter, Rule, Score, Stage, Transform, param, storage_for
from stages.kernels.buffers import number_column, text_buffers
from stages.kernels.fasttext import FastText, load
from stages.kernels.fasttext_linear import Linear, linear
from stages.kernels.plain_words import plain_lines, plain_table
from stages.kernels.segments import find_segments
from stages.language._known import check_table

ACTIONS: Final = ("drop", "paragraph", "label")
_LABEL: Final = "toxic"
_LEAST_BYTES: Final = 160
_MOST_BYTES: Final = 600
_ROWS: Final = 1024  # documents at a time
DOC_MODEL: Final = "A fastText classifier with a label `toxic`, built in or by path."
_DOC_PARAGRAPH: Final = "Score from which a paragraph is toxic."
_DOC_SCORE: Final = 'Highest document score kept: a number, or a table by language with "*" for all others.'
_DOC_WORST: Final = "Highest score of a single paragraph kept; null for no limit."


@dataclass(frozen=True)
class _Paragraphs:
    """Segments of a batch: rows, starts and ends (int64), and their scores (float32)."""

    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray


class _Model:
    """The classifier with the column of its toxic label."""

    def __init__(self, name: str) -> None:
        path = name
        if not storage_for(path).exists(path):
            path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", name)
        try:
            model = load(storage_for(path).get(path))
            self.column = model.labels.index(_LABEL)
            self.model: Linear | FastText = linear(model, _LABEL) or model
        except ValueError as e:
            raise ConfigError(f"toxicity model {name}: {e}", hint="a fastText classifier with __label__toxic") from e

    def paragraphs(self, text: pa.Array) -> _Paragraphs:
        """Scores of the paragraphs of a text column; one without words has 0."""
        offsets, data, valid = text_buffers(text)
        room = int(offsets[-1] - offsets[0]) // _LEAST_BYTES + len(text) + 1
        while True:
            rows, starts, ends = (np.empty(room, np.int64) for _ in range(3))
            count = int(find_segments(data, offsets, valid, _LEAST_BYTES, _MOST_BYTES, rows, starts, ends))
            if count <= room:
                break
            room = count
        rows, starts, ends = rows[:count], starts[:count], ends[:count]
        lines = np.empty(2 * int((ends - starts).sum()) + 16, np.uint8)
        line_offsets = np.empty(count + 1, np.int64)
        plain_lines(data, starts, ends, plain_table(), lines, line_offsets)
        scores = self.model.probabilities(lines, line_offsets)
        if isinstance(self.model, FastText):
            scores = scores[:, self.column]
        return _Paragraphs(rows, starts, ends, np.where(np.diff(line_offsets) > 0, scores, np.float32(0)))


@dataclass(frozen=True, kw_only=True)
class ClassifierScore(Score):
    """Scores of documents and of their worst paragraphs."""

    model: str = param("corpusflow.ftz", model="models", doc=DOC_MODEL)
    paragraph_score: float = param(0.8, doc=_DOC_PARAGRAPH)

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        "toxicity.score": pa.float32(),
        "toxicity.worst": pa.float32(),
        "toxicity.paragraphs": pa.int32(),
        "toxicity.toxic_paragraphs": pa.int32(),
    }

    def open(self) -> _Model:
        """The model."""
        return _Model(self.model)

    def warm(self) -> None:
        """Compile the kernels."""
        self.score(pa.RecordBatch.from_arrays([pa.array(["warm"], pa.large_string())], names=["text"]))

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`adds` for every row."""
        text = batch.column("text")
        return pa.concat_batches([self._some(text.slice(i, _ROWS)) for i in range(0, max(len(text), 1), _ROWS)])

    def _some(self, text: pa.Array) -> pa.RecordBatch:
        n = len(text)
        found = self.opened.paragraphs(text)
        bytes_of = (found.ends - found.starts).astype(np.float64)
        total = np.bincount(found.rows, bytes_of, n)
        # Sums in row order, one addition after the other: bincount does not regroup them.
        mean = np.bincount(found.rows, found.scores * bytes_of, n) / np.maximum(total, 1)
        worst = np.zeros(n, np.float32)
        np.maximum.at(worst, found.rows, found.scores)
        count = np.bincount(found.rows, minlength=n)
        toxic = np.bincount(found.rows[found.scores >= self.paragraph_score], minlength=n)
        valid = text.is_valid().to_numpy(zero_copy_only=False)
        columns = (mean.astype(np.float32), worst, count.astype(np.int32), toxic.astype(np.int32))
        return pa.RecordBatch.from_arrays([number_column(c, valid) for c in columns], names=list(self.adds))


@dataclass(frozen=True, kw_only=True)
class DropParagraphs(Transform):
    """Cuts toxic paragraphs out."""

    model: str = param("corpusflow.ftz", model="models", doc=DOC_MODEL)
    paragraph_score: float = param(0.8, doc=_DOC_PARAGRAPH)

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {"text": pa.large_string(), "toxicity.cut_paragraphs": pa.int32()}

    def open(self) -> _Model:
        """The model."""
        return _Model(self.model)

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`text` without the paragraphs, and how many were cut; other text as it was, byte for byte."""
        text = batch.column("text")
        valid = text.is_valid().to_numpy(zero_copy_only=False)
        found = self.opened.paragraphs(text)
        toxic = found.scores >= self.paragraph_score
        offsets, data, _ = text_buffers(text)
        cuts: dict[int, list[tuple[int, int]]] = {}
        for row, start, end in zip(
            found.rows[toxic].tolist(), found.starts[toxic].tolist(), found.ends[toxic].tolist(), strict=True
        ):
            cuts.setdefault(row, []).append((start, end))
        values = text.to_pylist() if cuts else []
        for row, places in cuts.items():
            values[row] = _without(data[offsets[row] : offsets[row + 1]].tobytes(), int(offsets[row]), places)
        counts = np.bincount(found.rows[toxic], minlength=len(text)).astype(np.int32)
        kept = pa.array(values, pa.large_string()) if cuts else text
        return pa.RecordBatch.from_arrays([kept, number_column(counts, valid)], names=list(self.adds))


def _without(document: bytes, first: int, places: Sequence[tuple[int, int]]) -> str:
    """The document without byte ranges (counted from `first` before it) and the line ends behind them."""
    pieces = []
    done = 0
    for start, end in places:
        pieces.append(document[done : start - first])
        done = end - first
        while done < len(document) and document[done] == 10:
            done += 1
    pieces.append(document[done:])
    return b"".join(pieces).decode()


@dataclass(frozen=True, kw_only=True)
class ClassifierFilter(Filter):
    """Drops documents with high scores."""

    max_score: float | Mapping[str, float] = param(0.7, doc=_DOC_SCORE)
    max_worst: float | None = param(None, doc=_DOC_WORST)

    def __post_init__(self) -> None:
        if isinstance(self.max_score, Mapping):
            check_table("toxicity.classifier.max_score", self.max_score, None, 0.7, "1")

    def rules(self) -> tuple[Rule, ...]:
        """toxicity_score, and toxicity_worst_paragraph if there is a limit for it."""
        if isinstance(self.max_score, Mapping):
            rules = [Rule("toxicity_score", "toxicity.score", "<=", dict(self.max_score), by="language.code")]
        else:
            rules = [Rule("toxicity_score", "toxicity.score", "<=", self.max_score)]
        if self.max_worst is not None:
            rules.append(Rule("toxicity_worst_paragraph", "toxicity.worst", "<=", self.max_worst))
        return tuple(rules)


@dataclass(frozen=True, kw_only=True)
class Classifier(Composite):
    """A small classifier of toxic text over paragraphs."""

    action: str = param(
        "drop", doc="drop (documents), paragraph (cut toxic paragraphs, then drop) or label (only measure)."
    )
    max_score: float | Mapping[str, float] = param(0.7, doc=_DOC_SCORE)
    max_worst: float | None = param(None, doc=_DOC_WORST)
    paragraph_score: float = param(0.8, doc=_DOC_PARAGRAPH)
    gate: bool = param(False, semantic=False, doc="Measure and store nothing more of what is dropped.")
    model: str = param("corpusflow.ftz", model="models", doc=DOC_MODEL)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ConfigError(f"toxicity.classifier cannot {self.action!r}", hint=f"actions are {', '.join(ACTIONS)}")

    def expand(self) -> tuple[Stage, ...]:
        """By action: the Score; the Score and the Filter; the Transform, the Score and the Filter."""
        score = ClassifierScore(model=self.model, paragraph_score=self.paragraph_score)
        limits = ClassifierFilter(gate=self.gate, max_score=self.max_score, max_worst=self.max_worst)
        if self.action == "label":
            return (score,)
        if self.action == "drop":
            return score, limits
        return DropParagraphs(model=self.model, paragraph_score=self.paragraph_score), score, limits

    @staticmethod
    def train(
        *,
        data: Sequence[str],
        ordinary: Sequence[str],
        out: str,
        without_source: str = "",
        holdout: int = 7,
        advertisements: int = 3000,
        features: int = 130_000,
        epochs: int = 4,
        dimensions: int = 16,
        seed: int = 1,
    ) -> Mapping[str, Any]:
        """Train a small toxicity classifier on labelled texts, with ordinary text among its negatives.

        Args:
            data: JSONL files (.gz too) with `text`, `toxic` and optionally `lang` and `source`.
            ordinary: JSONL files (.gz too) with `text`: nothing toxic; documents whose crc32 is even are left out.
            out: the model file to write, .ftz.
            without_source: leave out rows of this `source`, to measure on it.
            holdout: rows whose crc32 is a multiple of this are left out; 0 for none.
            advertisements: pages of adult and gambling advertising to make up from the word lists, as positives.
            features: words, pairs and n-grams kept in the quantised model.
            epochs: passes over the data.
            dimensions: of the vectors.
            seed: of the order of the rows.
        """
        from stages.toxicity import _train

        rows = _train.labelled_rows(data, holdout, without_source)
        rows += _train.ordinary_rows(ordinary)
        rows += _train.advertisements(advertisements, seed)
        settings = {
            "lr": 0.1,
            "epoch": epochs,
            "dim": dimensions,
            "wordNgrams": 2,
            "minn": 2,
            "maxn": 5,
            "bucket": 400_000,
        }
        return _train.train(rows, out, features, seed, settings)

    @staticmethod
    def evaluate(
        *,
        data: Sequence[str],
        model: str = "corpusflow.ftz",
        holdout: int = 7,
        source: str = "",
        threshold: float = 0.7,
    ) -> Mapping[str, Any]:
        """Measure the classifier on labelled texts.

        Args:
            data: JSONL files (.gz too) with `text`, `toxic` and optionally `lang` and `source`.
            model: the classifier.
            holdout: only rows whose crc32 is a multiple of this, and no text that also occurs outside; 0 for all.
            source: only rows of this `source`.
            threshold: score over which a text counts as flagged.
        """
        from stages.toxicity import _train

        rows = _train.evaluation_rows(data, holdout, source)
        texts = pa.array([row["text"] for row in rows], pa.large_string())
        batch = ClassifierScore(model=model).score(pa.RecordBatch.from_arrays([texts], names=["text"]))
        return _train.report(rows, np.asarray(batch.column("toxicity.score"), np.float64), threshold)


STAGE = Classifier
