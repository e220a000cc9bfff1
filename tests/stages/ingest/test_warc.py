"""ingest.warc: whole files, damaged files, odd layouts, and the malformed files of other tools' test suites."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import struct
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastwarc.warc as fastwarc
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from corpusflow import check_stage
from stages.ingest._members import pieces
from stages.ingest._warc import opens_record, parse_headers, records
from stages.ingest.warc import Warc

PAGE = b"<html><body><p>Page %d says something.</p></body></html>"


def record(kind: str, block: bytes, *, length: int | None = None, end: bytes = b"\r\n\r\n", **headers: str) -> bytes:
    """A WARC record; `length` claims another Content-Length than the block has."""
    lines = {"WARC-Type": kind, "WARC-Record-ID": "<urn:uuid:0>", "WARC-Date": "2024-05-01T00:00:00Z", **headers}
    lines["Content-Length"] = str(len(block) if length is None else length)
    head = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in lines.items())
    return b"WARC/1.0\r\n" + head.encode() + b"\r\n" + block + end


def response(n: int, body: bytes | None = None, status: str = "200 OK", http: str = "", **headers: Any) -> bytes:
    body = PAGE % n if body is None else body
    block = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n{http}\r\n".encode() + body
    headers.setdefault("WARC-Target-URI", f"https://example.org/{n}")
    headers.setdefault("Content-Type", "application/http; msgtype=response")
    return record("response", block, **headers)


def read(path: Path, **params: Any) -> list[dict[str, Any]]:
    stage = Warc(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def outline(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Per row: the page's number, or why there is none."""
    found = []
    for r in rows:
        if r["quarantine"]:
            assert r["raw"] is None
            found.append("! " + r["quarantine"])
        elif r["skipped"]:
            assert r["raw"] is None
            found.append("- " + r["skipped"])
        else:
            found.append(r["raw"].decode("latin-1").partition("Page ")[2].partition(" ")[0])
    return found


LAYOUTS = {
    "member per record": lambda rs: b"".join(gzip.compress(r) for r in rs),
    "plain": lambda rs: b"".join(rs),
    "one member": lambda rs: gzip.compress(b"".join(rs)),
    "members that cut records": lambda rs: b"".join(
        gzip.compress(b"".join(rs)[i : i + 100]) for i in range(0, len(b"".join(rs)), 100)
    ),
    "frame per record": lambda rs: b"".join(zstandard.compress(r) for r in rs),
    "one frame": lambda rs: zstandard.compress(b"".join(rs)),
    "stream frame without size": lambda rs: (
        zstandard.ZstdCompressor().compressobj().compress(b"") + _zstd_stream(b"".join(rs))
    ),
}


def _zstd_stream(data: bytes) -> bytes:
    out = zstandard.ZstdCompressor().compressobj()
    return out.compress(data) + out.flush()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_give_the_same_documents(tmp_path: Path, layout: str) -> None:
    rs = [record("warcinfo", b"software: x\r\n"), *(response(i) for i in range(40)), record("metadata", b"a: b")]
    rows = read(write(tmp_path / "a.warc", LAYOUTS[layout](rs)))
    assert outline(rows) == ["- warcinfo", *map(str, range(40)), "- metadata"]
    assert len({r["id"] for r in rows}) == 42
    page = rows[1]
    assert page["raw"] == PAGE % 0
    assert page["content_type"] == "text/html; charset=utf-8"
    assert page["content_encoding"] is None
    assert (page["url"], page["source"], page["date"]) == ("https://example.org/0", "warc", "2024-05-01T00:00:00Z")
    assert page["record_id"] == "<urn:uuid:0>"
    assert page["id"].startswith("warc/a.warc#")


