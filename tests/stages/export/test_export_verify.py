"""What the Sinks themselves find wrong with their files, and where they say a document lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stages.export.bin import Bin
from stages.export.megatron import Megatron
from stages.export.parquet import Parquet

TOKENS = "tokenize.tokens"


def shard(number: int, documents: int) -> pa.Table:
    rng = np.random.default_rng(number)
    tokens = [rng.integers(0, 60_000, int(n)).tolist() for n in rng.integers(1, 30, documents)]
    return pa.table(
        {
            "id": [f"s/{number}#{i}" for i in range(documents)],
            "text": pa.array([f"text {number} {i}" for i in range(documents)], pa.large_string()),
            TOKENS: pa.array(tokens, pa.list_(pa.uint16())),
        }
    )


def problems(sink: Any, task: Any, sample: int = 20) -> list[str]:
    return [p for check in sink.verify(task, sample) for p in check.problems]


@pytest.fixture
def look(run_sink: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """(what the files are, a reader of them) of a Sink over three shards."""

    def run(sink: Any) -> tuple[Any, Any]:
        import sys

        made = run_sink(sink, [shard(n, 25) for n in range(3)])
        reader = sys.modules[type(made).__module__].MemoryTask(made, "verify", -1)
        return made, reader

    return run


def of(made: Any, suffix: str) -> str:
    return next(path for path in sorted(made.files) if path.endswith(suffix))


@pytest.mark.parametrize("sink", [Bin(file_tokens=400), Megatron(validation=0.2), Megatron(shuffle=False)])
def test_good_token_files(look: Callable[..., Any], sink: Any) -> None:
    _, reader = look(sink)
    checks = list(sink.verify(reader, 20))
    assert [c.problems for c in checks] == [()] * len(checks)
    assert checks[1].count >= 20


def test_find_points_at_the_tokens(look: Callable[..., Any]) -> None:
    sink = Bin(file_tokens=400)
    made, reader = look(sink)
    for row in shard(1, 25).to_pylist():
        (place,) = sink.find(reader, row["id"])
        data = made.published[place["file"]]
        start = 2 * place["token"]
        assert np.frombuffer(data[start : start + 2 * place["tokens"]], "<u2").tolist() == row[TOKENS]
    assert list(sink.find(reader, "nobody")) == []


def test_short_tokens_are_found(look: Callable[..., Any]) -> None:
    sink = Bin()
    made, reader = look(sink)
    path = of(made, "train.bin")
    made.files[path] = made.files[path][:-2]
    made.parts["write"] = [
        part if part.path != path else type(part)(part.task, part.name, path, part.size - 2, 0, "")
        for part in made.parts["write"]
    ]
    assert any("bytes" in p and ".bin" in p for p in problems(sink, reader))


def test_shifted_tokens_are_found(look: Callable[..., Any]) -> None:
    sink = Bin()
    made, reader = look(sink)
    path = of(made, "train.bin")
    made.files[path] = made.files[path][2:] + made.files[path][:2]
    found = problems(sink, reader)
    assert found
    assert all("are not those that the run has of it" in p for p in found)


def test_a_wrong_megatron_index_is_found(look: Callable[..., Any]) -> None:
    sink = Megatron()
    made, reader = look(sink)
    path = of(made, "train.idx")
    data = bytearray(made.files[path])
    data[40] ^= 1
    made.files[path] = bytes(data)
    assert problems(sink, reader) == ["train-00000-of-00001: the .idx file is not the index of these documents"]


def test_a_missing_document_is_found(look: Callable[..., Any]) -> None:
    sink = Bin()
    made, reader = look(sink)
    made.shards[1] = pa.concat_tables([made.shards[1], shard(9, 1)])
    assert any("s/9#0 is in no file" in p for p in problems(sink, reader, sample=200))


def test_parquet_counts_its_documents(look: Callable[..., Any]) -> None:
    sink = Parquet(columns=("id", "text"))
    made, reader = look(sink)
    checks = {c.what: c.count for c in sink.verify(reader, 0)}
    assert checks["documents in them"] == 75
    assert [p["row"] for p in sink.find(reader, "s/0#7")] == [7]
    made.notes["write"][0]["train"] = {**made.notes["write"][0]["train"], "documents": 74}
    assert problems(sink, reader) == ["train-00000-of-00001.parquet: 75 rows, 74 were written"]
    assert json.loads(made.texts["manifest.json"])["format"] == "parquet"
