"""torch's DataLoader gives the Loader's own order, whatever the number of workers."""

from __future__ import annotations

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
