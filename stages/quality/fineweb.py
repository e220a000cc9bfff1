"""quality.fineweb: the rules FineWeb adds to Gopher's and C4's (Penedo et al. 2024, arXiv 2406.17557, section 3.6).

The thresholds are those of FineWeb's code: its text says 0.1 for duplicated lines, its code, and so the data set, 0.01.

    paper      lines stripped of white space; terminal punctuation of any script, closing quotes after it allowed; words
               separated by white space
    datatrove  as datatrove's fineweb_quality filter: lines as they are, so that a space after a full stop hides it; spaCy's
               words; shares of all characters but line feeds

Reads signals of quality.signals, or of quality.signals_datatrove; languages as for quality.gopher (quality.fineweb2 has
numbers for other languages, Chinese and Japanese among them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from corpusflow import Filter, Rule, param
from stages.quality._thresholds import ENGLISH, SPACED, Threshold, at_least, at_most, check_tables, limit

Dialect = Literal["paper", "datatrove"]
#: dialect -> what is measured -> (signal, signal it is divided by)
SIGNALS: Final[Mapping[str, Mapping[str, tuple[str, str | None]]]] = {
    "paper": {
        "lines": ("lines", None),
        "terminal_lines": ("terminal_lines", "lines"),
        "short_lines": ("short_lines", "lines"),
        "dup_line_chars": ("dup_line_chars", "line_chars"),
        "newlines": ("newlines", "words"),
    },
    "datatrove": {
        "lines": ("dt_text_lines", None),
        "terminal_lines": ("dt_terminal_lines", "dt_text_lines"),
        "short_lines": ("dt_short_lines", "dt_text_lines"),
        "dup_line_chars": ("dt_dup_text_line_chars", "dt_chars_in_lines"),
        "newlines": ("dt_newlines", "dt_words"),
    },
}


@dataclass(frozen=True, kw_only=True)
class FineWeb(Filter):
    """Keeps documents whose lines are sentences rather than menus, lists and repeated headings."""

    dialect: Dialect = param("paper", doc="Whose definitions: see the stage's description.")
    min_terminal_lines: Threshold = limit(0.12, "Smallest share of lines that end in terminal punctuation.")
    max_short_lines: Threshold = limit(0.67, "Largest share of lines of at most 30 characters.")
    max_dup_line_chars: Threshold = limit(0.01, "Largest share of characters in lines equal to an earlier line.")
    max_newlines_per_word: Threshold = limit(0.3, "Most line feeds per word.")

    def __post_init__(self) -> None:
        check_tables("quality.fineweb", self, SPACED if self.dialect == "paper" else ENGLISH)

    def rules(self) -> tuple[Rule, ...]:
        signals = SIGNALS[self.dialect]
        languages = SPACED if self.dialect == "paper" else ENGLISH
        return (
            *at_least("fineweb_empty", *signals["lines"], 1, languages),
            *at_least("fineweb_few_terminal_lines", *signals["terminal_lines"], self.min_terminal_lines, languages),
            *at_most("fineweb_short_lines", *signals["short_lines"], self.max_short_lines, languages),
            *at_most("fineweb_dup_line_chars", *signals["dup_line_chars"], self.max_dup_line_chars, languages),
            *at_most("fineweb_list", *signals["newlines"], self.max_newlines_per_word, languages),
        )


STAGE = FineWeb
