"""Every stage of stages/quality held against the contract."""

from __future__ import annotations

import pytest

from corpusflow import check_stage
from corpusflow.registry import find, stage_names

NAMES = [n for n in stage_names() if n.startswith("quality.")]


@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str) -> None:
    check_stage(find(name)())
