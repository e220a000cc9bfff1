from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError
from stages.export._row_groups import RowGroupWriter, _cuts
from stages.export.parquet import Parquet, row_bytes

COLUMNS = ("id", "url", "text", "language.code", "quality.words")


def documents(count: int) -> pa.Table:
    rng = np.random.default_rng(5)
    words = ["river", "mill", "河水", "磨坊", "é", ""]
    texts = [" ".join(rng.choice(words, size=n)) for n in rng.integers(0, 80, size=count)]
    return pa.table(
        {
            "id": [f"w/b.warc.gz#{i}" for i in range(count)],
            "url": pa.array([None if i % 7 == 0 else f"https://example.org/{i}" for i in range(count)], pa.string()),
            "text": pa.array(texts, pa.large_string()),
            "language.code": ["zh" if i % 3 else "en" for i in range(count)],
            "quality.words": pa.array([len(t.split()) for t in texts], pa.int32()),
        }
    )


def tables(run: Any) -> dict[str, pa.Table]:
    return {n: pq.read_table(io.BytesIO(d), page_checksum_verification=True) for n, d in run.published.items()}


@pytest.mark.parametrize("shuffle", [True, False])
def test_rows_survive_whole_with_types_and_nulls(run_sink: Callable[..., Any], shuffle: bool) -> None:
    table = documents(400)
    sink = Parquet(columns=COLUMNS, shuffle=shuffle, validation=0.1, file_bytes=20_000)
    run = run_sink(sink, [table.slice(0, 150), table.slice(150, 0), table.slice(150)], batch_rows=33)
    got = pa.concat_tables(tables(run).values())
    assert got.schema.equals(table.schema)
    assert got.sort_by("id").equals(table.sort_by("id"))
    manifest = json.loads(run.texts["manifest.json"])
    assert sum(s["documents"] for s in manifest["splits"].values()) == 400
    assert {p["name"] for f in manifest["files"] for p in f["parts"].values()} == set(run.published)


@pytest.mark.parametrize("shuffle", [True, False])
def test_columns_of_lists_of_anything(run_sink: Callable[..., Any], shuffle: bool) -> None:
    """`clean.pii.spans` and `language.mixed` are lists of structs, whose size is not that of one number."""
    span = pa.struct([("kind", pa.string()), ("start", pa.int32())])
    spans = [[{"kind": "email", "start": 3}, {"kind": "ip", "start": 9}], [], None]
    table = pa.table(
        {
            "id": ["a", "b", "c"],
            "clean.pii.spans": pa.array(spans, pa.list_(span)),
            "names": pa.array([["x", None, "yz"], None, []], pa.list_(pa.string())),
        }
    )
    (data,) = run_sink(Parquet(columns=tuple(table.column_names), shuffle=shuffle), [table]).published.values()
    assert pq.read_table(io.BytesIO(data)).sort_by("id").to_pylist() == table.to_pylist()
    (batch,) = table.to_batches()
    assert row_bytes(batch).tolist() == [64 + 1 + 7 + 8 + 3, 64 + 1, 64 + 1]
    assert row_bytes(batch.slice(1)).tolist() == [64 + 1, 64 + 1]


def test_small_shards_share_files_and_keep_their_order(run_sink: Callable[..., Any]) -> None:
    table = documents(300)
    shards = [table.slice(i, 10) for i in range(0, 300, 10)]
    run = run_sink(Parquet(columns=COLUMNS, file_bytes=40_000), shards)
    assert 1 < len(run.published) < 10
    got = pa.concat_tables(tables(run).values())
    assert got.equals(table)


def test_bytes_do_not_depend_on_batches(run_sink: Callable[..., Any]) -> None:
    table = documents(500)
    for shuffle in (True, False):
        sink = Parquet(columns=COLUMNS, shuffle=shuffle)
        a, b = (run_sink(sink, [table], batch_rows=n) for n in (500, 11))
        assert a.published == b.published


def test_shuffled_bytes_do_not_depend_on_shards(run_sink: Callable[..., Any]) -> None:
    table = documents(500)
    sink = Parquet(columns=COLUMNS, shuffle=True, file_bytes=50_000)
    a = run_sink(sink, [table])
    b = run_sink(sink, [table.slice(0, 1), table.slice(1, 200), table.slice(201)])
    assert a.published == b.published


def test_row_groups_are_bounded_in_rows_and_bytes() -> None:
    sizes = np.array([1 << 20] * 100 + [200 << 20] + [1] * 40_000)
    batch = pa.record_batch({"id": [str(i) for i in range(len(sizes))]})
    out = io.BytesIO()
    writer = RowGroupWriter(out, batch.schema, compression_level=1)
    for start in range(0, len(sizes), 777):
        writer.write(batch.slice(start, 777), sizes[start : start + 777])
    writer.close()
    metadata = pq.read_metadata(io.BytesIO(out.getvalue()))
    rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    assert rows[:2] == [64, 37]  # 64 rows of 1 MB; then 36 and the one that is larger than a group
    assert max(rows) == 16_384
    assert sum(rows) == len(sizes) == writer.rows


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 40 << 20), min_size=1, max_size=80), st.integers(1, 80))
def test_group_ends_do_not_depend_on_batches(sizes: list[int], step: int) -> None:
    whole = list(_cuts(np.array(sizes), 0, 0))
    got, start, rows, size = [], 0, 0, 0
    while start < len(sizes):
        piece = np.array(sizes[start : start + step])
        ends = list(_cuts(piece, rows, size))
        got += [start + e for e in ends]
        rest = piece[ends[-1] :] if ends else piece
        rows, size = (len(rest), int(rest.sum())) if ends else (rows + len(rest), size + int(rest.sum()))
        start += step
    assert got == whole


def test_id_must_be_among_the_columns() -> None:
    with pytest.raises(ConfigError, match="id"):
        Parquet(columns=("text",))


def test_nothing_left_writes_nothing(run_sink: Callable[..., Any]) -> None:
    empty = documents(0)
    for shuffle in (True, False):
        assert run_sink(Parquet(columns=COLUMNS, shuffle=shuffle), [empty, empty]).published == {}
