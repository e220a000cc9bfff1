"""language.prefilter: drop pages that are certainly in unwanted languages before they are extracted.

Reads `raw`, `content_type` and `content_encoding`; adds `language.guess` (a code as in `language.identify`, `und` where there
is too little text, null where there is no `raw`) and `language.guess_score` (float32). The text it judges is what a page
shows, menus and footers included, stripped of its tags by a kernel at several hundred MB/s; extraction costs ten times more,
and most pages of a crawl are in languages nobody asked for.

The text is judged in three parts, beginning, middle and end, each score times the share of letters in the language's
script; where the parts are not of one language (an English article among Japanese menus) the score is 0. The gate
drops a page only if the guess is not among the languages to keep *and* its score is at least `certainty`; put
`language.identify` behind the extraction all the same. Rows without `raw` pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Composite, Filter, Rule, Score, Stage, param
from stages.kernels.buffers import text_buffers, text_column
from stages.kernels.sample import LETTERS, SCRIPT_LETTERS
from stages.kernels.visible import visible_sample
from stages.language._codes import UNDETERMINED
from stages.language._judge import Judge, open_judge
from stages.language._known import refuse_unknown
from stages.language.identify import DOC_MODEL, Identify

_SAMPLE_BYTES: Final = 24 << 10
_PARTS: Final = 3
_MIN_LETTERS: Final = 30  # of a third
_DOC_KEEP: Final = "Language codes to keep, e.g. [en, zh]; empty keeps all."
_DOC_CERTAINTY: Final = "Score from which on a guess in another language drops the page, 0 to 1."
_DOC_WINDOW: Final = "Bytes of each of the nine windows, three in each third, of visible text that a page is judged by."


@dataclass(frozen=True, kw_only=True)
class GuessScore(Score):
    """A language guess on the visible text of raw pages."""

    model: str = param("lid.176.ftz", model="models", doc=DOC_MODEL)
    window: int = param(170, doc=_DOC_WINDOW)

    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = ("raw", "content_type", "content_encoding")
    adds: ClassVar[Mapping[str, pa.DataType]] = {"language.guess": pa.string(), "language.guess_score": pa.float32()}

    def open(self) -> Judge:
        """The model."""
        return open_judge(self.model, "")

    def warm(self) -> None:
        """Compile the kernels."""
        one = pa.array([b"<p>a</p>"], pa.large_binary())
        none = pa.array([None], pa.string())
        self.score(pa.RecordBatch.from_arrays([one, none, none], names=list(self.reads)))

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`adds` for every row."""
        shown = visible_sample(batch.column(0), batch.column(1), batch.column(2), _SAMPLE_BYTES)
        judge: Judge = self.opened
        found = judge.judge(_thirds(shown), window=self.window, min_letters=_MIN_LETTERS)
        share = found.facts[:, SCRIPT_LETTERS] / np.maximum(found.facts[:, LETTERS], 1)
        code = found.labels[:, 0].reshape(-1, _PARTS)
        score = (found.scores[:, 0] * share).astype(np.float32).reshape(-1, _PARTS)
        best = score.argmax(axis=1)[:, None]
        guess = np.take_along_axis(code, best, 1)
        agrees = ((code == guess) | (score == 0)).all(axis=1)
        sure = np.where(score == 0, np.float32(2), score).min(axis=1)
        sure = np.where(agrees & (sure <= 1), sure, np.float32(0))
        nothing = shown.is_null().to_numpy(zero_copy_only=False)
        arrays = [
            pa.array(judge.codes[guess[:, 0]], pa.string(), mask=nothing),
            pa.array(sure, pa.float32(), mask=nothing),
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.adds))


def _thirds(text: pa.Array) -> pa.Array:
    """The beginning, middle and end of every text, one after the other, over the same bytes; null is empty."""
    offsets, data, valid = text_buffers(text)
    starts = offsets[:-1]
    sizes = np.where(valid, np.diff(offsets), 0)
    cuts = np.empty((len(starts), _PARTS + 1), np.int64)
    for part in range(_PARTS + 1):
        at = starts + sizes * part // _PARTS
        for _ in range(3):  # never inside a character
            inside = (at > starts) & (at < starts + sizes)
            inside[inside] = (data[at[inside]] & 0xC0) == 0x80
            at -= inside
        cuts[:, part] = at
    flat = np.append(cuts[:, :-1].ravel(), cuts[-1:, -1])
    return text_column(data, flat) if len(starts) else text


@dataclass(frozen=True, kw_only=True)
class GuessFilter(Filter):
    """Drops pages whose guess is certain and unwanted."""

    gate: bool = param(True, semantic=False, doc="Extract and store nothing of what this drops.")
    keep: tuple[str, ...] = param(factory=tuple, doc=_DOC_KEEP)
    certainty: float = param(0.8, doc=_DOC_CERTAINTY)

    def rules(self) -> tuple[Rule, ...]:
        """language_unwanted, if there are languages to keep."""
        if not self.keep:
            return ()
        limits = {**dict.fromkeys((*self.keep, UNDETERMINED)), "*": self.certainty}
        return (Rule("language_unwanted", "language.guess_score", "<", limits, by="language.guess"),)


@dataclass(frozen=True, kw_only=True)
class Prefilter(Composite):
    """Drops raw pages that are certainly in unwanted languages."""

    keep: tuple[str, ...] = param(factory=tuple, doc=_DOC_KEEP)
    certainty: float = param(0.8, doc=_DOC_CERTAINTY)
    gate: bool = param(True, semantic=False, doc="Extract and store nothing of what this drops.")
    model: str = param("lid.176.ftz", model="models", doc=DOC_MODEL)
    window: int = param(170, doc=_DOC_WINDOW)

    def expand(self) -> tuple[Stage, ...]:
        """The Score and the Filter.

        Raises:
            ConfigError: a language to keep is one that no page can be found to be in.
        """
        refuse_unknown("language.prefilter.keep", self.keep, (self.model, Identify.second_model))
        return (
            GuessScore(model=self.model, window=self.window),
            GuessFilter(gate=self.gate, keep=self.keep, certainty=self.certainty),
        )


STAGE = Prefilter
