"""A file read in ranges gives the records of the whole file, ids and places included, whatever the size of the ranges."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError, FileSource
from stages.ingest._archives import cuts
from stages.ingest._lines import lines
from stages.ingest._members import Piece, layout
from stages.ingest.archive import Archive
from stages.ingest.jsonl import Jsonl
from stages.ingest.parquet import Parquet
from stages.ingest.warc import Warc

STAGES: dict[str, type[FileSource]] = {"warc": Warc, "jsonl": Jsonl, "parquet": Parquet, "archive": Archive}


def rows_of(kind: str, path: Path, split_size: int, **params: Any) -> tuple[list[dict[str, Any]], int]:
    """(rows, shards)."""
    stage = STAGES[kind](paths=(str(path),), split_size=split_size, group_bytes=1, **params)
    splits = list(stage.splits())
    return [row for s in splits for batch in stage.read(s) for row in batch.to_pylist()], len(splits)


def warc_record(n: int, payload: bytes) -> bytes:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + payload
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{n}>\r\nContent-Length: {len(block)}\r\n\r\n"
    return head.encode() + block + b"\r\n\r\n"


def records(rng: random.Random, count: int, size: int) -> list[bytes]:
    return [warc_record(i, rng.randbytes(rng.randrange(size))) for i in range(count)]


def packed(parts: list[bytes], level: int = 9) -> bytes:
    return b"".join(gzip.compress(p, level, mtime=0) for p in parts)


def in_members_of(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def nested(rng: random.Random) -> bytes:
    """Records whose payloads are WARC.gz files, stored verbatim, as deflate does with what it cannot compress."""
    inner = packed(records(rng, 12, 2_000))
    return packed([warc_record(i, inner if i % 3 == 0 else b"x" * i) for i in range(20)], 0)


def nested_long(rng: random.Random) -> bytes:
    """The same, longer than one stored block."""
    inner = packed(records(rng, 100, 2_000))
    return packed([warc_record(i, inner if i % 2 == 0 else b"x" * i) for i in range(6)], 0)


def damaged(rng: random.Random, data: bytes) -> bytes:
    spoilt = bytearray(data)
    for _ in range(6):
        spoilt[rng.randrange(20, len(spoilt))] ^= 1 << rng.randrange(8)
    at = len(spoilt) // 3
    return bytes(spoilt[:at] + bytes(100) + rng.randbytes(50) + spoilt[at:-7])


def with_dictionary(rng: random.Random) -> bytes:
    """As the WARC specification's zstd appendix has it: the dictionary in a first, skippable frame."""
    made = [warc_record(i, b" ".join(rng.choices([b"river", b"road", b"night"], k=400))) for i in range(80)]
    dictionary = zstandard.train_dictionary(2_000, made)
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    stored = dictionary.as_bytes()
    return struct.pack("<II", 0x184D2A5D, len(stored)) + stored + b"".join(map(compressor.compress, made))


def documents(count: int, rng: random.Random) -> bytes:
    made = ({"id": f"n{i}", "text": "text " * rng.randrange(40) + str(i)} for i in range(count))
    return b"".join(json.dumps(d).encode() + b"\n" for d in made)


def spoilt_lines(rng: random.Random) -> bytes:
    return documents(100, rng) + b"\n\n  \nbroken\n" + b"x" * 5_000 + b"\n" + documents(100, rng).rstrip(b"\n")


