"""quality.gopher_repetition: the repetition rules of Gopher (Rae et al. 2021, arXiv 2112.11446, table A1).

Thresholds are the paper's; what counts as repeated depends on the dialect:

    paper      what equals something earlier in the document: the first copy is no duplicate, so each share is what removing
               duplicates would take away. Characters count once even where n-grams overlap, as the paper asks; shares are
               of the characters of lines, for n-grams of words: all lie in [0, 1]
    datatrove  as datatrove's gopher_repetition filter (FineWeb): also from the second copy on, but shares are of all
               characters, spaces included, in spaCy's words; top n-grams count overlaps
    dclm       as DCLM: *all* copies count, the first included, in words of UAX #29
    dolma      as Dolma's gopher_v1: all copies count, blank lines too; overlaps count on both sides; no paragraphs
    redpajama  on RedPajama-V2's signals: all copies count, in normalised words; no lines, no paragraphs

Ten lines with two that come twice: 0.2 duplicate lines in the first two dialects (kept), 0.4 in the others (dropped).
Reads signals of quality.signals, or of quality.signals_<dialect>; languages as for quality.gopher.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from corpusflow import Filter, Rule, param
from stages.quality._thresholds import ENGLISH, SPACED, Threshold, at_most, check_tables, limit

Dialect = Literal["paper", "datatrove", "dclm", "dolma", "redpajama"]
#: dialect -> what is measured -> (signal, signal it is divided by); {n} is the order of the n-gram
SIGNALS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "paper": {
        "dup_paragraphs": ("dup_paragraphs", "paragraphs"),
        "dup_paragraph_chars": ("dup_paragraph_chars", "line_chars"),
        "dup_lines": ("dup_lines", "lines"),
        "dup_line_chars": ("dup_line_chars", "line_chars"),
        "top": ("top_{n}gram_chars", "word_chars"),
        "dup": ("dup_{n}gram_chars", "word_chars"),
    },
    "datatrove": {
        "dup_paragraphs": ("dt_dup_paragraphs", "dt_paragraphs"),
        "dup_paragraph_chars": ("dt_dup_paragraph_chars", "dt_chars"),
        "dup_lines": ("dt_dup_lines", "dt_lines"),
        "dup_line_chars": ("dt_dup_line_chars", "dt_chars"),
        "top": ("dt_top_{n}gram_chars", "dt_chars"),
        "dup": ("dt_dup_{n}gram_chars", "dt_chars"),
    },
    "dclm": {
        "dup_paragraphs": ("dclm_dup_paragraphs", "dclm_paragraphs"),
        "dup_paragraph_chars": ("dclm_dup_paragraph_chars", "dclm_paragraph_chars"),
        "dup_lines": ("dclm_dup_lines", "dclm_lines"),
        "dup_line_chars": ("dclm_dup_line_chars", "dclm_line_chars"),
        "top": ("dclm_top_{n}gram_chars", "dclm_uniseg_word_chars"),
        "dup": ("dclm_dup_{n}gram_chars", "dclm_uniseg_word_chars"),
    },
    "dolma": {
        "dup_lines": ("dolma_dup_lines", "dolma_lines"),
        "dup_line_chars": ("dolma_dup_line_chars", "dolma_word_chars"),
        "top": ("dolma_top_{n}gram_chars", "dolma_word_chars"),
        "dup": ("dolma_dup_{n}gram_chars", "dolma_all_{n}gram_chars"),
    },
    "redpajama": {
        "top": ("rp_top_{n}gram_chars", "rp_word_chars"),
        "dup": ("rp_dup_{n}gram_chars", "rp_word_chars"),
    },
}
#: The order in which a dialect tries its first rules; it decides which reason a document is dropped for.
_SEGMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "paper": ("dup_lines", "dup_paragraphs", "dup_line_chars", "dup_paragraph_chars"),
    "datatrove": ("dup_paragraphs", "dup_paragraph_chars", "dup_lines", "dup_line_chars"),
    "dclm": ("dup_lines", "dup_paragraphs", "dup_line_chars", "dup_paragraph_chars"),
    "dolma": ("dup_lines", "dup_line_chars"),
    "redpajama": (),
}


@dataclass(frozen=True, kw_only=True)
class GopherRepetition(Filter):
    """Keeps documents that do not repeat their lines, paragraphs or phrases."""

    dialect: Dialect = param("paper", doc="Whose definitions: see the stage's description.")
    max_dup_lines: Threshold = limit(0.30, "Largest share of repeated lines.")
    max_dup_paragraphs: Threshold = limit(0.30, "Largest share of repeated paragraphs.")
    max_dup_line_chars: Threshold = limit(0.20, "Largest share of characters in repeated lines.")
    max_dup_paragraph_chars: Threshold = limit(0.20, "Largest share of characters in repeated paragraphs.")
    max_top_2gram_chars: Threshold = limit(0.20, "Largest share of characters in the most frequent 2-gram.")
    max_top_3gram_chars: Threshold = limit(0.18, "Largest share of characters in the most frequent 3-gram.")
    max_top_4gram_chars: Threshold = limit(0.16, "Largest share of characters in the most frequent 4-gram.")
    max_dup_5gram_chars: Threshold = limit(0.15, "Largest share of characters in repeated 5-grams.")
    max_dup_6gram_chars: Threshold = limit(0.14, "Largest share of characters in repeated 6-grams.")
    max_dup_7gram_chars: Threshold = limit(0.13, "Largest share of characters in repeated 7-grams.")
    max_dup_8gram_chars: Threshold = limit(0.12, "Largest share of characters in repeated 8-grams.")
    max_dup_9gram_chars: Threshold = limit(0.11, "Largest share of characters in repeated 9-grams.")
    max_dup_10gram_chars: Threshold = limit(0.10, "Largest share of characters in repeated 10-grams.")

    def __post_init__(self) -> None:
        check_tables("quality.gopher_repetition", self, SPACED if self.dialect == "paper" else ENGLISH)

    def rules(self) -> tuple[Rule, ...]:
        signals = SIGNALS[self.dialect]
        languages = SPACED if self.dialect == "paper" else ENGLISH
        rules: list[Rule] = []
        for what in _SEGMENTS[self.dialect]:
            rules += at_most("repetition_" + what, *signals[what], getattr(self, "max_" + what), languages)
        for kind, orders in (("top", (2, 3, 4)), ("dup", (5, 6, 7, 8, 9, 10))):
            column, per = signals[kind]
            for n in orders:
                most: Threshold = getattr(self, f"max_{kind}_{n}gram_chars")
                reason = f"repetition_{kind}_{n}gram_chars"
                rules += at_most(reason, column.format(n=n), per.format(n=n), most, languages)
        return tuple(rules)


STAGE = GopherRepetition
