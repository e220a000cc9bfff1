"""The same result on Ray as in one process; nodes and workers lost on the way; a run folder that not every node sees."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crash
import pipeline
import pytest
from command import Command, config_file
from toys import STAGES, Toy

import corpusflow
from corpusflow import RunFailedError
from corpusflow.executors import ray as ray_executor

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def toy(quick_root: Path) -> Iterator[Toy]:
    made = Toy(quick_root)
    made.corpus([*crash.FILES, *crash.FILES])
    yield made
    made.remove()


@pytest.fixture(scope="module")
def quiet(toy: Toy) -> str:
    """The digest of a run in one process."""
    return toy.run(crash.STAGES, crash.OUTPUT, run="inline").digest


@pytest.mark.parametrize("workers", [1, 2])
def test_ray_and_inline_and_any_number_of_workers(toy: Toy, quiet: str, ray_cluster: Any, workers: int) -> None:
    run = f"ray{workers}"
    options = {"executor": "ray", "address": ray_cluster.address, "workers": workers}
    result = toy.run(crash.STAGES, crash.OUTPUT, run=run, **options)
    assert result.digest == quiet
    assert crash.published(toy.root / run) == crash.published(toy.root / "inline")
    again = toy.run(crash.STAGES, crash.OUTPUT, run=run)
    assert not any(s.tasks for s in again.steps), "another executor ran something again"
    assert result.peak_memory > 0


def test_a_run_folder_that_a_node_does_not_see(toy: Toy, ray_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is lost. `_sees` is what a node is asked; shipped by value, it answers no."""
    space: dict[str, Any] = {}
    exec("def blind(path):\n    return False\n", space)
    monkeypatch.setattr(ray_executor, "_sees", space["blind"])
    with pytest.raises(RunFailedError, match="is not visible on 1 of 1 nodes") as caught:
        toy.run(crash.STAGES, crash.OUTPUT, run="blind", executor="ray", address=ray_cluster.address)
    assert "every node mounts under the same path" in str(caught.value.hint)
    assert not list((toy.root / "blind").glob(".probe*"))
    assert not list((toy.root / "blind").rglob("_commits"))


def test_an_address_where_nothing_answers(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TIMEOUT_MS", "100")
    with pytest.raises(corpusflow.ConfigError, match="Ray did not start") as caught:
        toy.run(crash.STAGES, run="nowhere", executor="ray", address="local-host.invalid")
    assert "check run.address" in str(caught.value.hint)


@pytest.mark.parametrize("form", ["127.0.0.1:{port}", "local-host.invalid:{port}", "127.0.0.1:99999999"])
def test_a_port_where_nobody_listens(toy: Toy, form: str) -> None:
    """Ray tries for more than ten minutes, deaf to Ctrl-C."""
    with socket.socket() as bound:  # bound and not listening: nobody else gets the port
        bound.bind(("127.0.0.1", 0))
        address = form.format(port=bound.getsockname()[1])
        with pytest.raises(corpusflow.ConfigError, match=f"nothing answers at run.address {address}") as caught:
            toy.run(crash.STAGES, run="nobody", executor="ray", address=address)
    assert "check run.address" in str(caught.value.hint)


# ---- a user's own `stages` folder, and a plain function, on Ray ----


def test_a_strangers_stages_folder_and_a_function_of_ones_own(toy: Toy, ray_cluster: Any, tmp_path: Path) -> None:
    for name in ("stages", "corpusflow"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a stranger was imported')\n")
    (tmp_path / "mine.py").write_text(
        "import corpusflow\n"
        "@corpusflow.document_score(adds={'my.letters': 'int32'})\n"
        "def letters(text: str) -> int:\n"
        "    return sum(c.isalpha() for c in text)\n"
    )
    stages = ["quality.signals", (f"{tmp_path}/mine.py:letters", {}), f"{STAGES}:Unique"]
    config = toy.config(stages, [("export.parquet", {})], run="stranger", executor="ray", address=ray_cluster.address)
    command = Command(["run", config_file(config, tmp_path / "mine.yaml"), "--json"], cwd=tmp_path)
    code, out, err = command.wait()
    assert code == 0, err + (toy.root / "stranger" / "run.log").read_text()
    assert '"digest"' in out
    opened = corpusflow.open_run(str(toy.root / "stranger"))
    counts = opened.stage(f"{tmp_path}/mine.py:letters").table(["my.letters", "quality.words"])
    assert counts.num_rows > 20


# ---- losses ----


@pytest.mark.slow
def test_one_of_two_nodes_is_killed(toy: Toy, quick_root: Path) -> None:
    from ray.cluster_utils import Cluster

    stages = [("Slow", {"seconds": 0.7}), *crash.STAGES]
    quiet = toy.run(stages, crash.OUTPUT, run="quiet-nodes").digest
    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        second = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
        cluster.wait_for_nodes()
        run = toy.root / "nodes"

        def kill_when_it_works() -> None:
            deadline = time.monotonic() + 120
            while not list(run.rglob("*Slow/score*/_commits/*")) and time.monotonic() < deadline:
                time.sleep(0.05)
            cluster.remove_node(second, allow_graceful=False)

        killer = threading.Thread(target=kill_when_it_works)
        killer.start()
        result = toy.run(stages, crash.OUTPUT, run="nodes", executor="ray", address=cluster.address)
        killer.join()
        assert len(cluster.list_all_nodes()) == 1
        assert result.digest == quiet
        crash.verify_all(run)
    finally:
        cluster.shutdown()


@pytest.mark.slow
def test_six_kills_of_a_local_ray(quick_root: Path, tmp_path: Path) -> None:
    """A worker, the driver, everything: twice each, on sample_data, with a Ray that the run starts by itself."""
    root = quick_root / "ray-kills"
    root.mkdir()
    rng = random.Random(4)
    quiet = corpusflow.run(pipeline.config(root / "quiet"))
    hits = 0
    ways = ["worker", "driver", "group"] * 2
    while hits < 6:
        folder = root / f"run{hits}"
        path = config_file(pipeline.config(folder, executor="ray", workers=2), tmp_path / "c.yaml")
        code = -1
        while code != 0:
            command = Command(["run", path])
            ours = _at_a_random_moment(command, folder, rng) if hits < 6 else {}
            if ours:
                _kill(ways[hits], command, ours)
                hits += 1
            code, _, err = command.wait()
            for pid in crash.gone(ours, 1):  # an orphaned raylet lives on for a minute
                os.kill(pid, signal.SIGKILL)
            if folder.exists():
                crash.verify_all(folder)
            assert code in (0, -9, 1), err
        again = corpusflow.run(pipeline.config(folder))
        assert not any(s.tasks for s in again.steps)
        assert again.digest == quiet.digest
        assert crash.published(folder) == crash.published(root / "quiet")


def _at_a_random_moment(command: Command, folder: Path, rng: random.Random) -> dict[int, str]:
    """Processes of the command once Ray runs and a while after; {} if it ended meanwhile."""
    while command.process.poll() is None:
        ours = crash.descendants(command.process.pid)
        if any(c.startswith("ray::") for c in ours.values()):
            time.sleep(rng.uniform(0, 4))
            return crash.descendants(command.process.pid)
        time.sleep(0.05)
    return {}


def _kill(what: str, command: Command, ours: dict[int, str]) -> None:
    workers = [p for p, c in ours.items() if c.startswith("ray::")]
    targets = {"worker": workers[:1], "driver": [command.process.pid], "group": [*ours, command.process.pid]}[what]
    for pid in targets:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