def tar(rng: random.Random, count: int, form: int = tarfile.PAX_FORMAT, inner: bytes = b"") -> bytes:
    """Pages, texts and lines under short and long names, pictures and links between them; some members hold `inner`."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for i in range(count):
            name = rng.choice(["a/b.html", "c" * 130 + ".txt", "d.jsonl", "e.png", "f.tar", "g.html", "ü.txt"])
            data = (
                documents(rng.randrange(9), rng)
                if name == "d.jsonl"
                else rng.randbytes(rng.randrange(900)).hex().encode()
            )
            info = tarfile.TarInfo(f"{i}/{name}")
            if name == "g.html" and i % 2:
                info.type, info.linkname = tarfile.SYMTYPE, "h" * rng.randrange(200)
                data = b""
            elif name == "f.tar":
                data = inner
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def spoilt_tar(rng: random.Random) -> bytes:
    data = bytearray(tar(rng, 60))
    for _ in range(6):
        at = 512 * rng.randrange(1, len(data) // 512)
        data[at : at + 700] = rng.randbytes(700)
    return bytes(data[: -rng.randrange(11_000, 15_000)])


FILES: dict[str, tuple[str, Callable[[random.Random], bytes]]] = {
    "warc.gz": ("warc", lambda rng: packed(records(rng, 60, 3_000))),
    "warc.gz, members that cut records": (
        "warc",
        lambda rng: packed(in_members_of(b"".join(records(rng, 30, 900)), 700)),
    ),
    "warc.gz, damaged": ("warc", lambda rng: damaged(rng, packed(records(rng, 60, 3_000)))),
    "warc.gz within warc.gz": ("warc", nested),
    "long warc.gz within warc.gz": ("warc", nested_long),
    "warc.zst": ("warc", lambda rng: b"".join(map(zstandard.compress, records(rng, 60, 3_000)))),
    "warc.zst, dictionary": ("warc", with_dictionary),
    "warc.zst, damaged": ("warc", lambda rng: damaged(rng, b"".join(map(zstandard.compress, records(rng, 60, 3_000))))),
    "warc": ("warc", lambda rng: b"".join(records(rng, 30, 2_000))),
    "tar": ("archive", lambda rng: tar(rng, 60)),
    "tar, GNU names": ("archive", lambda rng: tar(rng, 60, tarfile.GNU_FORMAT)),
    "tar within tar": ("archive", lambda rng: tar(rng, 60, inner=tar(rng, 30, inner=tar(rng, 3)))),
    "tar, concatenated": ("archive", lambda rng: tar(rng, 20) + bytes(5_120) + tar(rng, 20)),
    "tar, damaged": ("archive", spoilt_tar),
    "tar.gz": ("archive", lambda rng: gzip.compress(tar(rng, 60), mtime=0)),
    "jsonl": ("jsonl", lambda rng: documents(300, rng)),
    "jsonl, broken lines": ("jsonl", spoilt_lines),
    "jsonl, no JSON in it": ("jsonl", lambda rng: b"not a line of JSON\n" * 2_000),
    "jsonl.gz, a member": ("jsonl", lambda rng: gzip.compress(documents(300, rng), mtime=0)),
    "jsonl.gz, members of lines": (
        "jsonl",
        lambda rng: packed([documents(rng.randrange(12), rng) for _ in range(40)]),
    ),
    "jsonl.gz, members that cut lines": ("jsonl", lambda rng: packed(in_members_of(documents(200, rng), 333))),
    "jsonl.gz, damaged": ("jsonl", lambda rng: damaged(rng, packed(in_members_of(documents(400, rng), 1_000)))),
    "jsonl.zst, many frames": (
        "jsonl",
        lambda rng: b"".join(zstandard.compress(d) for d in in_members_of(documents(400, rng), 1_111)),
    ),
    "jsonl.zst, skippable frames": (
        "jsonl",
        lambda rng: b"".join(
            zstandard.compress(d) + struct.pack("<II", 0x184D2A50, 5) + b"seek!"
            for d in in_members_of(documents(200, rng), 2_000)
        ),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_ranges_give_what_the_whole_gives(tmp_path: Path, name: str) -> None:
    kind, make = FILES[name]
    rng = random.Random(name)
    data = make(rng)
    path = tmp_path / "a.data"
    path.write_bytes(data)
    params = {} if kind == "warc" else {"max_line_bytes": 4_000}
    whole, one = rows_of(kind, path, 0, **params)
    assert one == 1
    assert whole
    most = 1
    sizes = [
        max(64, len(data) // 60),
        len(data) // 2,
        len(data) - 1,
        *(rng.randrange(len(data) // 60, len(data)) for _ in range(4)),
    ]
    for size in sizes:
        found, shards = rows_of(kind, path, size, **params)
        assert found == whole, size
        most = max(most, shards)
    assert (most > 1) == (name not in ("warc", "jsonl.gz, a member", "tar.gz"))


@pytest.mark.parametrize("seed", range(4))
def test_one_byte_ranges(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.data"
    for kind, data in (
        ("warc", packed(records(rng, 6, 60))),
        ("jsonl", documents(6, rng)),
        ("jsonl", packed(in_members_of(documents(4, rng), 50))),
    ):
        path.write_bytes(data)
        whole, _ = rows_of(kind, path, 0)
        found, shards = rows_of(kind, path, 1)
        assert (found, shards) == (whole, len(data))


@pytest.mark.parametrize("seed", range(4))
def test_a_range_for_each_member_of_a_tar(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.tar"
    path.write_bytes(tar(rng, 25, inner=tar(rng, 4)))
    whole, _ = rows_of("archive", path, 0)
    found, shards = rows_of("archive", path, 1)
    assert (found, shards) == (whole, 25)


def test_a_tar_is_cut_by_its_headers_alone(tmp_path: Path) -> None:
    """Of 300 MB, as a sparse file, it reads a few kB."""
    path = tmp_path / "a.tar"
    with path.open("wb") as out:
        for i in range(300):
            info = tarfile.TarInfo(f"{i}.html")
            info.size = 1_000_000
            out.write(info.tobuf())
            out.seek(-(-info.size // 512) * 512, io.SEEK_CUR)
        out.write(bytes(1_024))
    read = 0

    class Counted(io.FileIO):
        def read(self, n: int = -1) -> bytes:
            nonlocal read
            data = super().read(n)
            read += len(data)
            return data

    with Counted(path) as stream:
        found = cuts(stream, path.stat().st_size, 10)
    assert len(found) == 9
    assert all(at % 1_000_960 == 0 for at in found)
    assert read < 3 << 20


def test_what_is_lost_in_a_tar_is_not_searched_for_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    small = tar(random.Random(1), 9)
    with path.open("wb") as out:
        out.write(small)
        out.seek(40 << 20, io.SEEK_CUR)
        out.write(small)
    stage = Archive(paths=(str(path),), split_size=4 << 20)
    assert [(f.start, f.end) for s in stage.splits() for f in s.files] == [(0, None)]
    whole, _ = rows_of("archive", path, 0)
    assert rows_of("archive", path, 4 << 20) == (whole, 1)


def test_a_file_inside_a_record_is_never_taken_for_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    data = nested_long(random.Random(1))
    assert data.count(b"\x1f\x8b\x08") > 250, "the inner file's members must stand in the outer one verbatim"
    path.write_bytes(data)
    found, _ = rows_of("warc", path, 3_000)
    assert [r["record_id"] for r in found] == [f"<urn:uuid:{i}>" for i in range(6)]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"x")), max_size=30),
    st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any),
    st.lists(st.integers(0, 200), max_size=4),
    st.integers(3, 10),
)
def test_lines_of_any_ranges(contents: list[bytes], sizes: list[int], cuts: list[int], limit: int) -> None:
    """Pieces of any sizes, ranges that meet at any of their borders, plain and as members."""
    data = b"\n".join(contents)
    borders = [0]
    i = 0
    while borders[-1] < len(data):
        borders.append(min(len(data), borders[-1] + sizes[i % len(sizes)]))
        i += 1
    for inner in (-1, 0):
        made = [Piece(data[a:b], a, inner, inner == 0, b) for a, b in itertools.pairwise(borders) if a < b]
        whole = list(lines(made, limit))
        points = sorted({0, *(min(range(len(made)), key=lambda k: abs(made[k].offset - c), default=0) for c in cuts)})
        got = []
        for first, last in zip(points, [*points[1:], len(made)], strict=True):
            part = [
                Piece(p.data, p.offset, p.inner, p.ends, p.end, beyond=k >= last)
                for k, p in enumerate(made)
                if k >= first
            ]
            got += list(lines(part, limit, middle=first > 0))
        assert got == whole


@pytest.mark.parametrize("kind", ["plain", "dictionary"])
def test_parquet_at_row_groups(tmp_path: Path, kind: str) -> None:
    texts = [f"text {i} " * (i % 50) for i in range(2_000)]
    path = tmp_path / "a.parquet"
    values = pa.array(texts) if kind == "plain" else pa.array(texts).dictionary_encode()
    pq.write_table(pa.table({"text": values, "n": np.arange(2_000)}), path, row_group_size=90)
    whole, _ = rows_of("parquet", path, 0)
    assert [r["text"] for r in whole] == texts
    size = path.stat().st_size
    for split_size in (size // 40, 7_777, size // 2, size - 1):
        found, shards = rows_of("parquet", path, split_size)
        assert found == whole, split_size
        assert shards == -(-size // split_size)


def test_a_broken_parquet_file_is_one_row_however_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(random.Random(1).randbytes(50_000))
    found, shards = rows_of("parquet", path, 1_000)
    assert (len(found), shards) == (1, 50)
    assert found[0]["quarantine"].startswith("not_parquet: ")


def test_a_wrong_field_is_an_error_when_the_input_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"content": "a", "link": "b"}\n' * 500)
    with pytest.raises(ConfigError, match="has the field 'text'") as caught:
        next(Jsonl(paths=(str(path),), split_size=1_000, group_bytes=1).splits())
    assert "content, link" in str(caught.value)


def test_a_later_file_without_the_text_is_rows_in_every_range(tmp_path: Path) -> None:
    for name, field in (("a", "text"), ("b", "content")):
        (tmp_path / f"{name}.jsonl").write_bytes(b'{"%s": "x"}\n' % field.encode() * 500)
        pq.write_table(pa.table({field: ["x"] * 500}), tmp_path / f"{name}.parquet", row_group_size=20)
    found, shards = rows_of("jsonl", tmp_path / "*.jsonl", 1_000)
    assert [r["skipped"] for r in found] == [None] * 500 + ["missing_text"] * 500
    assert shards > 10
    found, shards = rows_of("parquet", tmp_path / "*.parquet", 1_000)
    assert [r.get("text") for r in found] == ["x"] * 500 + [None]
    assert found[-1]["quarantine"] == "no_text_column: no column text; there are content"
    assert shards > 3


def test_what_cannot_be_entered_is_not_cut(tmp_path: Path) -> None:
    long_member = gzip.compress(random.Random(1).randbytes(2 << 20))
    for data, expected in (
        (long_member * 2, "whole"),
        (gzip.compress(b"a") * 2, "members"),
        (gzip.compress(b"a"), "whole"),
        (b"plain", "plain"),
        (b"\x04\x22\x4d\x18 lz4", "whole"),
        (b"BZh9", "whole"),
        (b"\xfd7zXZ\x00", "whole"),
        (gzip.compress(b"a" * 1000)[:-9] + b"damaged...", "whole"),
    ):
        (tmp_path / "a").write_bytes(data)
        with (tmp_path / "a").open("rb") as stream:
            assert layout(stream) == expected
