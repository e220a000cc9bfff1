from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.export.bin import Bin


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("width", ["uint16", "uint32"])
def test_header_and_document_index_find_every_document(run_sink: Callable[..., Any], shuffle: bool, width: str) -> None:
    rng = np.random.default_rng(3)
    lists = [rng.integers(0, 60_000, size=n).tolist() for n in rng.integers(1, 40, size=300)]
    table = pa.table(
        {
            "id": [f"x#{i}" for i in range(300)],
            "tokenize.tokens": pa.array(lists, pa.list_(pa.type_for_alias(width))),
        }
    )
    run = run_sink(Bin(shuffle=shuffle, validation=0.2, file_tokens=900), [table.slice(0, 100), table.slice(100)])
    found = {}
    for name, text in run.texts.items():
        if name == "manifest.json":
            continue
        header = json.loads(text)
        tokens = np.frombuffer(run.published[name.replace(".json", ".bin")], "<u2" if width == "uint16" else "<u4")
        assert header["dtype"] == width
        assert header["tokens"] == len(tokens)
        assert header["tokenizer"] == {"eos_id": 2}
        index = pq.read_table(io.BytesIO(run.published[header["document_index"]])).to_pylist()
        assert len(index) == header["documents"]
        for row in index:
            found[row["id"]] = tokens[row["offset"] : row["offset"] + row["length"]].tolist()
    assert found == dict(zip(table.column("id").to_pylist(), lists, strict=True))
