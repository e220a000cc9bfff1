"""quality.perplexity: how surprising a text is to an n-gram language model (KenLM), as CCNet sorts the web (Wenzek et al. 2020).

Reads `text`, adds `quality.lm_log10` (float32, minus the base-10 logarithm of the text's probability) and `quality.lm_tokens`
(int32, tokens and line ends); the perplexity is 10 to their quotient, and `max_perplexity` thresholds on that. CCNet's head,
middle and tail are percentiles per language::

    - quality.perplexity: {model: en.arpa.bin, sentencepiece: en.sp.model}
    - stats.quantile: {column: quality.lm_log10, per: quality.lm_tokens}
    - quality.threshold: {column: quality.lm_log10_pct, max: 0.6, reason: perplexity_tail}

KenLM comes as an extra; models are CCNet's or your own. A document is scored line by line. Texts without a token are null.
"""

from __future__ import annotations

import importlib
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple

import pyarrow as pa

from corpusflow import Composite, ConfigError, Filter, Rule, Score, Stage, param
from stages.quality._thresholds import LANGUAGE, PREFIX, Threshold, check_tables

_LOG10: Final = PREFIX + "lm_log10"
_TOKENS: Final = PREFIX + "lm_tokens"

#: Punctuation as CCNet writes it before tokenising.
_PUNCTUATION: Final = str.maketrans(
    {
        "，": ",", "。": ".", "、": ",", "„": '"', "”": '"', "“": '"', "«": '"', "»": '"', "」": '"', "「": '"', "《": '"',
        "》": '"', "´": "'", "∶": ":", "：": ":", "？": "?", "！": "!", "（": "(", "）": ")", "；": ";", "–": "-", "—": " - ",
        "．": ". ", "～": "~", "’": "'", "…": "...", "━": "-", "〈": "<", "〉": ">", "【": "[", "】": "]", "％": "%", "►": "-",
    }
)  # fmt: skip
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_DIGIT: Final = re.compile(r"\d")


def normalise(line: str) -> str:
    """A line as CCNet's models were trained on: lower case, no accents, digits 0, plain punctuation."""
    line = unicodedata.normalize("NFD", line.strip().lower())
    line = "".join(c for c in line if unicodedata.category(c) != "Mn")
    return _CONTROLS.sub("", _DIGIT.sub("0", line).translate(_PUNCTUATION))


class _Opened(NamedTuple):
    model: Any
    pieces: Callable[[str], list[str]]


@dataclass(frozen=True, kw_only=True)
class _Model:
    """What scores."""

    model: str = param(model="", doc="KenLM model: .arpa, or .bin made of one.")
    sentencepiece: str | None = param(
        None, model="", doc="sentencepiece model that cuts lines into tokens; null: spaces do."
    )
    normalize: Literal["ccnet", "none"] = param("ccnet", doc="How lines are rewritten before they are cut.")


@dataclass(frozen=True, kw_only=True)
class PerplexityScore(_Model, Score):
    """Log probability of the text and how many tokens it has."""

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {_LOG10: pa.float32(), _TOKENS: pa.int32()}

    def open(self) -> _Opened:
        try:
            kenlm = importlib.import_module("kenlm")
        except ModuleNotFoundError as e:
            raise ConfigError("quality.perplexity needs KenLM", hint="pip install ufal-kenlm") from e
        try:
            model = kenlm.Model(self.model)
        except (OSError, RuntimeError) as e:
            raise ConfigError(f"quality.perplexity.model: {self.model} is no KenLM model: {e}") from e
        if self.sentencepiece is None:
            return _Opened(model, str.split)
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=self.sentencepiece)
        return _Opened(model, processor.encode_as_pieces)

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        opened: _Opened = self.opened
        logs: list[float | None] = []
        tokens: list[int | None] = []
        for text in batch.column("text").to_pylist():
            total, count = 0.0, 0
            for line in (text or "").split("\n"):
                pieces = opened.pieces(normalise(line) if self.normalize == "ccnet" else line)
                if pieces:
                    total -= opened.model.score(" ".join(pieces))
                    count += len(pieces) + 1
            logs.append(total if count else None)
            tokens.append(count if count else None)
        return pa.RecordBatch.from_arrays(
            [pa.array(logs, pa.float32()), pa.array(tokens, pa.int32())], names=[_LOG10, _TOKENS]
        )


@dataclass(frozen=True, kw_only=True)
class PerplexityRule(Filter):
    """Keeps documents that do not surprise the model."""

    max_perplexity: Threshold = param(
        None, doc="Largest perplexity, or a table by language, of which others pass; null: no rule."
    )

    def __post_init__(self) -> None:
        check_tables("quality.perplexity", self, ())

    def rules(self) -> tuple[Rule, ...]:
        if self.max_perplexity is None:
            return ()
        by = LANGUAGE if isinstance(self.max_perplexity, dict) else None
        value: Any = self.max_perplexity
        if isinstance(value, dict):
            value = {code: None if v is None else round(math.log10(v), 6) for code, v in value.items()}
        else:
            value = round(math.log10(value), 6)
        return (Rule(reason="perplexity_high", column=_LOG10, op="<=", value=value, per=_TOKENS, by=by),)


@dataclass(frozen=True, kw_only=True)
class Perplexity(_Model, Composite):
    """Scores documents with a KenLM language model and keeps those of low perplexity."""

    max_perplexity: Threshold = param(
        None, doc="Largest perplexity, or a table by language, of which others pass; null: only score."
    )

    def expand(self) -> tuple[Stage, ...]:
        score = PerplexityScore(model=self.model, sentencepiece=self.sentencepiece, normalize=self.normalize)
        return score, PerplexityRule(max_perplexity=self.max_perplexity)


STAGE = Perplexity
