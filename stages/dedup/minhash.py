"""Near-duplicates: MinHash finds candidates, and a document goes only if one that stays is similar enough.

Signatures of word (or character) n-grams are cut into bands; documents that share a band are linked; inside each connected
component documents are taken best first by the keep policy and held against those kept so far. Removal is verified and
never transitive, and every one has its twin and similarity on record. Documents without a letter or digit are compared
with nothing and pass untouched; those too short for one n-gram go only if they equal another unit for unit.

Adds:
    dedup.minhash.signature     fixed_size_binary: bands x rows minima, little-endian; null where there is no shingle
    dedup.minhash.units         int32, words (or characters) counted
    dedup.minhash.content       int64, hash of the text: decides between documents that `keep` holds equal
    dedup.minhash.length        int32, bytes of the text in UTF-8
    dedup.minhash.twin          id of the document kept in this one's place, null where it is kept
    dedup.minhash.similarity    float32, to its twin
    dedup.minhash.cluster       int64, names the connected component; null outside any
    dedup.minhash.cluster_size  int32, documents in it, itself included
Reasons: near_duplicate.
Source: Broder (1997); the 14 x 8 bands over word 5-grams are FineWeb's (Penedo et al. 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from corpusflow import Composite, ConfigError, Filter, Rule, Score, Stage, param
from stages.dedup._index import check_against
from stages.dedup._near import LENGTH, PREFIX, SIGNATURE, UNITS, NearDuplicates, unit_mode
from stages.dedup._order import content_hashes, parse_keep, text_lengths
from stages.dedup._settings import Settings, settings
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import permutations, signatures
from stages.kernels.shingle_text import sha1_signature, shingles


@dataclass(frozen=True, kw_only=True)
class MinHashSignature(Score):
    """Measures the signature."""

    bands: int = param(14, doc="Number of bands.")
    rows: int = param(8, doc="Permutations per band.")
    shingle: int = param(5, doc="Units per shingle.")
    unit: Literal["words", "characters"] = param("words", doc="What a shingle is made of.")
    digits_alike: bool = param(False, doc="Count every digit as 0.")
    family: Literal["native", "datasketch", "datasketch_legacy"] = param("native", doc="How shingles are hashed.")
    hash_seed: int = param(1, doc="Picks the permutations.")
    bits: Literal[16, 32] = param(16, doc="Bits stored of each minimum.")

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text",)

    def outputs(self) -> Mapping[str, pa.DataType]:
        width = self.bands * self.rows * self.bits // 8
        return {
            SIGNATURE: pa.binary(width),
            UNITS: pa.int32(),
            LENGTH: pa.int32(),
            f"{PREFIX}.content": pa.int64(),
        }

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = batch.column("text")
        offsets, data, valid = text_buffers(text)
        count = self.bands * self.rows
        mode = unit_mode(self.unit, self.digits_alike)
        # the kernel counts units in any family
        family = permutations(count if self.family == "native" else 1, self.hash_seed)
        minima, units = signatures(data, offsets, self.shingle, mode, *family)
        if self.family != "native":
            minima = self._sha1(text, mode)
        stored = np.ascontiguousarray(minima.astype({16: "<u2", 32: "<u4"}[self.bits]))
        kind = self.outputs()[SIGNATURE]
        bitmap = pa.py_buffer(np.packbits(valid & (units > 0), bitorder="little"))
        columns = [
            pa.FixedSizeBinaryArray.from_buffers(kind, len(text), [bitmap, pa.py_buffer(stored)]),
            pa.array(units.astype(np.int32), mask=~valid),
            text_lengths(text),
            content_hashes(text),
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(self.outputs()))

    def _sha1(self, text: pa.Array, mode: int) -> np.ndarray:
        """Minima in one of datasketch's own families: uint32 (n, permutations)."""
        out = np.full((len(text), self.bands * self.rows), 0xFFFFFFFF, np.uint32)
        for i, value in enumerate(text.to_pylist()):
            found = shingles(value or "", self.shingle, mode)
            if found:
                legacy = self.family == "datasketch_legacy"
                out[i] = sha1_signature(found, out.shape[1], self.hash_seed, legacy=legacy)
        return out

    def facts(self) -> Mapping[str, Any]:
        names = ("bands", "rows", "shingle", "unit", "digits_alike", "family", "hash_seed", "bits")
        return {name: getattr(self, name) for name in names}

    def warm(self) -> None:
        self.score(pa.record_batch([pa.array(["a short text, 短文"], pa.large_string())], names=["text"]))


@dataclass(frozen=True, kw_only=True)
class NearFilter(Filter):
    """Drops what a similar document stands for."""

    def rules(self) -> tuple[Rule, ...]:
        return (Rule("near_duplicate", f"{PREFIX}.twin", "is null"),)


