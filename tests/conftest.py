"""What all tests share: helper modules in tests/helpers, and a folder on the fastest disk there is."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The same examples every time, however slow the machine: a test that fails on another's change must not fail on luck.
settings.register_profile("corpusflow", derandomize=True, deadline=None)
settings.load_profile("corpusflow")
sys.path.insert(0, str(Path(__file__).with_name("helpers")))


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Benchmarks run alone: neighbours on the same caches and memory would be measured with them."""
    if "bench" in config.option.markexpr.split() and "not bench" not in config.option.markexpr:
        config.option.numprocesses = 0


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes are named by their length: gzip puts the time into its header, and every process must find the same tests."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) and not val.isascii() else None


@pytest.fixture(scope="session")
def quick_root() -> Iterator[Path]:
    """A session's folder in memory where the machine has one: tiny runs spend their time in fsync otherwise."""
    shm = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="corpusflow-", dir=shm if os.access(shm, os.W_OK) else None))
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A Ray cluster of one node, shared by all tests that join one (`run.address`)."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()
