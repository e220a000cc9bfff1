"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import crash
import pytest
from toys import Toy

crash.preload("toy_stages", "warm_server")


@pytest.fixture(scope="session")
def tiny(quick_root: Path) -> Iterator[crash.Tiny]:
    """The toy pipeline, run once in peace."""
    toy = Toy(quick_root)
    yield crash.Tiny(toy)
    toy.remove()


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names of run folders that nobody used."""
    numbers = iter(range(1_000_000))
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:80]
    return lambda: f"{name}-{next(numbers)}"
