"""quality.c4: the cleaning of C4 (Raffel et al. 2020, arXiv 1910.10683, section 2.2): removes lines, drops pages.

A Score counts what the removal would leave, a Filter decides on that, and a Transform rewrites the text of those that stay:
so a page is judged by what is left of it, and what is dropped costs no rewriting. Reads and writes `text`; adds the
signals `quality.c4_*` (stages/kernels/c4.py).

Paper and published code disagree, so there are dialects:
    paper      lines of 3 words, pages of 5 sentences; a line may end in the terminal punctuation of any script or in a
               closing quotation mark, curly ones included
    code       lines of 5 words, pages of 3 sentences; a line ends in . ? ! or "
    datatrove  as datatrove's c4_quality filter (FineWeb): the paper's numbers; a line ends in . ? ! " or '; a citation that
               stands by itself is a word of its line; sentences as spaCy's rules cut them
Sentences are counted by punctuation (stages/kernels/sentences.py) in the first two. Pages with bad words are left to
toxicity.wordlist.
Documents in languages without spaces between words are left as they are and the rules are not applicable to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa

from corpusflow import Composite, Filter, Rule, Score, Stage, Transform, param
from stages.kernels import affix_sentences, c4
from stages.kernels.buffers import TextBuffers, number_column, text_buffers
from stages.kernels.words import WHITESPACE, word_units
from stages.quality._thresholds import PREFIX, SPACED, Threshold, at_least, at_most, check_tables, limit

Dialect = Literal["paper", "code", "datatrove"]
#: dialect -> (words a line, sentences a page, end marks)
DIALECTS: Final[Mapping[str, tuple[int, int, int]]] = {
    "paper": (3, 5, c4.ANY_SCRIPT),
    "code": (5, 3, c4.CODE),
    "datatrove": (3, 5, c4.DATATROVE),
}
_INPUTS: Final = ("text", "language.code")


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """Parameters of the line removal, shared by the Score and the Transform."""

    dialect: Dialect = param("paper", doc="Whose numbers and end marks: see the stage's description.")
    min_words_per_line: int | None = param(None, doc="Fewest words of a line; null: the dialect's.")
    max_word_length: int = param(1000, doc="A line with a longer word goes, characters.")
    require_terminal: bool = param(True, doc="Remove lines that end in no terminal mark (FineWeb does not).")
    remove_citations: bool = param(True, doc="Cut [12], [edit] and [citation needed] out of lines.")
    remove_javascript: bool = param(True, doc="Remove lines that mention javascript.")
    remove_policy: bool = param(True, doc="Remove lines about cookies, privacy policies and terms of use.")

    def line_rules(self) -> c4.LineRules:
        """The parameters as kernels take them."""
        words, _, end_marks = DIALECTS[self.dialect]
        return c4.LineRules(
            words if self.min_words_per_line is None else self.min_words_per_line,
            self.dialect == "datatrove",
            self.max_word_length,
            end_marks if self.require_terminal else -1,
            self.remove_citations,
            self.remove_javascript,
            self.remove_policy,
        )


def _clean(batch: pa.RecordBatch, rules: c4.LineRules) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(whether each document was cleaned, offsets, data, counts)."""
    text = text_buffers(batch.column("text"))
    applied = text.valid & (word_units(batch.column("language.code")) == WHITESPACE)
    return applied, *c4.clean_lines(text, applied, rules)


@dataclass(frozen=True, kw_only=True)
class C4Counts(_Lines, Score):
    """Lines and sentences that C4's line removal would leave, and what it would remove, by reason."""

    version: ClassVar[int] = 3
    reads: ClassVar[tuple[str, ...]] = _INPUTS
    adds: ClassVar[Mapping[str, pa.DataType]] = {PREFIX + name: pa.int32() for name in c4.COUNTED}

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        applied, offsets, data, counts = _clean(batch, self.line_rules())
        if self.dialect == "datatrove":
            for view in (offsets, data):
                view.flags.writeable = False
            cleaned = TextBuffers(offsets, data, applied)
            counts[c4.SENTENCES] = affix_sentences.count_sentences(cleaned, applied)
        return pa.RecordBatch.from_pydict(
            {PREFIX + name: number_column(counts[i], applied) for i, name in enumerate(c4.COUNTED)}
        )

    def warm(self) -> None:
        self.score(_example())


@dataclass(frozen=True, kw_only=True)
class C4Lines(_Lines, Transform):
    """Removes lines that are not running text."""

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = _INPUTS
    adds: ClassVar[Mapping[str, pa.DataType]] = {"text": pa.large_string()}

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        column = batch.column("text")
        _, offsets, data, _ = _clean(batch, self.line_rules())
        nulls = None if column.null_count == 0 else pa.array(column.is_valid()).buffers()[1]
        cleaned = pa.Array.from_buffers(
            pa.large_string(), len(column), [nulls, pa.py_buffer(offsets), pa.py_buffer(data[: offsets[-1]])]
        )
        return pa.RecordBatch.from_arrays([cleaned], names=["text"])

    def warm(self) -> None:
        self.transform(_example())


@dataclass(frozen=True, kw_only=True)
class C4Pages(Filter):
    """Keeps pages with enough sentences, without placeholder text or code."""

    dialect: Dialect = param("paper", doc="Whose number of sentences: see the stage's description.")
    min_sentences: Threshold = limit(
        None, "Fewest sentences in the lines that stay; null without a table: the dialect's."
    )
    max_lorem_ipsum_lines: Threshold = limit(0, "Most lines with lorem ipsum.")
    max_curly_bracket_lines: Threshold = limit(0, "Most lines with a curly bracket.")

    def __post_init__(self) -> None:
        check_tables("quality.c4", self, SPACED, {"min_sentences": DIALECTS[self.dialect][1]})

    def rules(self) -> tuple[Rule, ...]:
        sentences = DIALECTS[self.dialect][1] if self.min_sentences is None else self.min_sentences
        return (
            *at_most("c4_lorem_ipsum", "c4_lorem_ipsum_lines", None, self.max_lorem_ipsum_lines),
            *at_most("c4_curly_bracket", "c4_curly_bracket_lines", None, self.max_curly_bracket_lines),
            *at_least("c4_few_sentences", "c4_sentences", None, sentences),
        )


@dataclass(frozen=True, kw_only=True)
class C4(_Lines, Composite):
    """C4's heuristics: removes lines that are not running text, drops pages with too little of it left."""

    min_sentences: Threshold = limit(
        None, "Fewest sentences in the lines that stay; null without a table: the dialect's."
    )
    max_lorem_ipsum_lines: Threshold = limit(0, "Most lines with lorem ipsum.")
    max_curly_bracket_lines: Threshold = limit(0, "Most lines with a curly bracket.")

    def expand(self) -> tuple[Stage, ...]:
        lines: dict[str, Any] = {name: getattr(self, name) for name in _Lines.__dataclass_fields__}
        pages = C4Pages(
            dialect=self.dialect,
            min_sentences=self.min_sentences,
            max_lorem_ipsum_lines=self.max_lorem_ipsum_lines,
            max_curly_bracket_lines=self.max_curly_bracket_lines,
        )
        return C4Counts(**lines), pages, C4Lines(**lines)


def _example() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"text": pa.array(["It rained all day.\nHome"], pa.large_string()), "language.code": pa.array(["en"])}
    )


STAGE = C4
