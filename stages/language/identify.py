"""language.identify: which language a document is in, by fastText models over a bounded sample, and what to keep.

Reads `text`; adds `language.code` (primary subtag of BCP 47, ``und`` where there is too little text), `language.tag` (with the
script where a language has several: zh-Hans, sr-Cyrl; classical Chinese is lzh), `language.script` (ISO 15924; Chinese is
``Hans`` or ``Hant``, ``Hani`` where no character tells), `language.score` (float32: of the documents scored 0.8, about 80 %
are right), `language.second` and `language.second_score` (the runner-up, null where there is none). The filter, a gate by
default, keeps languages and asks for a score.

Of a document longer than three windows only its beginning, middle and end are looked at; numbers, addresses, paths, markup
and identifiers are left out. Promise: scores have the same bits on every CPU (see `stages.kernels.fasttext`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Composite, ConfigError, Filter, Rule, Score, Stage, param
from stages.language._codes import UNDETERMINED, tag_of
from stages.language._judge import Judge, open_judge
from stages.language._known import OTHERS, need_others, refuse_scripts, refuse_unknown
from stages.language._scripts import chinese, script_codes

#: Chinese as models label it; function words decide which kind it is.
_CHINESE: Final = ("zh", "yue", "lzh")
DOC_MODEL: Final = "A fastText language model (.ftz or .bin), built in or by path."
DOC_SECOND: Final = "A second one whose judgement is combined with it; empty for none."
_DOC_KEEP: Final = "Language codes to keep, e.g. [en, zh]; null keeps all."
_DOC_SCRIPTS: Final = "ISO 15924 scripts to keep, e.g. [Latn, Hans]; null keeps all."
_DOC_SCORE: Final = 'Lowest score kept: a number, or a table by language with "*" for all others.'
_DOC_WINDOW: Final = "Bytes of each of the three windows a long document is judged by."
_DOC_LETTERS: Final = "Fewer letters in the sample make `und`; a Han, kana or Hangul character counts as three."


@dataclass(frozen=True, kw_only=True)
class LanguageScore(Score):
    """Language, script and score of each document."""

    model: str = param("lid.176.ftz", model="models", doc=DOC_MODEL)
    second_model: str = param("corpusflow.ftz", model="models", doc=DOC_SECOND)
    window: int = param(500, doc=_DOC_WINDOW)
    min_letters: int = param(12, doc=_DOC_LETTERS)

    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        "language.code": pa.string(),
        "language.tag": pa.string(),
        "language.script": pa.string(),
        "language.score": pa.float32(),
        "language.second": pa.string(),
        "language.second_score": pa.float32(),
    }

    def __post_init__(self) -> None:
        if self.window < 64:
            raise ConfigError(f"window must be at least 64 bytes, got {self.window}")

    def open(self) -> Judge:
        """The models."""
        return open_judge(self.model, self.second_model)

    def warm(self) -> None:
        """Compile the kernels."""
        self.score(pa.RecordBatch.from_arrays([pa.array(["warm"], pa.large_string())], names=["text"]))

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`adds` for every row; null text is `und`."""
        judge: Judge = self.opened
        found = judge.judge(batch.column("text"), window=self.window, min_letters=self.min_letters)
        code = judge.codes[found.labels[:, 0]]
        script = script_codes(found.facts, found.scripts)
        kind = np.where(np.isin(code, _CHINESE), chinese(found.facts), code)
        code = np.where(kind == "lzh", "zh", kind)
        tags = [UNDETERMINED if k == UNDETERMINED else tag_of(k, s) for k, s in zip(kind, script, strict=True)]
        none = found.labels[:, 1] < 0
        return pa.RecordBatch.from_arrays(
            [
                pa.array(code, pa.string()),
                pa.array(tags, pa.string()),
                pa.array(script, pa.string()),
                pa.array(found.scores[:, 0]),
                pa.array(judge.codes[found.labels[:, 1]], pa.string(), mask=none),
                pa.array(found.scores[:, 1], pa.float32(), mask=none),
            ],
            names=list(self.adds),
        )


