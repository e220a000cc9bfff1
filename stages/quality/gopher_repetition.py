"""quality.gopher_repetition: the repetition rules of Gopher (Rae et al. 2021, arXiv 2112.11446, table A1).

Reads signals of quality.signals. A duplicate is a copy of something seen earlier in the document: the first copy is none.
So each share is what removing duplicates would take away, and no document is dropped for a line it holds twice in ten
(counting all copies, as Dolma and DCLM do, would). Characters count once even where n-grams overlap, as the paper asks, so
every share lies in [0, 1]: of the characters of lines for lines and paragraphs, of the characters of words for n-grams.
Not applicable to languages without spaces between words.
"""

from __future__ import annotations

from dataclasses import dataclass

from corpusflow import Filter, Rule, param
from stages.quality._thresholds import Threshold, at_most


@dataclass(frozen=True, kw_only=True)
class GopherRepetition(Filter):
    """Keeps documents that do not repeat their lines, paragraphs or phrases."""

    max_dup_lines: Threshold = param(0.30, doc="Largest share of lines equal to an earlier line.")
    max_dup_paragraphs: Threshold = param(0.30, doc="Largest share of paragraphs equal to an earlier one.")
    max_dup_line_chars: Threshold = param(0.20, doc="Largest share of characters in lines equal to an earlier line.")
    max_dup_paragraph_chars: Threshold = param(
        0.20, doc="Largest share of characters in paragraphs equal to an earlier one."
    )
    max_top_2gram_chars: Threshold = param(0.20, doc="Largest share of characters in the most frequent 2-gram.")
    max_top_3gram_chars: Threshold = param(0.18, doc="Largest share of characters in the most frequent 3-gram.")
    max_top_4gram_chars: Threshold = param(0.16, doc="Largest share of characters in the most frequent 4-gram.")
    max_dup_5gram_chars: Threshold = param(0.15, doc="Largest share of characters in 5-grams that occurred before.")
    max_dup_6gram_chars: Threshold = param(0.14, doc="Largest share of characters in 6-grams that occurred before.")
    max_dup_7gram_chars: Threshold = param(0.13, doc="Largest share of characters in 7-grams that occurred before.")
    max_dup_8gram_chars: Threshold = param(0.12, doc="Largest share of characters in 8-grams that occurred before.")
    max_dup_9gram_chars: Threshold = param(0.11, doc="Largest share of characters in 9-grams that occurred before.")
    max_dup_10gram_chars: Threshold = param(0.10, doc="Largest share of characters in 10-grams that occurred before.")

    def rules(self) -> tuple[Rule, ...]:
        rules = [
            *at_most("repetition_dup_lines", "dup_lines", self.max_dup_lines, per="lines"),
            *at_most("repetition_dup_paragraphs", "dup_paragraphs", self.max_dup_paragraphs, per="paragraphs"),
            *at_most("repetition_dup_line_chars", "dup_line_chars", self.max_dup_line_chars, per="line_chars"),
            *at_most(
                "repetition_dup_paragraph_chars", "dup_paragraph_chars", self.max_dup_paragraph_chars, per="line_chars"
            ),
        ]
        for kind, orders in (("top", (2, 3, 4)), ("dup", (5, 6, 7, 8, 9, 10))):
            for n in orders:
                limit: Threshold = getattr(self, f"max_{kind}_{n}gram_chars")
                rules += at_most(f"repetition_{kind}_{n}gram_chars", f"{kind}_{n}gram_chars", limit, per="word_chars")
        return tuple(rules)


STAGE = GopherRepetition
