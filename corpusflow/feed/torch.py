"""The same order for torch's DataLoader, with worker processes.

data = Batches(Loader(dataset, batch=8, rank=rank, ranks=world))
for step, batch in enumerate(DataLoader(data, batch_size=None, num_workers=4)):
    ...
    state = data.state_after(step + 1)      # exact, whatever the workers have read ahead
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from corpusflow.errors import ConfigError
from corpusflow.feed.loader import Loader

try:
    import torch  # type: ignore[import-not-found, unused-ignore]
    from torch.utils.data import (  # type: ignore[import-not-found, unused-ignore]
        IterableDataset,
        get_worker_info,
    )
except ImportError as e:
    raise ConfigError(
        "corpusflow.feed.torch needs torch", hint="pip install torch; corpusflow.feed.Loader does without"
    ) from e


class Batches(IterableDataset):  # type: ignore[misc, type-arg, unused-ignore]
    """Whole batches as tensors, for ``DataLoader(…, batch_size=None)``.

    Worker w of W makes steps w, w + W, …, which the DataLoader takes in turn: their order is the Loader's own.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self.loader = loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = get_worker_info()
        step, stride = (0, 1) if info is None else (info.id, info.num_workers)
        left = self.loader.steps_left
        while left is None or step < left:
            yield {key: _tensor(value) for key, value in self.loader.at(step).items()}
            step += stride

    def state_after(self, steps: int) -> dict[str, Any]:
        """The state after so many batches of this DataLoader pass, for `Loader.load_state_dict`."""
        state = self.loader.state_dict()
        return {**state, "position": state["position"] + steps * self.loader.batch * self.loader.ranks}


def _tensor(array: np.ndarray) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array))
