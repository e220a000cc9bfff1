from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from corpusflow.json_schema import config_schema
from corpusflow.registry import stage_names

jsonschema = pytest.importorskip("jsonschema")
CONFIGS = sorted(p for p in (Path(__file__).parents[3] / "configs").glob("*.yaml") if p.name != "mix.yaml")


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = config_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda p: p.name)
def test_shipped_configs_are_valid(validator: Any, config: Path) -> None:
    assert [e.message for e in validator.iter_errors(yaml.safe_load(config.read_text()))] == []


GOOD: dict[str, Any] = {
    "input": [{"ingest.warc": {"paths": ["a.warc.gz"]}}],
    "stages": [
        "ingest.extract",
        {"quality.gopher": None},
        {"language.identify": {"keep": ["en"], "min_score": {"en": 0.5, "*": 0.7}}},
        "./my.py:Mine",
        {"./my.py:Other": {"anything": 1}},
    ],
    "output": ["export.bin"],
    "run": {"workers": "auto", "dir": "runs/x"},
}

BAD: dict[str, dict[str, Any]] = {
    "no input": {"input": []},
    "unknown key": {"stage": []},
    "unknown stage": {"stages": ["quality.gofer"]},
    "misspelt parameter": {"stages": [{"quality.gopher": {"min_word": 3}}]},
    "wrong type": {"stages": [{"quality.gopher": {"min_words": "many"}}]},
    "missing parameter": {"input": ["ingest.warc"]},
    "two stages in one entry": {"stages": [{"ingest.extract": {}, "quality.gopher": {}}]},
    "a Sink among the stages": {"stages": ["export.bin"]},
    "unknown run key": {"run": {"worker": 2}},
    "wrong run value": {"run": {"executor": "spark"}},
}


def test_a_config_with_every_form_is_valid(validator: Any) -> None:
    assert [e.message for e in validator.iter_errors(GOOD)] == []
    one_path = {**GOOD, "input": [{"ingest.warc": {"paths": "a.warc.gz"}}]}
    assert validator.is_valid(one_path)
    assert validator.is_valid({**GOOD, "stages": [{"language.identify": {"keep": "en"}}]})


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_mistakes_are_seen(validator: Any, change: dict[str, Any]) -> None:
    assert not validator.is_valid({**GOOD, **change})


def test_every_stage_is_in_it_with_its_docs(call: Any, tmp_path: Path) -> None:
    out = tmp_path / "s.json"
    assert call("schema", "--out", out).status == 0
    schema = json.loads(out.read_text())
    assert schema == json.loads(call("schema").out)
    found = {}
    for section in ("input", "stages", "output"):
        for form in schema["properties"][section]["items"]["anyOf"]:
            found.update(form.get("properties", {}))
    assert set(found) == set(stage_names())
    minimum = found["quality.gopher"]["anyOf"][0]["properties"]["min_words"]
    assert minimum["description"]
    assert minimum["default"] == 50
