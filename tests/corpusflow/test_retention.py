"""What stages keep of each source and language: counted right, held against bands, shown where people look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import corpusflow
from corpusflow import ConfigError, RunFailedError
from corpusflow.cli._show import closing
from corpusflow.retention import Retention, band_of, outside, summary

STAGES = """
import corpusflow

@corpusflow.document_score(adds={"language.code": "string"})
def language(text: str) -> str:
    return text.partition(" ")[0] or None

@corpusflow.document_score(adds={"my.size": "int32"})
def size(text: str) -> int:
    return int(text.rpartition(" ")[2])
"""
#: (source, language, sizes): of each a document.
CORPUS = [
    ("news", "en", range(200)),
    ("news", "zh", range(150, 250)),
    ("forum", "zh", range(100)),
    ("forum", "en", range(96, 116)),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my.py").write_text(STAGES)
    for source in ("news", "forum"):
        lines = [json.dumps({"text": f"{code} {n}"}) for s, code, sizes in CORPUS if s == source for n in sizes]
        for shard in range(2):
            (tmp_path / f"{source}-{shard}.jsonl").write_text("\n".join(lines[shard::2]) + "\n")
    return tmp_path


def config(folder: Path, least: int, stages: list[Any] | None = None, **run: Any) -> dict[str, Any]:
    my = folder / "my.py"
    return {
        "name": "r",
        "input": [
            {"ingest.jsonl": {"paths": [f"{folder}/{s}-*.jsonl"], "name": s, "group_bytes": 0}}
            for s in ("news", "forum")
        ],
        "stages": stages
        or [
            f"{my}:language",
            f"{my}:size",
            {"quality.threshold": {"column": "my.size", "min": least, "reason": "small"}},
        ],
        "output": ["export.parquet"],
        "run": {"dir": str(folder / "run"), "executor": "inline", **run},
    }


def expected(least: int, source: str | None, code: str | None) -> tuple[int, int]:
    sizes = [n for s, c, r in CORPUS if source in (None, s) and code in (None, c) for n in r]
    return len(sizes), sum(n >= least for n in sizes)


def test_counts_by_source_and_language(folder: Path) -> None:
    result = corpusflow.run(config(folder, 96))
    got = {(r.stage, r.group): (r.entered, r.kept) for r in result.retention}
    for stage in ("quality.threshold", "all"):
        for source in ("news", "forum"):
            assert got[stage, f"source={source}"] == expected(96, source, None)
        for code in ("en", "zh"):
            assert got[stage, f"language={code}"] == expected(96, None, code)
    stored = json.loads((folder / "run" / "run.json").read_text())
    assert stored["retention"] == [r.as_data() for r in result.retention]
    assert stored["warnings"] == result.warnings
    again = corpusflow.run(config(folder, 96))  # nothing runs: the same from the records
    assert again.retention == result.retention
    card = (folder / "run" / "exports" / "README.md").read_text()
    n, kept = expected(96, "forum", None)
    assert f"| source=forum | {n} | {kept} | {kept / n:.1%} | quality.threshold ({kept / n:.1%}) |" in card


def test_the_default_warns_of_more_than_95_percent(folder: Path) -> None:
    warnings = corpusflow.run(config(folder, 96)).warnings
    assert not [w for w in warnings if "run.retention" in w], "a fifth of the forum is left, 104 of 200 zh"
    warnings = corpusflow.run(config(folder, 113)).warnings
    # the forum: 3 of 120; each language has news enough
    assert [w for w in warnings if "run.retention" in w] == [
        "quality.threshold kept 2.5% of source=forum (3 of 120), outside of 5% to 100% (run.retention)"
    ]


def test_bands_and_where_they_are_shown(folder: Path) -> None:
    bands = {"*": (0.0, 1.0), "language=zh": (0.9, 1.0), "quality.threshold/source=news": (0.0, 0.5), "all": (0.1, 1.0)}
    result = corpusflow.run(config(folder, 96, retention=bands))
    found = sorted(w for w in result.warnings if "run.retention" in w)
    assert [w.split(" (")[0] for w in found] == [
        "quality.threshold kept 52.0% of language=zh",
        "quality.threshold kept 68.0% of source=news",
    ]
    console = Console(record=True, width=150)
    closing(console, result)
    text = console.export_text()
    assert "language=zh" in text
    assert "quality.threshold 52.0%" in text
    assert "warning: quality.threshold kept 52.0% of language=zh" in text


def test_small_groups_are_not_judged() -> None:
    rows = [Retention("a", "language=xx", 99, 0), Retention("a", "language=yy", 100, 0)]
    assert len(outside(rows, {"*": (0.05, 1.0)}, 100)) == 1


def test_the_most_particular_band_counts() -> None:
    bands = {
        "*": (0.1, 1.0),
        "s": (0.2, 1.0),
        "source=x": (0.3, 1.0),
        "s/source=x": (0.4, 1.0),
        "all/source=x": (0.5, 1.0),
    }
    assert band_of(Retention("s", "source=x", 1, 1), bands) == (0.4, 1.0)
    assert band_of(Retention("t", "source=x", 1, 1), bands) == (0.3, 1.0)
    assert band_of(Retention("s", "source=y", 1, 1), bands) == (0.2, 1.0)
    assert band_of(Retention("t", "source=y", 1, 1), bands) == (0.1, 1.0)
    assert band_of(Retention("all", "source=x", 1, 1), bands) == (0.5, 1.0)
    assert band_of(Retention("all", "source=y", 1, 1), bands) is None


def test_stages_that_choose_languages_are_not_blamed_for_it(folder: Path) -> None:
    my = folder / "my.py"
    stages = [
        f"{my}:language",
        {"quality.threshold": {"column": "language.code", "is_in": ["en"], "reason": "language"}},
        f"{my}:size",
        {"stages.gopher": {}},
    ][:3]
    result = corpusflow.run(config(folder, 0, stages))
    assert {r.group for r in result.retention} == {"source=news", "source=forum"}


def test_counts_are_whole_where_a_stage_quarantines(folder: Path) -> None:
    """A document that a Score cannot measure is lost to its source as well."""
    with (folder / "forum-0.jsonl").open("a") as f:
        f.write(json.dumps({"text": "zh no-number"}) + "\n")
    result = corpusflow.run(config(folder, 96))
    rows = {(r.stage, r.group): (r.entered, r.kept) for r in result.retention}
    n, kept = expected(96, "forum", None)
    assert rows["all", "source=forum"] == (n + 1, kept)
    assert rows["all", "language=zh"] == expected(96, None, "zh")
    assert all(c.exact for c in result.counts)


@pytest.mark.parametrize(
    ("bands", "message"),
    [
        ({"quality.treshold": (0.1, 1)}, "no stage 'quality.treshold'"),
        ({"quality.treshold/language=zh": (0.1, 1)}, "no stage 'quality.treshold'"),
        ({"site=zh": (0.1, 1)}, "'site' is no group"),
        ({"*": (0.5, 0.1)}, "the smaller first"),
        ({"*": (0, 7)}, "two shares from 0 to 1"),
        ({"*": 0.5}, "run.retention"),
    ],
)
def test_bands_of_nothing_are_refused(folder: Path, bands: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        corpusflow.run(config(folder, 96, retention=bands))


def test_summary_names_the_stage_that_kept_least() -> None:
    rows = [
        Retention("a", "source=x", 100, 90),
        Retention("b", "source=x", 90, 9),
        Retention("c", "source=x", 9, 9),
        Retention("all", "source=x", 100, 9),
        Retention("a", "language=y", 5, 5),
        Retention("all", "language=y", 5, 5),
    ]
    assert [(w.group, worst and worst.stage) for w, worst in summary(rows)] == [("source=x", "b"), ("language=y", None)]


def test_a_run_that_keeps_nothing_still_says_why(folder: Path) -> None:
    with pytest.raises(RunFailedError, match="small"):
        corpusflow.run(config(folder, 10_000))
