"""ingest.arrow: files and streams, column types, damage."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pytest

from corpusflow import ConfigError, check_stage
from stages.ingest.arrow import Arrow

TEXTS = ["first text", None, "", "昨夜河水上涨", "second text"] * 500


def read(path: Path, **params: Any) -> list[dict[str, Any]]:
    stage = Arrow(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


def write(path: Path, table: pa.Table, form: str = "file", compression: str | None = None, rows: int = 300) -> Path:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with new(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_files_and_streams(tmp_path: Path, form: str, compression: str | None) -> None:
    kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()]
    for kind in kinds:
        table = pa.table(
            {"text": pa.array(TEXTS).cast(kind), "id": range(2_500), "n": [{"k": i} for i in range(2_500)]}
        )
        rows = read(write(tmp_path / "a.arrow", table, form, compression))
        assert [r["text"] for r in rows] == TEXTS
        assert [r["id"] for r in rows] == [f"arrow/a.arrow#{i}" for i in range(2_500)]
        assert [r["skipped"] for r in rows] == [None if t is not None else "null_text" for t in TEXTS]
        assert json.loads(rows[7]["meta"]) == {"n": {"k": 7}}


def test_feather_and_mapping(tmp_path: Path) -> None:
    table = pa.table({"body": [{"content": "A", "lang": "en"}, {"content": None, "lang": "zh"}], "u": ["x", "y"]})
    feather.write_feather(table, str(tmp_path / "a.feather"))
    rows = read(tmp_path / "a.feather", text="body.content", url="u", columns={"lang": "body.lang"}, meta=False)
    assert [(r["text"], r["url"], r["lang"]) for r in rows] == [("A", "x", "en"), (None, "y", "zh")]
    with pytest.raises(ConfigError, match="has no column 'text'") as caught:
        read(tmp_path / "a.feather")
    assert "body.content, body.lang, u" in str(caught.value)


def test_empty_and_foreign_files(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(b"")
    assert read(tmp_path / "a.arrow") == []
    (tmp_path / "a.arrow").write_bytes(random.Random(1).randbytes(5_000))
    assert [r["quarantine"].partition(":")[0] for r in read(tmp_path / "a.arrow")] == ["not_arrow"]
    write(tmp_path / "a.arrow", pa.table({"text": pa.array([], pa.string())}))
    assert read(tmp_path / "a.arrow") == []


@pytest.mark.parametrize("form", ["file", "stream"])
def test_a_cut_file_keeps_what_came_before(tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "a.arrow", pa.table({"text": TEXTS}), form)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    rows = read(path)
    if form == "file":  # its footer is gone
        assert [r["quarantine"].partition(":")[0] for r in rows] == ["not_arrow"]
    else:
        assert [r["text"] for r in rows[:-1]] == TEXTS[: len(rows) - 1]
        assert len(rows) > 600
        assert rows[-1]["quarantine"].startswith("damaged_rows: a batch from row ")


def test_offsets_that_lead_out_of_the_buffers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", pa.table({"text": ["abcdefgh"] * 4}), rows=4)
    data = path.read_bytes()
    offsets = b"".join(i.to_bytes(4, "little") for i in (0, 8, 16, 24, 32))
    assert offsets in data
    path.write_bytes(data.replace(offsets, offsets[:8] + (1 << 30).to_bytes(4, "little") + offsets[12:]))
    (row,) = read(path)
    assert row["quarantine"].startswith("damaged_rows: ")


@pytest.mark.parametrize("form", ["file", "stream"])
def test_a_damaged_batch_costs_itself(tmp_path: Path, form: str) -> None:
    texts = [f"{c}{i}".ljust(8, c) for c in "pqrst" for i in range(4)]
    path = write(tmp_path / "a.arrow", pa.table({"text": texts}), form, rows=4)
    data = path.read_bytes()
    offsets = b"".join(i.to_bytes(4, "little") for i in (0, 8, 16, 24, 32))
    at = data.rindex(offsets, 0, data.rindex(b"r0rrrrrr"))
    path.write_bytes(data[: at + 8] + (1 << 30).to_bytes(4, "little") + data[at + 12 :])
    rows = read(path)
    assert [r.get("text") for r in rows] == [*texts[:8], None, *texts[12:]]
    assert [r["id"].rpartition("#")[2] for r in rows] == [*map(str, range(8)), "bad8", *map(str, range(12, 20))]
    header = data.rindex(b"\xff\xff\xff\xff", 0, at) + 8
    path.write_bytes(data[:header] + b"\xee" * 16 + data[header + 16 :])  # not even what lies where is known
    rows = read(path)
    assert [r.get("text") for r in rows] == [*texts[:8], None, *(texts[12:] if form == "file" else [])]
    assert ("and all behind it" in rows[8]["quarantine"]) is (form == "stream")


def test_strings_that_are_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", pa.table({"text": ["café", "abc"]}))
    path.write_bytes(path.read_bytes().replace("café".encode(), b"caf\xe9 "))
    rows = read(path)
    assert [r["text"] for r in rows] == [None, "abc"]
    assert rows[0]["quarantine"] == "not_utf8: the string is not UTF-8 (byte 3)"


def test_contract(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", pa.table({"text": TEXTS, "lang": ["en"] * 2_500}))
    write(tmp_path / "b.arrow", pa.table({"text": TEXTS}), "stream")
    check_stage(Arrow(paths=(str(tmp_path),), columns={"lang": "lang"}))
