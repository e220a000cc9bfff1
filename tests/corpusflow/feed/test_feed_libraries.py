"""A TokenDataset is what map-style readers ask for, a length and items by number: torch, grain and tf.data take it as it is."""

from __future__ import annotations

import numpy as np
import pytest

from corpusflow.feed import Loader, TokenDataset


@pytest.mark.filterwarnings("ignore")
def test_grain(export: str) -> None:
    grain = pytest.importorskip("grain")
    data = TokenDataset(export, 16)
    pipeline = grain.MapDataset.source(data).shuffle(seed=3).batch(4).to_iter_dataset()
    first, again = iter(pipeline), iter(pipeline)
    for _ in range(5):
        next(first)
    again.set_state(first.get_state())
    assert np.array_equal(next(again)["tokens"], next(first)["tokens"])
    seen = sorted(int(t) for batch in pipeline for t in batch["tokens"][:, 0])
    assert seen == [16 * i for i in range(len(data))]


def test_torch_map_style(export: str) -> None:
    torch = pytest.importorskip("torch")
    data = TokenDataset(export, 16)
    loader = torch.utils.data.DataLoader(data, batch_size=5, shuffle=False)
    starts = [int(t) for batch in loader for t in batch["tokens"][:, 0]]
    assert starts == [16 * i for i in range(len(data))]


@pytest.mark.filterwarnings("ignore")
def test_tf_data(export: str) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    data = TokenDataset(export, 16)
    signature = {"tokens": tensorflow.TensorSpec((4, 17), tensorflow.int64)}
    batches = tensorflow.data.Dataset.from_generator(
        lambda: Loader(data, 4, seed=5, epochs=1), output_signature=signature
    )
    expected = [b["tokens"] for b in Loader(data, 4, seed=5, epochs=1)]
    assert all(np.array_equal(a["tokens"].numpy(), b) for a, b in zip(batches, expected, strict=True))
