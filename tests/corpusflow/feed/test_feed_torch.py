"""torch's DataLoader gives the Loader's own order, whatever the number of workers."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from corpusflow.feed import Loader, TokenDataset

torch = pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 1, 3, 4])
def test_order_and_state_do_not_depend_on_workers(export: str, workers: int) -> None:
    from torch.utils.data import DataLoader

    from corpusflow.feed.torch import Batches

    data = TokenDataset(export, 16)
    expected = [b["tokens"] for _, b in zip(range(23), Loader(data, 4, seed=5), strict=False)]
    batches = Batches(Loader(data, 4, seed=5))
    stop = 9
    for step, batch in enumerate(DataLoader(batches, batch_size=None, num_workers=workers)):
        assert np.array_equal(batch["tokens"].numpy(), expected[step])
        if step + 1 == stop:
            break
    resumed = Loader(data, 4, seed=5)
    resumed.load_state_dict(batches.state_after(stop))
    for step, batch in zip(range(stop, 23), DataLoader(Batches(resumed), batch_size=None, num_workers=2), strict=False):
        assert np.array_equal(batch["tokens"].numpy(), expected[step])


def test_any_stop_with_any_ranks_and_workers(export: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 stops over 1 to 8 ranks and 0 to 4 workers: the sequences of every epoch are given out once.

    Workers are iterators here, taken in turn as the DataLoader takes them; the test above has real ones.
    """
    from corpusflow.feed import torch as feed

    rng = random.Random(11)
    data = TokenDataset(export, 64)
    epochs = 3
    stops = 0
    while stops < 200:
        state = None
        given_out: list[int] = []
        while True:
            ranks, workers, batch = rng.randrange(1, 9), rng.randrange(0, 5), rng.randrange(1, 4)
            loaders = [Loader(data, batch, rank=r, ranks=ranks, seed=5, epochs=epochs) for r in range(ranks)]
            for loader in loaders if state is not None else []:
                loader.load_state_dict(state or {})
            left = loaders[0].steps_left or 0
            if left == 0:
                break
            steps = rng.randrange(1, min(left, 30) + 1)
            taken = [in_turn(feed, feed.Batches(loader), workers, steps, monkeypatch) for loader in loaders]
            for step in range(steps):
                for rank in taken:
                    given_out += rank[step]
            states = [feed.Batches(loader).state_after(steps) for loader in loaders]
            assert all(s == states[0] for s in states)
            state = states[0]
            stops += 1
        n = len(data)
        line = [i for e in range(epochs) for _, i in Loader(data, 1, seed=5).places(np.arange(e * n, (e + 1) * n))]
        assert [data[i]["tokens"][0] for i in line[: len(given_out)]] == given_out
        assert sorted(line[:n]) == list(range(n))
        assert len(line) - len(given_out) < 8 * 3


def in_turn(feed: Any, batches: Any, workers: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """First tokens of each sequence of the first `steps` batches, made by so many workers."""
    made = []
    for worker in range(max(1, workers)):
        info = SimpleNamespace(id=worker, num_workers=workers) if workers else None
        monkeypatch.setattr(feed, "get_worker_info", lambda info=info: info)
        mine = -(-(steps - worker) // max(1, workers))
        made.append([b["tokens"][:, 0].tolist() for b in itertools.islice(batches, max(0, mine))])
    return [made[s % len(made)][s // len(made)] for s in range(steps)]
