"""Seeded mutations of every input format: no exception, no hang, one verdict per record, ranges that agree with the whole.

300 run always; `-m slow` runs 20,000.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from fastwarc.stream_io import Lz4Writer

from corpusflow import ConfigError, FileSource, run
from stages.ingest.archive import Archive
from stages.ingest.arrow import Arrow
from stages.ingest.csv import Csv
from stages.ingest.extract import ExtractText
from stages.ingest.html import Html
from stages.ingest.jsonl import Jsonl
from stages.ingest.parquet import Parquet
from stages.ingest.text import Text
from stages.ingest.warc import Warc

TEXT = 'the river rose at night and by morning the road was gone 昨夜 河水 上涨 Überschwemmung <b>bold</b> &amp; " , ;'
WORDS = TEXT.split(" ")
CHECKED = zstandard.ZstdCompressor(write_checksum=True)
#: CPU seconds one file of some kB may take. The slowest seen took 0.2.
DEADLINE = 5.0


def sentence(rng: random.Random, words: int = 40) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(1, words)))


def page(rng: random.Random) -> bytes:
    body = "".join(f"<div class='c{i}'><p>{sentence(rng)}</p><ul><li>{sentence(rng, 5)}</ul></div>" for i in range(6))
    return f"<html><head><title>{sentence(rng, 5)}</title></head><body>{body}</body></html>".encode()


def warc_records(rng: random.Random) -> list[bytes]:
    made = []
    for i in range(12):
        block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page(rng)
        head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://e.org/{i}\r\nContent-Length: {len(block)}\r\n\r\n"
        made.append(head.encode() + block + b"\r\n\r\n")
    return made


def arc_records(rng: random.Random) -> list[bytes]:
    made = []
    for i in range(8):
        block = b"HTTP/1.1 200 OK\r\n\r\n" + page(rng)
        made.append(f"http://e.org/{i} 192.0.2.1 20140216050221 text/html {len(block)}\n".encode() + block + b"\n")
    return made


def jsonl(rng: random.Random, count: int = 60) -> bytes:
    rows = ({"text": sentence(rng), "id": i, "meta": {"a": [1, None, 2.5]}} for i in range(count))
    return b"".join(json.dumps(r, ensure_ascii=bool(rng.randrange(2))).encode() + b"\n" for r in rows)


def table(rng: random.Random) -> pa.Table:
    texts = [None if rng.random() < 0.1 else sentence(rng) for _ in range(120)]
    extra = {"n": range(120), "body": [{"content": t, "tags": ["x", t]} for t in texts]}
    return pa.table({"text": texts, "kind": pa.array(["a", "b"] * 60).dictionary_encode(), **extra})


def parquet(rng: random.Random) -> bytes:
    out = io.BytesIO()
    compression = rng.choice(["none", "snappy", "zstd", "gzip"])
    pq.write_table(
        table(rng), out, row_group_size=30, compression=compression, write_page_checksum=bool(rng.randrange(2))
    )
    return out.getvalue()


def arrow(rng: random.Random) -> bytes:
    out = io.BytesIO()
    new = rng.choice([pa.ipc.new_file, pa.ipc.new_stream])
    data = table(rng)
    with new(out, data.schema, options=pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))) as writer:
        writer.write_table(data, max_chunksize=30)
    return out.getvalue()


def csv_table(rng: random.Random) -> bytes:
    rows = ('{},"{}",{}\n'.format(i, sentence(rng).replace('"', '""'), i) for i in range(60))
    return ("id,text,n\n" + "".join(rows)).encode()


def archive(rng: random.Random) -> bytes:
    members = {
        "a.html": page(rng),
        "b.txt": sentence(rng).encode(),
        "c.jsonl": jsonl(rng, 5),
        "d.jsonl.gz": packed(jsonl(rng, 5)),
        "e.warc.gz": b"".join(map(packed, warc_records(rng)[:3])),
        "f.csv": csv_table(rng)[:900],
        "g.parquet": parquet(rng),
        "h.arrow": arrow(rng),
    }
    out = io.BytesIO()
    if rng.randrange(2):
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, data in members.items():
                zipped.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), data)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w", format=rng.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return packed(out.getvalue()) if rng.randrange(2) else out.getvalue()


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def lz4(data: bytes) -> bytes:
    out = io.BytesIO()
    writer = Lz4Writer(out)
    writer.write(data)
    writer.close()
    return out.getvalue()


def in_members(rng: random.Random, data: bytes) -> bytes:
    size = rng.randrange(200, 3_000)
    return b"".join(packed(data[i : i + size]) for i in range(0, len(data), size))


FORMATS: dict[str, tuple[type[FileSource], Callable[[random.Random], bytes]]] = {
    "warc.gz": (Warc, lambda rng: b"".join(map(packed, warc_records(rng)))),
    "warc": (Warc, lambda rng: b"".join(warc_records(rng))),
    "warc.gz, one member": (Warc, lambda rng: packed(b"".join(warc_records(rng)))),
    "warc.zst": (
        Warc,
        lambda rng: b"".join(map(CHECKED.compress, warc_records(rng))),
    ),
    "warc.lz4": (Warc, lambda rng: lz4(b"".join(warc_records(rng)))),
    "arc.gz": (Warc, lambda rng: b"".join(map(packed, arc_records(rng)))),
    "jsonl": (Jsonl, jsonl),
    "jsonl.gz": (Jsonl, lambda rng: in_members(rng, jsonl(rng))),
    "jsonl.zst": (Jsonl, lambda rng: zstandard.compress(jsonl(rng)) + zstandard.compress(jsonl(rng))),
    "jsonl.bz2": (Jsonl, lambda rng: bz2.compress(jsonl(rng))),
    "jsonl.xz": (Jsonl, lambda rng: lzma.compress(jsonl(rng))),
    "parquet": (Parquet, parquet),
    "arrow": (Arrow, arrow),
    "csv": (Csv, csv_table),
    "archive": (Archive, archive),
    "text.gz": (Text, lambda rng: in_members(rng, sentence(rng, 900).encode())),
    "html": (Html, page),
}


def mutated(rng: random.Random, data: bytes) -> bytes:
    """One to four times: truncated, flipped, spliced, repeated, zeroed or shortened inside."""
    spoilt = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        if not spoilt:
            break
        a, b = sorted(rng.randrange(len(spoilt) + 1) for _ in range(2))
        b = min(b, a + rng.choice([1, 20, 500, 5_000]))
        match rng.choice(["truncate", "flip", "flip", "splice", "repeat", "zero", "cut"]):
            case "truncate":
                del spoilt[rng.randrange(len(spoilt)) :]
            case "flip":
                for _ in range(rng.choice([1, 1, 8, 64])):
                    spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
            case "splice":
                at = rng.randrange(len(spoilt))
                spoilt[at : at + b - a] = spoilt[a:b]
            case "repeat":
                spoilt[a:a] = spoilt[a:b] * rng.choice([1, 2, 30])
            case "zero":
                spoilt[a:b] = bytes(b - a)
            case "cut":
                del spoilt[a:b]
    return bytes(spoilt)


def rows_of(stage: FileSource) -> list[dict[str, Any]]:
    rows = []
    for split in stage.splits():
        for batch in stage.read(split):
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


def tried(path: Path, name: str, seed: int) -> str:
    """What became of one mutation: the verdict of its worst row."""
    rng = random.Random(f"{name} {seed}")
    cls, make = FORMATS[name]
    data = mutated(rng, make(rng))
    path.write_bytes(data)
    began = time.process_time()
    try:
        rows = rows_of(cls(paths=(str(path),), split_size=0, group_bytes=1))
    except ConfigError as e:
        if "has no column 'text'" not in e.message:
            raise
        return "no text column"
    took = time.process_time() - began
    assert took < DEADLINE, f"{took:.1f} s"
    ids = [r["id"] for r in rows]
    assert len(set(ids)) == len(ids), [i for i, n in Counter(ids).items() if n > 1][:3]
    for row in rows:
        holds = row.get("text") is not None or row.get("raw") is not None
        assert holds + bool(row.get("skipped")) + bool(row.get("quarantine")) == 1, row
        assert (row.get("quarantine") or "x: y").count(": ") >= 1, row
    size = rng.randrange(1 + len(data) // 8, len(data) + 2)
    parts = rows_of(cls(paths=(str(path),), split_size=size, group_bytes=1))
    if cls is Parquet:  # a damaged footer may list row groups in any order
        rows, parts = sorted(rows, key=lambda r: r["id"]), sorted(parts, key=lambda r: r["id"])
    assert parts == rows, f"split_size {size}"
    return "quarantine" if any(r.get("quarantine") for r in rows) else "fine"


def all_of(path: Path, name: str, seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        try:
            found[tried(path, name, seed)] += 1
        except Exception as e:
            e.add_note(f"{name}, seed {seed}; the file is {path}")
            raise
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_mutations(tmp_path: Path, name: str) -> None:
    found = all_of(tmp_path / "a.data", name, range(18))
    assert found["fine"] < 18 or name == "html"


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_many_mutations(tmp_path: Path, name: str) -> None:
    found = all_of(tmp_path / "a.data", name, range(1_000, 2_180))
    print(name, dict(found))


def pages(count: int, first: int) -> pa.RecordBatch:
    made = [mutated(rng, page(rng)) for rng in map(random.Random, range(first, first + count))]
    types = ["text/html; charset=utf-8", "text/html", None]
    return pa.RecordBatch.from_pydict(
        {
            "raw": pa.array(made, pa.large_binary()),
            "content_type": pa.array([types[i % 3] for i in range(count)], pa.string()),
            "content_encoding": pa.nulls(count, pa.string()),
            "text": pa.nulls(count, pa.large_string()),
            **{c.removesuffix("?"): pa.nulls(count, pa.string()) for c in ExtractText.reads[4:]},
        }
    )


def check_pages(count: int, first: int) -> None:
    batch = pages(count, first)
    made = ExtractText().transform(batch)
    made.validate(full=True)
    for row in made.to_pylist():
        assert row["quarantine"] is None
        assert (row["text"] is not None) + (row["extract.outcome"] is not None) == 1


def test_pages() -> None:
    check_pages(40, 0)


@pytest.mark.slow
def test_many_pages() -> None:
    check_pages(4_000, 10_000)


def test_a_run_over_damaged_files_accounts_for_every_record(tmp_path: Path) -> None:
    """In = kept + dropped + quarantined at every stage, with in what the Sources themselves count."""
    inputs = []
    expected = 0
    for name in ("warc.gz", "jsonl.gz", "parquet", "csv", "archive"):
        cls, make = FORMATS[name]
        folder = tmp_path / name
        folder.mkdir()
        for seed in range(3):
            rng = random.Random(f"run {name} {seed}")
            (folder / f"{seed}.data").write_bytes(mutated(rng, make(rng)))
            try:
                expected += len(rows_of(cls(paths=(str(folder / f"{seed}.data"),))))
            except ConfigError:
                (folder / f"{seed}.data").unlink()
        params = {"paths": [str(folder)], "name": name.replace(".", "_"), "group_bytes": 9_000, "split_size": 9_000}
        inputs.append({f"ingest.{cls.__name__.lower()}": params})
    result = run(
        {
            "name": "damaged",
            "input": inputs,
            "output": [{"export.parquet": {"columns": ["id", "url"]}}],
            "run": {"dir": str(tmp_path / "run"), "executor": "inline", "check_disk": False, "max_quarantine": 1.0},
        }
    )
    assert all(c.exact for c in result.counts)
    assert sum(c.entered for c in result.counts if c.stage.startswith("ingest.")) == expected