@dataclass(frozen=True, kw_only=True)
class LanguageFilter(Filter):
    """Keeps languages that are wanted and recognised with enough certainty."""

    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of what this drops.")
    keep: tuple[str, ...] | None = param(None, doc=_DOC_KEEP)
    keep_scripts: tuple[str, ...] | None = param(None, doc=_DOC_SCRIPTS)
    min_score: float | Mapping[str, float] = param(0.65, doc=_DOC_SCORE)

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

    keep: tuple[str, ...] | None = param(None, doc=_DOC_KEEP)
    keep_scripts: tuple[str, ...] | None = param(None, doc=_DOC_SCRIPTS)
    min_score: float | Mapping[str, float] = param(0.65, doc=_DOC_SCORE)
    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of the languages that are dropped.")
    model: str = param("lid.176.ftz", model="models", doc=DOC_MODEL)
    second_model: str = param("corpusflow.ftz", model="models", doc=DOC_SECOND)
    window: int = param(500, doc=_DOC_WINDOW)
    min_letters: int = param(12, doc=_DOC_LETTERS)

    def expand(self) -> tuple[Stage, ...]:
        """The Score and the Filter.

        Raises:
            ConfigError: a list to keep is empty, or names what no document can be found to be in.
        """
        name = "language.identify"
        for key, kept in (("keep", self.keep), ("keep_scripts", self.keep_scripts)):
            if kept is not None and not kept:
                raise ConfigError(f"{name}.{key}: an empty list keeps nothing", hint=f"leave {key} out to keep all")
        models = (self.model, self.second_model)
        refuse_unknown(f"{name}.keep", self.keep or (), models)
        refuse_scripts(f"{name}.keep_scripts", self.keep_scripts or ())
        if isinstance(self.min_score, Mapping):
            refuse_unknown(f"{name}.min_score", (code for code in self.min_score if code != OTHERS), models)
            need_others(f"{name}.min_score", self.min_score, None, 0.65, "0")
        return (
            LanguageScore(
                model=self.model,
                second_model=self.second_model,
                window=self.window,
                min_letters=self.min_letters,
            ),
            LanguageFilter(gate=self.gate, keep=self.keep, keep_scripts=self.keep_scripts, min_score=self.min_score),
        )

    @staticmethod
    def train(
        *,
        data: Sequence[str],
        out: str,
        languages: Sequence[str] = (),
        exclude: Sequence[str] = (),
        beside: str = "lid.176.ftz",
        pieces: int = 500,
        features: int = 80_000,
        epochs: int = 25,
        dimensions: int = 16,
        seed: int = 5,
    ) -> Mapping[str, Any]:
        """Train a small fastText language model on labelled sentences.

        Args:
            data: JSONL files (.gz too) with `lang` and `text`; rows with a `kind` are sentences and words, others paragraphs.
            out: the model file to write, .ftz.
            languages: only these; default all that have a two-letter code or that `beside` knows.
            exclude: not these.
            beside: the model it will be combined with; empty for no restriction.
            pieces: pieces of paragraphs a language, where the data has nothing shorter.
            features: n-grams and words kept in the quantised model; 17 bytes each.
            epochs: passes over the data.
            dimensions: of the vectors.
            seed: of the order of the rows.
        """
        from stages.language import _train

        known = frozenset(languages) or (_train.codes_of(beside) if beside else frozenset())
        labelled = (row for row in _train.read_sentences(data) if row[0] not in exclude)
        rows = _train.training_rows(labelled, known, bool(languages), pieces, seed)
        texts = _train.samples([text for _, text in rows])
        lines = [(label, text) for (label, _), text in zip(rows, texts, strict=True)]
        settings = {
            "lr": 0.8,
            "epoch": epochs,
            "dim": dimensions,
            "minn": 1,
            "maxn": 4,
            "bucket": 500_000,
            "loss": "hs",
        }
        return _train.train_fasttext(lines, out, features, **settings)

    @staticmethod
    def evaluate(
        *,
        data: Sequence[str],
        model: str = "lid.176.ftz",
        second_model: str = "corpusflow.ftz",
        kind: str = "",
        min_letters: int = 1,
    ) -> Mapping[str, Any]:
        """Measure language identification on labelled texts.

        Args:
            data: JSONL files (.gz too) with `lang` and `text`.
            model: the first model.
            second_model: the second; empty for none.
            kind: only rows of this `kind`.
            min_letters: texts with fewer letters are `und`, which counts as wrong.
        """
        from stages.language import _train

        rows = [row for row in _train.read_sentences(data) if not kind or row[1] == kind]
        stage = LanguageScore(model=model, second_model=second_model, min_letters=min_letters)
        texts = [text for _, _, text in rows]
        batch = stage.score(pa.RecordBatch.from_arrays([pa.array(texts, pa.large_string())], names=["text"]))
        return _train.report([language for language, _, _ in rows], batch, texts)


STAGE = Identify
