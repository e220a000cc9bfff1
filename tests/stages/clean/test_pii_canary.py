"""No value that clean.pii redacts lies anywhere in the run folder: checkpoints, exports, records, logs, quarantine."""

from __future__ import annotations

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
    lines = [json.dumps({"url": f"https://example.org/{i}", "text": _text(rng)}) for i in range(12)]
    everything = json.dumps(" ; ".join(VALUES.values()), ensure_ascii=False)
    lines[3:3] = [f'{{"text": {everything}, }}', f'{{"text": [{everything}]}}', everything]
    path = folder / "in.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def _config(folder: Path, stages: list[Any]) -> dict[str, Any]:
    return {
        "name": "canary",
        "input": [{"ingest.jsonl": {"paths": [_inputs(folder)]}}],
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
    assert {kind: sum(table[f"pii.{kind}"].to_pylist()) for kind in VALUES} == dict.fromkeys(VALUES, 12)


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
