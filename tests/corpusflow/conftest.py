"""Fixtures for tests of the engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from toys import Toy


@pytest.fixture(scope="session", autouse=True)
def no_fsync() -> Iterator[None]:
    """These tests crash nothing; tests/reliability runs with every fsync."""
    real, os.fsync = os.fsync, lambda fd: None
    yield
    os.fsync = real


@pytest.fixture
def toy(quick_root: Path) -> Iterator[Toy]:
    """A folder for toy runs."""
    made = Toy(quick_root)
    yield made
    made.remove()
