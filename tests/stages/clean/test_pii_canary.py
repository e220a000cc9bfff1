"""No value that clean.pii redacts lies anywhere in the run folder: checkpoints, exports, records, logs, quarantine."""

from __future__ import annotations

import html
import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import corpusflow
from corpusflow.api import as_config
from corpusflow.planner import Planner

VALUES = {
    "email": "canary.jane@mail.example.org", "phone": "+44 20 7946 0958", "ip": "93.184.216.34",
    "iban": "GB82WEST12345698765432", "card": "4111111111111111", "national_id": "11010519491231002X", "ssn": "514-69-0360",
    "passport": "E12345678", "crypto": "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "plate": "京A12345", "mac": "00:1A:2B:3C:4D:5E",
    "location": "40.7128° N, 74.0060° W", "secret": "AKIAIOSFODNN7EXAMPLE",
}  # fmt: skip
#: Words before a value where it needs one.
CUES = {"passport": "passport No. "}
WORDS = [
    "the", "river", "rose", "and", "of", "in", "night", "lower", "road", "water", "morning", "school", "bridge",
    "keeper", "lamp", "market", "stone", "gate", "field", "boat", "to", "that", "with", "engineer", "letter",
    "winter", "harbour", "was", "for", "on", "they", "kitchen", "window", "carpenter", "valley",
]  # fmt: skip
STAGES: list[Any] = [
    "clean.unicode",
    "clean.pii",
    "language.identify",
    {"language.mixed": {"max_other": 0.9}},
    "quality.signals",
    "toxicity.wordlist",
    {"toxicity.classifier": {"action": "paragraph"}},
    "dedup.exact",
    {"dedup.lines": {"min_words": 4}},
]


def _text(rng: random.Random) -> str:
    lines = [" ".join(rng.choices(WORDS, k=14)).capitalize() + "." for _ in range(8)]
    for kind, value in VALUES.items():
        lines.insert(rng.randrange(len(lines) + 1), f"They wrote {CUES.get(kind, '')}{value} into the letter.")
    return "\n".join(lines)


def _inputs(folder: Path) -> str:
    """Twelve documents with every value, and three lines that no document can be made of, with some."""
    rng = random.Random(3)
    said = [f"{CUES.get(kind, '')}{value}" for kind, value in VALUES.items()]
    others = {
        "headline": " ; ".join(said),
        "by": f"Jane Doe, {said[0]}",
        "summary": " / ".join(reversed(said)),
        "contact": {"lines": said, "phone": VALUES["phone"], VALUES["email"]: {"card": int(VALUES["card"])}},
    }
    lines = [json.dumps({"url": f"https://example.org/{i}", "text": _text(rng), **others}) for i in range(12)]
    everything = json.dumps(" ; ".join(VALUES.values()), ensure_ascii=False)
    lines[3:3] = [f'{{"text": {everything}, }}', f'{{"text": [{everything}]}}', everything]
    path = folder / "in.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


PAGE = """<html><head><title>Of {0}</title><meta name="author" content="Jane {0}"><meta name="description" content="{0}">
<meta name="copyright" content="(c) {0}"><meta name="date" content="{0}"></head><body><p>{1}</p></body></html>"""


def test_nothing_that_a_page_says_of_itself_is_left(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    for i, (kind, value) in enumerate(VALUES.items()):
        text = "</p><p>".join(html.escape(line) for line in _text(random.Random(i)).split("\n"))
        page = PAGE.format(html.escape(f"{CUES.get(kind, '')}{value}"), text)
        (tmp_path / "pages" / f"{kind}.html").write_text(page, encoding="utf-8")
    corpusflow.run(
        {
            "name": "canary",
            "input": [{"ingest.html": {"paths": [f"{tmp_path}/pages/*.html"]}}],
            "stages": ["ingest.extract", "clean.pii"],
            "output": ["export.parquet"],
            "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
        }
    )
    assert leaks(tmp_path / "run") == {}
    titles = corpusflow.open_run(str(tmp_path / "run")).stage("clean.pii").table(["title"])["title"].to_pylist()
    assert sum(f"[{kind.upper()}]" in (title or "") for kind, title in zip(sorted(VALUES), titles, strict=True)) == len(
        VALUES
    )


def _config(folder: Path, stages: list[Any]) -> dict[str, Any]:
    return {
        "name": "canary",
        "input": [
            {
                "ingest.jsonl": {
                    "paths": [_inputs(folder)],
                    "columns": {"title": "headline", "author": "by", "description": "summary"},
                }
            }
        ],
        "stages": stages,
        "output": ["export.parquet"],
        "run": {"dir": str(folder / "run"), "executor": "inline"},
    }


def leaks(folder: Path) -> dict[str, list[str]]:
    """File -> kinds of which it holds the value, packed columns unpacked."""
    found: dict[str, list[str]] = {}
    files = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        files += 1
        content = path.read_bytes().decode("utf-8", "replace")
        if path.suffix == ".parquet":
            content += json.dumps(pq.read_table(path).to_pylist(), ensure_ascii=False, default=str)
        plain = content.replace(" ", "")
        kinds = [kind for kind, value in VALUES.items() if value.replace(" ", "") in plain]
        if kinds:
            found[str(path.relative_to(folder))] = kinds
    assert files > 20
    return found


def test_no_value_is_left_in_the_run_folder(tmp_path: Path) -> None:
    corpusflow.run(_config(tmp_path, STAGES))
    assert leaks(tmp_path / "run") == {}
    table = (
        corpusflow.open_run(str(tmp_path / "run")).stage("clean.pii").table(["id", *(f"pii.{kind}" for kind in VALUES)])
    )
    assert table.num_rows == 12
    (text, *_) = corpusflow.open_run(str(tmp_path / "run")).stage("dedup.exact").table(["text"])["text"].to_pylist()
    assert all(f"[{kind.upper()}]" in text for kind in VALUES)
    assert {kind: sum(table[f"pii.{kind}"].to_pylist()) for kind in VALUES} == {
        kind: 12 * (4 + (kind in ("phone", "card")) + 2 * (kind == "email")) for kind in VALUES
    }


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        ([{"clean.unicode": {"keep": True}}, "clean.pii"], True),
        (["clean.unicode", "dedup.exact", "clean.pii"], True),
        (["dedup.lines", "clean.pii"], False),
        (["clean.pii", "dedup.exact", "clean.unicode"], False),
    ],
)
def test_values_are_stored_only_where_the_plan_says_so(tmp_path: Path, stages: list[Any], says: bool) -> None:
    config = _config(tmp_path, stages)
    notes = [note for note in Planner(as_config(config)).plan((), 0).notes if "before clean.pii redacts it" in note]
    assert bool(notes) == says
    corpusflow.run(config)
    found = leaks(tmp_path / "run")
    assert {path.split("/")[0] for path in found} == ({"clean.unicode"} if says else set())


def test_the_search_itself_finds_values(tmp_path: Path) -> None:
    corpusflow.run(_config(tmp_path, ["clean.unicode", {"clean.pii": {"default": "label"}}, "dedup.exact"]))
    assert any(set(kinds) == set(VALUES) for kinds in leaks(tmp_path / "run").values())


@pytest.mark.parametrize("action", ["replace", "pseudonym"])
def test_pseudonyms_leave_neither_value_nor_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    monkeypatch.setenv("CORPUSFLOW_PII_KEY", "a-canary-of-a-key")
    corpusflow.run(_config(tmp_path, [{"clean.pii": {"default": action}}]))
    assert leaks(tmp_path / "run") == {}
    assert not any(b"a-canary-of-a-key" in p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file())
