"""Rebuild every binary file of sample_data/ from the texts and templates that lie beside this script.

    python sample_data/make.py            write web/, jsonl/, parquet/, text/, tokenizer/ and pages.jsonl
    python sample_data/make.py --check    write nothing; exit 1 if what is on disk differs

A text is a Markdown file with a small header. The header says at which URL a page with this text was "crawled"
and how the server delivered it; the site decides the template; everything else (comments, links, dates, which
WARC file) is drawn from a hash of the URL, so that adding a text moves no other page.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator

import pyarrow.parquet as pq
import zstandard
from builder.common import HERE
from builder.formats import build_jsonl, build_parquet, build_text, build_tokenizer, documents
from builder.pages import load_pages, load_toml, other_answers
from builder.render import Renderer
from builder.texts import load_texts
from builder.warc import build_warcs
from fastwarc.warc import ArchiveIterator

CHECKED = ("web", "jsonl", "parquet", "text", "tokenizer", "pages.jsonl")


def build() -> dict[str, bytes]:
    """Every generated file, by its path below this folder."""
    texts = load_texts()
    sites, chrome = load_toml("sites.toml"), load_toml("chrome.toml")
    pages = load_pages(texts, sites) + other_answers()
    warcs, truth = build_warcs(pages, Renderer(pages, sites, chrome))
    rows = documents(pages)
    lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in truth)
    return {
        **warcs,
        **build_jsonl(rows),
        **build_parquet(rows),
        **build_text(texts),
        "tokenizer/web.model": build_tokenizer(texts),
        "pages.jsonl": lines.encode(),
    }


def gunzip_members(data: bytes) -> Iterator[bytes]:
    while data:
        inflate = zlib.decompressobj(31)
        yield inflate.decompress(data)
        data = inflate.unused_data


def same(name: str, ours: bytes, theirs: bytes) -> bool:
    """Equal bytes, or equal contents where another version of a compressor may write other bytes."""
    if ours == theirs:
        return True
    if name.endswith(".warc.gz"):
        return list(gunzip_members(ours))[:-1] == list(gunzip_members(theirs))[:-1]
    if name.endswith(".zst"):
        readers = [zstandard.ZstdDecompressor().stream_reader(d, read_across_frames=True) for d in (ours, theirs)]
        return readers[0].read() == readers[1].read()
    if name.endswith(".parquet"):
        return bool(pq.read_table(io.BytesIO(ours)).equals(pq.read_table(io.BytesIO(theirs))))
    return False


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def report(files: dict[str, bytes]) -> None:
    truth = [json.loads(line) for line in files["pages.jsonl"].splitlines()]
    for key in ("kind", "lang", "template", "encoding", "expect"):
        say(f"{key:9} {dict(Counter(line[key] for line in truth).most_common())}")
    for name, data in files.items():
        what = f"{len(data):9,} bytes  {hashlib.sha256(data).hexdigest()[:16]}  {name}"
        if name.endswith(".warc.gz"):
            records = Counter(r.headers["WARC-Type"] for r in ArchiveIterator(io.BytesIO(data), parse_http=False))
            what += "  " + ", ".join(f"{kind} {n}" for kind, n in sorted(records.items()))
        say(what)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if what is on disk differs")
    arguments = parser.parse_args()
    files = build()
    if arguments.check:
        on_disk = {
            p.relative_to(HERE).as_posix()
            for top in CHECKED
            for p in [HERE / top, *(HERE / top).rglob("*")]
            if p.is_file()
        }
        wrong = sorted(on_disk ^ files.keys())
        wrong += [name for name in files if name in on_disk and not same(name, files[name], (HERE / name).read_bytes())]
        for name in wrong:
            say(f"differs: {name}")
        return 1 if wrong else 0
    for name, data in files.items():
        path = HERE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    report(files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
