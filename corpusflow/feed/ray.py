"""The same order for Ray Data and Ray Train.

rows = dataset(Loader(data, batch=8, seed=7, epochs=1))     # ray.data.Dataset: "position", and what an item of the data has

def train(config):                                          # in a worker of Ray Train
    loader = shard(TokenDataset("runs/web/exports/megatron", length=2048), batch=8, seed=7)
    for batch in loader:
        ...
        ray.train.report({"loss": loss}, checkpoint=...)    # with loader.state_dict() in it

Nothing is copied: workers open the run's files, which they must see under the same path. Ray is imported when a function is
called.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

import numpy as np

from corpusflow.errors import ConfigError
from corpusflow.feed.dataset import TokenDataset
from corpusflow.feed.loader import Loader
from corpusflow.feed.mixture import Mixture

#: Sequences that a task of Ray Data makes: 32 MB at 2,048 tokens.
_BLOCK: Final = 2_048


def dataset(loader: Loader, *, sequences: int | None = None, block: int = _BLOCK) -> Any:
    """The sequences a loader has still to give out to all ranks together, in its order.

    Rows keep their order through Ray Data, and have it as a number, whatever is done to them: `position`, in the line of all
    epochs. A loader's state with `position` set behind the last row used goes on there.

    Args:
        loader: its rank is of no matter; its position is where the rows begin.
        sequences: how many; all until its epochs or its budget are over if not given.
        block: sequences per block.

    Returns:
        ray.data.Dataset: "position" int64, and the arrays of the data's items, "tokens" int64 (length + 1,) for one.

    Raises:
        ConfigError: ray.data is not installed, or the loader never ends and `sequences` is not given.
    """
    data = _module("ray.data")
    left = _left(loader)
    if sequences is None and left is None:
        raise ConfigError("this loader never ends", hint="give sequences=…, or the loader epochs=1")
    count = min(n for n in (sequences, left) if n is not None)
    start = loader.position

    def rows(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        positions = batch["id"] + start
        items = [source[sequence] for source, sequence in loader.places(positions)]
        return {"position": positions, **{key: np.stack([item[key] for item in items]) for key in items[0]}}

    made = data.range(count, override_num_blocks=max(1, -(-count // block)))
    made.context.execution_options.preserve_order = True
    return made.map_batches(rows, batch_size=min(block, 256))


def shard(data: TokenDataset | Mixture, batch: int, **options: Any) -> Loader:
    """This worker's Loader in a function that Ray Train runs: its rank among the workers, and how many there are.

    Args:
        data, batch: as for Loader.
        options: of Loader, besides rank and ranks.

    Raises:
        ConfigError: ray.train is not installed.
    """
    context = _module("ray.train").get_context()
    return Loader(data, batch, rank=context.get_world_rank(), ranks=context.get_world_size(), **options)


def _left(loader: Loader) -> int | None:
    if isinstance(loader.data, Mixture):
        total = loader.data.sequences
    else:
        total = None if loader.epochs is None else loader.epochs * len(loader.data)
    return None if total is None else max(0, total - loader.position)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ConfigError(f"{name} cannot be imported: {e}", hint="pip install 'ray[data,train]'") from e
