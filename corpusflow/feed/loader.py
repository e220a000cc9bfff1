"""Batches for one rank of a training run, in an order that is known by its position and can be resumed exactly.

Sequences of all epochs form one line. Step s of R ranks with batches of B takes the next R * B of it, rank r the r-th B of
these. The state is the position in that line: it does not know how many ranks there were, so that a run may go on with more
or fewer of them and no sequence is repeated or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from corpusflow.errors import ConfigError
from corpusflow.feed.dataset import TokenDataset
from corpusflow.feed.mixture import Mixture
from corpusflow.feed.order import permuted

_VERSION: Final = 1


class Loader:
    """An iterator over batches.

    Args:
        data: a TokenDataset or a Mixture.
        batch: sequences per rank and step.
        rank, ranks: this process among the data-parallel ones.
        seed: of the order.
        shuffle: False: sequences in file order (exports are shuffled by document already), every epoch the same.
        epochs: stop after so many, at a whole step; None: never. A Mixture has no epochs; one with a budget ends by itself.

    Raises:
        ConfigError: arguments that do not fit.
    """

    def __init__(
        self,
        data: TokenDataset | Mixture,
        batch: int,
        *,
        rank: int = 0,
        ranks: int = 1,
        seed: int = 0,
        shuffle: bool = True,
        epochs: int | None = None,
    ) -> None:
        if batch < 1 or not 0 <= rank < ranks:
            raise ConfigError(f"batch {batch}, rank {rank} of {ranks} cannot be")
        if isinstance(data, Mixture) and epochs is not None:
            raise ConfigError(
                "a mixture has no epochs", hint="stop after a number of steps; Mixture.plan says what it takes"
            )
        self.data = data
        self.batch, self.rank, self.ranks = batch, rank, ranks
        self.seed, self.shuffle, self.epochs = seed, shuffle, epochs
        #: Sequences that all ranks together have been given.
        self.position = 0

    @property
    def steps_left(self) -> int | None:
        """Whole steps until `epochs`, or a mixture with a budget, are over; None if they never are."""
        if isinstance(self.data, Mixture):
            total = self.data.sequences
        else:
            total = None if self.epochs is None else self.epochs * len(self.data)
        # a state may lie behind the end: resumed with fewer epochs
        return None if total is None else max(0, total - self.position) // (self.batch * self.ranks)

    def places(self, positions: np.ndarray) -> list[tuple[TokenDataset, int]]:
        """(dataset, sequence) at positions of the line, int64 (n,)."""
        if isinstance(self.data, Mixture):
            parts, before = self.data.draws(positions, self.seed)
            out = []
            for part, draw in zip(parts.tolist(), before.tolist(), strict=True):
                dataset = self.data.datasets[part]
                out.append((dataset, int(self._sequences(dataset, np.array([draw]), self.seed + part)[0])))
            return out
        return [(self.data, int(i)) for i in self._sequences(self.data, positions, self.seed)]

    def _sequences(self, dataset: TokenDataset, positions: np.ndarray, seed: int) -> np.ndarray:
        count = len(dataset)
        within = positions % count
        if not self.shuffle:
            return within
        out = np.empty(len(positions), np.int64)
        for epoch in np.unique(positions // count):
            here = positions // count == epoch
            out[here] = permuted(within[here], count, seed, int(epoch))
        return out

    def at(self, step: int) -> dict[str, np.ndarray]:
        """This rank's batch `step` steps from here: the dataset's arrays, one row per sequence."""
        first = self.position + step * self.batch * self.ranks + self.rank * self.batch
        places = self.places(np.arange(first, first + self.batch))
        items = [dataset[sequence] for dataset, sequence in places]
        return {key: np.stack([item[key] for item in items]) for key in items[0]}

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return self

    def __next__(self) -> dict[str, np.ndarray]:
        if self.steps_left == 0:
            raise StopIteration
        batch = self.at(0)
        self.advance(1)
        return batch

    def advance(self, steps: int) -> None:
        """Count steps as done without reading them."""
        self.position += steps * self.batch * self.ranks

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs, after the batches given out so far. The same on every rank."""
        return {
            "version": _VERSION,
            "position": self.position,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "data": self.data.describe(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind the last batch that was given out.

        Raises:
            ConfigError: the state is of other data, another order, or another version.
        """
        expected = self.state_dict()
        for key in ("version", "seed", "shuffle", "data"):
            if state.get(key) != expected[key]:
                raise ConfigError(
                    f"this state was saved with another {key}: {state.get(key)!r}, here {expected[key]!r}",
                    hint="resume with the data and the seed that the run began with",
                )
        self.position = int(state["position"])
