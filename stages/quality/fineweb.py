"""quality.fineweb: the rules FineWeb adds to Gopher's and C4's (Penedo et al. 2024, arXiv 2406.17557, section 3.6).

Reads signals of quality.signals. The thresholds are those of FineWeb's code: its text says 0.1 for duplicated lines, its
code, and so the data set, 0.01. Of lines stripped of white space and not blank:
    terminal punctuation of any script, closing quotes after it allowed; short means at most 30 characters
Not applicable to languages without spaces between words (quality.fineweb2 has numbers for Chinese and Japanese).
"""

from __future__ import annotations

from dataclasses import dataclass

from corpusflow import Filter, Rule, param
from stages.quality._thresholds import Threshold, at_least, at_most


@dataclass(frozen=True, kw_only=True)
class FineWeb(Filter):
    """Keeps documents whose lines are sentences rather than menus, lists and repeated headings."""

    min_terminal_lines: Threshold = param(0.12, doc="Smallest share of lines that end in terminal punctuation.")
    max_short_lines: Threshold = param(0.67, doc="Largest share of lines of at most 30 characters.")
    max_dup_line_chars: Threshold = param(0.01, doc="Largest share of characters in lines equal to an earlier line.")
    max_newlines_per_word: Threshold = param(0.3, doc="Most line feeds per word.")

    def rules(self) -> tuple[Rule, ...]:
        return (
            *at_least("fineweb_empty", "lines", 1),
            *at_least("fineweb_few_terminal_lines", "terminal_lines", self.min_terminal_lines, per="lines"),
            *at_most("fineweb_short_lines", "short_lines", self.max_short_lines, per="lines"),
            *at_most("fineweb_dup_line_chars", "dup_line_chars", self.max_dup_line_chars, per="line_chars"),
            *at_most("fineweb_list", "newlines", self.max_newlines_per_word, per="words"),
        )


STAGE = FineWeb
