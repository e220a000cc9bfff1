"""How a budget is divided: weights, sizes raised to 1 / temperature, and no part more often than it may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from corpusflow.errors import ConfigError

#: What sums and quotients of shares are off by at most. Without it, 999,999,999 of 1,000,000,000 sequences were "everything".
_NOISE: Final = 1e-12
#: No share's logarithm is lower: of exp(-746) nothing is left, and a quotient by it is no number.
_LOWEST_LOG: Final = -300.0


@dataclass(frozen=True)
class Demand:
    """What is wanted of one part.

    Attributes:
        size: sequences it has.
        weight: share of what is not fixed.
        fixed: sequences wanted exactly, None where it is to be shared out.
        most: sequences it may give at most, not rounded; None for no limit.
    """

    name: str
    size: int
    weight: float
    fixed: int | None = None
    most: float | None = None

    @property
    def limit(self) -> int | None:
        """`most` in whole sequences."""
        return None if self.most is None else math.floor(self.most + 1e-9)


def tempered(sizes: Sequence[float], temperature: float) -> list[float]:
    """Shares that add up to 1: sizes ** (1 / temperature). 1 is by size, above it small ones get more, infinity all the same.

    Source: Conneau et al. 2020, "Unsupervised cross-lingual representation learning at scale", section 3.1 (alpha there is
    1 / temperature).
    """
    values = np.asarray(sizes, np.float64)
    logs = np.log(values / values.max()) / temperature
    shares = np.exp(np.maximum(logs, _LOWEST_LOG))
    out: list[float] = (shares / shares.sum()).tolist()
    return out


def divide(demands: Sequence[Demand], total: int | None) -> list[int]:
    """Sequences to take of each part; they add up to `total`.

    Args:
        total: sequences; None: as much as the limits let through at the weights' proportions.

    Raises:
        ConfigError: the budget is less than what is fixed, or more than the limits let through.
    """
    fixed = sum(d.fixed or 0 for d in demands)
    for d in demands:
        if d.fixed is not None and (limit := d.limit) is not None and d.fixed > limit:
            raise ConfigError(
                f"{d.name}: {d.fixed:,} sequences are asked for, {limit:,} are as many as max_epochs lets through",
                hint="a higher max_epochs, or less of it",
            )
    free = [d for d in demands if d.fixed is None]
    if total is None:
        total = fixed + _as_much_as_possible(free)
    if total < fixed or (total > fixed and not free):
        raise ConfigError(
            f"the budget is {total:,} sequences, the parts with fixed tokens or epochs take {fixed:,}",
            hint="leave `tokens` of the mixture out, or a part without tokens and epochs takes the rest",
        )
    shared = iter(_share(free, total - fixed))
    return [d.fixed if d.fixed is not None else next(shared) for d in demands]


def _as_much_as_possible(free: Sequence[Demand]) -> int:
    """The largest amount at which no part passes its limit by a whole sequence; one epoch where it has none.

    Limits are not rounded here: of a part of one sequence and a limit of 1.5 epochs, all others were held to one epoch.
    """
    if not free:
        return 0
    whole = sum(d.weight for d in free)
    least = min((d.most if d.most is not None else d.size) * whole / d.weight for d in free)
    amount = int(least * (1.0 + _NOISE))
    limits = [d.limit for d in free]
    return amount if None in limits else min(amount, sum(n or 0 for n in limits))


def _share(free: Sequence[Demand], amount: int) -> list[int]:
    """Amount by weight; what a part may not give is shared out among the others."""
    if not free:
        return []
    given = [0.0] * len(free)
    open_ = list(range(len(free)))
    left = float(amount)
    while open_:
        whole = sum(free[i].weight for i in open_)
        full = [i for i in open_ if (most := free[i].limit) is not None and left * free[i].weight / whole > most]
        if not full:
            for i in open_:
                given[i] = left * free[i].weight / whole
            left = 0.0
            break
        for i in full:
            given[i] = float(free[i].limit or 0)
            left -= given[i]
            open_.remove(i)
    if left > 0.5:
        most = amount - round(left)
        raise ConfigError(
            f"max_epochs lets through {most:,} of the {amount:,} sequences that the budget leaves",
            hint="a higher max_epochs, fewer tokens, or more data",
        )
    return _rounded(given, amount)


def _rounded(given: Sequence[float], amount: int) -> list[int]:
    """Whole numbers that add up: largest remainders, earlier parts first."""
    values = np.asarray(given)
    out = np.floor(values + 1e-9).astype(np.int64)
    rest = np.argsort(out - values, kind="stable")[: amount - int(out.sum())]
    out[rest] += 1
    result: list[int] = out.tolist()
    return result
