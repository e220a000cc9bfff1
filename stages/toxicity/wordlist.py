"""toxicity.wordlist: how much of a document is made of listed words, by category, and a limit on it.

Reads `text`, `language.code` and `language.script`; adds, all int32 and null where no list applies: `toxicity.<category>`
(sum of the weights of the terms found; categories are sexual, hate, violence, profanity, gambling, spam), `toxicity.weight`
(their sum), `toxicity.hits` (terms), `toxicity.obfuscated` (of these, in disguise), `toxicity.units` (words, and characters
of scripts without spaces) and `toxicity.base` (`toxicity.units`, but at least `min_units`).

A document is judged by density: weight per 1,000 units, a document shorter than `min_units` counting as that long, so that
one coarse word in a short text is not a flood. The list of a document's language applies, and English besides wherever the
script is not Latin. Terms marked so do not count in medical or legal text. LDNOOBW's folders can be used as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Composite, Filter, Rule, Score, Stage, param, storage_for
from stages.kernels.buffers import number_column, text_buffers
from stages.kernels.wordlist import CATEGORIES, HITS, OBFUSCATED, UNITS, find_terms
from stages.language._known import OTHERS, check_table
from stages.toxicity._lists import Lexicon, load_lexicon

#: Weight per 1,000 units; calibrated on ordinary text (see the card beside the lists). Characters carry less than words.
MAX_DENSITY: Final[Mapping[str, float]] = {"zh": 20.0, "ja": 20.0, "th": 20.0, "*": 30.0}
_DOC_DENSITY: Final = (
    'Highest weight of listed terms per 1,000 words or characters: a number, or a table by language with "*".'
)
_DOC_CATEGORIES: Final = "The same for single categories, e.g. {gambling: 10}; others are limited by their sum alone."
_DOC_LISTS: Final = "Folder of word lists, built in or by path, one file a language."
_DOC_UNITS: Final = "Words or characters a shorter document counts as having."


@dataclass(frozen=True, kw_only=True)
class WordlistScore(Score):
    """Weights of listed terms in each document."""

    lists: str = param("curated", model="lists", doc=_DOC_LISTS)
    min_units: int = param(200, doc=_DOC_UNITS)

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("text", "language.code", "language.script")
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        **{f"toxicity.{category}": pa.int32() for category in CATEGORIES},
        "toxicity.weight": pa.int32(),
        "toxicity.hits": pa.int32(),
        "toxicity.obfuscated": pa.int32(),
        "toxicity.units": pa.int32(),
        "toxicity.base": pa.int32(),
    }

    def open(self) -> Lexicon:
        """The lists, compiled."""
        folder = self.lists
        if not storage_for(folder).exists(folder):
            folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lists", self.lists)
        return load_lexicon(folder)

    def warm(self) -> None:
        """Compile the kernel."""
        one = pa.array(["en"])
        self.score(pa.RecordBatch.from_arrays([pa.array(["a"], pa.large_string()), one, one], names=list(self.reads)))

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`adds` for every row."""
        lexicon: Lexicon = self.opened
        active = self._active(batch.column("language.code"), batch.column("language.script"))
        offsets, data, valid = text_buffers(batch.column("text"))
        n = batch.num_rows
        weights = np.zeros((n, len(CATEGORIES)), np.int32)
        facts = np.zeros((n, 3), np.int32)
        find_terms(
            data, offsets, valid, active, lexicon.table, lexicon.alternates, lexicon.starts, lexicon.trie, lexicon.entries,
            lexicon.entry_languages, np.empty(int(np.diff(offsets).max(initial=0)), np.uint32),
            np.empty((5, len(CATEGORIES) + 2), np.int64), weights, facts,
        )  # fmt: skip
        applies = valid & (active > 0)
        columns = [weights[:, k] for k in range(len(CATEGORIES))]
        columns += [weights.sum(axis=1, dtype=np.int32), facts[:, HITS], facts[:, OBFUSCATED], facts[:, UNITS]]
        columns.append(np.maximum(facts[:, UNITS], np.int32(self.min_units)))
        return pa.RecordBatch.from_arrays([number_column(c, applies) for c in columns], names=list(self.adds))

    def _active(self, code: pa.Array, script: pa.Array) -> np.ndarray:
        """uint64 (n,): bit k where list k applies to the row."""
        languages = self.opened.languages
        english = np.uint64(1 << languages.index("en")) if "en" in languages else np.uint64(0)
        own = pc.index_in(code, value_set=pa.array(languages, code.type)).fill_null(-1).to_numpy(zero_copy_only=False)
        bits = np.where(own >= 0, np.uint64(1) << np.maximum(own, 0).astype(np.uint64), np.uint64(0))
        foreign = pc.not_equal(script, pa.scalar("Latn", script.type)).fill_null(False).to_numpy(zero_copy_only=False)
        return np.where(foreign, bits | english, bits)


