from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from corpusflow.cli._table import print_report


def text_of(report: dict[str, Any], width: int = 100) -> list[str]:
    out = StringIO()
    print_report(Console(file=out, width=width, highlight=False), report)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_scalars_then_tables() -> None:
    report = {
        "texts": 12345,
        "by_kind": {"email": {"right": 1, "precision": 0.5}, "phone": {"right": 20, "precision": None}},
        "mean_score": 0.91234,
        "worst": [{"true": "zh", "text": "河水"}, {"true": "en", "text": "river", "note": [1, 2]}],
        "labels": {"a": 1, "b": 2},
        "names": ["x", "y"],
        "empty": [],
    }
    assert text_of(report) == [
        "texts       12,345",
        "mean score  0.9123",
        "names       x, y",
        "empty       none",
        "",
        "by kind",
        "       right  precision",
        "email      1     0.5000",
        "phone     20          -",
        "",
        "worst",
        "true  text   note",
        "zh    河水",
        "en    river  1, 2",
        "",
        "labels",
        "a  1",
        "b  2",
    ]


def test_data_cannot_move_the_cursor_or_pass_for_markup() -> None:
    lines = text_of({"worst": [{"text": "a\x1b[31mb\nc\x07 [bold]d[/bold] \u202eevil"}]})
    assert (
        lines == ["worst", "text", "a [31mb c  [bold]d[/bold]  evil"] or lines[-1] == "a [31mb c  [bold]d[/bold]  evil"
    )


def test_long_texts_are_folded_and_nothing_of_them_lost() -> None:
    words = " ".join(f"word{i}" for i in range(40))
    lines = text_of({"worst": [{"score": 0.5, "text": words}]}, width=60)
    assert " ".join(" ".join(lines[2:]).split()).replace("score text ", "").replace("0.5000 ", "") == words
