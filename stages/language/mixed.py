"""language.mixed: the languages of a document's paragraphs, and how much of it is in others than its main one.

Reads `text`; adds `language.letters` and `language.other_letters` (int32: letters of the paragraphs that could be judged, and of
those not in the main language), `language.count` (int32: languages with a tenth of the letters or more) and
`language.shares` (list of code and letters, most first). Paragraphs are lines gathered until a blank line or 600 bytes; of
a document with more than `max_paragraphs` that many are taken, evenly over its length. Null text has nulls.

The filter, off by default, limits the share of other languages: `max_other: 0.3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Composite, Filter, Rule, Score, Stage, param
from stages.kernels.buffers import number_column, text_buffers, text_column
from stages.kernels.sample import LETTERS
from stages.kernels.segments import find_segments
from stages.language._judge import Judge, open_judge
from stages.language.identify import DOC_MODEL, DOC_SECOND

_SHARES: Final = pa.list_(pa.struct([("code", pa.string()), ("letters", pa.int32())]))
_LEAST_BYTES: Final = 160
_MOST_BYTES: Final = 600
_DOC_PARAGRAPHS: Final = "Paragraphs of a document that are judged; of more, so many evenly spread ones."
_DOC_LETTERS: Final = "A paragraph of fewer letters is not judged; a Han, kana or Hangul character counts as three."


@dataclass(frozen=True, kw_only=True)
class MixedScore(Score):
    """Letters by language."""

    model: str = param("lid.176.ftz", model="models", doc=DOC_MODEL)
    second_model: str = param("corpusflow.ftz", model="models", doc=DOC_SECOND)
    max_paragraphs: int = param(64, doc=_DOC_PARAGRAPHS)
    min_letters: int = param(40, doc=_DOC_LETTERS)

    version: ClassVar[int] = 3
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        "language.letters": pa.int32(),
        "language.other_letters": pa.int32(),
        "language.count": pa.int32(),
        "language.shares": _SHARES,
    }

    def open(self) -> Judge:
        """The models."""
        return open_judge(self.model, self.second_model)

    def warm(self) -> None:
        """Compile the kernels."""
        self.score(pa.RecordBatch.from_arrays([pa.array(["warm"], pa.large_string())], names=["text"]))

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`adds` for every row."""
        text = batch.column("text")
        rows, paragraphs = self._paragraphs(text)
        judge: Judge = self.opened
        found = judge.judge(paragraphs, window=_MOST_BYTES, min_letters=self.min_letters)
        sums = self._sums(len(text), rows, found.labels[:, 0], found.facts[:, LETTERS])
        shares = [sorted(s.items(), key=lambda x: (-x[1], judge.codes[x[0]])) for s in sums]
        totals = np.array([sum(s.values()) for s in sums], np.int32)
        mains = np.array([s[0][1] if s else 0 for s in shares], np.int32)
        counts = np.array(
            [sum(10 * n >= t for _, n in s) for s, t in zip(shares, totals.tolist(), strict=True)], np.int32
        )
        valid = text.is_valid().to_numpy(zero_copy_only=False)
        named = [
            [{"code": judge.codes[k], "letters": n} for k, n in s] if v else None
            for s, v in zip(shares, valid, strict=True)
        ]
        columns = [number_column(c, valid) for c in (totals, totals - mains, counts)]
        return pa.RecordBatch.from_arrays([*columns, pa.array(named, _SHARES)], names=list(self.adds))

    def _paragraphs(self, text: pa.Array) -> tuple[np.ndarray, pa.Array]:
        """(row of each paragraph, the paragraphs), at most `max_paragraphs` a row."""
        offsets, data, valid = text_buffers(text)
        room = int(offsets[-1] - offsets[0]) // _LEAST_BYTES + len(text) + 1
        rows, starts, ends = (np.empty(room, np.int64) for _ in range(3))
        while (count := find_segments(data, offsets, valid, _LEAST_BYTES, _MOST_BYTES, rows, starts, ends)) > len(rows):
            rows, starts, ends = (np.empty(count, np.int64) for _ in range(3))
        rows, starts, ends = rows[:count], starts[:count], ends[:count]
        first = np.searchsorted(rows, np.arange(len(text) + 1))
        many = np.diff(first)
        place = np.arange(count) - first[rows]
        # Evenly: the k-th is taken where k * max / many passes a whole number.
        step = np.minimum(self.max_paragraphs, many)[rows]
        taken = (place + 1) * step // many[rows] > place * step // many[rows]
        rows, starts, ends = rows[taken], starts[taken], ends[taken]
        cut = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(ends - starts, out=cut[1:])
        pieces = np.concatenate([data[a:b] for a, b in zip(starts, ends, strict=True)]) if len(starts) else data[:0]
        return rows, text_column(pieces, cut)

    @staticmethod
    def _sums(n: int, rows: np.ndarray, labels: np.ndarray, letters: np.ndarray) -> list[dict[int, int]]:
        sums: list[dict[int, int]] = [{} for _ in range(n)]
        for row, label, count in zip(rows.tolist(), labels.tolist(), letters.tolist(), strict=True):
            if label >= 0:
                sums[row][label] = sums[row].get(label, 0) + count
        return sums


@dataclass(frozen=True, kw_only=True)
class MixedFilter(Filter):
    """Limits the share of other languages."""

    max_other: float | None = param(None, doc="Largest share of letters in other languages, 0 to 1; null for no limit.")

    def rules(self) -> tuple[Rule, ...]:
        """language_mixed, if there is a limit."""
        if self.max_other is None:
            return ()
        return (Rule("language_mixed", "language.other_letters", "<=", self.max_other, per="language.letters"),)


@dataclass(frozen=True, kw_only=True)
class Mixed(Composite):
    """Languages of paragraphs, and an optional limit on mixing."""

    max_other: float | None = param(None, doc="Largest share of letters in other languages, 0 to 1; null for no limit.")
    gate: bool = param(False, semantic=False, doc="Measure and store nothing more of what is dropped.")
    model: str = param("lid.176.ftz", model="models", doc=DOC_MODEL)
    second_model: str = param("corpusflow.ftz", model="models", doc=DOC_SECOND)
    max_paragraphs: int = param(64, doc=_DOC_PARAGRAPHS)
    min_letters: int = param(40, doc=_DOC_LETTERS)

    def expand(self) -> tuple[Stage, ...]:
        """The Score and the Filter."""
        score = MixedScore(
            model=self.model,
            second_model=self.second_model,
            max_paragraphs=self.max_paragraphs,
            min_letters=self.min_letters,
        )
        return score, MixedFilter(gate=self.gate, max_other=self.max_other)


STAGE = Mixed
