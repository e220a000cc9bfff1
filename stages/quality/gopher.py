"""quality.gopher: the quality rules of Gopher (Rae et al. 2021, arXiv 2112.11446, appendix A.1.1).

Reads signals of quality.signals. Definitions are the paper's, on words separated by white space:
    symbols        `#` and ellipses (`…`, `...`), each per word
    bullets        any bullet character, or - * + – followed by a space
    stop words     how many *distinct* ones occur, case ignored; in languages other than English from a list of that language
Published implementations differ (punctuation as words, medians for means, occurrences for distinct words): see `dialect`.
Not applicable to languages without spaces between words, nor, for stop words, to languages without a list.
"""

from __future__ import annotations

from dataclasses import dataclass

from corpusflow import Filter, Rule, param
from stages.quality._thresholds import Threshold, at_least, at_most


@dataclass(frozen=True, kw_only=True)
class Gopher(Filter):
    """Keeps documents with the word counts, word lengths, symbols, lists and stop words of ordinary prose."""

    min_words: Threshold = param(50, doc="Fewest words.")
    max_words: Threshold = param(100_000, doc="Most words.")
    min_mean_word_length: Threshold = param(3.0, doc="Smallest mean word length, characters.")
    max_mean_word_length: Threshold = param(10.0, doc="Largest mean word length, characters.")
    max_hash_ratio: Threshold = param(0.1, doc="Most `#` characters per word.")
    max_ellipsis_ratio: Threshold = param(0.1, doc="Most ellipses per word.")
    max_bullet_lines: Threshold = param(0.9, doc="Largest share of lines that begin with a bullet.")
    max_ellipsis_lines: Threshold = param(0.3, doc="Largest share of lines that end with an ellipsis.")
    min_alpha_words: Threshold = param(0.8, doc="Smallest share of words with a letter.")
    min_stop_words: Threshold = param(2, doc="Fewest distinct stop words of the document's language.")

    def rules(self) -> tuple[Rule, ...]:
        return (
            *at_least("gopher_few_words", "words", self.min_words),
            *at_most("gopher_many_words", "words", self.max_words),
            *at_least("gopher_short_words", "word_chars", self.min_mean_word_length, per="words"),
            *at_most("gopher_long_words", "word_chars", self.max_mean_word_length, per="words"),
            *at_most("gopher_hashes", "hashes", self.max_hash_ratio, per="words"),
            *at_most("gopher_ellipses", "ellipses", self.max_ellipsis_ratio, per="words"),
            *at_most("gopher_bullet_lines", "bullet_lines", self.max_bullet_lines, per="lines"),
            *at_most("gopher_ellipsis_lines", "ellipsis_lines", self.max_ellipsis_lines, per="lines"),
            *at_least("gopher_few_alpha_words", "alpha_words", self.min_alpha_words, per="words"),
            *at_least("gopher_few_stop_words", "stop_words", self.min_stop_words),
        )


STAGE = Gopher
