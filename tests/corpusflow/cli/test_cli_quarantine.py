"""`corpusflow quarantine list | replay`."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import yaml

STAGE = """
import pathlib, corpusflow

@corpusflow.document_score(adds={"my.n": "int32"})
def n(text: str) -> int:
    if not pathlib.Path(__file__).with_name("mended").exists():
        raise RuntimeError("not today")
    return len(text)
"""


def test_list_and_replay(call: Any, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(STAGE.replace("__file__", repr(f"{tmp_path}/my.py")))
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n{"text": 3}\n')
    config = {
        "input": [{"ingest.jsonl": {"paths": [f"{tmp_path}/in.jsonl"]}}],
        "stages": [f"{tmp_path}/my.py:n"],
        "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    assert call("run", tmp_path / "c.yaml").status == 0
    listed = call("quarantine", "list", tmp_path / "run", "--json")
    assert len(listed.out.splitlines()) == 3
    (tmp_path / "mended").touch()
    done = call("quarantine", "replay", tmp_path / "run", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out) == {"tried": 3, "kept_going": 2, "failed": 1, "missing": 0, "left": {}}
    assert "in.jsonl#0" not in call("quarantine", "list", tmp_path / "run").out
    assert "1 documents tried again" in call("quarantine", "replay", tmp_path / "run").out
    call("quarantine", "replay", tmp_path / "nothing").fails(2, "not a run folder")
    call("quarantine", "replay", tmp_path / "run", "--workers", 0).fails(2, "--workers")


def test_a_member_of_an_archive_has_no_place_of_its_own(call: Any, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n{"text": 3}\n')
    with tarfile.open(tmp_path / "in.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "in.jsonl", "in.jsonl")
    for name, source in (("a", "archive: {paths: [in.tar.gz], pages: skip}"), ("b", "jsonl: {paths: [in.jsonl]}")):
        text = (
            f"input: [ingest.{source}]\nstages: [quality.signals]\nrun: {{executor: inline, dir: {tmp_path}/{name}}}\n"
        )
        (tmp_path / f"{name}.yaml").write_text(text.replace("[in.", f"[{tmp_path}/in."))
        assert call("run", tmp_path / f"{name}.yaml").status == 0
    archived = call("quarantine", "list", tmp_path / "a")
    assert archived.out.splitlines()[1] == f"  {tmp_path}/in.tar.gz"
    assert "none" not in call("explain", tmp_path / "a", "archive/in.tar.gz#0+16").out
    plain = call("quarantine", "list", tmp_path / "b")
    assert plain.out.splitlines()[1] == f"  {tmp_path}/in.jsonl at 16, 11 bytes"
