"""Exports of token files, small enough to check by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def write_export(
    folder: Path, files: Sequence[Sequence[Sequence[int]]], split: str = "train", dtype: str = "uint16"
) -> str:
    """An export whose files hold the given documents."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for i, documents in enumerate(files):
        stem = f"{split}-{i:05d}-of-{len(files):05d}"
        tokens = np.array([t for d in documents for t in d], dtype)
        (folder / f"{stem}.bin").write_bytes(tokens.tobytes())
        lengths = np.array([len(d) for d in documents])
        index = {
            "id": [f"{split}/{i}#{n}" for n in range(len(documents))],
            "offset": pa.array(np.cumsum(lengths) - lengths, pa.int64()),
            "length": pa.array(lengths, pa.int32()),
        }
        pq.write_table(pa.table(index), folder / f"{stem}.documents.parquet", write_page_checksum=True)
        parts = {
            "bin": {"name": f"{stem}.bin", "bytes": tokens.nbytes},
            "documents.parquet": {"name": f"{stem}.documents.parquet"},
        }
        listed.append({"split": split, "documents": len(documents), "tokens": len(tokens), "parts": parts})
    manifest = {
        "format": "bin",
        "dtype": dtype,
        "tokenizer": {"eos_id": 2, "pad_id": None},
        "splits": {split: {"tokens": sum(f["tokens"] for f in listed)}},
        "files": listed,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return str(folder)


@pytest.fixture(scope="session")
def make_export() -> Callable[..., str]:
    return write_export


@pytest.fixture(scope="session")
def export(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files of documents whose tokens count up through the whole split: token number t is t."""
    rng = np.random.default_rng(4)
    files, at = [], 0
    for _ in range(3):
        documents = []
        for size in rng.integers(1, 30, size=150):
            documents.append(list(range(at, at + size)))
            at += int(size)
        files.append(documents)
    return write_export(tmp_path_factory.mktemp("export"), files)
