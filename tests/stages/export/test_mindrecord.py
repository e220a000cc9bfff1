"""MindRecord files: by an index and a decoder of the test's own, and by MindSpore where it is installed."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpusflow import ConfigError
from stages.export.jsonl_tokens import JsonlTokens
from stages.export.mindrecord import MindRecord
from stages.kernels.mindrecord import compressed

#: Around every border of what one, two and four bytes hold.
BORDERS = [0, 1, 127, 128, 255, 256, 32_767, 32_768, 65_499, 65_500, 65_535, 65_536, (1 << 31) - 1]


def documents(width: str = "uint16") -> dict[str, list[int]]:
    rng = np.random.default_rng(8)
    values = np.array([v for v in BORDERS if v < 1 << (16 if width == "uint16" else 31)])
    sizes = [*rng.integers(1, 600, size=150).tolist(), 70_000]
    given = {f"w/é/a.warc.gz#{i}": rng.choice(values, size=n).tolist() for i, n in enumerate(sizes)}
    return {**given, "x" * 300: [5], "long" * 20_000: BORDERS[:9]}


def shards(given: dict[str, list[int]], width: str = "uint16") -> list[pa.Table]:
    lists = pa.array(list(given.values()), pa.list_(pa.type_for_alias(width)))
    table = pa.table({"id": list(given), "tokenize.tokens": lists})
    return [table.slice(0, 40), table.slice(40)]


def save(run: Any, folder: Path) -> list[str]:
    for name, data in run.published.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return [str(p) for p in sorted(folder.glob("train-*/tokens.mindrecord"))]


def numbers(data: bytes) -> list[int]:
    """Count, two bits of size each, values; a number at a time."""
    (count,) = struct.unpack_from(">I", data)
    at, found = 4 + (count + 3) // 4, []
    for i in range(count):
        size = 1 << (data[4 + i // 4] >> (6 - 2 * (i % 4)) & 3)
        found.append(int.from_bytes(data[at : at + size], "little", signed=True))
        at += size
    assert at == len(data)
    return found


def rows(path: str) -> list[tuple[str, list[list[int]]]]:
    """(id, columns of integers) of each row, found through the index."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    assert header["shard_addresses"] == [Path(path).name]
    columns = len(header["schema"][0]["blob_fields"])
    found = []
    with closing(sqlite3.connect(f"{path}.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT * FROM SHARD_NAME").fetchall() == [(Path(path).name,)]
        places = db.execute("SELECT * FROM INDEXES ORDER BY ROW_ID").fetchall()
    for number, (row, id_page, id_start, id_end, group, page, start, end, _, name) in enumerate(places):
        assert row == number
        assert header["page"][page]["page_type"] == "BLOB_DATA"
        assert header["page"][page]["page_type_id"] == group
        assert header["page"][page]["start_row_id"] <= row < header["page"][page]["end_row_id"]
        assert header["page"][id_page]["page_type"] == "RAW_DATA"

        def framed(page: int, start: int, end: int) -> bytes:
            at = header["header_size"] + page * header["page_size"]
            assert end <= header["page"][page]["page_size"] <= header["page_size"]
            assert struct.unpack_from("<Q", data, at + start) == (end - start - 8,)
            return data[at + start + 8 : at + end]

        assert framed(id_page, id_start, id_end).endswith(name.encode())
        body = framed(page, start, end)
        if columns == 1:
            found.append((name, [numbers(body)]))
        else:
            (size,) = struct.unpack_from(">Q", body)
            (rest,) = struct.unpack_from(">Q", body, 8 + size)
            assert 16 + size + rest == len(body)
            found.append((name, [numbers(body[8 : 8 + size]), numbers(body[16 + size :])]))
    return found


@pytest.mark.parametrize("width", ["uint16", "uint32"])
def test_rows_are_the_documents(run_sink: Callable[..., Any], tmp_path: Path, width: str) -> None:
    given = documents(width)
    run = run_sink(MindRecord(file_tokens=20_000, validation=0.1), shards(given, width))
    save(run, tmp_path)
    paths = sorted(tmp_path.glob("*/tokens.mindrecord"))
    assert len(paths) > 3
    assert {name: tokens for p in paths for name, (tokens,) in rows(str(p))} == given


@pytest.mark.parametrize("packing", ["concatenate", "best_fit"])
def test_sequences_are_those_of_json_lines(run_sink: Callable[..., Any], tmp_path: Path, packing: str) -> None:
    options: dict[str, Any] = {"sequence": 64, "packing": packing}
    (lines,) = (d for n, d in run_sink(JsonlTokens(**options), shards(documents())).published.items() if "json" in n)
    expected = [tuple(json.loads(line).values()) for line in lines.splitlines()]
    (path,) = save(run_sink(MindRecord(**options), shards(documents())), tmp_path)
    assert [(name, tokens, lengths) for name, (lengths, tokens) in rows(path)] == expected


def test_ids_beyond_32_bits_with_a_sign_are_refused(run_sink: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="2147483648, MindRecord's integers end at 2147483647"):
        run_sink(MindRecord(), shards({"a": [1 << 31]}, "uint32"))


def test_a_row_that_no_page_holds_is_refused(run_sink: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="70025 bytes in one row, a page has 65536") as e:
        run_sink(MindRecord(page_bytes=1 << 16), shards({"a": [1] * 56_010}))
    assert e.value.hint == "page_bytes: 268435456, or cut documents by sequence: 2048"
    for wrong in (1 << 15, 1 << 29, (1 << 20) + 1):
        with pytest.raises(ConfigError, match="page_bytes must be"):
            MindRecord(page_bytes=wrong)


def test_many_pages(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    """Rows and ids over several pages each."""
    given = {f"{i}{'x' * 9_000}": [i] * (1 + i % 30 * 500) for i in range(60)}
    (path,) = save(run_sink(MindRecord(page_bytes=1 << 16), shards(given)), tmp_path)
    found = rows(path)
    assert {name: tokens for name, (tokens,) in found} == given
    data = Path(path).read_bytes()
    pages = json.loads(data[8 : 8 + struct.unpack_from("<Q", data)[0]])["page"]
    kinds = [p["page_type"] for p in pages]
    blobs = kinds.count("BLOB_DATA")
    assert 8 < blobs < len(pages) - 8
    assert kinds == ["BLOB_DATA"] * blobs + ["RAW_DATA"] * (len(pages) - blobs)
    assert [p["page_id"] for p in pages] == list(range(len(pages)))
    assert [g["id"] for p in pages[blobs:] for g in p["row_group_ids"]] == list(range(blobs))


def test_verify_holds_the_index_against_the_file(run_sink: Callable[..., Any]) -> None:
    stage = MindRecord(file_tokens=30_000)
    run = run_sink(stage, shards(documents()))

    def problems() -> list[str]:
        return [p for check in stage.verify(run.inputs(), 10) for p in check.problems]

    assert problems() == []
    path = next(p for p in run.files if p.endswith("train.mindrecord.db"))
    whole = run.files[path]
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(whole)
        db.execute("UPDATE INDEXES SET PAGE_OFFSET_BLOB = PAGE_OFFSET_BLOB + 8 WHERE ROW_ID = 3")
        db.commit()
        run.files[path] = db.serialize()
    assert [p for p in problems() if "row 3, " in p and "is not where the index says" in p]
    run.files[path] = whole[:5_000]
    assert [p for p in problems() if "tokens.mindrecord.db cannot be read" in p]


def test_no_more_than_the_promised_bytes_are_written() -> None:
    values = np.full(9, (1 << 31) - 1, np.uint32)
    ends, out = np.array([0, 1, 1, 9]), np.full(5 * 13, 7, np.uint8)
    written = compressed(values, ends, out, np.zeros(4, np.int64))
    assert written == 4 * 4 + 1 + 2 + 4 * 9 <= len(out)
    assert (out[written:] == 7).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sequence", [None, 64])
@pytest.mark.parametrize(("width", "pages"), [("uint16", 1 << 18), ("uint32", 1 << 25)])
def test_mindspore_reads_it(
    run_sink: Callable[..., Any], tmp_path: Path, width: str, pages: int, sequence: int | None
) -> None:
    dataset = pytest.importorskip("mindspore.dataset")
    given = documents(width)
    options: dict[str, Any] = {"sequence": sequence, "page_bytes": pages}
    paths = save(run_sink(MindRecord(file_tokens=20_000, **options), shards(given, width)), tmp_path)
    assert len(paths) > 2
    # its threads hand on rows as they come: of several files in no order
    found = list(dataset.MindDataset(paths, shuffle=False).create_dict_iterator(output_numpy=True, num_epochs=1))
    assert {row["tokens"].dtype.name for row in found} == {"int32"}
    expected = [(name, columns) for path in paths for name, columns in rows(path)]
    if sequence is None:
        assert {str(row["id"]): row["tokens"].tolist() for row in found} == given
        assert len(found) == len(expected)
    else:
        own = sorted((str(r["id"]), [r["seq_lengths"].tolist(), r["tokens"].tolist()]) for r in found)
        assert own == sorted((name, columns) for name, columns in expected)
    shuffled = dataset.MindDataset(paths, columns_list=["tokens"], shuffle=True)
    assert sum(len(r["tokens"]) for r in shuffled.create_dict_iterator(output_numpy=True, num_epochs=1)) == sum(
        len(columns[-1]) for _, columns in expected
    )
