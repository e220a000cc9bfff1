"""The Exchange behind dedup.minhash: bands to edges to components to elections; see the modules of each step.

Phases: `bands` (shards -> band keys by range), `edges` (a range -> who shares a key), `known` and `settle` (with indexes of
earlier runs: who is in them), `stars_…` and `components` (edges -> clusters), `members` (their documents, brought together),
`elect` (who stays), `lists` (verdicts back to shards), `shares` and `summary` (for reports).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa

from corpusflow import Exchange, Phase, PhaseInputs, Resources, param
from stages.dedup import _bands, _clusters, _components, _known, _scale, _shards, _stars, _verdicts
from stages.dedup._members import VERDICT, Election
from stages.dedup._order import KeepOrder, parse_keep
from stages.dedup._shares import LANGUAGE, count_shares
from stages.dedup._summary import summarise
from stages.kernels.shingles import CHARACTERS, DIGITS_ALIKE
from stages.kernels.unionfind import Forest

PREFIX: Final = "dedup.minhash"
SIGNATURE: Final = f"{PREFIX}.signature"
UNITS: Final = f"{PREFIX}.units"
LENGTH: Final = f"{PREFIX}.length"


def unit_mode(unit: str, digits_alike: bool) -> int:
    """The mode of `kernels.shingles`."""
    return (CHARACTERS if unit == "characters" else 0) | (DIGITS_ALIKE if digits_alike else 0)


@dataclass(frozen=True, kw_only=True)
class NearDuplicates(Exchange):
    """Links documents by bands, and elects in each component."""

    bands: int = param(14, doc="Number of bands.")
    rows: int = param(8, doc="Permutations per band.")
    shingle: int = param(5, doc="Units per shingle.")
    unit: Literal["words", "characters"] = param("words", doc="What a shingle is made of.")
    digits_alike: bool = param(False, doc="Count every digit as 0.")
    min_similarity: float = param(0.7, doc="A document goes if it is at least this similar to one that stays.")
    verify: Literal["auto", "exact", "signature"] = param("auto", doc="What similarity is.")
    keep: tuple[str, ...] = param(("length desc", "id"), doc="Which of several similar documents stays.")
    sources: tuple[str, ...] = param((), doc="Values of `source`, best first, for source_rank in `keep`.")
    within: str | None = param(None, doc="Compare only documents with the same value of this column; none: all.")
    max_representatives: int = param(256, doc="Kept documents of a cluster that others are compared with.")
    components: Literal["memory", "files"] = param("memory", semantic=False, doc="Where components are found.")
    against: tuple[str, ...] = param((), semantic=False, doc="Folders of dedup indexes.")
    against_digests: tuple[str, ...] = param((), doc="What they hold.")

    version: ClassVar[int] = 2
    resources: ClassVar[Resources] = Resources(memory=2500 << 20)

    def _order(self) -> KeepOrder:
        return KeepOrder(parse_keep(PREFIX, self.keep, self.sources), PREFIX, self.sources)

    def _election(self) -> Election:
        return Election(
            signature=SIGNATURE,
            units=UNITS,
            length=LENGTH,
            permutations=self.bands * self.rows,
            shingle=self.shingle,
            mode=unit_mode(self.unit, self.digits_alike),
            threshold=self.min_similarity,
            limit=self.max_representatives,
        )

    def inputs(self) -> tuple[str, ...]:
        text = () if self.verify == "signature" else ("text",)
        within = () if self.within is None else (self.within,)
        return tuple(
            dict.fromkeys(
                [SIGNATURE, UNITS, LENGTH, *self._order().columns(), "url", "source", f"{LANGUAGE}?", *text, *within]
            )
        )

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {f"{PREFIX}.{f.name}": f.type for f in VERDICT}

    def phases(self) -> tuple[Phase, ...]:
        election, verification = self._election(), _clusters.Verification(self.verify)
        against = _known.Against(self.against, self.against_digests)
        earlier = against.earlier if against else None
        bands = partial(
            _bands.write_bands, signature=SIGNATURE, length=LENGTH, within=self.within, bands=self.bands, rows=self.rows
        )
        edges = partial(_bands.write_edges, bands=self.bands, earlier=earlier)
        in_files = self.components == "files"
        gather = partial(
            _clusters.gather,
            election=election,
            verification=verification,
            order=self._order(),
            settled=_known.settled if against else None,
        )
        elect = partial(_clusters.hold_elections, election=election, verification=verification)
        lists = partial(_verdicts.collect, phase="elect", and_phase="settle" if against else None)
        summary = partial(summarise, bands=self.bands, rows=self.rows, min_similarity=self.min_similarity)
        return (
            Phase("bands", bands, _shards.group_count),
            Phase("edges", edges, partial(_bands.edge_tasks, bands=self.bands, earlier=earlier)),
            *(self._known_phases(against) if against else ()),
            *(_stars.star_phases() if in_files else ()),
            Phase(
                "components",
                partial(_components.label, in_files=in_files),
                partial(_components.label_tasks, in_files=in_files),
            ),
            Phase("members", gather, _shards.group_count),
            Phase("elect", elect, partial(_clusters.tasks, election=election, verification=verification)),
            Phase("lists", lists, _shards.group_count),
            Phase("shares", count_shares, _shards.group_count),
            Phase("summary", summary, _one),
        )

    def _known_phases(self, against: _known.Against) -> tuple[Phase, ...]:
        find = partial(_known.find_signatures, against=against)
        settle = partial(
            _known.settle,
            signature=SIGNATURE,
            permutations=self.bands * self.rows,
            threshold=self.min_similarity,
        )
        return (
            Phase("known", find, partial(_known.signature_tasks, against=against)),
            Phase("settle", settle, _shards.group_count),
        )

    def costs(self, documents: float, text_bytes: float) -> Mapping[str, Any]:
        corpus = _scale.Corpus(documents, text_bytes)
        in_files = True if self.components == "files" else None
        return _scale.as_costs(_scale.minhash_costs(corpus, bands=self.bands, in_files=in_files), corpus)

    def warm(self) -> None:
        self._election().warm()
        forest = Forest(2)
        forest.union(np.array([0]), np.array([1]))
        forest.roots()

    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        for rows, found in _verdicts.joined(shard, inputs, "lists", VERDICT):
            columns = [found.column(n).combine_chunks() for n in VERDICT.names]
            columns[-1] = columns[-1].fill_null(1)
            yield pa.RecordBatch.from_arrays([rows, *columns], names=["row", *self.outputs()])


def _one(_: PhaseInputs) -> int:
    return 1
