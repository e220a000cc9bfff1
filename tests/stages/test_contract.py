"""Every stage the registry has, held against the contract: a new stage is tested by existing.

Stages with required parameters get them from tests/helpers/stage_table.py; everything else runs by its defaults.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from stage_table import PACKAGES, REQUIRED, is_barrier, parameters, parts
from stage_table import before as stages_before

from corpusflow import Exchange, Sink, check_barrier, check_stage
from corpusflow.build import build_stage
from corpusflow.registry import find, stage_names


@pytest.mark.parametrize("name", stage_names())
def test_contract(name: str, tmp_path: Path) -> None:
    stage = build_stage(name, find(name), parameters(name, tmp_path))
    check_stage(stage)
    barrier = any(isinstance(p, (Sink, Exchange)) for p in parts(stage))
    assert barrier == is_barrier(name), f"{name}: test_barrier would miss it, or run it for nothing"


#: Sinks whose files number documents by their shards; what they say must be tested where their format is read.
BY_SHARD = {"dedup.index"}


@pytest.mark.parametrize("name", [n for n in stage_names() if is_barrier(n) and n not in BY_SHARD])
def test_barrier(name: str, tmp_path: Path) -> None:
    check_barrier(name, parameters(name, tmp_path), before=stages_before(name))


def test_the_table_is_not_stale() -> None:
    missing = dataclasses.MISSING
    for name in stage_names():
        needs = [
            f.name for f in dataclasses.fields(find(name)) if f.default is missing and f.default_factory is missing
        ]
        assert bool(needs) == (name in REQUIRED), f"{name} needs {needs}: see tests/helpers/stage_table.py"
    assert {*REQUIRED, *PACKAGES} <= set(stage_names())
