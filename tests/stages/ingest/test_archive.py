"""ingest.archive: tar and zip, what their members give, hostile names, bombs, damage."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from corpusflow import check_stage
from stages.ingest import _archives
from stages.ingest.archive import Archive

PAGE = b"<html><body><p>Page %d says something.</p></body></html>"
WARC_RECORD = (
    b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: https://example.org/%d\r\nContent-Type: text/html\r\n"
    b"Content-Length: %d\r\n\r\n%s\r\n\r\n"
)
LINES = b"".join(json.dumps({"text": f"line {i}", "id": f"n{i}", "n": i}).encode() + b"\n" for i in range(5))
MEMBERS: dict[str, bytes] = {
    "example.org/a.html": PAGE % 1,
    "example.org/b/c.htm": PAGE % 2,
    "texts/d.txt": "Das Flüßchen.".encode("cp1252"),
    "lines.jsonl": LINES,
    "lines2.jsonl.gz": gzip.compress(LINES, mtime=0),
    "picture.png": b"\x89PNG",
    "noname": b"?",
    "e.html": b"",
    "a long name " + "x" * 200 + "/f.html": PAGE % 3,
}
GOT = [
    *["raw", "raw", "text", *["text"] * 5, *["text"] * 5],
    *["unsupported_type", "unsupported_type", "empty", "raw"],
]


def tar(members: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), data, method)
    return out.getvalue()


def read(path: Path, data: bytes, **params: Any) -> list[dict[str, Any]]:
    path.write_bytes(data)
    stage = Archive(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


def outline(rows: list[dict[str, Any]]) -> list[str]:
    assert len({r["id"] for r in rows}) == len(rows)
    return [r["skipped"] or (r["quarantine"] or "").partition(":")[0] or ("raw" if r["raw"] else "text") for r in rows]


FORMS = {
    "tar": tar,
    "tar, GNU names": lambda m: tar(m, tarfile.GNU_FORMAT),
    "tar, concatenated": lambda m: tar(dict(list(m.items())[:4])) + tar(dict(list(m.items())[4:])),
    "tar.gz": lambda m: gzip.compress(tar(m)),
    "tar.zst": lambda m: zstandard.compress(tar(m)),
    "tar.bz2": lambda m: bz2.compress(tar(m)),
    "tar.xz": lambda m: lzma.compress(tar(m)),
    "zip": zipped,
    "zip, stored": lambda m: zipped(m, zipfile.ZIP_STORED),
    "zip, bzip2": lambda m: zipped(m, zipfile.ZIP_BZIP2),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_documents(tmp_path: Path, form: str) -> None:
    rows = read(tmp_path / "a.bin", FORMS[form](MEMBERS), base_url="https://")
    assert outline(rows) == GOT
    assert [r["raw"] for r in rows if r["raw"]] == [PAGE % 1, PAGE % 2, PAGE % 3]
    assert rows[2]["text"] == "Das Flüßchen."
    assert [(r["text"], r["record_id"]) for r in rows[3:8]] == [(f"line {i}", f"n{i}") for i in range(5)]
    assert json.loads(rows[3]["meta"]) == {"n": 0, "member": "lines.jsonl"}
    assert json.loads(rows[8]["meta"]) == {"n": 0, "member": "lines2.jsonl.gz"}
    assert rows[0]["url"] == "https://example.org/a.html"
    assert rows[-1]["url"] == "https://a%20long%20name%20" + "x" * 200 + "/f.html"
    assert json.loads(rows[0]["meta"]) == {"member": "example.org/a.html"}


def test_offsets_are_those_of_headers(tmp_path: Path) -> None:
    data = tar(MEMBERS, tarfile.GNU_FORMAT)
    rows = read(tmp_path / "a.tar", data)
    assert data[rows[1]["offset"] :].startswith(b"example.org/b/c.htm\0")
    assert data[rows[-1]["offset"] :].startswith(b"././@LongLink")
    assert all(r["offset"] is None for r in read(tmp_path / "a.tgz", gzip.compress(data)))
    data = zipped(MEMBERS)
    assert all(data[r["offset"] :].startswith(b"PK\x03\x04") for r in read(tmp_path / "a.zip", data))


@pytest.mark.parametrize("pack", [tar, zipped], ids=["tar", "zip"])
def test_files_of_many_documents_are_read_as_their_own_sources_do(tmp_path: Path, pack: Any) -> None:
    table = pa.table({"text": [f"row {i}" for i in range(3)], "n": range(3)})
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table)
    warc = b"".join(gzip.compress(WARC_RECORD % (i, len(PAGE), PAGE), mtime=0) for i in range(3))
    members = {
        "a.parquet": parquet.getvalue(),
        "b.arrow": arrow.getvalue(),
        "c.csv": b"text,n\n" + b"".join(b'"row %d",%d\n' % (i, i) for i in range(3)),
        "d.tsv.gz": gzip.compress(b"text\tn\nrow 0\t0\nrow 1\t1\nrow 2\t2\n", mtime=0),
        "e.warc.gz": warc,
        "f.html": PAGE % 1,
        "g.parquet": parquet.getvalue()[:-30],
        "h.warc.gz": warc[:-9],
    }
    rows = read(tmp_path / "a.bin", pack(members), columns={"number": "n"})
    assert outline(rows) == ["text"] * 12 + ["raw"] * 4 + ["not_parquet", "raw", "raw", "cut_off"]
    for i in range(0, 12, 3):
        assert [(r["text"], r["number"]) for r in rows[i : i + 3]] == [(f"row {n}", str(n)) for n in range(3)]
        assert [json.loads(r["meta"]) for r in rows[i : i + 3]] == [
            {"member": "abcd"[i // 3] + list(members)[i // 3][1:]}
        ] * 3
    assert [r["url"] for r in rows[12:15]] == [f"https://example.org/{i}" for i in range(3)]
    assert [(r["content_type"], r["content_encoding"]) for r in rows[12:15]] == [("text/html", None)] * 3
    assert {r["path"] for r in rows} == {str(tmp_path / "a.bin")}
    short = read(tmp_path / "b.bin", pack(members), max_member_bytes=60)
    assert outline(short)[0] == ("text" if pack is tar else "too_long")


@pytest.mark.parametrize("pack", [tar, zipped], ids=["tar", "zip"])
def test_a_table_without_the_text_column_is_named(tmp_path: Path, pack: Any) -> None:
    rows = read(tmp_path / "a.bin", pack({"x/c.csv": b"body,n\na,1\n", "d.html": PAGE % 1}))
    assert outline(rows) == ["no_text_column", "raw"]
    assert rows[0]["quarantine"] == "no_text_column: no column text; the first row is body, n"


@pytest.mark.parametrize("pack", [tar, zipped], ids=["tar", "zip"])
def test_hostile_names_lead_nowhere(tmp_path: Path, pack: Any) -> None:
    names = ["../../../../tmp/evil.html", "/etc/passwd.html", "a/../../b.html", "x" * 4_000 + ".html", "\x1b[31m.html"]
    before = set(tmp_path.rglob("*"))
    rows = read(tmp_path / "a.bin", pack(dict.fromkeys(names, PAGE % 1)), base_url="https://example.org")
    assert [r["raw"] for r in rows] == [PAGE % 1] * 5
    assert [r["url"] is None for r in rows] == [True, True, True, False, False]
    assert [r["id"] for r in rows] == [f"archive/a.bin#{r['offset'] if pack is tar else i}" for i, r in enumerate(rows)]
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "a.bin"}
    assert not Path("/tmp/evil.html").exists()


def test_links_and_devices_are_not_followed(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo("link.html")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    assert outline(read(tmp_path / "a.tar", out.getvalue())) == ["not_a_file"] * 4
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link.html")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    assert outline(read(tmp_path / "a.zip", out.getvalue())) == ["not_a_file"]


def test_a_link_or_folder_has_no_data_whatever_its_size_says(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind in (tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.REGTYPE):
            info = tarfile.TarInfo("a.html")
            info.type, info.size = kind, len(PAGE)
            out.write(info.tobuf())
            archive.offset = out.tell()
        out.write(PAGE + bytes(-len(PAGE) % 512))
    assert outline(read(tmp_path / "a.tar", out.getvalue())) == ["not_a_file", "not_a_file", "raw"]


def test_an_encrypted_member(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.html": PAGE % 1, "b.html": PAGE % 2}))
    at = data.find(b"PK\x01\x02")
    data[at + 8] |= 1
    assert outline(read(tmp_path / "a.zip", bytes(data))) == ["unsafe_member", "raw"]


def test_bombs_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_archives, "bomb_bytes", lambda stored: 3 << 20)
    big = {"a.html": PAGE % 1, "b.png": bytes(8 << 20), "c.html": PAGE % 2}
    assert outline(read(tmp_path / "a.tar.gz", gzip.compress(tar(big)))) == ["raw", "unsupported_type", "bomb"]
    many = {f"{i}.html": b"x" * (1 << 20) for i in range(6)}
    assert outline(read(tmp_path / "a.zip", zipped(many))) == ["raw"] * 3 + ["bomb"] * 3
    assert outline(read(tmp_path / "a.tar.xz", lzma.compress(tar(many))))[:2] == ["raw", "raw"]
    monkeypatch.undo()
    assert _archives.bomb_bytes(10) == 1 << 30
    assert _archives.bomb_bytes(1 << 30) == 200 << 30


def test_long_members_cost_themselves(tmp_path: Path) -> None:
    members = {"a.html": b"x" * 5_000, "b.html": PAGE % 1, "c.jsonl.gz": gzip.compress(LINES * 50), "d.jsonl": LINES}
    for pack in (tar, zipped):
        rows = read(tmp_path / "a.bin", pack(members), max_member_bytes=100)
        assert outline(rows) == ["too_long", "raw", "too_long", *["text"] * 5]


def test_damaged_tar(tmp_path: Path) -> None:
    members = {f"{i}.html": PAGE % i for i in range(6)}
    data = bytearray(tar(members))
    data[2 * 1_024 + 3] ^= 0xFF  # the third header
    rows = read(tmp_path / "a.tar", bytes(data))
    assert outline(rows) == ["raw", "raw", "stray_bytes", "raw", "raw", "raw"]
    cut = tar({"a.html": PAGE % 1, "b.html": b"x" * 9_000})[:4_000]
    assert outline(read(tmp_path / "a.tar", cut)) == ["raw", "cut_off"]
    packed = gzip.compress(tar({f"{i}.html": random.Random(i).randbytes(2_000).hex().encode() for i in range(60)}))
    rows = read(tmp_path / "a.tar.gz", packed[: len(packed) // 2])
    assert outline(rows)[-1] == "cut_off"
    assert outline(rows)[:10] == ["raw"] * 10


def test_what_comes_out_of_a_damaged_gzip_member_says_so(tmp_path: Path) -> None:
    rng = random.Random(3)
    texts = {f"{i}.txt": rng.randbytes(40_000).hex().encode() for i in range(30)}
    nested = {"in.jsonl": LINES, "in.csv": b"text\nrow\n", "in.jsonl.gz": gzip.compress(LINES)}
    packed = bytearray(gzip.compress(tar({**nested, **texts}), 1, mtime=0))
    packed[-8] ^= 1  # nothing is wrong but the checksum
    rows = read(tmp_path / "a.tar.gz", bytes(packed))
    documents = [r for r in rows if r["text"]]
    assert len(documents) > 5 + 1 + 5 + 20  # the last stretch that came out is held for the damage itself
    assert all("unverified" in json.loads(r["meta"]) for r in documents)
    assert not any("unverified" in (r["meta"] or "") for r in read(tmp_path / "b.tar.gz", gzip.compress(tar(texts))))
    inner = bytearray(gzip.compress(LINES))
    inner[-8] ^= 1
    rows = read(tmp_path / "c.tar", tar({"a.jsonl.gz": bytes(inner), "b.jsonl": LINES}))
    marked = ["unverified" in json.loads(r["meta"]) for r in rows if r["text"]]
    assert marked[-5:] == [False] * 5
    assert all(marked[:-5])


@pytest.mark.parametrize("ahead", [64 << 20, 10_000], ids=["held back", "read twice"])
def test_lines_out_of_a_damaged_zip_member_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    monkeypatch.setattr(_archives, "AHEAD_BYTES", ahead)
    monkeypatch.setattr(_archives, "PIECE_BYTES", 5_000)
    data = zipped({"a.jsonl": LINES * 500, "b.jsonl": LINES}, zipfile.ZIP_STORED)
    assert not any("unverified" in r["meta"] for r in read(tmp_path / "a.zip", data))
    rows = read(tmp_path / "a.zip", data.replace(b"line 0", b"lane 0", 1))
    marked = ["unverified" in json.loads(r["meta"]) for r in rows if r["text"]]
    assert len(marked) > 2_000
    assert marked == [True] * (len(marked) - 5) + [False] * 5
    assert [r["quarantine"] for r in rows if r["quarantine"]] == ["damaged_member: Bad CRC-32 for file 'a.jsonl'"]


def test_damaged_zip(tmp_path: Path) -> None:
    data = bytearray(zipped({f"{i}.html": random.Random(i).randbytes(500).hex().encode() for i in range(4)}))
    at = data.find(b"PK\x03\x04", 600)
    data[at + 200] ^= 0xFF
    assert sorted(outline(read(tmp_path / "a.zip", bytes(data)))) == ["damaged_member", "raw", "raw", "raw"]
    assert outline(read(tmp_path / "a.zip", bytes(data[:-30]))) == ["not_an_archive"]


@pytest.mark.parametrize("data", [b"no archive at all" * 100, b"", gzip.compress(b"text", mtime=0)])
def test_other_files(tmp_path: Path, data: bytes) -> None:
    assert outline(read(tmp_path / "a.tar", data)) == (["not_an_archive"] if data else [])


@pytest.mark.parametrize("pack", [tar, zipped], ids=["tar", "zip"])
def test_contract(tmp_path: Path, pack: Any) -> None:
    (tmp_path / "a.bin").write_bytes(pack(MEMBERS))
    check_stage(Archive(paths=(str(tmp_path),), columns={"n": "n"}, base_url="https://"))


def test_pages_that_nobody_extracts_are_counted(tmp_path: Path) -> None:
    members = MEMBERS | {"more.warc": WARC_RECORD % (1, len(PAGE % 4), PAGE % 4)}
    rows = read(tmp_path / "a.tar", tar(members), pages="skip")
    whole = read(tmp_path / "a.tar", tar(members))
    assert outline(rows) == ["page" if kind == "raw" else kind for kind in outline(whole)]
    assert [r["id"] for r in rows] == [r["id"] for r in whole]
    assert not any(r["raw"] or r["content_type"] for r in rows)
    assert [r["text"] for r in rows] == [r["text"] for r in whole]
    check_stage(Archive(paths=(str(tmp_path / "a.tar"),), pages="skip"))
