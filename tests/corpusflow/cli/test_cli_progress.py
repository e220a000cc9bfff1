"""What a log says while a step goes on."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from corpusflow.cli import _show
from corpusflow.plan import Plan
from corpusflow.worker import Outcome, TaskSpec


def said(monkeypatch: pytest.MonkeyPatch, totals: dict[int, dict[str, Any]]) -> str:
    out = StringIO()
    show = _show.Show(Console(file=out, width=160, highlight=False))
    show.plan = Plan.__new__(Plan)  # only that there is one
    show.step("a stage", 0, 4)
    monkeypatch.setattr(_show, "_LINE_EVERY_SECONDS", -1.0)
    show.task(Outcome(TaskSpec.__new__(TaskSpec)), totals)
    return out.getvalue().splitlines()[-1]


def test_documents_and_drops_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    line = said(monkeypatch, {0: {"in": 1200, "dropped": {"short": 7}}, 1: {"in": 1193}})
    assert line.startswith("a stage: 1/4, 1,200 documents, 0.0 MB/s, dropped: short 7, ")
    assert line.endswith(" s left")


def test_a_phase_that_counts_no_documents_does_not_say_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    line = said(monkeypatch, {3: {"pairs": 5}})
    assert line == "a stage: 1/4, 0 s left"
