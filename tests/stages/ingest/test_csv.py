"""ingest.csv: quotes, delimiters, headers, encodings, and rows that are none."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError, check_stage
from stages.ingest._members import Piece
from stages.ingest.csv import Csv, _records

TABLE = 'id,text,link,n\r\n1,"first, with ""quotes""",http://a/,10\r\n2,"two\nlines",,\r\n3,,x,\r\n4,plain,y,7\r\n'


def read(path: Path, data: bytes | str | None = None, **params: Any) -> list[dict[str, Any]]:
    if data is not None:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    stage = Csv(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


@pytest.mark.parametrize("pack", [lambda d: d, gzip.compress, zstandard.compress], ids=["plain", "gz", "zst"])
def test_rows_and_mapping(tmp_path: Path, pack: Any) -> None:
    rows = read(tmp_path / "a.csv", pack(TABLE.encode()), url="link", columns={"count": "n"})
    assert [r["text"] for r in rows] == ['first, with "quotes"', "two\nlines", None, "plain"]
    assert [r["skipped"] for r in rows] == [None, None, "null_text", None]
    assert [r["record_id"] for r in rows] == ["1", "2", "3", "4"]
    assert [r["url"] for r in rows] == ["http://a/", None, "x", "y"]
    assert [r["count"] for r in rows] == ["10", None, None, "7"]
    assert all(r["meta"] is None for r in rows)
    assert len({r["id"] for r in rows}) == 4
    assert json.loads(read(tmp_path / "a.csv")[0]["meta"]) == {"link": "http://a/", "n": "10"}


def test_several_columns_of_one_field(tmp_path: Path) -> None:
    (row,) = read(tmp_path / "a.csv", "text,url,x\na,https://e.org/,1\n", id="url", columns={"copy": "text"})
    assert (row["record_id"], row["url"], row["text"], row["copy"]) == ("https://e.org/", "https://e.org/", "a", "a")
    assert row["meta"] == '{"x":"1"}'


def test_offsets_find_the_row_again(tmp_path: Path) -> None:
    data = TABLE.encode()
    for row in read(tmp_path / "a.csv", data):
        (fields,) = csv.reader(io.StringIO(data[row["offset"] : row["offset"] + row["length"]].decode(), newline=""))
        assert fields[0] == row["record_id"]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", "|"])
def test_the_delimiter_is_found_or_said(tmp_path: Path, delimiter: str) -> None:
    data = f"id{delimiter}text\n1{delimiter}a b\n"
    for params in ({}, {"delimiter": delimiter}):
        assert [r["text"] for r in read(tmp_path / "a.tsv", data, **params)] == ["a b"]


def test_headers(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.csv", "1,one\n2,two\n", header=("id", "text"))
    assert [(r["record_id"], r["text"]) for r in rows] == [("1", "one"), ("2", "two")]
    rows = read(tmp_path / "a.csv", "\ufefftext,x,x\na,b,c\n")
    assert (rows[0]["text"], json.loads(rows[0]["meta"])) == ("a", {"x": "b", "x_2": "c"})
    rows = read(tmp_path / "a.csv", "text,x_2,x,x,x\na,b,c,d,e\n")
    assert json.loads(rows[0]["meta"]) == {"x_2": "b", "x": "c", "x_3": "d", "x_4": "e"}
    rows = read(tmp_path / "a.csv", "a,b,c\n", header=("text", "x", "x"))
    assert json.loads(rows[0]["meta"]) == {"x": "b", "x_2": "c"}
    with pytest.raises(ConfigError, match="has no column 'text'") as caught:
        read(tmp_path / "a.csv", "content,link\na,b\n")
    assert "content, link" in str(caught.value)
    assert read(tmp_path / "a.csv", "") == read(tmp_path / "a.csv", "text,id\n") == []


def test_rows_that_are_none_cost_themselves(tmp_path: Path) -> None:
    data = "id,text\n1,a\n2\n3,b,c\n\n4,d\n"
    rows = read(tmp_path / "a.csv", data)
    assert [r["text"] for r in rows] == ["a", None, None, "d"]
    assert rows[1]["quarantine"] == "broken_row: 1 fields, the header has 2"
    assert rows[2]["quarantine"] == "broken_row: 3 fields, the header has 2"


@pytest.mark.parametrize("lines_behind", [0, 1, 3_000])
def test_an_open_quote_costs_its_line(tmp_path: Path, lines_behind: int) -> None:
    data = 'id,text\n1,a\n2,"open\n' + "".join(f"{i},behind\n" for i in range(3, 3 + lines_behind))
    for params in ({}, {"max_row_bytes": 1_000}):
        rows = read(tmp_path / "a.csv", data, **params)
        assert [r["text"] for r in rows] == ["a", None, *["behind"] * lines_behind]
        assert rows[1]["quarantine"].startswith("broken_row: a quote that is not closed")
        assert len({r["id"] for r in rows}) == len(rows)


@settings(max_examples=300)
@given(st.text('ab",\n', max_size=40), st.integers(1, 12))
def test_quotes_anywhere_are_read_as_csv_reads_them(noise: str, size: int) -> None:
    """Against `csv` over lines, up to the first row it does not take; in pieces of any size."""
    data = noise.encode()
    cut = [Piece(data[i : i + size], i, -1, False, i + size) for i in range(0, len(data), size)]
    got = list(_records(cut, "utf-8", ",", 1 << 20))
    expected = [row for row in csv.reader(io.StringIO(noise, newline="")) if row]
    good = list(itertools.takewhile(lambda r: r.error is None, got))
    assert [r.fields for r in good] == expected[: len(good)]
    assert len(good) == len(expected) or len(good) < len(got), "what is not read says so"
    assert len({r.position for r in got}) == len(got)


def test_long_rows(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.csv", "id,text\n1," + "x" * 500_000 + "\n2,b\n")
    assert [len(r["text"]) for r in rows] == [500_000, 1]


def test_encodings(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.csv", "text,id\n昨夜,1\n".encode("gb18030"), encoding="gbk")
    assert rows[0]["text"] == "昨夜"
    rows = read(tmp_path / "a.csv", b"text,id\ncaf\xe9,1\n")
    assert (rows[0]["text"], json.loads(rows[0]["meta"])) == ("caf\ufffd", {"replaced_characters": 1})
    with pytest.raises(ConfigError, match="unknown encoding"):
        Csv(paths=("x",), encoding="klingon")
    with pytest.raises(ConfigError, match="delimiter is '::'"):
        Csv(paths=("x",), delimiter="::")


def test_other_kinds_and_damage(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.csv", b"\x89PNG\r\n\x1a\n" + bytes(5_000))
    assert [r["quarantine"] for r in rows] == ["not_text: binary bytes"]
    whole = "id,text\n" + "".join(f"{i},{random.Random(i).randbytes(20).hex()}\n" for i in range(5_000))
    rows = read(tmp_path / "a.csv", gzip.compress(whole.encode())[:-50])
    assert rows[-1]["quarantine"].startswith("cut_off: ")
    assert [r["record_id"] for r in rows[:-1]] == [str(i) for i in range(len(rows) - 1)]
    assert len(rows) > 4_000
    members = [gzip.compress(whole.encode()), bytearray(gzip.compress(whole[8:].encode())), gzip.compress(b"x,last\n")]
    members[1][len(members[1]) // 2] ^= 0x10
    rows = read(tmp_path / "a.csv", b"".join(members))
    assert [r["record_id"] for r in rows] == [*map(str, range(5_000)), None, "x"]
    assert rows[5_000]["quarantine"].startswith("damaged_compression: ")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab\"',;\n\r\t é", max_size=8), st.text('xy"\n,', max_size=5)), max_size=8),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_what_csv_writes_is_read(tmp_path_factory: pytest.TempPathFactory, table: Any, quoting: Any) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=quoting)
    writer.writerow(["text", "id"])
    writer.writerows(table)
    rows = read(tmp_path_factory.getbasetemp() / "written.csv", out.getvalue(), delimiter=",")
    assert [(r["text"] or "", r["record_id"] or "") for r in rows] == table
    assert not any(r["quarantine"] for r in rows)


def test_contract(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TABLE * 3)
    (tmp_path / "b.tsv").write_text("text\tid\na\tb\n")
    check_stage(Csv(paths=(str(tmp_path),), columns={"link": "link"}))


def test_a_header_in_another_encoding_asks_for_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("编号,正文\n1,一段正文\n".encode("gb18030"))
    with pytest.raises(ConfigError, match="has no column '正文'") as caught:
        next(iter(Csv(paths=(str(path),), text="正文").splits()))
    assert "encoding: gb18030" in str(caught.value.hint)
    assert "as utf-8, its first row is" in str(caught.value.hint)
    (split,) = Csv(paths=(str(path),), text="正文", encoding="gb18030").splits()
    (batch,) = Csv(paths=(str(path),), text="正文", encoding="gb18030").read(split)
    assert batch.column("text").to_pylist() == ["一段正文"]
