"""Ray Data and Ray Train get the Loader's own order."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusflow import ConfigError
from corpusflow.feed import BudgetMixture, Loader, Mixture, TokenDataset
from corpusflow.feed.ray import dataset, shard

pytestmark = pytest.mark.filterwarnings("ignore")


def test_ray_is_not_imported_before_it_is_needed() -> None:
    import subprocess

    code = "import sys, corpusflow.feed.ray; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    pytest.importorskip("pandas", reason="ray.data needs it: pip install 'ray[data,train]'")
    import ray

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.ray
def test_rows_are_the_line_in_order(started: Any, export: str) -> None:
    data = TokenDataset(export, 16, segments=True)
    loader = Loader(data, 4, seed=5, epochs=2)
    loader.advance(7)
    rows = dataset(loader, block=100).take_all()
    assert [r["position"] for r in rows] == list(range(28, 2 * len(data)))
    line = [i for _, i in Loader(data, 1, seed=5).places(np.arange(28, 2 * len(data)))]
    for row, sequence in zip(rows, line, strict=True):
        assert np.array_equal(row["tokens"], data[sequence]["tokens"])
        assert np.array_equal(row["segments"], data[sequence]["segments"])


@pytest.mark.ray
def test_a_mixture_until_its_budget_or_a_number(
    started: Any, export: str, make_export: Callable[..., str], tmp_path: Path
) -> None:
    small = TokenDataset(make_export(tmp_path / "small", [[list(range(60_000, 60_100))]]), 16)
    web = TokenDataset(export, 16)
    budget = Loader(BudgetMixture({"web": (web, 50), "books": (small, 12)}), 1, seed=3)
    expected = [int(batch["tokens"][0, 0]) for batch in budget]
    again = Loader(budget.data, 1, seed=3)
    assert [int(r["tokens"][0]) for r in dataset(again).take_all()] == expected
    endless = Loader(Mixture({"web": (web, 1.0), "books": (small, 1.0)}), 1, seed=3)
    with pytest.raises(ConfigError, match="never ends"):
        dataset(endless)
    assert dataset(endless, sequences=20).count() == 20


@pytest.mark.ray
def test_workers_of_ray_train_share_the_line(started: Any, export: str, tmp_path: Path) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def train(config: dict[str, str]) -> None:
        loader = shard(TokenDataset(config["export"], 16), 3, seed=5, epochs=1)
        starts = [batch["tokens"][:, 0].tolist() for batch in loader]
        Path(config["out"], f"{loader.rank}.json").write_text(json.dumps([loader.ranks, loader.state_dict(), starts]))

    trainer = DataParallelTrainer(
        train,
        train_loop_config={"export": export, "out": str(tmp_path)},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(storage_path=str(tmp_path / "train")),
    )
    trainer.fit()
    (ranks, state, first), (_, other, second) = (json.loads((tmp_path / f"{r}.json").read_text()) for r in (0, 1))
    assert (ranks, state) == (2, other)
    whole = [b["tokens"][:, 0].tolist() for b in Loader(TokenDataset(export, 16), 6, seed=5, epochs=1)]
    assert [a + b for a, b in zip(first, second, strict=True)] == whole


def test_without_ray_data_it_says_what_to_install(export: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(ConfigError, match=r"ray\.data cannot be imported") as caught:
        dataset(Loader(TokenDataset(export, 16), 1, epochs=1))
    assert "ray[data,train]" in str(caught.value.hint)