def test_offset_and_length_find_the_record_again(tmp_path: Path) -> None:
    rng = random.Random(1)
    bodies = [rng.randbytes(n) for n in (10, 3_000_000, 500, 0)]  # random: the second spans many pieces
    data = b"".join(gzip.compress(response(i, b)) for i, b in enumerate(bodies))
    rows = read(write(tmp_path / "a.warc.gz", data))
    for row, body in zip(rows, bodies, strict=True):
        member = data[row["offset"] : row["offset"] + row["length"]]
        assert gzip.decompress(member).endswith(body + b"\r\n\r\n")
        assert row["raw"] == body
    plain = b"".join(response(i, b) for i, b in enumerate(bodies))
    for row, body in zip(read(write(tmp_path / "b.warc", plain)), bodies, strict=True):
        assert plain[row["offset"] : row["offset"] + row["length"]].startswith(b"WARC/1.0")
        assert body in plain[row["offset"] : row["offset"] + row["length"] + 4]


def test_what_is_no_document_says_why(tmp_path: Path) -> None:
    rs = [
        record("request", b"GET / HTTP/1.1\r\n\r\n"),
        response(1, status="404 Not Found"),
        response(2, status="301 Moved"),
        response(3, status="206 Partial Content"),
        record("revisit", b"HTTP/1.1 200 OK\r\n\r\n"),
        record("continuation", b"x"),
        record(
            "response", b"example.org. 300 IN A 192.0.2.1", WARC_Target_URI="dns:example.org", Content_Type="text/dns"
        ),
        record("Some-Thing", b"x"),
        response(4),
    ]
    rows = read(write(tmp_path / "a.warc", b"".join(rs)))
    assert outline(rows) == [
        "- request",
        "- http_status_404",
        "- http_status_301",
        "- http_status_206",
        "- revisit",
        "- continuation",
        "- dns",
        "- unknown_type",
        "4",
    ]


def test_bytes_stay_as_stored(tmp_path: Path) -> None:
    body = gzip.compress(PAGE % 7)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    rs = [
        response(1, chunked, http="Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"),
        record("resource", PAGE % 2, Content_Type="text/html", WARC_Target_URI="file:///a"),
        record("conversion", b"Page 3 as text", Content_Type="text/plain", WARC_Target_URI="<https://example.org/3>"),
        record("response", PAGE % 4, Content_Type="application/http", WARC_Identified_Payload_Type="text/html"),
    ]
    rows = read(write(tmp_path / "a.warc", b"".join(rs)))
    assert rows[0]["raw"] == chunked
    assert rows[0]["content_encoding"] == "gzip,chunked"
    assert [r["content_type"] for r in rows] == ["text/html; charset=utf-8", "text/html", "text/plain", "text/html"]
    assert [r["raw"] for r in rows[1:]] == [PAGE % 2, None, PAGE % 4]
    assert [r["text"] for r in rows] == [None, None, "Page 3 as text", None]
    assert rows[2]["url"] == "https://example.org/3"


def test_headers_that_later_stages_ask_for_are_kept(tmp_path: Path) -> None:
    rs = [response(1, http="X-Robots-Tag: noai\r\nSet-Cookie: secret=1\r\n", WARC_Truncated="length"), response(2)]
    first, second = read(write(tmp_path / "a.warc", b"".join(rs)))
    assert json.loads(first["meta"]) == {"x-robots-tag": "noai", "truncated": "length"}
    assert second["meta"] is None


@pytest.mark.parametrize("name", ["a.warc.gz", "a.warc"])
@pytest.mark.parametrize("empty", [b"", gzip.compress(b"", mtime=0)])
def test_empty_files_are_no_documents(tmp_path: Path, name: str, empty: bytes) -> None:
    assert read(write(tmp_path / name, empty)) == []


def test_a_cut_file_loses_its_last_record_and_says_so(tmp_path: Path) -> None:
    members = [gzip.compress(response(i)) for i in range(5)]
    whole = b"".join(members)
    for missing in (1, 4, 8, 20, len(members[-1]) - 1):
        rows = read(write(tmp_path / "a.warc.gz", whole[:-missing]))
        assert outline(rows)[:4] == ["0", "1", "2", "3"]
        assert "cut_off" in rows[4]["quarantine"] or "not a compressed member" in rows[4]["quarantine"]
        assert (rows[4]["offset"], rows[4]["length"]) == (len(whole) - len(members[-1]), len(members[-1]) - missing)
    plain = b"".join(response(i) for i in range(5))
    rows = read(write(tmp_path / "a.warc", plain[:-30]))
    assert outline(rows) == ["0", "1", "2", "3", "! cut_off: the file ends before the record does"]
    assert rows[4]["url"] == "https://example.org/4"
    rows = read(write(tmp_path / "a.warc.gz", whole[:-20]))  # behind the headers
    assert rows[4]["url"] == "https://example.org/4"
    rows = read(write(tmp_path / "a.warc", plain[: plain.rindex(b"Content-Length")]))
    assert rows[4]["url"] is None, "half a header may be cut in the middle of the URL"


