"""Several datasets as one sequence whose every position is known in advance: by weight and endless, or so much of each.

A schedule of some thousand draws holds each dataset as often as its weight says, in a seeded order; it is repeated, shuffled
anew each time. So any position tells which dataset is drawn and for the how-manyth time, without counting from the start.
Where the draws of each dataset are given, schedules differ by a draw here and there, so that the sums come out exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from corpusflow.errors import ConfigError
from corpusflow.feed.dataset import TokenDataset
from corpusflow.feed.order import permuted

_PERIOD: Final = 4_096


class Mixture:
    """Datasets drawn by weight.

    Args:
        parts: name -> (dataset, weight). Weights need not add up to 1.
        temperature: weights are raised to 1 / temperature: above 1 small parts are drawn more.

    Raises:
        ConfigError: no part, a weight that is not positive, or lengths that differ.
    """

    def __init__(self, parts: Mapping[str, tuple[TokenDataset, float]], *, temperature: float = 1.0) -> None:
        if not parts or any(not (w > 0 and math.isfinite(w)) for _, w in parts.values()):
            raise ConfigError("a mixture needs parts, each with a positive weight")
        if len({d.length for d, _ in parts.values()}) > 1:
            raise ConfigError("the parts of a mixture must have sequences of one length")
        if not temperature > 0:
            raise ConfigError(f"temperature must be positive, got {temperature}")
        self.names = tuple(parts)
        self.datasets = [d for d, _ in parts.values()]
        # by logarithms from the largest on: 0.001 ** (1 / 0.005) is 0, and parts whose weights all became that had no shares
        logs = np.log([w for _, w in parts.values()]) / temperature
        weights = np.exp(logs - logs.max())
        self.shares = weights / weights.sum()
        exact = self.shares * _PERIOD
        counts = np.floor(exact).astype(np.int64)
        # largest remainders; a part never falls out altogether
        for i in np.argsort(counts - exact, kind="stable")[: _PERIOD - counts.sum()]:
            counts[i] += 1
        counts = np.maximum(counts, 1)
        self.length = self.datasets[0].length
        #: int64 (draws of a schedule,): which part, before it is shuffled.
        self._schedule = np.repeat(np.arange(len(counts)), counts)
        self._counts = counts

    #: How many there are to draw; None: never an end.
    sequences: int | None = None

    def draws(self, positions: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """(part, how many draws of it came before), int64 each, of positions (int64, any) in the mixture."""
        period = len(self._schedule)
        part = np.empty(len(positions), np.int64)
        before = np.empty(len(positions), np.int64)
        for cycle in np.unique(positions // period):
            here = np.flatnonzero(positions // period == cycle)
            drawn = self._schedule[permuted(np.arange(period), period, seed, int(cycle))]
            rank = np.empty(period, np.int64)
            for p in range(len(self._counts)):
                rank[drawn == p] = np.arange(self._counts[p])
            within = positions[here] % period
            part[here] = drawn[within]
            before[here] = cycle * self._counts[part[here]] + rank[within]
        return part, before

    def plan(self, sequences: int) -> dict[str, dict[str, float]]:
        """What that many sequences will take from where: sequences, tokens, and epochs of each part."""
        shares = self._counts / self._counts.sum()
        return {
            name: {
                "share": float(share),
                "sequences": round(sequences * float(share)),
                "tokens": round(sequences * float(share)) * self.length,
                "epochs": sequences * float(share) / len(dataset),
            }
            for name, dataset, share in zip(self.names, self.datasets, shares, strict=True)
        }

    def describe(self) -> str:
        """What two mixtures must agree on for a loader's state to fit."""
        parts = zip(self.names, self._counts.tolist(), self.datasets, strict=True)
        return "; ".join(f"{name} {count} x ({dataset.describe()})" for name, count, dataset in parts)


class BudgetMixture(Mixture):
    """Datasets drawn a given number of times each, spread evenly over the whole.

    Args:
        parts: name -> (dataset, sequences to draw of it); more than it has means that it is repeated, epoch by epoch.

    Raises:
        ConfigError: as for Mixture.
    """

    sequences: int
    #: What the mixture's recipe says; a Loader is given its own.
    seed: int = 0

    def __init__(self, parts: Mapping[str, tuple[TokenDataset, int]]) -> None:
        super().__init__(parts)
        self._draws = np.array([n for _, n in parts.values()], np.int64)
        self.sequences = int(self._draws.sum())
        self._cycles = -(-self.sequences // _PERIOD)
        #: int64 (cycles + 1,): positions before each cycle.
        self._starts = np.zeros(self._cycles + 1, np.int64)
        for n in self._draws:  # n * cycle stays below 2**63 up to 10**11 sequences
            self._starts += n * np.arange(self._cycles + 1) // self._cycles

    def _before(self, cycle: int) -> np.ndarray:
        """Draws of each part before a cycle, int64."""
        before: np.ndarray = self._draws * cycle // self._cycles
        return before

    def draws(self, positions: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """As `Mixture.draws`.

        Raises:
            IndexError: a position behind the last one.
        """
        if len(positions) and positions.max() >= self.sequences:
            raise IndexError(f"position {int(positions.max())} of {self.sequences}")
        part = np.empty(len(positions), np.int64)
        before = np.empty(len(positions), np.int64)
        cycles = np.searchsorted(self._starts, positions, "right") - 1
        for cycle in np.unique(cycles).tolist():
            here = np.flatnonzero(cycles == cycle)
            first = self._before(cycle)
            counts = self._before(cycle + 1) - first
            size = int(counts.sum())
            drawn = np.repeat(np.arange(len(counts)), counts)[permuted(np.arange(size), size, seed, cycle)]
            rank = np.empty(size, np.int64)
            for p in range(len(counts)):
                rank[drawn == p] = np.arange(counts[p])
            within = positions[here] - int(self._starts[cycle])
            part[here] = drawn[within]
            before[here] = first[part[here]] + rank[within]
        return part, before

    def plan(self, sequences: int | None = None) -> dict[str, dict[str, float]]:
        """What all of it takes from where; of a beginning, about."""
        share = 1.0 if sequences is None else sequences / self.sequences
        return {
            name: {
                "share": int(n) / self.sequences,
                "sequences": round(int(n) * share),
                "tokens": round(int(n) * share) * self.length,
                "epochs": int(n) * share / len(dataset),
            }
            for name, dataset, n in zip(self.names, self.datasets, self._draws, strict=True)
        }

    def describe(self) -> str:
        parts = zip(self.names, self._draws.tolist(), self.datasets, strict=True)
        return "; ".join(f"{name} {n} of ({dataset.describe()})" for name, n, dataset in parts)
