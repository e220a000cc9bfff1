"""quality.chinese: rules for Chinese text, simplified and traditional, that need neither spaces nor a dictionary.

Reads signals of quality.signals, whose words are single characters in Chinese, and adds `quality.zh_*`
(stages/kernels/chinese.py). What good Chinese text is, by what the published Chinese pipelines agree on (ChineseWebText,
MAP-CC, CCI3, FineWeb2), restated on characters; numbers were chosen on modern prose, classical prose, poems and real web
pages so that each rule alone drops at most one in a hundred of them:

    wrongly decoded   outside the common characters of both scripts (text read in the wrong charset: most are)
    not Chinese       few Chinese characters among the letters (ChineseWebText)
    menus, links      short lines; few characters in lines that hold a sentence's end; separators between items
    keyword spam      no sentences for long; hardly any function words (的 是 了 之 而 …)
    repetition        lines, single phrases, long passages said again

Neither script is preferred: published pipelines that drop every page with a traditional character lose half of the
world's Chinese. Applies to Chinese only. What it drops of 777 web pages, and how much of that rightly, is in chinese.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Composite, Filter, Rule, Score, Stage
from stages.kernels.buffers import number_column, text_buffers
from stages.kernels.chinese import COUNTED, count_chinese
from stages.quality._thresholds import PREFIX, Threshold, at_least, at_most, check_tables, limit

#: Codes of the languages written in modern Chinese.
CHINESE: Final = ("zh", "cmn", "wuu", "yue")


@dataclass(frozen=True, kw_only=True)
class ChineseSignals(Score):
    """Rare, simplified and traditional characters, characters in sentences, separators; null for other languages."""

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("text", "language.code")
    adds: ClassVar[Mapping[str, pa.DataType]] = {PREFIX + name: pa.int32() for name in COUNTED}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = text_buffers(batch.column("text"))
        chinese: np.ndarray = pc.is_in(batch.column("language.code"), value_set=pa.array(CHINESE)).to_numpy(
            zero_copy_only=False
        )
        applied = text.valid & chinese
        counts = count_chinese(text, applied)
        return pa.RecordBatch.from_pydict(
            {PREFIX + name: number_column(counts[i], applied) for i, name in enumerate(COUNTED)}
        )

    def warm(self) -> None:
        self.score(
            pa.RecordBatch.from_pydict(
                {"text": pa.array(["你好。"], pa.large_string()), "language.code": pa.array(["zh"])}
            )
        )


@dataclass(frozen=True, kw_only=True)
class _Limits:
    """Thresholds of the rules."""

    min_han_chars: Threshold = limit(32, "Fewest Chinese characters.")
    min_han_share: Threshold = limit(0.25, "Smallest share of Chinese characters among letters.")
    max_rare_share: Threshold = limit(0.2, "Largest share of uncommon ones among Chinese characters.")
    max_garbage_share: Threshold = limit(0.01, "Largest share of control, private-use and replacement characters.")
    min_mean_line_length: Threshold = limit(8.0, "Smallest mean length of a line, characters.")
    min_sentence_share: Threshold = limit(0.4, "Smallest share of Chinese characters in lines with a sentence's end.")
    min_sentences_per_char: Threshold = limit(1 / 300, "Fewest sentence ends per Chinese character.")
    max_separator_share: Threshold = limit(0.08, "Largest share of separators (| / · _ 【】 …) among characters.")
    min_stop_words: Threshold = limit(2, "Fewest distinct function words (的 是 了 之 …).")
    min_stop_word_share: Threshold = limit(0.03, "Smallest share of function words among characters.")
    max_digit_share: Threshold = limit(0.3, "Largest share of digits among characters.")
    max_bullet_lines: Threshold = limit(0.9, "Largest share of lines that begin with a bullet.")
    max_ellipsis_lines: Threshold = limit(0.3, "Largest share of lines that end with an ellipsis.")
    min_entropy: Threshold = limit(3.0, "Smallest entropy of the characters, bits.")
    max_dup_lines: Threshold = limit(0.3, "Largest share of lines equal to an earlier line.")
    max_dup_line_chars: Threshold = limit(0.2, "Largest share of characters in lines equal to an earlier line.")
    max_top_2gram_chars: Threshold = limit(0.25, "Largest share of characters in the most frequent pair of characters.")
    max_top_4gram_chars: Threshold = limit(0.35, "Largest share of characters in the most frequent four characters.")
    max_dup_10gram_chars: Threshold = limit(0.4, "Largest share of characters in ten-character runs seen before.")


@dataclass(frozen=True, kw_only=True)
class ChineseRules(_Limits, Filter):
    """Keeps Chinese documents that read like text."""

    def __post_init__(self) -> None:
        check_tables("quality.chinese", self, CHINESE)

    def rules(self) -> tuple[Rule, ...]:
        def low(reason: str, column: str, value: Threshold, per: str | None = None) -> list[Rule]:
            return at_least("chinese_" + reason, column, per, value, CHINESE)

        def high(reason: str, column: str, value: Threshold, per: str | None = None) -> list[Rule]:
            return at_most("chinese_" + reason, column, per, value, CHINESE)

        return (
            *low("few_chars", "han_chars", self.min_han_chars),
            *high("mojibake", "zh_rare_chars", self.max_rare_share, per="han_chars"),
            *high("garbage", "garbage_chars", self.max_garbage_share, per="chars"),
            *low("few_han", "han_chars", self.min_han_share, per="letters"),
            *low("short_lines", "line_chars", self.min_mean_line_length, per="lines"),
            *low("no_running_text", "zh_sentence_chars", self.min_sentence_share, per="han_chars"),
            *low("few_sentences", "sentences", self.min_sentences_per_char, per="han_chars"),
            *high("separators", "zh_separators", self.max_separator_share, per="chars"),
            *low("few_stop_words", "stop_words", self.min_stop_words),
            *low("rare_stop_words", "stop_word_hits", self.min_stop_word_share, per="words"),
            *high("digits", "digits", self.max_digit_share, per="chars"),
            *high("bullet_lines", "bullet_lines", self.max_bullet_lines, per="lines"),
            *high("ellipsis_lines", "ellipsis_lines", self.max_ellipsis_lines, per="lines"),
            *low("low_entropy", "word_entropy", self.min_entropy),
            *high("dup_lines", "dup_lines", self.max_dup_lines, per="lines"),
            *high("dup_line_chars", "dup_line_chars", self.max_dup_line_chars, per="line_chars"),
            *high("top_2gram_chars", "top_2gram_chars", self.max_top_2gram_chars, per="word_chars"),
            *high("top_4gram_chars", "top_4gram_chars", self.max_top_4gram_chars, per="word_chars"),
            *high("dup_10gram_chars", "dup_10gram_chars", self.max_dup_10gram_chars, per="word_chars"),
        )


@dataclass(frozen=True, kw_only=True)
class Chinese(_Limits, Composite):
    """Measures Chinese documents and keeps those that read like text, in either script."""

    def expand(self) -> tuple[Stage, ...]:
        limits: dict[str, Any] = {name: getattr(self, name) for name in _Limits.__dataclass_fields__}
        return ChineseSignals(), ChineseRules(**limits)


STAGE = Chinese
