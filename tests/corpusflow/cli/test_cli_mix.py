"""Mixtures of a real run by command: said, written, read back, the same every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corpusflow
from corpusflow.errors import CorruptShardError
from corpusflow.feed import Loader, TokenFiles, open_mixture
from corpusflow.hosts import host


def recipe(folder: Path, text: str) -> Path:
    path = folder / "mix.yaml"
    path.write_text(f"name: m\nseed: 3\nlength: 32\noutput: {folder}/mix\n{text}", encoding="utf-8")
    return path


def said(called: Any) -> dict[str, Any]:
    assert called.status == 0, called.err
    body: dict[str, Any] = json.loads(called.out)
    return body


def test_whole_exports_by_weight(call: Any, small_run: Any, tmp_path: Path) -> None:
    path = recipe(
        tmp_path,
        f"tokens: 64k\nmax_epochs: 2\nparts:\n"
        f"  a: {{run: {small_run}, export: megatron, weight: 3}}\n"
        f"  b: {{run: {small_run}, export: megatron, weight: 1}}\n",
    )
    body = said(call("mix", path, "--json"))
    assert body["sequences"] == 2000
    assert [p["sequences"] for p in body["parts"]] == [1500, 500]
    files = TokenFiles(str(small_run.folder / "exports" / "megatron"))
    assert [p["available_tokens"] for p in body["parts"]] == [len(files)] * 2
    mixture = open_mixture(str(tmp_path / "mix"))
    assert mixture.sequences == 2000
    loader = Loader(mixture, 8, seed=mixture.seed)
    assert loader.steps_left == 250
    batch = next(loader)["tokens"]
    assert batch.shape == (8, 33)
    weight, prefix, *_ = (tmp_path / "mix" / "train.blend.txt").read_text().split()
    assert (int(weight), prefix) == (48_000, str(small_run.folder / "exports/megatron/train-00000-of-00001"))
    first = {p.name: p.read_bytes() for p in (tmp_path / "mix").iterdir()}
    assert call("mix", path).status == 0
    assert {p.name: p.read_bytes() for p in (tmp_path / "mix").iterdir()} == first


@pytest.mark.parametrize("by", ["language.code", "domain"])
def test_a_part_for_each_value(call: Any, small_run: Any, tmp_path: Path, by: str) -> None:
    path = recipe(tmp_path, f"parts:\n  web: {{run: {small_run}, by: {by}, temperature: 1000000}}\n")
    body = said(call("mix", path, "--json"))
    table = corpusflow.open_run(str(small_run)).stage("tokenize.sentencepiece").table(["id", "url", "language.code"])
    values = {
        row["id"]: row["language.code"] if by == "language.code" else host(row["url"]) for row in table.to_pylist()
    }
    mixture = open_mixture(str(tmp_path / "mix"))
    assert len(mixture.names) == len(body["parts"]) > 1
    tokens = 0
    for name, data in zip(mixture.names, mixture.datasets, strict=True):
        tokens += len(data.files)
        value = name.removeprefix("web.")
        for start in data.files.document_starts[:-1]:
            assert values[data.files.trace(int(start)).id] == value
    left = sum(one["tokens"] for one in body["left_out"])
    assert tokens + left == len(TokenFiles(str(small_run.folder / "exports" / "megatron")))
    sequences = [p["sequences"] for p in body["parts"]]
    assert max(sequences) - min(sequences) <= 1, "so hot that all are drawn alike"
    assert all(p["epochs"] <= 1.0 for p in body["parts"])
    assert not (tmp_path / "mix" / "train.blend.txt").exists()
    counts = np.bincount(mixture.draws(np.arange(mixture.sequences), 3)[0])
    assert counts.tolist() == sequences


def test_said_before_it_is_written(call: Any, small_run: Any, tmp_path: Path) -> None:
    path = recipe(tmp_path, f"parts:\n  all: {{run: {small_run}, epochs: 1.5}}\n")
    told = call("mix", path, "--dry-run")
    assert told.status == 0, told.err
    assert "1.50" in told.out
    assert "100.00%" in told.out
    assert not (tmp_path / "mix").exists()


def test_mistakes(call: Any, small_run: Any, tmp_path: Path) -> None:
    call("mix", tmp_path / "none.yaml").fails(2, "is not a file", "hint: ")
    (tmp_path / "nine.yaml").touch()
    call("mix", tmp_path / "none.yaml").fails(2, f"hint: did you mean {tmp_path}/nine.yaml?")
    one = f"run: {small_run}"
    call("mix", recipe(tmp_path, f"parts: {{a: {{{one}, export: parquet}}}}")).fails(2, "not token files")
    call("mix", recipe(tmp_path, f"parts: {{a: {{{one}, export: mds}}}}")).fails(2, "no export mds", "megatron")
    call("mix", recipe(tmp_path, f"parts: {{a: {{{one}, by: language.kode}}}}")).fails(2, "language.code")
    call("mix", recipe(tmp_path, f"tokens: 1B\nmax_epochs: 2\nparts: {{a: {{{one}}}}}")).fails(2, "max_epochs lets")
    call("mix", recipe(tmp_path, f"tokens: 31\nparts: {{a: {{{one}}}}}")).fails(2, "a budget of 31 tokens is less")
    call("mix", recipe(tmp_path, f"max_epochs: 0.0001\nparts: {{a: {{{one}}}}}")).fails(2, "what the parts are to give")
    call("mix", recipe(tmp_path, f"parts: {{a: {{run: {tmp_path}}}}}")).fails(2, "not a run folder")
    long = recipe(tmp_path, f"parts: {{a: {{{one}}}}}")
    long.write_text(long.read_text().replace("length: 32", "length: 10000000"))
    call("mix", long).fails(2, "fewer tokens than one sequence")


def test_a_mixture_of_a_run_that_has_changed_is_refused(call: Any, own_run: Any, tmp_path: Path) -> None:
    path = recipe(tmp_path, f"parts: {{a: {{run: {own_run}, by: language.code}}}}")
    said(call("mix", path, "--json"))
    folder = tmp_path / "mix"
    numbers = folder / "documents-0000.parquet"
    good = numbers.read_bytes()
    numbers.write_bytes(good[:-1])
    with pytest.raises(CorruptShardError, match="damaged"):
        open_mixture(str(folder))
    numbers.write_bytes(good)
    manifest = own_run.folder / "exports" / "megatron" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(CorruptShardError, match="is not what"):
        open_mixture(str(folder))