@dataclass(frozen=True, kw_only=True)
class WordlistFilter(Filter):
    """Drops documents that are dense with listed terms."""

    max_density: float | Mapping[str, float] = param(factory=lambda: dict(MAX_DENSITY), doc=_DOC_DENSITY)
    max_category_density: Mapping[str, float] = param(factory=dict, doc=_DOC_CATEGORIES)

    def __post_init__(self) -> None:
        if isinstance(self.max_density, Mapping):
            others = MAX_DENSITY[OTHERS]
            check_table("toxicity.wordlist.max_density", self.max_density, None, others, "1000000")

    def rules(self) -> tuple[Rule, ...]:
        """toxicity_<category> for the categories given, then toxicity_density."""
        rules = [
            Rule(f"toxicity_{category}", f"toxicity.{category}", "<=", limit / 1000, per="toxicity.base")
            for category, limit in self.max_category_density.items()
        ]
        if isinstance(self.max_density, Mapping):
            table = {language: limit / 1000 for language, limit in self.max_density.items()}
            by = "language.code"
            rules.append(Rule("toxicity_density", "toxicity.weight", "<=", table, per="toxicity.base", by=by))
        else:
            rules.append(
                Rule("toxicity_density", "toxicity.weight", "<=", self.max_density / 1000, per="toxicity.base")
            )
        return tuple(rules)


@dataclass(frozen=True, kw_only=True)
class Wordlist(Composite):
    """Weighted density of listed terms, whole words where the script has words."""

    lists: str = param("curated", model="lists", doc=_DOC_LISTS)
    max_density: float | Mapping[str, float] = param(factory=lambda: dict(MAX_DENSITY), doc=_DOC_DENSITY)
    max_category_density: Mapping[str, float] = param(factory=dict, doc=_DOC_CATEGORIES)
    min_units: int = param(200, doc=_DOC_UNITS)
    gate: bool = param(False, semantic=False, doc="Measure and store nothing more of what is dropped.")

    def expand(self) -> tuple[Stage, ...]:
        """The Score and the Filter."""
        return (
            WordlistScore(lists=self.lists, min_units=self.min_units),
            WordlistFilter(
                gate=self.gate, max_density=self.max_density, max_category_density=self.max_category_density
            ),
        )

    @staticmethod
    def evaluate(*, data: Sequence[str], lists: str = "curated", min_units: int = 200) -> Mapping[str, Any]:
        """Measure word lists on texts, labelled or ordinary.

        Args:
            data: JSONL files (.gz too) with `text` and optionally `toxic` (without it a text is ordinary) and `lang` (without
                it the language is identified).
            lists: folder of word lists, built in or by path.
            min_units: words or characters a shorter text counts as having.
        """
        from stages.toxicity import _measure, _train

        rows = list(_train.read_rows(data))
        batch = _measure.with_languages(rows)
        signals = WordlistScore(lists=lists, min_units=min_units).score(batch)
        return _measure.wordlist_report(rows, batch.column("language.code").to_pylist(), signals, MAX_DENSITY)


STAGE = Wordlist
