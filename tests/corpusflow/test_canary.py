"""Canaries: put through the stages of a config, apart from its run, and missed when they do not end as they should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import corpusflow
from corpusflow import ConfigError
from corpusflow.canary import try_canaries
from corpusflow.config import build_config, load_config

ROOT = Path(__file__).resolve().parents[2]
GOOD = [{"id": "long", "text": "a fine text " * 20}, {"id": "longer", "text": "another fine text " * 20}]
BAD = [{"id": "short", "text": "no"}, {"id": "twin", "text": "a fine text " * 20}]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return str(path)


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    write(tmp_path / "in.jsonl", [{"text": f"document {i} of many, all of them read. " * 5} for i in range(30)])
    return {
        "name": "c",
        "input": [{"ingest.jsonl": {"paths": [str(tmp_path / "in.jsonl")]}}],
        "stages": [
            {"quality.threshold": {"column": "quality.chars", "min": 50, "reason": "short"}},
            "dedup.exact",
        ],
        "output": ["export.parquet"],
        "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
    }


def test_fates(config: dict[str, Any], tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good.jsonl", GOOD), write(tmp_path / "bad.jsonl", BAD)
    found = try_canaries(build_config(config), [good], [bad])
    ends = {f.record_id: (f.good, f.outcome, f.stage, f.reason) for f in found.fates}
    # which of two equal documents stays is the order of their ids' hashes: one of "long" and "twin" is wrong, not both
    assert ends["longer"] == (True, "kept", "", "")
    assert ends["short"] == (False, "dropped", "quality.threshold", "short")
    assert {ends["long"][1], ends["twin"][1]} == {"kept", "dropped"}
    assert {f.id.partition("/")[0] for f in found.fates} == {"canary-good", "canary-bad"}


def test_a_run_says_what_is_wrong_and_is_the_same_without(config: dict[str, Any], tmp_path: Path) -> None:
    plain = corpusflow.run({**config, "run": {**config["run"], "dir": str(tmp_path / "plain")}})
    good, bad = (
        write(tmp_path / "good.jsonl", [*GOOD, BAD[0]]),
        write(tmp_path / "bad.jsonl", [{"id": "x", "text": "a third fine text " * 20}]),
    )
    with_canaries = {**config, "run": {**config["run"], "canaries": {"good": [good], "bad": [bad]}}}
    result = corpusflow.run(with_canaries)
    assert result.canaries is not None
    assert result.digest == plain.digest
    assert [c.as_data()["kept"] for c in result.counts] == [c.as_data()["kept"] for c in plain.counts]
    first = [w for w in result.warnings if w.startswith("canary: ")]
    assert any("a good document was dropped by quality.threshold for short: canary-good/" in w for w in first)
    assert any("(short)" in w for w in first)
    assert any("a bad document was kept: canary-bad/bad.jsonl#0 (x)" in w for w in first)
    assert len(first) == 2
    names = {p.name: p.read_bytes() for p in (tmp_path / "plain/exports/parquet").glob("*.parquet")}
    assert names == {p.name: p.read_bytes() for p in (tmp_path / "run/exports/parquet").glob("*.parquet")}
    for path in (tmp_path / "run/exports").rglob("*.parquet"):
        assert not any(i.startswith("canary") for i in pq.read_table(path).column("id").to_pylist())
    stored = json.loads((tmp_path / "run/run.json").read_text())
    assert stored["canaries"]["good"] == 3
    assert stored["canaries"]["wrong"] == 2
    # mended canaries are read again, and nothing of the run itself runs again
    write(tmp_path / "good.jsonl", GOOD)
    write(tmp_path / "bad.jsonl", BAD[:1])
    again = corpusflow.run(with_canaries)
    assert not [w for w in again.warnings if w.startswith("canary")]
    assert not any(s.tasks for s in again.steps)
    assert again.digest == plain.digest


def test_a_document_that_a_stage_cannot_process(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(
        "import corpusflow\n\n@corpusflow.document_score(adds={'my.n': 'int32'})\ndef n(text: str) -> int:\n"
        "    return int(text)\n"
    )
    config["stages"] = [f"{tmp_path}/my.py:n"]
    found = try_canaries(build_config(config), [write(tmp_path / "good.jsonl", [GOOD[0], {"text": "7"}])])
    assert [(f.outcome, f.wrong) for f in sorted(found.fates, key=lambda f: f.outcome)] == [
        ("kept", False),
        ("quarantined", True),
    ]
    assert "was quarantined by" in found.complaints()[0]


def test_archives_hold_more_than_documents(config: dict[str, Any], tmp_path: Path) -> None:
    """Requests in a web archive are no canaries; its pages are."""
    body = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html><body><p>" + GOOD[0]["text"] + "</p></body></html>"
    records = ""
    for kind, data in (("request", "GET / HTTP/1.1\r\n\r\n"), ("response", body)):
        records += (
            f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: https://example.org/\r\n"
            f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(data)}\r\n\r\n{data}\r\n\r\n"
        )
    (tmp_path / "good.warc").write_bytes(records.encode())
    config["stages"] = ["ingest.extract", *config["stages"]]
    found = try_canaries(build_config(config), [str(tmp_path / "good.warc")])
    assert [f.outcome for f in found.fates] == ["kept"]


def test_nothing_to_try(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no canaries"):
        try_canaries(build_config(config))
    with pytest.raises(ConfigError, match=r"nothing reads .*good\.doc"):
        try_canaries(build_config(config), [str(tmp_path / "good.doc")])
    with pytest.raises(ConfigError, match="does not exist"):
        try_canaries(build_config(config), [str(tmp_path / "none.jsonl")])
    with pytest.raises(ConfigError, match="no stages"):
        try_canaries(build_config({**config, "stages": []}), [write(tmp_path / "good.jsonl", GOOD)])


def test_the_sample_canaries_suit_the_sample_config(tmp_path: Path) -> None:
    loaded = load_config(str(ROOT / "configs/web.yaml"), [f"run.dir={tmp_path}/run"])
    folder = ROOT / "sample_data/canaries"
    config = {
        **loaded.as_data(),
        "stages": [{s.name: dict(s.params)} for s in loaded.stages if "minhash" not in s.name],
    }
    found = try_canaries(build_config(config), [str(folder / "good.jsonl")], [str(folder / "bad.jsonl")])
    assert len(found.fates) == 12
    assert not found.complaints()
