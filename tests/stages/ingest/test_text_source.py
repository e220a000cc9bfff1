"""ingest.text: whole files and paragraphs, encodings, files that are no text."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard

from corpusflow import ConfigError, check_stage
from stages.ingest.text import Text

POEM = "First paragraph,\nof two lines.\n\nSecond — with a dash.\n\n\n \nThird 昨夜.\n"


def read(path: Path, **params: Any) -> list[dict[str, Any]]:
    stage = Text(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


@pytest.mark.parametrize("pack", [lambda d: d, gzip.compress, zstandard.compress])
def test_whole_files(tmp_path: Path, pack: Any) -> None:
    (tmp_path / "a.txt").write_bytes(pack(POEM.encode()))
    (tmp_path / "b.txt").write_bytes(pack(b"second"))
    rows = read(tmp_path)
    assert [r["text"] for r in rows] == [POEM, "second"]
    assert [r["id"] for r in rows] == ["text/a.txt#0", "text/b.txt#0"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_paragraphs(tmp_path: Path, end: str) -> None:
    data = POEM.replace("\n", end).encode()
    (tmp_path / "a.txt").write_bytes(data)
    rows = read(tmp_path, by="paragraph")
    assert [r["text"] for r in rows] == [f"First paragraph,{end}of two lines.", "Second — with a dash.", "Third 昨夜."]
    for row in rows:
        assert data[row["offset"] : row["offset"] + row["length"]].decode() == row["text"]


def test_paragraphs_do_not_depend_on_how_the_file_is_read(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {i}\n" + "word " * (i % 50) + "end." for i in range(20_000)]
    (tmp_path / "a.txt").write_text("\n\n".join(paragraphs))
    assert [r["text"] for r in read(tmp_path, by="paragraph")] == paragraphs


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_paragraphs_do_not_depend_on_where_the_reading_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    rng = random.Random(size)
    lines = ["a", "word", " b ", "", "", " ", "\t", "\r", " \r", "c\r"]
    texts = ["\n".join(rng.choice(lines) for _ in range(rng.randrange(1, 12))) for _ in range(60)]
    for i, text in enumerate(texts):
        (tmp_path / f"{i:02d}.txt").write_bytes(text.encode())
    limits = {"by": "paragraph", "max_document_bytes": 20}
    whole = read(tmp_path, **limits)
    monkeypatch.setattr("stages.ingest._members.PIECE_BYTES", size)
    assert read(tmp_path, **limits) == whole
    assert not any(r["text"].startswith((" \n", "\t\n", " \r\n")) for r in whole if r["text"] and r["offset"])


def test_a_paragraph_that_is_too_long_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.ingest._members.PIECE_BYTES", 10)
    data = b"first\n\n" + b"long " * 20 + b"\n \n\n\nsecond\n\n" + b"x" * 50 + b"\n\n"
    (tmp_path / "a.txt").write_bytes(data)
    rows = read(tmp_path, by="paragraph", max_document_bytes=30)
    assert [r["text"] for r in rows] == ["first", None, "second", None]
    assert [r["offset"] for r in rows] == [0, 7, data.index(b"second"), data.index(b"xxx")]
    assert {r["quarantine"] for r in rows if r["text"] is None} == {"too_long: more than 30 bytes without a blank line"}


def test_no_paragraph_comes_out_of_a_damaged_member(tmp_path: Path) -> None:
    members = [gzip.compress("\n\n".join(f"{m} paragraph {i}" for i in range(3000)).encode()) for m in "abc"]
    (tmp_path / "good.txt.gz").write_bytes(b"".join(members))
    middle = bytearray(members[1])
    middle[len(middle) // 2] ^= 0x10
    (tmp_path / "bad.txt.gz").write_bytes(members[0] + middle + members[2])
    (tmp_path / "cut.txt.gz").write_bytes(members[0][:-9])
    rows = read(tmp_path, by="paragraph")
    good = {r["text"] for r in rows if r["id"].startswith("text/good")}
    bad = [r for r in rows if r["id"].startswith("text/bad")]
    assert {r["text"] for r in bad if r["text"]} - good == {
        "c paragraph 0"
    }  # the rest of its line is in the damaged one
    assert sum(r["quarantine"] is not None for r in bad) == 1
    assert len(bad) == 2999 + 1 + 3000  # the last paragraph of the first member went on in the damaged one
    cut = [r["text"] for r in rows if r["id"].startswith("text/cut")]
    assert len(cut) > 1000
    assert set(cut) - {None} < good


@pytest.mark.parametrize(
    ("codec", "encoding"),
    [("gb18030", "gbk"), ("big5", "big5"), ("cp1252", None), ("utf-8-sig", None), ("utf-16", None)],
)
def test_encodings(tmp_path: Path, codec: str, encoding: str | None) -> None:
    text = {"gb18030": "昨夜河水上涨，清晨时道路已被淹没。", "big5": "昨夜河水上漲，清晨時道路已被淹沒。"}.get(
        codec, "Das Flüßchen trat über die Ufer, café — naïve."
    )
    (tmp_path / "a.txt").write_bytes(text.encode(codec))
    assert [r["text"] for r in read(tmp_path, encoding=encoding)] == [text]


def test_unknown_encoding_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="unknown encoding 'klingon'"):
        Text(paths=("x",), encoding="klingon")


def test_what_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "b.txt").write_bytes(b" \n\n ")
    (tmp_path / "c.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1000))
    (tmp_path / "d.txt").write_bytes(gzip.compress(b"x" * 1000)[:-9])
    (tmp_path / "e.txt").write_bytes(b"y" * 5000)
    (tmp_path / "f.txt").write_bytes(gzip.compress(b""))
    rows = {r["id"][5:10]: (r["text"], r["skipped"], r["quarantine"]) for r in read(tmp_path, max_document_bytes=4_000)}
    assert rows == {
        "a.txt": (None, "empty", None),
        "b.txt": (None, "empty", None),
        "c.txt": (None, None, "not_text: binary bytes"),
        "d.txt": (None, None, "cut_off: the file ends inside compressed data"),
        "e.txt": (None, None, "too_long: more than 4000 bytes"),
        "f.txt": (None, "empty", None),
    }


@pytest.mark.parametrize("by", ["file", "paragraph"])
def test_contract(tmp_path: Path, by: Any) -> None:
    (tmp_path / "a.txt").write_text(POEM * 50)
    (tmp_path / "b.txt").write_text("x")
    check_stage(Text(paths=(str(tmp_path),), by=by))
