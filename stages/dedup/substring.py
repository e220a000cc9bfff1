"""Spans of text that occur elsewhere, byte for byte: cut, except for their best-ranked copy.

A span of at least `min_bytes` bytes that another document has (or the same one has before) is removed. Which copy stays is
decided by the epoch, then the hash of the id, then the order in the document; what stays for the sake of one span is not cut
for another, so every span that was cut is found, whole, in what is left. Seeds are held against the three best-ranked places
that have them. Spans are cut between characters.

Adds:
    dedup.substring.spans       list<int32>, byte offsets of what is cut
    text                        without it
    dedup.substring.words_left  int32, words of what is left
Reasons: substring_nothing_left.
Source: Lee et al. 2022, "Deduplicating Training Data Makes Language Models Better" (whose suffix array this finds the spans
without), and Schleimer et al. 2003 for the seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

from corpusflow import Composite, ConfigError, Stage, param
from stages.dedup._cutting import CutSpans, LeftFilter, WordsLeft
from stages.dedup._substrings import PREFIX, RepeatedSpans


@dataclass(frozen=True, kw_only=True)
class Substring(Composite):
    """Cuts spans that occur elsewhere."""

    min_bytes: int = param(
        200, doc="Least length of a span in bytes of UTF-8: some 40 English words, 66 Han characters."
    )
    within: str | None = param(None, doc="Compare only documents with the same value of this column; none: all.")
    min_words_left: int = param(1, doc="A document of which fewer words are left is dropped.")

    def __post_init__(self) -> None:
        if not 16 <= self.min_bytes <= 1 << 16:
            raise ConfigError(f"{PREFIX}.min_bytes: {self.min_bytes} is not between 16 and 65,536")

    def expand(self) -> tuple[Stage, ...]:
        return (
            RepeatedSpans(min_bytes=self.min_bytes, within=self.within),
            CutSpans(prefix=PREFIX),
            WordsLeft(prefix=PREFIX),
            LeftFilter(prefix=PREFIX, reason="substring_nothing_left", min_words=self.min_words_left),
        )


STAGE = Substring
