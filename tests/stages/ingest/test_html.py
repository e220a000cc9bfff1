"""ingest.html: files as they lie, addresses from their paths, and what ingest.extract makes of them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import zstandard

from corpusflow import ConfigError, check_stage
from stages.ingest._page import extract
from stages.ingest.html import Html

PAGE = "<html><head><title>T</title></head><body><p>Das Flüßchen trat über die Ufer.</p></body></html>"


def read(path: Path, **params: Any) -> list[dict[str, Any]]:
    stage = Html(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


def write(folder: Path, **files: bytes) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.mark.parametrize("pack", [lambda d: d, gzip.compress, zstandard.compress], ids=["plain", "gz", "zst"])
def test_files_are_raw_bytes(tmp_path: Path, pack: Any) -> None:
    write(tmp_path, **{"example.org/a/b.html": pack(PAGE.encode("cp1252")), "example.org/index": pack(PAGE.encode())})
    rows = read(tmp_path, base_url="https://")
    assert [r["raw"] for r in rows] == [PAGE.encode("cp1252"), PAGE.encode()]
    assert [r["content_type"] for r in rows] == ["text/html", None]
    assert [r["url"] for r in rows] == ["https://example.org/a/b.html", "https://example.org/index"]
    assert [r["id"] for r in rows] == ["html/example.org/a/b.html#0", "html/example.org/index#0"]
    for row in rows:
        said, _ = extract(row["raw"], row["content_type"], None, 1 << 20, lambda page: (page, ""))
        assert said["outcome"] is None


def test_addresses(tmp_path: Path) -> None:
    write(tmp_path, **{"a b.html.gz": b"x", "c%20d/é.html": b"x", "q.html?x=1": b"x"})
    urls = [r["url"] for r in read(tmp_path, base_url="https://example.org/docs/")]
    assert urls == [
        "https://example.org/docs/a%20b.html",
        "https://example.org/docs/c%20d/%C3%A9.html",
        "https://example.org/docs/q.html%3Fx=1",
    ]
    assert [r["url"] for r in read(tmp_path)] == [None] * 3


def test_what_is_no_page(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "a.css": b"p {}",
            "b.html": b"",
            "c.html": b"x" * 500,
            "d.html.gz": gzip.compress(b"x" * 50)[:-9],
            "e.PNG": b"",
        },
    )
    rows = read(tmp_path, max_document_bytes=100)
    assert [(r["skipped"], r["quarantine"]) for r in rows] == [
        ("unsupported_type", None),
        ("empty", None),
        (None, "too_long: more than 100 bytes"),
        (None, "cut_off: the file ends inside compressed data"),
        ("unsupported_type", None),
    ]
    assert not any(r["raw"] for r in rows)


def test_encoding(tmp_path: Path) -> None:
    write(tmp_path, **{"a.html": b"x", "b.txt": b"y", "c": b"z"})
    types = [r["content_type"] for r in read(tmp_path, encoding="gbk")]
    assert types == ["text/html; charset=gbk", "text/plain; charset=gbk", "text/html; charset=gbk"]
    with pytest.raises(ConfigError, match="unknown encoding"):
        Html(paths=("x",), encoding="klingon")


def test_contract(tmp_path: Path) -> None:
    write(tmp_path, **{f"{i}.html": PAGE.encode() for i in range(20)})
    check_stage(Html(paths=(str(tmp_path),), base_url="https://example.org"))
