"""Every stage of stages/quality held against the contract."""

from __future__ import annotations

from typing import Any

import pytest

from corpusflow import check_stage
from corpusflow.registry import find, stage_names

REQUIRED: dict[str, dict[str, Any]] = {
    "quality.threshold": {"column": "quality.digits", "per": "quality.chars", "max": 0.3, "reason": "too_many_digits"}
}
NAMES = [n for n in stage_names() if n.startswith("quality.")]


@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str) -> None:
    check_stage(find(name)(**REQUIRED.get(name, {})))
