"""quality.signals: everything the default rule sets threshold, measured in one visit to each document.

Reads `text` and `language.code`, adds the signals of `SIGNALS`: integer counts (rules divide them). A signal is null where
the text is null; word signals are null too where the language has no word unit (`und`, codes nobody has declared). Words
are what white space separates in languages that put spaces between words; in Chinese and Japanese every ideograph and every
hiragana character is one, in Thai, Lao, Khmer, Burmese and Tibetan every letter with its marks (stages/kernels/words.py).
Rule sets made for words do not apply to the latter. Each definition is stated once, in `SIGNALS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import QUARANTINE, Score
from stages.kernels import signals
from stages.kernels.buffers import number_column, text_buffers
from stages.kernels.stop_words import language_numbers
from stages.kernels.words import NONE, word_units
from stages.quality._stop_words import stop_words

PREFIX: Final = "quality."
#: Definitions of all signals but `word_entropy`, which is float32; the counts are int32.
SIGNALS: Final[Mapping[str, str]] = {
    "chars": "characters (code points), white space included",
    "spaces": "white-space characters, line ends included",
    "newlines": "line feeds",
    "letters": "alphabetic characters of any script (L*)",
    "upper_chars": "upper-case letters",
    "digits": "decimal digits of any script",
    "punctuation": "punctuation characters (P*)",
    "symbols": "symbol characters (S*)",
    "han_chars": "Chinese characters",
    "kana_chars": "hiragana and katakana",
    "hangul_chars": "Hangul",
    "unspaced_chars": "characters of Thai, Lao, Khmer, Burmese, Tibetan and their like",
    "garbage_chars": "control, private-use and unassigned characters and U+FFFD: what broken decoding leaves behind",
    "hashes": "`#` characters",
    "ellipses": "`…` characters and non-overlapping `...`",
    "curly_brackets": "`{` characters",
    "lines": "lines that are not blank; white space at their ends is never looked at",
    "line_chars": "characters of those lines, white space at their ends left out",
    "longest_line": "characters of the longest line",
    "short_lines": "lines of at most 30 characters (FineWeb)",
    "bullet_lines": "lines that begin with a bullet, or with - * + – and white space",
    "ellipsis_lines": "lines that end with `...` or `…`",
    "terminal_lines": "lines that end in terminal punctuation of any script, closing quotes and brackets after it allowed",
    "dup_lines": "lines equal to an earlier line",
    "dup_line_chars": "characters of lines equal to an earlier line",
    "paragraphs": "runs of lines without a blank line between them",
    "dup_paragraphs": "paragraphs equal to an earlier one",
    "dup_paragraph_chars": "characters (of lines) of paragraphs equal to an earlier one",
    "javascript_lines": "lines with `javascript`, case ignored",
    "policy_lines": "lines with terms of use, privacy policy, cookie policy, use(s) (of) cookies, case ignored",
    "lorem_ipsum_lines": "lines with `lorem ipsum`, case ignored",
    "code_lines": "lines that end in ; { or }, or begin with // or /*",
    "sentences": "sentences ended by terminal punctuation (stages/kernels/sentences.py)",
    "cut_sentences": "pieces of text that a line end cuts off without terminal punctuation",
    "words": "words, in the language's unit",
    "word_chars": "characters of all words",
    "alpha_words": "words with at least one letter",
    "upper_words": "words of two characters or more with an upper-case letter and no lower-case one",
    "unique_words": "distinct words, case counts",
    "top_2gram_chars": "characters inside the most frequent 2-gram of words; 0 if none occurs twice; overlaps count once",
    "top_3gram_chars": "characters inside the most frequent 3-gram",
    "top_4gram_chars": "characters inside the most frequent 4-gram",
    "dup_5gram_chars": "characters inside 5-grams of words that occurred before in the document; overlaps count once",
    "dup_6gram_chars": "characters inside repeated 6-grams",
    "dup_7gram_chars": "characters inside repeated 7-grams",
    "dup_8gram_chars": "characters inside repeated 8-grams",
    "dup_9gram_chars": "characters inside repeated 9-grams",
    "dup_10gram_chars": "characters inside repeated 10-grams",
    "stop_words": "distinct words of the language's stop-word list, case ignored; null for languages without a list",
    "stop_word_hits": "occurrences of words of the language's stop-word list, case ignored; null without a list",
}
ENTROPY: Final = "word_entropy"
#: Counts are int32: a larger document is quarantined. No page is: crawlers cut at megabytes.
MAX_BYTES: Final = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class Signals(Score):
    """Counts of characters, words, lines, sentences and repetition, for thresholds of any kind."""

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("text", "language.code")
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        **{PREFIX + name: pa.int32() for name in SIGNALS},
        PREFIX + ENTROPY: pa.float32(),
    }

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text, languages = text_buffers(batch.column("text")), batch.column("language.code")
        too_long = np.diff(text.offsets) > MAX_BYTES
        valid = text.valid & ~too_long
        units, stop = word_units(languages), stop_words()
        numbers = language_numbers(languages, stop)
        counts, entropy = signals.measure(text._replace(valid=valid), units, numbers, stop)
        has_words = valid & (units != NONE)
        applicable = dict.fromkeys(signals.TEXT_COUNTED, valid)
        applicable |= dict.fromkeys(signals.WORDS_COUNTED, has_words)
        applicable |= dict.fromkeys(signals.STOP_WORDS_COUNTED, has_words & (numbers >= 0))
        columns = {PREFIX + name: number_column(counts[i], applicable[name]) for i, name in enumerate(signals.COUNTED)}
        columns[PREFIX + ENTROPY] = number_column(entropy, has_words)
        if too_long.any():
            columns[QUARANTINE] = pa.array(["text_over_2_gib" if t else None for t in too_long], pa.string())
        return pa.RecordBatch.from_pydict(columns)

    def warm(self) -> None:
        self.score(
            pa.RecordBatch.from_pydict(
                {"text": pa.array(["To be, and to be."], pa.large_string()), "language.code": pa.array(["en"])}
            )
        )


STAGE = Signals
