"""Dedup stages run on tables in memory; see helpers/memory_engine.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import memory_engine
import pytest


@pytest.fixture
def dedup(tmp_path: Path) -> memory_engine.Dedup:
    return memory_engine.Dedup(tmp_path)


@pytest.fixture(scope="session")
def dedup_module() -> Any:
    """MemoryRun and MemoryTask, for tests that run single phases."""
    return memory_engine
