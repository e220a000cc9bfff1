"""quality.gopher: the quality rules of Gopher (Rae et al. 2021, arXiv 2112.11446, appendix A.1.1).

Thresholds are the paper's. What is counted depends on the dialect, because the paper leaves it open and every published
implementation decided otherwise:

    paper      words separated by white space; mean word length; `#`, and `…` or `...`, each per word; lines begin with any
               bullet character, or with - * + – and a space; *distinct* stop words, case ignored, in languages other than
               English from a list of that language
    datatrove  as datatrove's gopher_quality filter (FineWeb): spaCy's words, punctuation marks among them; bullets • -;
               distinct stop words in lower case
    dclm       as DCLM: only words that begin with a letter or number count as words, all do for the rest; all symbols
               together; stop words count each time
    dolma      as Dolma's gopher_v1: *median* word length; words with `#` or `…`; stop words in lower case, each time
    redpajama  on RedPajama-V2's signals: normalised words for count and length, raw ones for the rest; letters a-z only; no
               rule on stop words

Reads signals of quality.signals, or of quality.signals_<dialect>. `paper` is not applicable to languages without spaces
between words, nor its stop words to languages without a list; the other dialects are for English unless a table of
thresholds says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from corpusflow import Filter, Rule, param
from stages.quality._thresholds import ENGLISH, SPACED, Threshold, at_least, at_most, check_tables, limit

Dialect = Literal["paper", "datatrove", "dclm", "dolma", "redpajama"]
#: dialect -> what is measured -> (signal, signal it is divided by)
SIGNALS: Final[Mapping[str, Mapping[str, tuple[str, str | None]]]] = {
    "paper": {
        "words": ("words", None),
        "word_length": ("word_chars", "words"),
        "hashes": ("hashes", "words"),
        "ellipses": ("ellipses", "words"),
        "bullet_lines": ("bullet_lines", "lines"),
        "ellipsis_lines": ("ellipsis_lines", "lines"),
        "alpha_words": ("alpha_words", "words"),
        "stop_words": ("stop_words", None),
    },
    "datatrove": {
        "words": ("dt_text_words", None),
        "word_length": ("dt_text_word_chars", "dt_text_words"),
        "hashes": ("dt_hashes", "dt_words"),
        "ellipses": ("dt_ellipses", "dt_words"),
        "bullet_lines": ("dt_bullet_lines", "dt_split_lines"),
        "ellipsis_lines": ("dt_ellipsis_lines", "dt_split_lines"),
        "alpha_words": ("dt_alpha_words", "dt_words"),
        "stop_words": ("dt_stop_words", None),
    },
    "dclm": {
        "words": ("dclm_words", None),
        "word_length": ("dclm_split_word_chars", "dclm_split_words"),
        "symbols": ("dclm_symbols", "dclm_split_words"),
        "bullet_lines": ("dclm_bullet_lines", "dclm_lines"),
        "ellipsis_lines": ("dclm_ellipsis_lines", "dclm_lines"),
        "alpha_words": ("dclm_alpha_words", "dclm_split_words"),
        "stop_words": ("dclm_stop_words", None),
    },
    "dolma": {
        "words": ("dolma_words", None),
        "word_length": ("dolma_median_word_length", None),
        "symbols": ("dolma_symbol_words", "dolma_words"),
        "bullet_lines": ("dolma_bullet_lines", "dolma_lines"),
        "ellipsis_lines": ("dolma_ellipsis_lines", "dolma_lines"),
        "alpha_words": ("dolma_alpha_words", "dolma_words"),
        "stop_words": ("dolma_stop_words", None),
    },
    "redpajama": {
        "words": ("rp_words", None),
        "word_length": ("rp_word_chars", "rp_words"),
        "symbols": ("rp_symbols", "rp_raw_words"),
        "bullet_lines": ("rp_bullet_lines", "rp_lines"),
        "ellipsis_lines": ("rp_ellipsis_lines", "rp_lines"),
        "alpha_words": ("rp_alpha_raw_words", "rp_raw_words"),
    },
}


@dataclass(frozen=True, kw_only=True)
class Gopher(Filter):
    """Keeps documents with the word counts, word lengths, symbols, lists and stop words of ordinary prose."""

    dialect: Dialect = param("paper", doc="Whose definitions: see the stage's description.")
    min_words: Threshold = limit(50, "Fewest words.")
    max_words: Threshold = limit(100_000, "Most words.")
    min_word_length: Threshold = limit(3.0, "Smallest mean (dolma: median) word length, characters.")
    max_word_length: Threshold = limit(10.0, "Largest mean (dolma: median) word length, characters.")
    max_symbol_ratio: Threshold = limit(0.1, "Most `#` characters, and most ellipses, per word.")
    max_bullet_lines: Threshold = limit(0.9, "Largest share of lines that begin with a bullet.")
    max_ellipsis_lines: Threshold = limit(0.3, "Largest share of lines that end with an ellipsis.")
    min_alpha_words: Threshold = limit(0.8, "Smallest share of words with a letter.")
    min_stop_words: Threshold = limit(2, "Fewest stop words of the document's language.")

    def __post_init__(self) -> None:
        check_tables("quality.gopher", self, SPACED if self.dialect == "paper" else ENGLISH)

    def rules(self) -> tuple[Rule, ...]:
        signals = SIGNALS[self.dialect]
        languages = SPACED if self.dialect == "paper" else ENGLISH

        def low(reason: str, what: str, value: Threshold) -> list[Rule]:
            return at_least("gopher_" + reason, *signals[what], value, languages) if what in signals else []

        def high(reason: str, what: str, value: Threshold) -> list[Rule]:
            return at_most("gopher_" + reason, *signals[what], value, languages) if what in signals else []

        return (
            *low("few_words", "words", self.min_words),
            *high("many_words", "words", self.max_words),
            *low("short_words", "word_length", self.min_word_length),
            *high("long_words", "word_length", self.max_word_length),
            *high("hashes", "hashes", self.max_symbol_ratio),
            *high("ellipses", "ellipses", self.max_symbol_ratio),
            *high("symbols", "symbols", self.max_symbol_ratio),
            *high("bullet_lines", "bullet_lines", self.max_bullet_lines),
            *high("ellipsis_lines", "ellipsis_lines", self.max_ellipsis_lines),
            *low("few_alpha_words", "alpha_words", self.min_alpha_words),
            *low("few_stop_words", "stop_words", self.min_stop_words),
        )


STAGE = Gopher
