"""What the settings of MinHash come from: a preset, a similarity to aim at, or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np

from corpusflow import ConfigError

Unit = Literal["words", "characters"]


@dataclass(frozen=True)
class Preset:
    """Settings of a published recipe; `min_similarity` is where it verifies, or about where its bands find half."""

    bands: int
    rows: int
    shingle: int
    unit: Unit
    digits_alike: bool
    min_similarity: float


PRESETS: Final = {
    # FineWeb's 14 x 8 over word 5-grams, digits kept, and verification, which FineWeb lacks
    "corpusflow": Preset(14, 8, 5, "words", False, 0.7),
    # Penedo et al. 2024; datatrove: digits count as 0, punctuation is dropped
    "fineweb": Preset(14, 8, 5, "words", True, 0.72),
    # NeMo Curator 26.07: character 24-grams, 20 x 13
    "nemo": Preset(20, 13, 24, "characters", False, 0.8),
    # Dolma 3 and Marin: 26 x 11 over 5-grams
    "duplodocus": Preset(26, 11, 5, "words", False, 0.75),
    # Cerebras 2023: 13-grams of lower-cased words, 128 permutations at 0.8
    "slimpajama": Preset(9, 13, 13, "words", False, 0.8),
    # RedPajama-V2's signatures at 0.8: 13-grams, 9 x 13
    "redpajama": Preset(9, 13, 13, "words", False, 0.8),
}


@cache
def optimal_bands(similarity: float, permutations: int) -> tuple[int, int]:
    """(bands, rows) whose S-curve errs least around a similarity: datasketch's criterion (Zhu et al. 2016).

    Minimises the area of 1 - (1 - s^rows)^bands below the similarity plus that of its complement above, by Simpson's rule.
    """
    below, above = np.linspace(0, similarity, 201), np.linspace(similarity, 1, 201)
    weights = np.ones(201)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    best, chosen = np.inf, (1, 1)
    for bands in range(1, permutations + 1):
        for rows in range(1, permutations // bands + 1):
            wrong = weights @ (1 - (1 - below**rows) ** bands) * similarity
            missed = weights @ ((1 - above**rows) ** bands) * (1 - similarity)
            if (error := float(wrong + missed)) < best:
                best, chosen = error, (bands, rows)
    return chosen


def found_at(similarity: float, bands: int, rows: int) -> float:
    """The probability that a pair of that similarity shares a band."""
    return float(1 - (1 - similarity**rows) ** bands)


@dataclass(frozen=True)
class Settings:
    """What a run uses."""

    bands: int
    rows: int
    shingle: int
    unit: Unit
    digits_alike: bool
    min_similarity: float

    @property
    def permutations(self) -> int:
        """Minima in a signature."""
        return self.bands * self.rows


def settings(
    stage: str,
    preset: str,
    *,
    bands: int | None,
    rows: int | None,
    target: float | None,
    permutations: int | None,
    shingle: int | None,
    unit: Unit | None,
    digits_alike: bool | None,
    min_similarity: float | None,
) -> Settings:
    """Settings of a preset with what is given in its place.

    Raises:
        ConfigError: bands without rows, or with a target; a number out of range.
    """
    base = PRESETS[preset]
    if (bands is None) != (rows is None):
        raise ConfigError(f"{stage}: bands and rows belong together", hint="give both, or target and permutations")
    if permutations is not None and target is None:
        raise ConfigError(f"{stage}: permutations without a target", hint="target: 0.8 picks bands and rows from them")
    if target is not None:
        if bands is not None:
            raise ConfigError(f"{stage}: give bands and rows, or a target, not both")
        count = base.bands * base.rows if permutations is None else permutations
        if not (0 < target < 1 and 1 <= count <= 1024):
            raise ConfigError(
                f"{stage}: target {target} of {count} permutations", hint="between 0 and 1; at most 1,024"
            )
        bands, rows = optimal_bands(target, count)
    chosen = Settings(
        bands=base.bands if bands is None else bands,
        rows=base.rows if rows is None else rows,
        shingle=base.shingle if shingle is None else shingle,
        unit=base.unit if unit is None else unit,
        digits_alike=base.digits_alike if digits_alike is None else digits_alike,
        min_similarity=base.min_similarity if min_similarity is None else min_similarity,
    )
    if not (chosen.bands >= 1 and chosen.rows >= 1 and chosen.permutations <= 4096):
        raise ConfigError(f"{stage}: {chosen.bands} bands of {chosen.rows} rows", hint="at most 4,096 permutations")
    if not 1 <= chosen.shingle <= 1000:
        raise ConfigError(f"{stage}.shingle: {chosen.shingle} is not between 1 and 1,000")
    if not 0 < chosen.min_similarity <= 1:
        raise ConfigError(f"{stage}.min_similarity: {chosen.min_similarity} is not above 0 and at most 1")
    return chosen
