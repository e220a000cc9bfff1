"""YAML to Config: what is refused, with its place, and what an override does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError
from corpusflow.config import build_config, load_config, override_stage, parse_config

GOOD = """\
name: web
seed: 7
input:
  - ingest.warc: {paths: [a.warc.gz]}
stages:
  - ingest.extract
  - quality.gopher: {min_words: 50}
  - quality.threshold: {column: a.b, max: 1}
  - quality.threshold: {column: a.c, max: 2}
output:
  - export.parquet
run: {dir: runs/web, workers: 2}
"""


def error(text: str, *overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, file="c.yaml", overrides=overrides)
    return caught.value


def test_a_config() -> None:
    config = parse_config(GOOD, file="c.yaml")
    assert (config.name, config.seed, config.run.workers, config.run.dir) == ("web", 7, 2, "runs/web")
    assert [s.name for s in config.stages][:2] == ["ingest.extract", "quality.gopher"]
    assert config.stages[1].params == {"min_words": 50}
    assert [s.line for s in config.stages] == [6, 7, 8, 9]
    assert config.where("stages", 1, "min_words") == "c.yaml:7"
    assert config.where("nothing") == "c.yaml:1"


def test_defaults() -> None:
    config = parse_config("name: news\ninput: [ingest.warc: {paths: x}]")
    assert (config.seed, config.run.dir, config.run.executor, config.run.workers) == (0, "runs/news", "ray", "auto")
    assert config.stages == config.output == ()


@pytest.mark.parametrize(
    ("text", "line", "says", "hint"),
    [
        (GOOD.replace("seed", "sede"), 2, "unknown key 'sede'", "did you mean seed?"),
        (GOOD.replace("workers", "wokers"), 12, "unknown key run.wokers", "did you mean workers?"),
        (GOOD.replace("workers: 2", "executor: spark"), 12, "run.executor", None),
        (GOOD.replace("workers: 2", "limit: 0"), 12, "run.limit", None),
        (GOOD.replace("workers: 2", "sample: 1.5"), 12, "run.sample", None),
        (GOOD.replace("seed: 7", "seed: x"), 2, "seed must be a whole number", None),
        (GOOD.replace("seed: 7", "seed: true"), 2, "seed must be a whole number", None),
        (GOOD.replace("name: web", "name: ../etc"), 1, "name must be letters", None),
        (GOOD.replace("name: web", "name: 7"), 1, "name must be letters", None),
        (GOOD.replace("seed: 7", "seed: 7\nseed: 8"), 3, "key 'seed' is given twice", None),
        (GOOD.replace("{min_words: 50}", "{min_words: 50, min_words: 60}"), 7, "given twice", None),
        (GOOD.replace("{min_words: 50}", "[50]"), 7, "must be a mapping", None),
        (GOOD.replace("  - ingest.extract", "  - [ingest.extract]"), 6, "expected one stage", None),
        (GOOD.replace("  - ingest.extract", "  - a: {}\n    b: {}"), 6, "expected one stage", None),
        (GOOD.replace("  - export.parquet", "  export.parquet: {}"), 10, "must be a list of stages", None),
        ("name: x\nstages: [a]", 1, "needs an input", "ingest.warc"),
        ("a: [", 1, "not valid YAML", None),
        ("a:\n  b: 1\n c: 2", 3, "not valid YAML", None),
        ("", 0, "is empty", "configs/web.yaml"),
        ("- a", 0, "expected a mapping", None),
        ("a: &x [1]\nb: *x", 1, "anchors and aliases are not allowed", None),
        ("a: !!python/object/apply:os.system ['true']", 1, "expected a plain value", None),
        ("a: !!binary aGk=", 1, "expected a plain value", None),
    ],
)
def test_refused_with_its_place(text: str, line: int, says: str, hint: str | None) -> None:
    e = error(text)
    assert says in e.message
    assert e.message.startswith(f"c.yaml:{line}: " if line else "c.yaml"), e.message
    assert hint is None or hint in str(e.hint)


def test_bombs() -> None:
    aliases = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{c}: &{c} [{','.join(['*' + chr(ord(c) - 1)] * 9)}]\n" for c in "bcdefghi"
    )
    assert "anchors and aliases" in error(aliases).message
    assert "nested deeper than 32" in error("a: " + "[" * 40 + "]" * 40).message
    assert "1048577 bytes" in error("#" * ((1 << 20) + 1)).message
    for deep in ("[" * 100_000, "{a: " * 20_000, "- " * 50_000):
        assert "nested deeper than 32" in error("a: " + deep).message or "not valid YAML" in error("a: " + deep).message


@pytest.mark.parametrize("data", [b"a: \xff\xfe", b"\x00\x01", "a: \ud800".encode(errors="surrogatepass")])
def test_bytes_that_are_no_text(data: bytes) -> None:
    with pytest.raises(ConfigError, match="not valid YAML"):
        parse_config(data, file="c.yaml")


def test_files(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(GOOD)
    assert load_config(str(tmp_path / "web.yaml")).name == "web"
    with pytest.raises(ConfigError, match="does not exist") as caught:
        load_config(str(tmp_path / "wbe.yaml"))
    assert "web.yaml?" in str(caught.value.hint)
    with pytest.raises(ConfigError, match="is a folder"):
        load_config(str(tmp_path))


@pytest.mark.parametrize(
    ("override", "get"),
    [
        ("quality.gopher.min_words=30", lambda c: c.stages[1].params == {"min_words": 30}),
        ("quality.gopher.other=[1, 2]", lambda c: c.stages[1].params == {"min_words": 50, "other": [1, 2]}),
        ("ingest.extract.deadline=2.5", lambda c: c.stages[0].params == {"deadline": 2.5}),
        ("ingest.warc.paths=[b]", lambda c: c.input[0].params == {"paths": ["b"]}),
        ("export.parquet.x=y", lambda c: c.output[0].params == {"x": "y"}),
        ("stages.3.max=9", lambda c: c.stages[3].params["max"] == 9),
        ("quality.gopher.table.en=3", lambda c: c.stages[1].params["table"] == {"en": 3}),
        ("run.workers=8", lambda c: c.run.workers == 8),
        ("run.limit=10", lambda c: c.run.limit == 10),
        ("seed=9", lambda c: c.seed == 9),
        ("name=other", lambda c: c.name == "other"),
    ],
)
def test_overrides(override: str, get: Any) -> None:
    assert get(parse_config(GOOD, overrides=[override]))


@pytest.mark.parametrize(
    ("override", "says", "hint"),
    [
        ("quality.gopher.min_words", "expected key=value", "min_words=30"),
        ("quality.gofer.min_words=3", "no stage of this config is called", "did you mean quality.gopher?"),
        ("quality.threshold.max=3", "appears 2 times", "stages.2.max or stages.3.max"),
        ("run.wokers=3", "unknown key run.wokers", "did you mean workers?"),
        ("stages.9.max=3", "entries 0 to 3", None),
        ("stages.x.max=3", "entries 0 to 3", None),
        ("seed.x=3", "nothing there to set", None),
        ("stages=3", "must be a list of stages", None),
        ("run.dir={a", "not valid YAML", None),
        ("input.0=3", "input.0", None),
        ("name.x.y=1", "plain value", None),
    ],
)
def test_bad_overrides(override: str, says: str, hint: str | None) -> None:
    e = error(GOOD, override)
    assert says in e.message
    assert hint is None or hint in str(e.hint)


def test_a_run_that_is_null() -> None:
    assert parse_config(GOOD.replace("run: {dir: runs/web, workers: 2}", "run:")).run.dir == "runs/web"
    assert parse_config(GOOD.replace("{dir: runs/web, workers: 2}", ""), overrides=["run.workers=3"]).run.workers == 3


def test_plain_words() -> None:
    """`no` is Norwegian, a date is no object, 010 is no eight."""
    given = "since: 2024-05-01, no: 0.5, keep: [en, no, on], at: 1_000, x: 010, y: 1:30, t: true, z: ~, e: 1.5e3, h: 0x1F, m: -7"
    config = parse_config(GOOD.replace("min_words: 50", given))
    assert config.stages[1].params == {
        "since": "2024-05-01",
        "no": 0.5,
        "keep": ["en", "no", "on"],
        "at": 1000,
        "x": "010",
        "y": "1:30",
        "t": True,
        "z": None,
        "e": 1500.0,
        "h": 31,
        "m": -7,
    }


def test_lists_left_empty() -> None:
    config = parse_config("input: [a: {paths: x}]\nstages:\noutput:\n")
    assert config.stages == config.output == ()


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_config_or_an_error(text: str) -> None:
    message = "c.yaml"
    try:
        parse_config(text, file="c.yaml")
    except ConfigError as e:
        message = e.message
    assert message.startswith("c.yaml")


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda v: st.lists(v) | st.dictionaries(st.text(max_size=5), v)
    )
)
def test_any_tree_is_a_config_or_an_error(tree: Any) -> None:
    for data in (tree, {"input": tree}, {"input": ["a"], "run": tree}, {"input": ["a"], "stages": tree}):
        message = "c.yaml"
        try:
            build_config(data, file="c.yaml")
        except ConfigError as e:
            message = e.message
        assert message.startswith("c.yaml")


def test_resolved_config_reads_back() -> None:
    config = parse_config(GOOD)
    again = parse_config(yaml.safe_dump(config.as_data()))
    assert again.as_data() == config.as_data()


def test_override_stage_touches_one_stage() -> None:
    config = override_stage(parse_config(GOOD), "quality.gopher", min_words=3)
    assert config.stages[1].params == {"min_words": 3}
    assert config.stages[0].params == {}
