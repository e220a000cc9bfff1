"""Lines, or paragraphs, that other documents have, too: cut from the text, except for one copy or for all.

Two lines are the same if they have the same words in the same order, whatever the case, punctuation and spacing (a Han or
kana character counts as a word). With ``keep: first`` the copy of one document stays, as in CCNet and C4; with ``keep:
none`` and a `max_documents` of 10, say, what is left of a page is what is its own. ``within: site`` counts per host of the
address: a site's navigation goes, a quotation that many sites have stays.

Adds:
    dedup.lines.spans       list<int32>, byte offsets of what is cut
    text                    without it
    dedup.lines.words_left  int32, words of what is left
Reasons: lines_nothing_left.
Source: CCNet (Wenzek et al. 2020), 3.1: paragraphs, digits as 0; C4 (Raffel et al. 2020): lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from corpusflow import Composite, ConfigError, Stage, param
from stages.dedup._cutting import CutSpans, LeftFilter, WordsLeft
from stages.dedup._pieces import PREFIX, RepeatedPieces


@dataclass(frozen=True, kw_only=True)
class Lines(Composite):
    """Cuts lines that other documents have."""

    unit: Literal["lines", "paragraphs"] = param("lines", doc="Lines, or paragraphs (separated by blank lines).")
    max_documents: int = param(1, doc="Documents that may have a line before it is cut.")
    keep: Literal["first", "none"] = param("first", doc="Whether one document keeps its copy, or none does.")
    min_words: int = param(5, doc="Lines with fewer words are left alone.")
    digits_alike: bool = param(True, doc="Count every digit as 0: `Page 3 of 10` is `Page 4 of 10`.")
    within: str | None = param(
        None, doc="Count only documents with the same value of this column, or of the same host (`site`); none: all."
    )
    min_words_left: int = param(1, doc="A document of which fewer words are left is dropped.")

    def __post_init__(self) -> None:
        if self.max_documents < 1 or self.min_words < 1:
            raise ConfigError(f"{PREFIX}: max_documents and min_words are at least 1")

    def expand(self) -> tuple[Stage, ...]:
        pieces = RepeatedPieces(
            unit=self.unit,
            max_documents=self.max_documents,
            keep=self.keep,
            min_words=self.min_words,
            digits_alike=self.digits_alike,
            within=self.within,
        )
        left = LeftFilter(prefix=PREFIX, reason="lines_nothing_left", min_words=self.min_words_left)
        return pieces, CutSpans(prefix=PREFIX), WordsLeft(prefix=PREFIX), left


STAGE = Lines
