"""ingest.parquet: column types, missing columns, damage, batches."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusflow import ConfigError, check_stage
from stages.ingest.parquet import Parquet

TEXTS = ["first text", None, "", "昨夜河水上涨", "second text"] * 40


def read(path: Path, **params: Any) -> list[dict[str, Any]]:
    stage = Parquet(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary(), pa.large_binary()]
)
def test_text_columns_of_every_type(tmp_path: Path, kind: pa.DataType) -> None:
    values = pa.array(TEXTS).cast(kind)
    path = write(tmp_path / "a.parquet", {"text": values, "id": range(200), "n": range(200)}, row_group_size=37)
    rows = read(path)
    assert [r["text"] for r in rows] == TEXTS
    assert [r["skipped"] for r in rows] == [None if t is not None else "null_text" for t in TEXTS]
    assert [r["id"] for r in rows] == [f"parquet/a.parquet#{i}" for i in range(200)]
    assert [r["offset"] for r in rows] == list(range(200))
    assert [r["record_id"] for r in rows] == [str(i) for i in range(200)]
    assert json.loads(rows[7]["meta"]) == {"n": 7}


def test_nested_columns_and_mapping(tmp_path: Path) -> None:
    body = [{"content": "A", "lang": "en", "tags": ["x", "y"]}, None, {"content": None, "lang": "zh", "tags": None}]
    path = write(tmp_path / "a.parquet", {"body": body, "link": ["u", "v", None], "when": [1, 2, 3]})
    rows = read(path, text="body.content", url="link", date="when", columns={"lang": "body.lang", "t": "body.tags"})
    assert [r["text"] for r in rows] == ["A", None, None]
    assert [r["lang"] for r in rows] == ["en", None, "zh"]
    assert [r["t"] for r in rows] == ['["x","y"]', None, None]
    assert [r["url"] for r in rows] == ["u", "v", None]
    assert [r["date"] for r in rows] == ["1", "2", "3"]
    assert json.loads(rows[0]["meta"]) == {"body": {}}


def test_without_meta_only_the_mapped_columns_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"text": ["a"], "big": ["x" * 100]})
    assert "meta" not in read(path, meta=False)[0]
    assert json.loads(read(path)[0]["meta"]) == {"big": "x" * 100}


def test_files_that_differ(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"text": pa.array([None, None], pa.null()), "url": ["u", "v"]})
    write(tmp_path / "b.parquet", {"text": pa.array(["x"], pa.large_string()), "extra": [{"k": 1}]})
    rows = read(tmp_path)
    assert [(r["text"], r["url"], r["skipped"]) for r in rows] == [
        (None, "u", "null_text"),
        (None, "v", "null_text"),
        ("x", None, None),
    ]


def test_a_text_column_of_numbers_is_drift_not_text(tmp_path: Path) -> None:
    rows = read(write(tmp_path / "a.parquet", {"text": [1, None]}))
    assert rows[0]["quarantine"] == "wrong_type: the column text holds int64, not strings"
    assert rows[1]["skipped"] == "null_text"


def test_missing_column_is_an_error_that_names_the_others(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"content": ["a"], "deep": [{"body": {"x": "y"}}]})
    with pytest.raises(ConfigError, match="has no column 'text'") as caught:
        read(path)
    assert "content, deep.body.x" in str(caught.value)
    write(tmp_path / "0.parquet", {"text": ["b"]})
    rows = read(tmp_path)
    assert [(r.get("text"), r["quarantine"]) for r in rows] == [
        ("b", None),
        (None, "no_text_column: no column text; there are content, deep.body.x"),
    ]


def test_strings_that_are_not_utf8(tmp_path: Path) -> None:
    bad = pa.array([b"good", b"caf\xe9", None, b"fine"]).view(pa.string())
    rows = read(write(tmp_path / "a.parquet", {"text": bad, "n": [1, 2, 3, 4]}))
    assert [r["text"] for r in rows] == ["good", None, None, "fine"]
    assert rows[1]["quarantine"] == "not_utf8: the string is not UTF-8 (byte 3)"
    assert [r["skipped"] for r in rows] == [None, None, "null_text", None]


def test_mapped_columns_of_types_without_strings(tmp_path: Path) -> None:
    keys = [uuid.UUID(int=7), None, uuid.UUID(bytes=b"abcdefghijklmnop")]
    raw = [None if k is None else k.bytes for k in keys]
    columns = {
        "text": ["a", "b", "c"],
        "key": pa.array(raw, pa.uuid()),
        "digest": pa.array([b"\xff" * 4, None, b"abcd"], pa.binary(4)),
        "site": pa.array([b"caf\xe9", None, b"b"], pa.binary()),
    }
    names = {"digest": "digest", "site": "site"}
    for size in (3, 1):  # alone or among others
        rows = read(write(tmp_path / "a.parquet", columns, row_group_size=size), id="key", columns=names)
        assert [r["text"] for r in rows] == ["a", "b", "c"]
        assert [r["record_id"] for r in rows] == [None if k is None else str(k) for k in keys]
        assert [r["digest"] for r in rows] == ["ffffffff", None, "abcd"]
        assert [r["site"] for r in rows] == ["caf\ufffd", None, "b"]


def test_columns_of_one_name_are_both_kept(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["p"]), pa.array([1])], names=["text", "n", "n"])
    pq.write_table(table, tmp_path / "a.parquet")
    (row,) = read(tmp_path / "a.parquet")
    assert (row["text"], json.loads(row["meta"])) == ("a", {"n": "p", "n_2": 1})


def test_an_empty_file_and_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    write(tmp_path / "b.parquet", {"text": pa.array([], pa.string())})
    assert read(tmp_path) == []


@pytest.mark.parametrize("damage", ["cut", "noise", "footer"])
def test_a_file_that_is_none_is_one_row(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "a.parquet", {"text": TEXTS})
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[:-100]
    elif damage == "noise":
        data = bytearray(b"not parquet at all " * 50)
    else:
        data[-100:-8] = b"\xff" * 92
    path.write_bytes(bytes(data))
    rows = read(path)
    assert len(rows) == 1
    assert rows[0]["quarantine"].startswith("not_parquet: ")


def test_a_damaged_page_costs_its_row_group(tmp_path: Path) -> None:
    texts = [f"text number {i} " * 20 for i in range(300)]
    path = write(
        tmp_path / "a.parquet", {"text": texts}, row_group_size=100, write_page_checksum=True, use_dictionary=False
    )
    group = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    data[group.data_page_offset + group.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    rows = read(path)
    assert [r["text"] for r in rows if r.get("text")] == texts[:100] + texts[200:]
    spoilt = [r for r in rows if r["quarantine"]]
    assert len(spoilt) == 1
    assert spoilt[0]["offset"] == 100
    assert "row group 1" in spoilt[0]["quarantine"]


def test_batches_are_bounded(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"text": ["x" * 100_000] * 600 + ["y"] * 5_000})
    stage = Parquet(paths=(str(path),))
    sizes = [(b.num_rows, b.nbytes) for s in stage.splits() for b in stage.read(s)]
    assert sum(n for n, _ in sizes) == 5_600
    assert max(n for n, _ in sizes) <= 1_000
    assert max(size for _, size in sizes) < 12 << 20


def test_contract(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"text": TEXTS, "lang": ["en"] * 200}, row_group_size=64)
    check_stage(Parquet(paths=(str(tmp_path),), columns={"lang": "lang"}))
