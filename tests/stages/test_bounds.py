"""No kernel writes or reads beyond its arrays: compiled with bounds checks, which numba leaves out otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HELPERS = Path(__file__).parents[1] / "helpers"


@pytest.mark.slow
def test_scratch_is_large_enough_for_any_document(tmp_path: Path) -> None:
    env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(HELPERS / "tight_documents.py")], env=env, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "quality.signals_datatrove DatatroveSignals" in done.stdout
    assert "ingest.extract Reader" in done.stdout
