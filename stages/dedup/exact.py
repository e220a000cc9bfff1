"""Documents with the same text: keeps one of each.

Two texts are the same if they are equal once white space is removed and letters are in lower case (each can be turned off).
Unicode forms are not touched: `clean.unicode` makes them NFC, so let it run before. The 128-bit hash is xxh3-128 of the
folded UTF-8, which anyone can recompute. A null text, or one of nothing but white space, equals no other: such documents
pass untouched.

Adds:
    dedup.exact.hash    fixed_size_binary(16), null where there is nothing to compare
    dedup.exact.content int64, hash of the text as it is: decides between documents that `keep` holds equal
    dedup.exact.length  int32, bytes of the text in UTF-8; only if `keep` names `length`
    dedup.exact.twin    id of the document kept in this one's place, null where it is kept
    dedup.exact.copies  int32, documents with this text, itself included
Reasons: exact_duplicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Composite, ConfigError, Filter, Rule, Score, Stage, param
from stages.dedup._index import check_against
from stages.dedup._keyed import KeyedDuplicates, hash_column
from stages.dedup._order import content_hashes, parse_keep, text_lengths
from stages.kernels.buffers import text_buffers
from stages.kernels.fold import DROP_SPACE, LOWER, fold

PREFIX: Final = "dedup.exact"


@dataclass(frozen=True, kw_only=True)
class ExactHash(Score):
    """Hashes the folded text."""

    ignore_case: bool = param(True, doc="Fold letters to lower case first.")
    ignore_space: bool = param(True, doc="Remove white space first.")
    length: bool = param(False, doc="Measure the text too, for a keep policy that asks for them.")

    version: ClassVar[int] = 3
    reads: ClassVar[tuple[str, ...]] = ("text",)
    libraries: ClassVar[tuple[str, ...]] = ()

    def outputs(self) -> Mapping[str, pa.DataType]:
        columns = {f"{PREFIX}.hash": pa.binary(16), f"{PREFIX}.content": pa.int64()}
        return columns | ({f"{PREFIX}.length": pa.int32()} if self.length else {})

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = batch.column("text")
        mode = (LOWER if self.ignore_case else 0) | (DROP_SPACE if self.ignore_space else 0)
        bounds, data, valid = text_buffers(text)
        folded, offsets = fold(data, bounds, mode)
        visible = np.diff(offsets if self.ignore_space else fold(data, bounds, DROP_SPACE)[1]) > 0
        columns = [hash_column(folded, offsets, valid & visible), content_hashes(text)]
        if self.length:
            columns.append(text_lengths(text))
        return pa.RecordBatch.from_arrays(columns, names=list(self.outputs()))

    def facts(self) -> Mapping[str, Any]:
        return {"ignore_case": self.ignore_case, "ignore_space": self.ignore_space}

    def warm(self) -> None:
        self.score(pa.record_batch([pa.array(["É a"], pa.large_string())], names=["text"]))


@dataclass(frozen=True, kw_only=True)
class ExactFilter(Filter):
    """Drops what another document stands for."""

    def rules(self) -> tuple[Rule, ...]:
        return (Rule("exact_duplicate", f"{PREFIX}.twin", "is null"),)


@dataclass(frozen=True, kw_only=True)
class Exact(Composite):
    """Keeps one document of each text."""

    keep: tuple[str, ...] = param(
        ("id",),
        doc="Which copy stays: columns, 'asc' or 'desc', best first; `length`, `source_rank` and `id` are known.",
    )
    sources: tuple[str, ...] = param((), doc="Values of `source`, best first, for source_rank in `keep`.")
    within: str | None = param(None, doc="Compare only documents with the same value of this column; none: all.")
    against: tuple[str, ...] = param((), doc="Folders of dedup indexes of earlier runs, whose documents win.")
    ignore_case: bool = param(True, doc="Texts that differ in case alone are the same.")
    ignore_space: bool = param(True, doc="Texts that differ in white space alone are the same.")

    def __post_init__(self) -> None:
        parse_keep(PREFIX, self.keep, self.sources)
        if self.against and self.within is not None:
            raise ConfigError(f"{PREFIX}: `against` and `within` do not go together: an index knows no scopes")

    def expand(self) -> tuple[Stage, ...]:
        length = "length" in {k.column for k in parse_keep(PREFIX, self.keep, self.sources)}
        score = ExactHash(ignore_case=self.ignore_case, ignore_space=self.ignore_space, length=length)
        return (
            score,
            KeyedDuplicates(
                prefix=PREFIX,
                keep=self.keep,
                sources=self.sources,
                within=self.within,
                against=self.against,
                against_digests=check_against(PREFIX, self.against, "exact", score.facts()),
            ),
            ExactFilter(),
        )


STAGE = Exact
