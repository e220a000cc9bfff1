"""A whole run on the engine: what the token files hold decodes to the text that the Parquet files hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sentencepiece

import corpusflow
from stages.kernels.megatron_index import read_index

MODEL = str(Path(__file__).parents[3] / "sample_data" / "tokenizer" / "web.model")
INPUT = str(Path(__file__).parents[3] / "sample_data" / "jsonl" / "*.jsonl.zst")


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    config: dict[str, Any] = {
        "name": "tokens",
        "seed": 3,
        "input": [{"ingest.jsonl": {"paths": [INPUT]}}],
        "stages": [{"tokenize.sentencepiece": {"model": MODEL}}],
        "output": [
            {"export.parquet": {"columns": ["id", "text"]}},
            {"export.megatron": {"validation": 0.2, "file_tokens": 20_000}},
            {"export.bin": {"shuffle": False}},
        ],
        "run": {"dir": str(folder / "run"), "executor": "inline"},
    }
    corpusflow.run(config)
    return folder / "run" / "exports"


@pytest.fixture(scope="module")
def texts(exports: Path) -> dict[str, str]:
    table = pa.concat_tables(pq.read_table(p) for p in sorted((exports / "parquet").glob("*.parquet")))
    return dict(zip(table.column("id").to_pylist(), table.column("text").to_pylist(), strict=True))


def spans(exports: Path, name: str) -> dict[str, list[int]]:
    """Token ids of each document, by the manifest and the document index alone."""
    manifest = json.loads((exports / name / "manifest.json").read_text())
    found: dict[str, list[int]] = {}
    for file in manifest["files"]:
        tokens = np.fromfile(exports / name / file["parts"]["bin"]["name"], manifest["dtype"])
        index = pq.read_table(exports / name / file["parts"]["documents.parquet"]["name"]).to_pylist()
        assert len(index) == file["documents"]
        for row in index:
            found[row["id"]] = tokens[row["offset"] : row["offset"] + row["length"]].tolist()
    return found


@pytest.mark.parametrize("name", ["megatron", "bin"])
def test_every_document_decodes_to_its_text(exports: Path, texts: dict[str, str], name: str) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=MODEL)
    found = spans(exports, name)
    assert len(found) == len(texts) > 100
    for key, ids in found.items():
        assert ids[0] == processor.bos_id()
        assert ids[-1] == processor.eos_id()
        assert ids[1:-1] == processor.encode(texts[key])
        assert processor.decode(ids) == texts[key]


def test_manifest_knows_the_tokenizer(exports: Path) -> None:
    tokenizer = json.loads((exports / "megatron" / "manifest.json").read_text())["tokenizer"]
    assert tokenizer["encoder"] == "kernels"
    assert tokenizer["eos_id"] == 2
    assert len(tokenizer["tokenizer_sha256"]) == 64


def test_idx_points_at_the_same_documents(exports: Path) -> None:
    for path in (exports / "megatron").glob("*.idx"):
        index = read_index(path.read_bytes())
        rows = pq.read_table(path.with_suffix(".documents.parquet"))
        assert index.lengths.tolist() == rows.column("length").to_pylist()
        assert (index.pointers // index.dtype.itemsize).tolist() == rows.column("offset").to_pylist()
