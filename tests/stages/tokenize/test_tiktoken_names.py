"""`model: cl100k_base`: the file that tiktoken has kept of a public encoding, and what is said where there is none."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import corpusflow
from corpusflow import ConfigError
from stages.tokenize import _patterns, tiktoken
from stages.tokenize.tiktoken import Tiktoken

RANKS = [bytes([b]) for b in range(256)] + [b"th", b"the", b" the", b" r", b"er", b"iv", b" riv", b" river"]
FILE = b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(RANKS))


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Put a small file where tiktoken keeps one, as if it were the encoding's."""

    def put(name: str, data: bytes = FILE) -> Path:
        public = _patterns.PUBLIC[name]
        own = public._replace(sha256=hashlib.sha256(FILE).hexdigest(), special={"<|endoftext|>": 300})
        monkeypatch.setitem(tiktoken.PUBLIC, name, own)
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "kept"))
        path = tmp_path / "kept" / hashlib.sha1(public.address.encode()).hexdigest()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return path

    return put


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", "o200k_base"])
def test_a_name_stands_for_file_expression_and_special_tokens(keep: Callable[..., Path], name: str) -> None:
    pytest.importorskip("tiktoken")
    path = keep(name)
    named = Tiktoken(model=name)
    plain = Tiktoken(model=str(path), pattern=name, special={"<|endoftext|>": 300})
    assert corpusflow.stage.parameters(named) == corpusflow.stage.parameters(plain)
    assert named.facts()["encoder"] == "kernels"
    assert named.facts()["eos_id"] == 300
    batch = pa.record_batch({"text": pa.array(["the river"], pa.large_string())})
    assert named.score(batch).column(0).to_pylist() == [[RANKS.index(b"the"), RANKS.index(b" river"), 300]]


def test_what_is_given_besides_a_name_counts(keep: Callable[..., Path]) -> None:
    keep("o200k_base")
    stage = Tiktoken(model="o200k_base", pattern="gpt2", special={"<|end|>": 400}, eos="<|end|>")
    assert (stage.pattern, stage.vocabulary().eos) == ("gpt2", 400)


def test_a_file_of_that_name_comes_first(
    keep: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keep("cl100k_base")
    monkeypatch.chdir(tmp_path)
    Path("cl100k_base").write_bytes(FILE)
    assert Tiktoken(model="cl100k_base").model == "cl100k_base"


def test_a_file_that_is_not_there_or_another(
    keep: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keep("cl100k_base", FILE[:-9]).touch()
    with pytest.raises(ConfigError, match=r"has SHA-256 .*, tiktoken expects"):
        Tiktoken(model="cl100k_base")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(ConfigError, match="the file of cl100k_base is not on this machine") as e:
        Tiktoken(model="cl100k_base")
    assert f"TIKTOKEN_CACHE_DIR={tmp_path}/empty python -c" in str(e.value.hint)


def test_a_run_keeps_a_copy_of_its_own(keep: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    path = keep("cl100k_base")
    (tmp_path / "a.jsonl").write_text('{"text": "the river"}\n')
    config: dict[str, Any] = {
        "name": "named",
        "input": [{"ingest.jsonl": {"paths": [f"{tmp_path}/a.jsonl"]}}],
        "stages": [{"tokenize.tiktoken": {"model": "cl100k_base"}}],
        "output": ["export.bin"],
        "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
    }
    first = corpusflow.run(config)
    assert [p.read_bytes() for p in (tmp_path / "run" / "models").iterdir() if p.name.endswith(path.name)] == [FILE]
    tokens = Path(first.exports["export.bin"], "train-00000-of-00001.bin").read_bytes()
    assert list(memoryview(tokens).cast("H")) == [RANKS.index(b"the"), RANKS.index(b" river"), 300]


def test_as_tiktoken_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    public = pytest.importorskip("tiktoken_ext.openai_public")
    asked: list[tuple[str, str]] = []

    def load(address: str, expected_hash: str) -> dict[bytes, int]:
        asked.append((address, expected_hash))
        return {}

    monkeypatch.setattr(public, "load_tiktoken_bpe", load)
    for name, own in _patterns.PUBLIC.items():
        theirs = public.ENCODING_CONSTRUCTORS[name]()
        assert asked.pop() == (own.address, own.sha256)
        assert theirs["special_tokens"] == own.special
        assert theirs["pat_str"] == _patterns.NAMED[name]