@pytest.mark.parametrize("damage", ["flip", "zero the header", "wrong crc", "cut in the middle", "garbage between"])
def test_a_damaged_member_costs_itself_alone(tmp_path: Path, damage: str) -> None:
    rng = random.Random(5)
    members = [gzip.compress(response(i, PAGE % i + rng.randbytes(2_000))) for i in range(9)]
    bad = bytearray(members[4])
    if damage == "flip":
        bad[len(bad) // 2] ^= 0xFF
    elif damage == "zero the header":
        bad[:10] = bytes(10)
    elif damage == "wrong crc":
        bad[-6] ^= 1
    elif damage == "cut in the middle":
        del bad[len(bad) // 2 :]
    else:
        bad = bytearray(members[4]) + b"\x07garbage" * 30
    start = sum(map(len, members[:4]))
    rows = read(write(tmp_path / "a.warc.gz", b"".join(members[:4]) + bytes(bad) + b"".join(members[5:])))
    found = [r["raw"][:40] for r in rows if r["raw"]]
    spoilt = [r for r in rows if r["quarantine"]]
    expected = [(PAGE % i)[:40] for i in range(9) if i != 4 or damage == "garbage between"]
    assert found == expected
    assert len(spoilt) == 1
    at = start + (len(members[4]) if damage == "garbage between" else 0)
    assert (spoilt[0]["offset"], spoilt[0]["length"]) == (at, start + len(bad) - at)


def test_every_flipped_byte_is_accounted_for(tmp_path: Path) -> None:
    """Whatever byte is damaged, the other records are read and nothing false comes out as a page."""
    members = [gzip.compress(response(i)) for i in range(4)]
    data = b"".join(members)
    borders = [0, *(sum(map(len, members[: i + 1])) for i in range(4))]
    for at in range(len(data)):
        hit = next(i for i in range(4) if borders[i] <= at < borders[i + 1])
        bad = bytearray(data)
        bad[at] ^= 0x55
        rows = read(write(tmp_path / "a.warc.gz", bytes(bad)))
        pages = [r["raw"] for r in rows if r["raw"]]
        assert all(PAGE % i in pages for i in range(4) if i != hit), at
        # A flip in the header's flags, time or system byte harms nothing, and then the record is whole.
        assert len(pages) == 4 or any(r["quarantine"] for r in rows), at
        assert set(pages) <= {PAGE % i for i in range(4)}, at


def test_damage_inside_one_long_member_spares_the_rest(tmp_path: Path) -> None:
    rng = random.Random(2)
    rs = [response(i, (PAGE % i) + rng.randbytes(10_000).hex().encode()) for i in range(200)]
    data = bytearray(gzip.compress(b"".join(rs)))
    data[len(data) // 2 : len(data) // 2 + 300] = b"\xff" * 300  # no valid code
    rows = read(write(tmp_path / "a.warc.gz", bytes(data)))
    pages = [r for r in rows if r["raw"]]
    assert 95 <= len(pages) <= 101
    assert [r["raw"][:20] for r in pages] == [(PAGE % i)[:20] for i in range(len(pages))]
    assert len([r for r in rows if r["quarantine"]]) == 1


def test_digests_tell_which_record_of_a_shared_member_is_damaged(tmp_path: Path) -> None:
    rng = random.Random(2)
    rs = []
    for i in range(50):
        r = response(i, PAGE % i + rng.randbytes(50_000))
        block = r.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n\r\n")
        digest = base64.b32encode(hashlib.sha1(block).digest()).decode() if i % 2 else hashlib.sha1(block).hexdigest()
        rs.append(r.replace(b"Content-Length", f"WARC-Block-Digest: sha1:{digest}\r\nContent-Length".encode()))
    data = bytearray(gzip.compress(b"".join(rs), 0))  # stored: a flipped bit upsets nothing but the checksum
    assert outline(read(write(tmp_path / "a.warc.gz", bytes(data)))) == [str(i) for i in range(50)]
    data[len(data) // 2 + 20_000] ^= 0x10
    rows = read(write(tmp_path / "a.warc.gz", bytes(data)))
    bad = [i for i, r in enumerate(rows) if r["quarantine"]]
    assert len(bad) == 2
    assert "digest" in rows[bad[0]]["quarantine"]
    assert "incorrect data check" in rows[bad[1]]["quarantine"]
    assert not any(r["meta"] for r in rows)
    bare = bytearray(gzip.compress(b"".join(rs).replace(b"WARC-Block-Digest", b"X"), 0))
    bare[len(bare) // 2 + 20_000] ^= 0x10
    rows = read(write(tmp_path / "c.warc.gz", bytes(bare)))
    assert [bool(r["quarantine"]) for r in rows] == [False] * 49 + [True]
    assert all("checksum" in r["meta"] for r in rows[:49])
    plain = b"".join(rs).replace(b"Page 7 ", b"Page 8 ")
    path = write(tmp_path / "b.warc", plain)
    assert sum(bool(r["quarantine"]) for r in read(path)) == 0
    assert [i for i, r in enumerate(read(path, verify_digests=True)) if r["quarantine"]] == [7]


def test_wrong_lengths_are_put_right_where_the_border_shows(tmp_path: Path) -> None:
    for claimed in (5, 200, 100_000, None):
        rs = [response(i) for i in range(3)]
        text = rs[1].replace(b"Content-Length: ", b"Content-Length: abc" if claimed is None else b"X: ")
        rs[1] = text.replace(b"X: ", b"Content-Length: %d\r\nX: " % (claimed or 0))
        rows = read(write(tmp_path / "a.warc", b"".join(rs)))
        assert outline(rows) == ["0", "1", "2"], claimed
        assert rows[1]["raw"] == PAGE % 1
        assert json.loads(rows[1]["meta"]) == {"repaired": "content-length"}
        rows = read(write(tmp_path / "a.warc.gz", b"".join(map(gzip.compress, rs))))
        assert [r["raw"] for r in rows] == [PAGE % i for i in range(3)], claimed


@settings(max_examples=300)
@given(st.text("AB:-. \t\r\né", max_size=30), st.sampled_from(["WARC-Type", "content-type", "X Y", "é"]))
def test_headers_are_read_alike_the_quick_and_the_careful_way(noise: str, name: str) -> None:
    block = f"WARC/1.0\r\n{name}: first\r\n{noise}\r\n{name}: second\r\nLast: value".encode()
    careful = parse_headers(block.replace(b"value", b"value "))
    assert parse_headers(block) == careful
    assert careful["last"] == "value"
    assert careful[name.lower()].partition(" ")[0] in ("first", "second")


def test_missing_line_ends_between_records(tmp_path: Path) -> None:
    rs = [response(0, end=b""), response(1, end=b"\n"), response(2, end=b"\r\n" * 5), response(3)]
    rows = read(write(tmp_path / "a.warc", b"".join(rs)))
    assert outline(rows) == ["0", "1", "2", "3"]


def test_bare_line_feeds(tmp_path: Path) -> None:
    rs = [b"\n".join(response(i).split(b"\r\n", 8)) for i in range(3)]
    assert b"\n\nHTTP/1.1 200 OK\r\n" in rs[0]
    rows = read(write(tmp_path / "a.warc", b"".join(rs)))
    assert [r.get("raw") for r in rows] == [PAGE % i for i in range(3)]
    assert rows[0]["url"] == "https://example.org/0"


def test_overlong_records_are_not_held_in_memory_and_cost_themselves(tmp_path: Path) -> None:
    rs = [response(0), response(1, b"x" * 300_000), response(2)]
    for data in (b"".join(rs), b"".join(map(gzip.compress, rs)), gzip.compress(b"".join(rs))):
        rows = read(write(tmp_path / "a.warc", data), max_record_bytes=100_000)
        assert [bool(r["quarantine"]) for r in rows] == [False, True, False]
        assert "over the limit of 100000" in rows[1]["quarantine"]
        assert rows[1]["url"] == "https://example.org/1"


def test_a_false_gigantic_length_does_not_swallow_the_file(tmp_path: Path) -> None:
    rs = [response(0), response(1, length=10**12), response(2), response(3)]
    rows = read(write(tmp_path / "a.warc", b"".join(rs)))
    assert [r["raw"] for r in rows] == [PAGE % 0, None, PAGE % 2, PAGE % 3]
    assert rows[1]["quarantine"]


def test_bytes_that_are_no_record_are_one_quarantined_row(tmp_path: Path) -> None:
    noise = random.Random(3).randbytes(3_000_000)
    rows = read(write(tmp_path / "a.warc.gz", noise))
    assert len(rows) == 1
    assert (rows[0]["offset"], rows[0]["length"]) == (0, 3_000_000)
    rows = read(write(tmp_path / "b.warc", response(0) + noise + b"\r\n\r\n" + response(1)))
    assert [r["raw"] for r in rows] == [PAGE % 0, None, PAGE % 1]


def test_zero_padding_is_nothing(tmp_path: Path) -> None:
    data = gzip.compress(response(0)) + bytes(5_000_000) + gzip.compress(response(1)) + bytes(512)
    assert outline(read(write(tmp_path / "a.warc.gz", data))) == ["0", "1"]


def test_gzip_header_with_extra_fields_and_name(tmp_path: Path) -> None:
    raw = response(0)
    deflated = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflated.compress(raw) + deflated.flush()
    head = b"\x1f\x8b\x08\x0c\0\0\0\0\0\x03" + struct.pack("<H", 8) + b"sl\x04\0\1\2\3\4" + b"name\0"
    member = head + body + struct.pack("<II", zlib.crc32(raw), len(raw))
    assert outline(read(write(tmp_path / "a.warc.gz", member * 2))) == ["0", "0"]


def test_zstd_with_a_dictionary_in_the_file(tmp_path: Path) -> None:
    rs = [response(i) for i in range(200)]
    dictionary = zstandard.train_dictionary(2_000, rs)
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    for stored in (dictionary.as_bytes(), zstandard.compress(dictionary.as_bytes())):
        head = struct.pack("<II", 0x184D2A5D, len(stored)) + stored
        rows = read(write(tmp_path / "a.warc.zst", head + b"".join(map(compressor.compress, rs))))
        assert outline(rows) == [str(i) for i in range(200)]


def test_damaged_zstd_frame(tmp_path: Path) -> None:
    frames = [zstandard.ZstdCompressor(write_checksum=True).compress(response(i)) for i in range(6)]
    bad = bytearray(frames[2])
    bad[len(bad) // 2] ^= 0xFF
    rows = read(write(tmp_path / "a.warc.zst", b"".join([*frames[:2], bytes(bad), *frames[3:]])))
    assert [r["raw"] for r in rows if r["raw"]] == [PAGE % i for i in (0, 1, 3, 4, 5)]
    assert sum(bool(r["quarantine"]) for r in rows) == 1
    rows = read(write(tmp_path / "b.warc.zst", b"".join(frames)[:-5]))
    assert outline(rows)[:5] == list("01234")
    assert "cut_off" in rows[5]["quarantine"]


def test_arc_files(tmp_path: Path) -> None:
    def arc(url: str, block: bytes, fields: str = "192.0.2.1 20140216050221 text/html") -> bytes:
        return f"{url} {fields} {len(block)}\n".encode() + block + b"\n"

    head = arc("filedesc://a.arc", b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n\n")
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    rs = [head, *(arc(f"http://example.org/a page {i}", http + PAGE % i) for i in range(3))]
    two = "192.0.2.1 20140216050221 text/html 200 - - 0 a.arc"
    rs += [arc("http://example.org/3", http + PAGE % 3, two)]
    for data in (b"".join(rs), b"".join(map(gzip.compress, rs))):
        rows = read(write(tmp_path / "a.arc", data))
        assert outline(rows) == ["- filedesc", "0", "1", "2", "3"]
        assert (rows[1]["url"], rows[1]["date"]) == ("http://example.org/a page 0", "2014-02-16T05:02:21Z")
    assert outline(read(write(tmp_path / "b.arc", b"".join(rs)[:-60])))[-1].startswith("! cut_off: ")


def test_reading_in_parts_is_reading_the_whole() -> None:
    """Members that start in [a, b) for any cut of the file: each record once, in order."""
    rng = random.Random(4)
    data = b"".join(gzip.compress(response(i, PAGE % i + rng.randbytes(rng.randrange(300)))) for i in range(60))
    whole = [(r.offset, r.block) for r in records(pieces(io.BytesIO(data), 0, None, opens_record), 1 << 20)]
    for size in (1, 50, 333, 5_000):
        got = []
        for a in range(0, len(data), size):
            part = pieces(io.BytesIO(data), a, min(a + size, len(data)), opens_record)
            got += [(r.offset, r.block) for r in records(part, 1 << 20)]
        assert got == whole, size


def test_agrees_with_warcio(tmp_path: Path) -> None:
    rng = random.Random(6)
    rs = [response(i, rng.randbytes(rng.randrange(5_000))) for i in range(100)]
    path = write(tmp_path / "a.warc.gz", b"".join(map(gzip.compress, rs)))
    with path.open("rb") as f:
        theirs = [(r.rec_headers.get_header("WARC-Target-URI"), r.content_stream().read()) for r in ArchiveIterator(f)]
    assert [(r["url"], r["raw"]) for r in read(path)] == theirs


def test_contract(tmp_path: Path) -> None:
    write(tmp_path / "a.warc.gz", b"".join(gzip.compress(response(i)) for i in range(1_500)))
    write(tmp_path / "b.warc", b"".join(response(i) for i in range(30)) + b"cut")
    check_stage(Warc(paths=(str(tmp_path),)))


def test_batches_are_bounded(tmp_path: Path) -> None:
    stage = Warc(paths=(str(write(tmp_path / "a.warc", b"".join(response(i, b"x" * 40_000) for i in range(1_200)))),))
    sizes = [(b.num_rows, b.column("raw").nbytes) for s in stage.splits() for b in stage.read(s)]
    assert sum(n for n, _ in sizes) == 1_200
    assert max(n for n, _ in sizes) <= 1_000
    assert max(size for _, size in sizes) < 9 << 20


@pytest.mark.parametrize("layout", ["member per record", "plain", "one member"])
def test_what_was_read_is_let_go(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "a.warc", LAYOUTS[layout]([response(i, b"x" * 20_000) for i in range(300)]))
    stage = Warc(paths=(str(path),))

    def read_once() -> None:
        for split in stage.splits():
            for batch in stage.read(split):
                assert batch.num_rows

    read_once()
    tracemalloc.start()
    try:
        for _ in range(3):
            read_once()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 << 20, "18 MB were read"


DATA = os.environ.get("CORPUSFLOW_TEST_DATA", "")
needs_data = pytest.mark.skipif(not DATA, reason="CORPUSFLOW_TEST_DATA is not set")

#: File -> (documents, {skipped: n}, {quarantine reason: n}). Every record is in one of the three.
MALFORMED: dict[str, tuple[int, dict[str, int], dict[str, int]]] = {
    "allenai+dolma/tests/data/warc/sample-0000.warc.gz": (24, {"warcinfo": 1, "request": 22, "metadata": 1}, {}),
    "allenai+dolma/tests/data/warc/sample-0001.warc.gz": (17, {"warcinfo": 1, "request": 15, "metadata": 1}, {}),
    "chatnoir-eu+chatnoir-resiliparse/tests/data/block-sized-records.warc": (0, {"unknown": 3}, {}),
    "chatnoir-eu+chatnoir-resiliparse/tests/data/block-sized-records.warc.gz": (0, {"unknown": 3}, {}),
    "chatnoir-eu+chatnoir-resiliparse/tests/data/block-sized-records.warc.lz4": (0, {"unknown": 3}, {}),
    "chatnoir-eu+chatnoir-resiliparse/tests/data/clipped.warc.gz": (
        0,
        {},
        {"cut_off: the file ends inside compressed data": 1},
    ),
    "chatnoir-eu+chatnoir-resiliparse/tests/data/clueweb-quirk.warc.gz": (29, {"warcinfo": 1}, {}),
    "chatnoir-eu+chatnoir-resiliparse/tests/data/warcfile.warc.gz": (
        16,
        {"warcinfo": 1, "request": 17, "metadata": 16},
        {},
    ),
    "chatnoir-eu+chatnoir-resiliparse/tests/data/warcfile.warc.lz4": (
        16,
        {"warcinfo": 1, "request": 17, "metadata": 16},
        {},
    ),
    "commoncrawl+whirlwind-python/CC-MAIN-2024-22.warc.paths.gz": (
        0,
        {},
        {"stray_bytes: bytes between two records": 1},
    ),
    "commoncrawl+whirlwind-python/whirlwind.warc": (1, {"warcinfo": 1, "request": 1, "metadata": 1}, {}),
    "commoncrawl+whirlwind-python/whirlwind.warc.gz": (1, {"warcinfo": 1, "request": 1, "metadata": 1}, {}),
    "commoncrawl+whirlwind-python/whirlwind.warc.wat": (0, {"warcinfo": 1, "metadata": 1}, {}),
    "commoncrawl+whirlwind-python/whirlwind.warc.wat.gz": (0, {"warcinfo": 1, "metadata": 1}, {}),
    "commoncrawl+whirlwind-python/whirlwind.warc.wet": (1, {"warcinfo": 1}, {}),
    "commoncrawl+whirlwind-python/whirlwind.warc.wet.gz": (1, {"warcinfo": 1}, {}),
    "iipc+jwarc/test-resources/org/netpreserve/jwarc/cc.warc.gz": (1, {}, {}),
    "iipc+jwarc/test-resources/org/netpreserve/jwarc/gzip_extra_sl.warc.gz": (0, {"warcinfo": 1}, {}),
    "internetarchive+gowarc/testdata/warcs/corrupted-mid-record.warc.gz.open": (
        12,
        {},
        {"stray_bytes: not a compressed member": 1},
    ),
    "internetarchive+gowarc/testdata/warcs/corrupted-trailing-bytes.warc.gz.open": (
        30,
        {},
        {"stray_bytes: not a compressed member": 1},
    ),
    "internetarchive+gowarc/testdata/warcs/empty.warc.gz.open": (0, {}, {}),
    "internetarchive+gowarc/testdata/warcs/good.warc.gz.open": (50, {}, {}),
    "internetarchive+gowarc/testdata/warcs/single-record.warc.gz.open": (1, {}, {}),
    "internetarchive+gowarc/testdata/warcs/skip-non-open.warc.gz": (10, {}, {}),
    "internetarchive+gowarc/testdata/warcs/test.warc.gz": (1, {"warcinfo": 1, "request": 1}, {}),
    "webrecorder+warcio.js/test/data/example-bad-length.warc": (1, {"warcinfo": 2, "request": 2, "revisit": 1}, {}),
    "webrecorder+warcio.js/test/data/example-iana.org-chunked.warc": (1, {"warcinfo": 1, "request": 1}, {}),
    "webrecorder+warcio.js/test/data/example-resource.warc.gz": (1, {}, {}),
    "webrecorder+warcio.js/test/data/example-url-agnostic-revisit.warc.gz": (0, {"warcinfo": 1, "revisit": 1}, {}),
    "webrecorder+warcio.js/test/data/example-wget-bad-target-uri.warc.gz": (
        3,
        {"warcinfo": 1, "request": 1, "metadata": 1},
        {},
    ),
    "webrecorder+warcio.js/test/data/example.warc": (1, {"warcinfo": 2, "request": 2, "revisit": 1, "metadata": 1}, {}),
    "webrecorder+warcio.js/test/data/example.warc.gz": (1, {"warcinfo": 2, "request": 2, "revisit": 1}, {}),
    "webrecorder+warcio.js/test/data/post-test-more.warc": (3, {"request": 3}, {}),
    "webrecorder+warcio.js/test/data/post-test.warc.gz": (3, {"request": 3}, {}),
    "webrecorder+warcio.js/test/data/redirect.warc": (0, {"http_status_301": 1, "request": 1}, {}),
    "webrecorder+warcio/test/data/bad.arc": (3, {"filedesc": 1}, {}),
    "webrecorder+warcio/test/data/example-bad-non-chunked.warc.gz": (
        1,
        {"warcinfo": 2, "request": 2, "revisit": 1},
        {},
    ),
    "webrecorder+warcio/test/data/example-bad.warc.gz.bad": (
        1,
        {"warcinfo": 1, "request": 2, "revisit": 1, "http_status_302": 1},
        {},
    ),
    "webrecorder+warcio/test/data/example-digest.warc": (0, {"request": 4}, {}),
    "webrecorder+warcio/test/data/example-iana.org-chunked.warc": (1, {"warcinfo": 1, "request": 1}, {}),
    "webrecorder+warcio/test/data/example-resource.warc.gz": (1, {"warcinfo": 2}, {}),
    "webrecorder+warcio/test/data/example-space-in-target-uri.warc.gz": (1, {"warcinfo": 1}, {}),
    "webrecorder+warcio/test/data/example-space-in-url.arc": (
        0,
        {"filedesc": 1},
        {"cut_off: the file ends before the record does": 1},
    ),
    "webrecorder+warcio/test/data/example-trunc.warc": (1, {"warcinfo": 2, "request": 1}, {}),
    "webrecorder+warcio/test/data/example-wget-bad-target-uri.warc.gz": (
        3,
        {"warcinfo": 1, "request": 1, "metadata": 1},
        {},
    ),
    "webrecorder+warcio/test/data/example-wrong-chunks.warc.gz": (1, {"request": 1}, {}),
    "webrecorder+warcio/test/data/example.arc": (1, {"filedesc": 1}, {}),
    "webrecorder+warcio/test/data/example.arc.gz": (1, {"filedesc": 1}, {}),
    "webrecorder+warcio/test/data/example.warc": (1, {"warcinfo": 2, "request": 2, "revisit": 1}, {}),
    "webrecorder+warcio/test/data/example.warc.gz": (1, {"warcinfo": 2, "request": 2, "revisit": 1}, {}),
    "webrecorder+warcio/test/data/post-test.warc.gz": (3, {"request": 3}, {}),
}


@needs_data
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    rows = read(Path(DATA) / "warc_malformed" / name)
    skipped = Counter(r["skipped"] for r in rows if r["skipped"])
    spoilt = Counter(r["quarantine"] for r in rows if r["quarantine"])
    assert (len(rows) - skipped.total() - spoilt.total(), dict(skipped), dict(spoilt)) == MALFORMED[name]
    assert len({r["id"] for r in rows}) == len(rows)


@needs_data
def test_every_malformed_file_is_in_the_table() -> None:
    root = Path(DATA) / "warc_malformed"
    assert {str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()} == set(MALFORMED)


@needs_data
@pytest.mark.parametrize("name", MALFORMED)
def test_no_fewer_good_records_than_fastwarc_and_warcio(name: str) -> None:
    path = Path(DATA) / "warc_malformed" / name
    ours = sum(not r["quarantine"] for r in read(path))
    theirs = 0
    with contextlib.suppress(OSError):  # what they read up to where they give up
        for record in fastwarc.ArchiveIterator(str(path), parse_http=False):
            record.reader.read()
            theirs += 1
    warcio_reads = 0
    with path.open("rb") as f, contextlib.suppress(ArchiveLoadFailed):
        for record in ArchiveIterator(f):
            record.content_stream().read()
            warcio_reads += 1
    # Both return these two as if they were whole: the first ends inside its gzip member, the second 12 bytes early.
    cut = name.endswith(("clipped.warc.gz", "example-space-in-url.arc"))
    assert ours >= max(theirs, warcio_reads) - cut