@dataclass(frozen=True, kw_only=True)
class MinHash(Composite):
    """Keeps one of several similar documents."""

    preset: Literal["corpusflow", "fineweb", "nemo", "duplodocus", "slimpajama", "redpajama"] = param(
        "corpusflow", doc="Whose settings the parameters below default to."
    )
    bands: int | None = param(None, doc="Number of bands (14): more find more pairs of low similarity.")
    rows: int | None = param(None, doc="Permutations per band (8): more find fewer pairs of low similarity.")
    target: float | None = param(None, doc="Instead of bands and rows: the similarity from which pairs shall be found.")
    permutations: int | None = param(None, doc="With `target`: permutations that bands and rows are made of (112).")
    shingle: int | None = param(None, doc="Units per shingle (5).")
    unit: Literal["words", "characters"] | None = param(
        None, doc="What a shingle is made of: words (a Han or kana character counts as one), or characters."
    )
    digits_alike: bool | None = param(
        None, doc="Count every digit as 0, so that texts that differ in dates alone are similar (false)."
    )
    min_similarity: float | None = param(
        None, doc="A document goes if it is at least this similar to one that stays (0.7)."
    )
    verify: Literal["auto", "exact", "signature"] = param(
        "auto",
        doc="What similarity is: the Jaccard index of the texts' shingles (exact), the share of equal minima "
        "(signature), or exact up to 100 million documents (auto).",
    )
    keep: tuple[str, ...] = param(
        ("length desc", "id"),
        doc="Which one stays: columns, 'asc' or 'desc', best first; `length`, `source_rank` and `id` are known.",
    )
    sources: tuple[str, ...] = param((), doc="Values of `source`, best first, for source_rank in `keep`.")
    within: str | None = param(None, doc="Compare only documents with the same value of this column; none: all.")
    max_representatives: int = param(
        256, doc="Kept documents of a cluster that others are compared with; those unlike all of them stay, too."
    )
    components: Literal["memory", "files"] = param(
        "memory",
        semantic=False,
        doc="Where connected components are found: in one process's memory, up to 400 million documents, or over files, "
        "any number; the outcome is the same.",
    )
    against: tuple[str, ...] = param(
        (), doc="Folders of dedup indexes of earlier runs, whose documents win (the share of equal minima decides)."
    )
    hash_seed: int = param(1, doc="Picks the permutations.")
    family: Literal["native", "datasketch", "datasketch_legacy"] = param(
        "native",
        doc="How shingles are hashed: native (fast), or as datasketch.MinHash does by default, with SHA-1 "
        "(2.0 and later, or legacy).",
    )
    bits: Literal[16, 32] | None = param(
        None, doc="Bits stored of each minimum: 16, or 32 to open signatures in datasketch (needed below 4 rows)."
    )

    def __post_init__(self) -> None:
        parse_keep(PREFIX, self.keep, self.sources)
        chosen = self._settings()
        if self.bits == 16 and chosen.rows < 4:
            raise ConfigError(
                f"{PREFIX}: 16 bits of {chosen.rows} rows are too few to tell documents apart", hint="bits: 32"
            )
        if self.against and self.within is not None:
            raise ConfigError(f"{PREFIX}: `against` and `within` do not go together: an index knows no scopes")
        if self.max_representatives < 1:
            raise ConfigError(f"{PREFIX}.max_representatives: {self.max_representatives} is less than 1")

    def _settings(self) -> Settings:
        return settings(
            PREFIX,
            self.preset,
            bands=self.bands,
            rows=self.rows,
            target=self.target,
            permutations=self.permutations,
            shingle=self.shingle,
            unit=self.unit,
            digits_alike=self.digits_alike,
            min_similarity=self.min_similarity,
        )

    def expand(self) -> tuple[Stage, ...]:
        chosen = self._settings()
        signature = MinHashSignature(
            bands=chosen.bands,
            rows=chosen.rows,
            shingle=chosen.shingle,
            unit=chosen.unit,
            digits_alike=chosen.digits_alike,
            family=self.family,
            hash_seed=self.hash_seed,
            # 16 bits of 4 rows are as many as a band key has
            bits=self.bits or (16 if chosen.rows >= 4 else 32),
        )
        exchange = NearDuplicates(
            bands=chosen.bands,
            rows=chosen.rows,
            shingle=chosen.shingle,
            unit=chosen.unit,
            digits_alike=chosen.digits_alike,
            min_similarity=chosen.min_similarity,
            verify=self.verify,
            keep=self.keep,
            sources=self.sources,
            within=self.within,
            max_representatives=self.max_representatives,
            components=self.components,
            against=self.against,
            against_digests=check_against(PREFIX, self.against, "minhash", signature.facts()),
        )
        return signature, exchange, NearFilter()


STAGE = MinHash
