"""language.identify: which language a document is in, by a fastText model over a bounded sample, and what to keep.

Reads `text`; adds `language.code` (primary subtag of BCP 47, ``und`` where there is too little text), `language.script`
(ISO 15924; Chinese is ``Hans`` or ``Hant``, ``Hani`` where no character tells), `language.score` (float32, probability of
the code given the script), `language.second` and `language.second_score` (the runner-up). The filter, a gate by default,
keeps languages and asks for a score.

Of a document longer than three windows only its beginning, middle and end are looked at; numbers, addresses, paths,
markup and identifiers are left out. Promise: scores have the same bits on every CPU (see `stages.kernels.fasttext`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Composite, ConfigError, Filter, Rule, Score, Stage, param, storage_for
from stages.kernels.fasttext import FastText, best_two, load
from stages.kernels.sample import LETTERS
from stages.language._sample import take_samples
from stages.language._scripts import allowed, dominant, script_codes

UNDETERMINED: Final = "und"
#: Labels of lid.176 that are not the language's code: Alemannic and Bihari are Wikipedia's own names.
_LABELS: Final = {"als": "gsw", "bh": "bho", "sh": "sh", "no": "no"}
_ROWS: Final = 4096  # at a time: probabilities of all labels take 4 bytes a row and label


@dataclass(frozen=True, kw_only=True)
class LanguageScore(Score):
    """Language, script and score of each document."""

    model: str = param(
        "lid.176.ftz", model="models", doc="A fastText language model (.ftz or .bin), built in or by path."
    )
    window: int = param(500, doc="Bytes of each of the three windows a long document is judged by.")
    min_letters: int = param(
        12, doc="Fewer letters in the sample make `und`; a Han, kana or Hangul character counts as three."
    )

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        "language.code": pa.string(),
        "language.script": pa.string(),
        "language.score": pa.float32(),
        "language.second": pa.string(),
        "language.second_score": pa.float32(),
    }

    def __post_init__(self) -> None:
        if self.window < 64:
            raise ConfigError(f"window must be at least 64 bytes, got {self.window}")

    def open(self) -> tuple[FastText, np.ndarray, np.ndarray]:
        """(model, codes, written): the code of every label and `und`, and which scripts it is written in."""
        path = self.model
        if not storage_for(path).exists(path):
            path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", self.model)
        try:
            model = load(storage_for(path).get(path))
        except ValueError as e:
            raise ConfigError(f"language model {self.model}: {e}", hint="give a fastText .ftz or .bin file") from e
        codes = [_LABELS.get(label, label) for label in model.labels]
        return model, np.array([*codes, UNDETERMINED], object), allowed(codes)

    def warm(self) -> None:
        """Compile the kernels."""
        self._measure(pa.array(["warm"], pa.large_string()))

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`adds` for every row; null text is `und`."""
        text = batch.column("text")
        return pa.concat_batches([self._measure(text.slice(i, _ROWS)) for i in range(0, max(len(text), 1), _ROWS)])

    def _measure(self, text: pa.Array) -> pa.RecordBatch:
        data, offsets, facts = take_samples(text, self.window, lower=True)
        model, codes, written = self.opened
        script = dominant(facts)
        labels = np.empty((len(text), 2), np.int64)
        scores = np.empty((len(text), 2), np.float32)
        best_two(model.probabilities(data, offsets), written, script, labels, scores)
        unknown = facts[:, LETTERS] < self.min_letters
        labels[unknown] = -1
        scores[unknown] = 0
        none = labels[:, 1] < 0
        return pa.RecordBatch.from_arrays(
            [
                pa.array(codes[labels[:, 0]], pa.string()),
                pa.array(script_codes(facts, script), pa.string()),
                pa.array(scores[:, 0]),
                pa.array(codes[labels[:, 1]], pa.string(), mask=none),
                pa.array(scores[:, 1], pa.float32(), mask=none),
            ],
            names=list(self.adds),
        )


@dataclass(frozen=True, kw_only=True)
class LanguageFilter(Filter):
    """Keeps languages that are wanted and recognised with enough certainty."""

    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of what this drops.")
    keep: tuple[str, ...] | None = param(None, doc="Language codes to keep, e.g. [en, zh]; null keeps all.")
    keep_scripts: tuple[str, ...] | None = param(
        None, doc="ISO 15924 scripts to keep, e.g. [Latn, Hans]; null keeps all."
    )
    min_score: float | Mapping[str, float] = param(
        0.65, doc='Lowest score kept: a number, or a table by language with "*" for all others.'
    )

    def rules(self) -> tuple[Rule, ...]:
        """language_not_kept, language_script_not_kept, language_low_score: those that apply."""
        rules = []
        if self.keep is not None:
            rules.append(Rule("language_not_kept", "language.code", "in", tuple(self.keep)))
        if self.keep_scripts is not None:
            rules.append(Rule("language_script_not_kept", "language.script", "in", tuple(self.keep_scripts)))
        if isinstance(self.min_score, Mapping):
            rules.append(Rule("language_low_score", "language.score", ">=", dict(self.min_score), by="language.code"))
        elif self.min_score > 0:
            rules.append(Rule("language_low_score", "language.score", ">=", self.min_score))
        return tuple(rules)


@dataclass(frozen=True, kw_only=True)
class Identify(Composite):
    """Language identification and the languages to keep."""

    keep: tuple[str, ...] | None = param(None, doc="Language codes to keep, e.g. [en, zh]; null keeps all.")
    keep_scripts: tuple[str, ...] | None = param(
        None, doc="ISO 15924 scripts to keep, e.g. [Latn, Hans]; null keeps all."
    )
    min_score: float | Mapping[str, float] = param(
        0.65, doc='Lowest score kept: a number, or a table by language with "*" for all others.'
    )
    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of the languages that are dropped.")
    model: str = param(
        "lid.176.ftz", model="models", doc="A fastText language model (.ftz or .bin), built in or by path."
    )
    window: int = param(500, doc="Bytes of each of the three windows a long document is judged by.")
    min_letters: int = param(
        12, doc="Fewer letters in the sample make `und`; a Han, kana or Hangul character counts as three."
    )

    def expand(self) -> tuple[Stage, ...]:
        """The Score and the Filter."""
        return (
            LanguageScore(model=self.model, window=self.window, min_letters=self.min_letters),
            LanguageFilter(gate=self.gate, keep=self.keep, keep_scripts=self.keep_scripts, min_score=self.min_score),
        )


STAGE = Identify
