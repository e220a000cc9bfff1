"""From tokens to documents and back, held against the run's own token columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpusflow
from corpusflow.errors import ConfigError, CorruptShardError
from corpusflow.reader import ShardReader
from corpusflow.trace import TokenExport


def lines(called: Any) -> list[dict[str, Any]]:
    assert called.status == 0, called.err
    return [json.loads(line) for line in called.out.splitlines()]


@pytest.fixture(scope="module")
def own_tokens(small_run: Any) -> dict[str, list[int]]:
    """Id -> tokens, as the run's column has them."""
    view = corpusflow.open_run(str(small_run)).stage("tokenize.sentencepiece")
    return {
        i: t
        for batch in view.batches(["id", "tokenize.tokens"])
        for i, t in zip(batch.column("id").to_pylist(), batch.column("tokenize.tokens").to_pylist(), strict=True)
    }


@pytest.mark.parametrize("name", ["megatron", "bin"])
def test_tokens_come_from_the_document_that_is_named(
    call: Any, small_run: Any, own_tokens: dict[str, list[int]], name: str
) -> None:
    data = np.fromfile(small_run.folder / "exports" / name / "train-00000-of-00001.bin", "<u2")
    token = 0
    for token in (0, 1, len(data) // 2, len(data) - 1):
        (found,) = lines(call("trace", small_run, "--token", token, "--export", name, "--json"))
        start, end = found["start"], found["start"] + found["tokens"]
        assert start <= token < end
        assert data[start:end].tolist() == own_tokens[found["id"]]
        document = found["document"]
        assert Path(document["path"]).stat().st_size >= document["offset"] + document["length"]
        assert document["id"].endswith(f"{Path(document['path']).name}#{document['offset']}")


def test_a_range_names_every_document_in_it_once(call: Any, small_run: Any, own_tokens: dict[str, list[int]]) -> None:
    total = sum(map(len, own_tokens.values()))
    found = lines(call("trace", small_run, "--token", 0, "--count", total, "--json"))
    assert sorted(f["id"] for f in found) == sorted(i for i, t in own_tokens.items() if t)
    assert [f["start"] for f in found] == np.cumsum([0, *(f["tokens"] for f in found[:-1])]).tolist()


def test_back_from_an_id_or_a_url(call: Any, small_run: Any) -> None:
    (there,) = lines(call("trace", small_run, "--token", 5000, "--json"))
    back = lines(call("trace", small_run, "--id", there["id"], "--json"))
    assert [b["export"] for b in back] == ["megatron", "bin"]
    assert back[0] == {k: v for k, v in there.items() if k not in ("document", "excerpt")}
    by_url = lines(call("trace", small_run, "--id", there["document"]["url"], "--json"))
    assert back[0] in by_url
    said = call("trace", small_run, "--id", there["id"]).out
    assert f"megatron train: tokens {there['start']:,} to" in said
    assert there["document"]["url"] in call("trace", small_run, "--token", 5000).out


def test_mistakes(call: Any, small_run: Any, own_tokens: dict[str, list[int]]) -> None:
    total = sum(map(len, own_tokens.values()))
    call("trace", small_run).fails(2, "--token or --id")
    call("trace", small_run, "--token", total).fails(2, f"no token {total}", f"0 to {total - 1}")
    call("trace", small_run, "--token", 1, "--split", "validation").fails(2, "its splits are train")
    call("trace", small_run, "--token", 1, "--export", "parquet").fails(2, "not tokens")
    call("trace", small_run, "--token", 1, "--export", "mds").fails(2, "megatron")
    call("trace", small_run, "--id", "nobody").fails(2, "nobody")


def test_a_dropped_document_has_no_tokens(call: Any, small_run: Any) -> None:
    run = corpusflow.open_run(str(small_run))
    shard, node, rows, _ = next(run.stage("dedup.exact").dropped())
    identity = ShardReader(run.plan, shard).locate(rows[:1], node.base).column("id")[0].as_py()
    call("trace", small_run, "--id", identity).fails(2, "no export has tokens", "explain")


def export_of(folder: Path, files: list[list[int]], sequence: int | None) -> TokenExport:
    """An export by its manifest and indexes; tracing needs no tokens."""
    folder.mkdir()
    listed = []
    for i, lengths in enumerate(files):
        index = {
            "id": [f"{i}#{n}" for n in range(len(lengths))],
            "offset": pa.array(np.cumsum(lengths) - lengths, pa.int64()),
            "length": pa.array(lengths, pa.int32()),
        }
        pq.write_table(pa.table(index), folder / f"{i}.documents.parquet")
        parts = {"npy": {"name": f"{i}.npy"}, "documents.parquet": {"name": f"{i}.documents.parquet"}}
        listed.append({"split": "train", "tokens": sum(lengths), "parts": parts})
    manifest: dict[str, Any] = {"format": "npy", "tokenizer": {}, "sequence": sequence, "files": listed}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return TokenExport(str(folder))


def test_samples_of_one_length_are_counted_within_their_file(tmp_path: Path) -> None:
    export = export_of(tmp_path / "cut", [[3, 9, 2], [4, 8, 1]], 4)  # 14 tokens: 3 samples, 2 left; 13: 3 and 1 left
    assert [export.at("train", t).samples for t in (0, 3, 12, 14, 18)] == [(0, 0), (0, 2), None, (0, 0), (1, 2)]
    last = export.at("train", 26)
    assert (last.id, last.file, last.start, last.file_token, last.samples) == ("1#2", "1.npy", 26, 12, None)
    (span,) = export.of("1#1")
    assert span == export.at("train", 20)
    assert list(export.of("2#0")) == []


def test_a_sample_is_a_document_where_nothing_is_cut(tmp_path: Path) -> None:
    export = export_of(tmp_path / "whole", [[3, 9], [4]], None)
    assert [export.at("train", t).samples for t in (2, 3, 12)] == [(0, 0), (1, 1), (0, 0)]


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    export = export_of(tmp_path / "bad", [[3]], None)
    (tmp_path / "bad" / "0.documents.parquet").write_bytes(b"PAR1")
    with pytest.raises(CorruptShardError, match=r"0\.documents"):
        export.at("train", 0)
    with pytest.raises(ConfigError, match="manifest"):
        TokenExport(str(tmp_path))
