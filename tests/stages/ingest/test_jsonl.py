"""ingest.jsonl: mapping, compressed forms, and every way a line or a file can be broken."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError, check_stage
from stages.ingest import _members
from stages.ingest._lines import lines
from stages.ingest._members import Piece
from stages.ingest.jsonl import Jsonl


def read(path: Path, data: bytes | None = None, **params: Any) -> list[dict[str, Any]]:
    if data is not None:
        path.write_bytes(data)
    stage = Jsonl(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


def dumps(*records: Any) -> bytes:
    return b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in records)


GOOD = [{"id": f"n{i}", "text": f"text {i} 昨夜", "url": f"https://example.org/{i}", "n": i} for i in range(300)]


def frames(data: bytes) -> bytes:
    """Several frames that do not care for line borders, an empty one among them."""
    cut = [data[i : i + 1000] for i in range(0, len(data), 1000)]
    return b"".join(zstandard.compress(c) for c in [*cut[:2], b"", *cut[2:]])


def long_window(data: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=28, enable_ldm=True)
    out = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return out.compress(data) + out.flush()


@pytest.mark.parametrize(
    "packed",
    [
        lambda d: d,
        gzip.compress,
        lambda d: gzip.compress(d[:5000]) + gzip.compress(d[5000:]),
        zstandard.compress,
        frames,
        long_window,
        bz2.compress,
        lambda d: bz2.compress(d[:777]) + bz2.compress(d[777:]),
        lzma.compress,
        lambda d: d.rstrip(b"\n"),
        lambda d: b"\xef\xbb\xbf" + d,
        lambda d: d.replace(b"\n", b"\r\n"),
        lambda d: d.replace(b"\n", b"\n\n  \n"),
    ],
)
def test_forms(tmp_path: Path, packed: Any) -> None:
    rows = read(tmp_path / "a.jsonl", packed(dumps(*GOOD)))
    assert [(r["record_id"], r["text"], r["url"]) for r in rows] == [(g["id"], g["text"], g["url"]) for g in GOOD]
    assert [json.loads(r["meta"]) for r in rows] == [{"n": g["n"]} for g in GOOD]
    assert len({r["id"] for r in rows}) == len(rows)
    assert all(r["skipped"] is None and r["quarantine"] is None for r in rows)


@pytest.mark.parametrize("data", [b"", b"\n\n", gzip.compress(b"", mtime=0), zstandard.compress(b"")])
def test_nothing_in_it(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path / "a.jsonl.gz", data) == []


def test_fields_by_dotted_paths(tmp_path: Path) -> None:
    data = dumps(
        {"body": {"content": "A", "kind": "x"}, "key": 7, "metadata": {"lang": "en", "when": "2024"}},
        {"body": {"content": "B"}, "metadata": {"lang": {"code": "zh"}}},
        {"body": "no object", "metadata": None},
    )
    columns = {"lang": "metadata.lang", "kind": "body.kind"}
    rows = read(tmp_path / "a.jsonl", data, text="body.content", id="key", date="metadata.when", columns=columns)
    assert [r["text"] for r in rows] == ["A", "B", None]
    assert [r["record_id"] for r in rows] == ["7", None, None]
    assert [r["date"] for r in rows] == ["2024", None, None]
    assert [r["lang"] for r in rows] == ["en", '{"code":"zh"}', None]
    assert [r["kind"] for r in rows] == ["x", None, None]
    assert rows[2]["skipped"] == "missing_text"
    assert json.loads(rows[2]["meta"]) == {"body": "no object", "metadata": None}
    assert Jsonl(paths=("x",), columns=columns).outputs().keys() == columns.keys()


def test_several_columns_of_one_field(tmp_path: Path) -> None:
    data = dumps({"text": "a", "url": "https://e.org/", "m": {"k": "v", "n": "w"}})
    (row,) = read(tmp_path / "a.jsonl", data, id="url", columns={"copy": "text", "k": "m.k", "whole": "m"})
    assert (row["record_id"], row["url"], row["text"], row["copy"]) == ("https://e.org/", "https://e.org/", "a", "a")
    assert (row["k"], json.loads(row["whole"]), row["meta"]) == ("v", {"k": "v", "n": "w"}, None)


def test_offsets_find_the_line_again(tmp_path: Path) -> None:
    data = dumps(*GOOD)
    for row in read(tmp_path / "a.jsonl", data):
        line = data[row["offset"] : row["offset"] + row["length"]]
        assert json.loads(line)["id"] == row["record_id"]


ODD = [
    (b'{"text": null}', "skipped", "null_text"),
    (b'{"other": 1}', "skipped", "missing_text"),
    (b'{"text": 5}', "quarantine", "wrong_type: the field text is a number, not a string"),
    (b'{"text": ["a"]}', "quarantine", "wrong_type: the field text is a list, not a string"),
    (b'{"text": true}', "quarantine", "wrong_type: the field text is a boolean, not a string"),
    (b'{"text": "a"', "quarantine", "broken_json: "),
    (b"{'text': 'a'}", "quarantine", "broken_json: "),
    (b"[1, 2]", "quarantine", "not_an_object: a list"),
    (b'"text"', "quarantine", "not_an_object: a string"),
    (b"null", "quarantine", "not_an_object: null"),
    (b"17", "quarantine", "not_an_object: a number"),
    (b'{"text": "a"} {"text": "b"}', "quarantine", "broken_json: "),
    (b"\x00\x01\x02", "quarantine", "broken_json: "),
    (b'{"text":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "quarantine", "too_deep: nested deeper than 500 levels"),
    (b"[" * 100_000, "quarantine", "too_deep: nested deeper than 500 levels"),
    (b'{"a":' * 200_000, "quarantine", "too_deep: nested deeper than 500 levels"),
]


@pytest.mark.parametrize(("line", "column", "reason"), ODD)
def test_odd_lines_cost_themselves(tmp_path: Path, line: bytes, column: str, reason: str) -> None:
    good = dumps(*GOOD[:3])
    rows = read(tmp_path / "a.jsonl", good + line + b"\n" + good)
    assert [r["text"] for r in rows] == [g["text"] for g in [*GOOD[:3], {"text": None}, *GOOD[:3]]]
    assert rows[3][column].startswith(reason)
    assert rows[3]["offset"] == len(good)
    assert rows[3]["length"] == len(line)


TAKEN = [
    (b'{"text": "a\\ud800b"}', "a\ufffdb", 1),
    (b'{"text": "\\ud83d\\ude00"}', "\U0001f600", 0),
    (b'{"text": "a\\u0000b"}', "a\x00b", 0),
    (b'{"text": "a\tb\x01"}', "a\tb\x01", 0),
    (b'{"text": "caf\xe9"}', "caf\ufffd", 1),
    (b'{"text": "a", "x": NaN, "y": Infinity}', "a", 0),
    (b'{"text": "a", "text": "b"}', "b", 0),
    (b'{"text": "a", "n": 123456789012345678901234567890}', "a", 0),
    ('{"text": "a\u2028b\u0085c"}'.encode(), "a\u2028b\u0085c", 0),
    (b'{"text": "a\rb"}', "a\rb", 0),
    (b'{"text": "a", "\\udc00": ["\\ud800", {"k": "\\udfff"}]}', "a", 3),
    (b'\xef\xbb\xbf{"text": "a"}', "a", 0),
    (b'{"text": ""}', "", 0),
]


@pytest.mark.parametrize(("line", "text", "replaced"), TAKEN)
def test_what_is_odd_but_readable_is_read(tmp_path: Path, line: bytes, text: str, replaced: int) -> None:
    rows = read(tmp_path / "a.jsonl", dumps(GOOD[0]) + line + b"\n" + dumps(GOOD[1]))
    assert [r["text"] for r in rows] == [GOOD[0]["text"], text, GOOD[1]["text"]]
    assert json.loads(rows[1]["meta"] or "{}").get("replaced_characters", 0) == replaced


def test_a_line_of_50_mb(tmp_path: Path) -> None:
    long = b'{"text": "' + b"x" * 50_000_000 + b'"}\n'
    rows = read(tmp_path / "a.jsonl.zst", zstandard.compress(dumps(GOOD[0]) + long + dumps(GOOD[1])))
    assert [r["text"] for r in rows] == [GOOD[0]["text"], None, GOOD[1]["text"]]
    assert rows[1]["quarantine"] == f"too_long: a line of {len(long) - 1} bytes, over the limit of {32 << 20}"
    assert rows[1]["id"] == f"jsonl/a.jsonl.zst#0+{len(dumps(GOOD[0]))}"
    rows = read(tmp_path / "a.jsonl.zst", max_line_bytes=60_000_000)
    assert [len(r["text"]) for r in rows] == [9, 50_000_000, 9]


@pytest.mark.parametrize(
    "data",
    [
        random.Random(1).randbytes(3_000_000),
        b"\x89PNG\r\n\x1a\n" + bytes(200_000),
        json.dumps([{"text": "a", "n": i} for i in range(200)], indent=1).encode(),
        b"id,text\n" + b"1,hello\n" * 5_000,
        gzip.compress(random.Random(2).randbytes(300_000)),
        b"one line that is no JSON",
    ],
)
def test_a_file_of_another_kind_is_one_row(tmp_path: Path, data: bytes) -> None:
    rows = read(tmp_path / "a.jsonl", data)
    assert len(rows) == 1
    assert rows[0]["quarantine"].partition(":")[0] in ("not_jsonl", "broken_json", "damaged_compression")
    if len(data) > 1000:
        assert rows[0]["quarantine"].startswith("not_jsonl: none of its first ")
        assert (rows[0]["offset"], rows[0]["length"]) == (0, len(data))


def test_bad_lines_at_the_start_of_a_good_file_are_rows(tmp_path: Path) -> None:
    rows = read(tmp_path / "a.jsonl", b"bad\n" * 50 + dumps(*GOOD))
    assert [bool(r["quarantine"]) for r in rows] == [True] * 50 + [False] * 300


def test_a_wrong_field_name_is_an_error_that_names_the_fields(tmp_path: Path) -> None:
    data = dumps(*({"content": "a", "link": "b"} for _ in range(200)))
    with pytest.raises(ConfigError, match="has the field 'text'") as caught:
        read(tmp_path / "a.jsonl", data)
    assert "content, link" in str(caught.value)
    assert [r["text"] for r in read(tmp_path / "a.jsonl", text="content")] == ["a"] * 200


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, bz2.compress, lzma.compress])
def test_a_cut_file_says_so(tmp_path: Path, pack: Any) -> None:
    data = dumps(*({"text": random.Random(i).randbytes(300).hex()} for i in range(2_000)))
    rows = read(tmp_path / "a.jsonl", pack(data)[:-50])
    assert "cut_off" in rows[-1]["quarantine"] or "damaged" in rows[-1]["quarantine"]
    good = [r["text"] for r in rows[:-1]]
    assert good == [json.loads(line)["text"] for line in data.splitlines()[: len(good)]]
    assert sum(bool(r["quarantine"]) for r in rows) == 1


def test_damage_in_one_of_many_members(tmp_path: Path) -> None:
    parts = [gzip.compress(dumps(*GOOD[i : i + 30])) for i in range(0, 300, 30)]
    bad = bytearray(parts[4])
    bad[len(bad) // 2] ^= 0xFF
    rows = read(tmp_path / "a.jsonl.gz", b"".join([*parts[:4], bytes(bad), *parts[5:]]))
    texts = [r["text"] for r in rows if r["text"]]
    assert texts[:120] == [g["text"] for g in GOOD[:120]]
    assert texts[-150:] == [g["text"] for g in GOOD[150:]]
    spoilt = [r for r in rows if r["quarantine"]]
    assert len(spoilt) == 1
    assert (spoilt[0]["offset"], spoilt[0]["length"]) == (sum(map(len, parts[:4])), len(bad))


@pytest.mark.parametrize(
    "ahead", [_members.AHEAD_BYTES, 2 << 20, 1], ids=["held back", "some held back", "decoded twice"]
)
def test_damage_in_a_long_member_marks_what_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr(_members, "AHEAD_BYTES", ahead)
    data = dumps(*({"text": random.Random(i).randbytes(500).hex()} for i in range(4_000)))
    packed = bytearray(gzip.compress(data, 1))
    packed[-8] ^= 1  # nothing is wrong but the checksum, which comes last
    rows = read(tmp_path / "a.jsonl.gz", bytes(packed))
    good = [r for r in rows if r["text"]]
    assert len(good) > 2_000
    assert all("unverified" in r["meta"] for r in good)
    assert [bool(r["quarantine"]) for r in rows].count(True) == 1
    rows = read(tmp_path / "b.jsonl.gz", gzip.compress(data, 1)[:-100_000])
    assert not any(r["meta"] for r in rows)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"x")), max_size=30),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 10),
)
def test_lines_do_not_depend_on_pieces(contents: list[bytes], sizes: list[int], limit: int) -> None:
    data = b"\n".join(contents)
    cut = []
    at = 0
    while at < len(data):
        size = sizes[len(cut) % len(sizes)]
        cut.append(Piece(data[at : at + size], at, -1, False, at + size))
        at += size
    got = [(ln.data, ln.offset, ln.length, ln.error is None) for ln in lines(cut, limit)]
    expected = []
    at = 0
    for content in contents:
        if content and (len(content) > limit or not content.isspace()):
            fits = len(content) <= limit
            expected.append((content if fits else b"", at, len(content), fits))
        at += len(content) + 1
    assert got == expected


def test_contract(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(dumps(*GOOD) + b"bad\n")
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(dumps(*GOOD)))
    check_stage(Jsonl(paths=(str(tmp_path),), columns={"n": "n"}))
