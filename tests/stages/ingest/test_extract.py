"""ingest.extract: outcomes, codings, hostile pages and their neighbours, the contract, real archives."""

from __future__ import annotations

import gzip
import os
import random
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import brotli
import pyarrow as pa
import pytest
import zstandard

from corpusflow import ConfigError, Sandbox, check_stage
from stages.ingest.extract import OUTCOMES, Extract, ExtractFilter, ExtractText
from stages.ingest.warc import Warc
from stages.kernels.consent import RESERVATIONS

DATA = os.environ.get("CORPUSFLOW_TEST_DATA", "")
needs_data = pytest.mark.skipif(not DATA, reason="CORPUSFLOW_TEST_DATA is not set")

ARTICLE = (
    "<!doctype html><html><head><title> The  river\n</title></head><body><nav><a href=/>Home</a> <a href=/n>News</a></nav>"
    "<article><h1>The river rose</h1><p>The river rose in the night, and by morning the lower road was under water.</p>"
    "<p>Farmers moved their sheep to the hill; the school stayed closed for the rest of the week, %s.</p></article>"
    "<footer>Copyright. All rights reserved.</footer></body></html>"
)
Page = tuple[bytes | None, str | None, str | None]


def page(n: int, content_type: str | None = "text/html; charset=utf-8", coding: str | None = None) -> Page:
    return (ARTICLE % f"page {n} says").encode(), content_type, coding


def extract(
    pages: Sequence[Page],
    stage: ExtractText | None = None,
    texts: Sequence[str | None] = (),
    meta: Sequence[str | None] = (),
) -> pa.RecordBatch:
    raw, types, codings = zip(*pages, strict=True)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(raw, pa.large_binary()),
            pa.array(types, pa.string()),
            pa.array(codings, pa.string()),
            pa.array(texts or [None] * len(raw), pa.large_string()),
            pa.array(meta or [None] * len(raw), pa.string()),
        ],
        names=["raw", "content_type", "content_encoding", "text", "meta"],
    )
    return (stage or ExtractText()).transform(batch)


def one(raw: bytes | str, content_type: str | None = "text/html", coding: str | None = None) -> dict[str, Any]:
    data = raw.encode() if isinstance(raw, str) else raw
    row: dict[str, Any] = extract([(data, content_type, coding)]).to_pylist()[0]
    return row


def test_main_text_and_title() -> None:
    row = one(ARTICLE % "as before")
    assert row["title"] == "The river"
    assert row["extract.outcome"] is None
    assert row["extract.charset"] == "ascii"
    assert row["text"].split("\n\n") == [
        "The river rose",
        "The river rose in the night, and by morning the lower road was under water.",
        "Farmers moved their sheep to the hill; the school stayed closed for the rest of the week, as before.",
    ]


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="trafilatura is not installed"):
        extract([page(1)], ExtractText(engine="trafilatura", max_bytes=1))
    assert ExtractText().libraries == ("resiliparse",)
    assert ExtractText(engine="trafilatura").libraries == ("resiliparse", "trafilatura")


def test_trafilatura_as_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How it is called; the stand-in gives what it was given."""
    (tmp_path / "trafilatura.py").write_text(
        "class Found:\n    title = 'T'\n"
        "def extract(markup, include_comments, deduplicate):\n"
        "    assert not (include_comments or deduplicate)\n"
        "    return markup.partition('<article>')[2][:40]\n"
        "def extract_metadata(markup):\n    return Found()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    out = extract([page(1), page(2)], ExtractText(engine="trafilatura", max_bytes=1 << 20))
    assert out.column("text").to_pylist() == ["<h1>The river rose</h1><p>The river rose"] * 2
    assert out.column("title").to_pylist() == ["T", "T"]


def test_rows_without_raw_pass_untouched() -> None:
    pages: list[Page] = [(None, None, None), page(1), (None, None, None), (None, None, None)]
    out = extract(pages, texts=["kept as it is \n", "replaced", None, ""])
    texts = out.column("text").to_pylist()
    assert [texts[0], texts[2], texts[3]] == ["kept as it is \n", None, ""]
    assert "page 1 says" in texts[1]
    assert out.column("extract.outcome").to_pylist() == [None] * 4


@pytest.mark.parametrize(
    ("raw", "content_type", "outcome"),
    [
        (ARTICLE, "text/html", None),
        (ARTICLE, "TEXT/HTML ;charset=utf-8", None),
        (ARTICLE, "application/xhtml+xml", None),
        ('<?xml version="1.0" encoding="utf-8"?>' + ARTICLE, "text/xml", None),
        (ARTICLE, "application/xml", None),
        (ARTICLE, None, None),
        (ARTICLE, "application/octet-stream", None),
        (ARTICLE, "text/plain", None),
        ("Just words, as plain text.", "text/plain", None),
        ('<?xml version="1.0"?><rss><channel><title>t</title></channel></rss>', "text/xml", "not_html"),
        ("<feed xmlns='http://www.w3.org/2005/Atom'></feed>", "application/atom+xml", "not_html"),
        ("no tags here at all", None, "not_html"),
        ("{}", "application/json", "unsupported_type"),
        ("body { color: red }", "text/css", "unsupported_type"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "image/png", "unsupported_type"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + bytes(300), "text/html", "binary"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, None, "binary"),
        (bytes(range(256)) * 8, "text/plain", "binary"),
        (b"", "text/html", "empty"),
        (b" \n\t ", "text/html", "empty"),
        ("<html><body><script>var x = 1;</script></body></html>", "text/html", "empty"),
        ("<html><head><title>only a title</title></head></html>", "text/html", "empty"),
    ],
)
def test_kinds(raw: bytes | str, content_type: str | None, outcome: str | None) -> None:
    row = one(raw, content_type)
    assert row["extract.outcome"] == outcome
    assert row["quarantine"] is None
    assert bool(row["text"]) == (outcome is None)


def chunked(data: bytes, sizes: int = 50, extension: bytes = b"") -> bytes:
    cut = [data[i : i + sizes] for i in range(0, len(data), sizes)]
    return b"".join(b"%x%s\r\n%s\r\n" % (len(c), extension, c) for c in cut) + b"0\r\n\r\n"


def raw_deflate(data: bytes) -> bytes:
    out = zlib.compressobj(9, zlib.DEFLATED, -15)
    return out.compress(data) + out.flush()


BODY = page(1)[0] or b""


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (chunked(BODY), "chunked"),
        (chunked(BODY, extension=b" ; name=value"), "chunked"),
        (gzip.compress(BODY), "gzip"),
        (gzip.compress(BODY[:100]) + gzip.compress(BODY[100:]), "x-gzip"),
        (gzip.compress(BODY) + b"\0\0", "gzip"),
        (chunked(gzip.compress(BODY)), "gzip,chunked"),
        (zlib.compress(BODY), "deflate"),
        (raw_deflate(BODY), "deflate"),
        (brotli.compress(BODY), "br"),
        (zstandard.compress(BODY), "zstd"),
        (zstandard.compress(BODY[:50]) + zstandard.compress(BODY[50:]), "zstd"),
        (chunked(brotli.compress(BODY)), "br,chunked"),
        # declared, but stored decoded
        (BODY, "gzip"),
        (BODY, "chunked"),
        (BODY, "gzip,chunked"),
        (BODY, "br"),
        (BODY, "zstd"),
        (BODY, "deflate"),
        (gzip.compress(BODY), "gzip,chunked"),
    ],
)
def test_codings_are_undone(body: bytes, coding: str) -> None:
    assert one(body, coding=coding)["text"] == one(BODY)["text"]


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (gzip.compress(BODY)[:-20], "gzip"),
        (gzip.compress(BODY)[:-6] + b"xxxxxx", "gzip"),
        (chunked(BODY)[:-40], "chunked"),
        (chunked(BODY)[:-5], "chunked"),
        (brotli.compress(BODY)[:-9], "br"),
        (b"\x0b\x02\x80" + random.Random(1).randbytes(50), "br"),
        (zstandard.compress(BODY)[:-9], "zstd"),
        (zlib.compress(BODY)[:-9], "deflate"),
        (gzip.compress(gzip.compress(BODY)), "gzip,gzip"),
        (BODY, "compress"),
        (BODY, "sdch,gzip"),
    ],
)
def test_bodies_that_do_not_decode(body: bytes, coding: str) -> None:
    row = one(body, coding=coding)
    assert (row["extract.outcome"], row["text"]) == ("bad_coding", None)


def zstd_bomb(size: int) -> bytes:
    out = zstandard.ZstdCompressor(level=19).compressobj()
    return b"".join(out.compress(bytes(1 << 20)) for _ in range(size >> 20)) + out.flush()


def brotli_bomb(size: int) -> bytes:
    out = brotli.Compressor(quality=4)
    return b"".join(out.process(bytes(1 << 20)) for _ in range(size >> 20)) + out.finish()


HOSTILE: dict[str, tuple[Any, str | None, str]] = {
    "200,000 attributes": (
        lambda: b"<div " + b"".join(b"a%d=1 " % i for i in range(200_000)) + b">x</div>",
        None,
        "too_many_attributes",
    ),
    "bare attributes": (
        lambda: b"<div " + b"".join(b"a%d " % i for i in range(200_000)) + b">x</div>",
        None,
        "too_many_attributes",
    ),
    "attributes around quoted tag ends": (
        lambda: b"<div " + b"".join(b"a%d='>' " % i for i in range(200_000)) + b">x</div>",
        None,
        "too_many_attributes",
    ),
    "an unclosed tag of attributes": (lambda: b"<p>x</p><div " + b"a " * 2_000_000, None, "too_many_attributes"),
    "100,000 nested divs": (lambda: b"<div>" * 100_000 + b"x" + b"</div>" * 100_000, None, "too_deep"),
    "1,000,000 nested divs": (lambda: b"<div>" * 1_000_000 + b"x", None, "too_deep"),
    "300,000 nested spans": (lambda: b"<span class=menu>" * 300_000 + b"x", None, "too_deep"),
    "nested lists": (lambda: b"<ul><li>" * 200_000 + b"x", None, "too_deep"),
    "self-closed divs": (lambda: b"<div/>" * 500_000 + b"x", None, "too_deep"),
    "many options": (lambda: b"<select>" + b"<option>x" * 200_000, None, "empty"),
    "100 MB of one tag": (lambda: b"<a href='" + b"x" * 100_000_000 + b"'>y</a>", None, "too_large"),
    "gzip bomb": (lambda: gzip.compress(bytes(200 << 20)), "gzip", "too_large"),
    "gzip bomb in members": (lambda: gzip.compress(bytes(1 << 20)) * 200, "gzip", "too_large"),
    "zstd bomb": (lambda: zstd_bomb(500 << 20), "zstd", "too_large"),
    "brotli bomb": (lambda: brotli_bomb(500 << 20), "br", "too_large"),
    "deflate bomb": (lambda: zlib.compress(bytes(200 << 20)), "deflate", "too_large"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_refused_by_counted_limits_and_spare_their_neighbours(name: str) -> None:
    make, coding, outcome = HOSTILE[name]
    bad: Page = (make(), "text/html", coding)
    neighbours = [page(i) for i in range(6)]
    alone = extract(neighbours)
    began = time.monotonic()
    out = extract([*neighbours[:3], bad, *neighbours[3:]])
    took = time.monotonic() - began
    assert out.column("quarantine").to_pylist() == [None] * 7
    assert out.column("extract.outcome")[3].as_py() == outcome
    assert out.column("text")[3].as_py() is None
    assert out.take([0, 1, 2, 4, 5, 6]).equals(alone)
    assert took < 9.0  # refused, not timed out: the deadline is 10 s


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("200,000 attributes", "too_many_attributes"),
        ("attributes around quoted tag ends", "too_many_attributes"),
        ("an unclosed tag of attributes", "too_many_attributes"),
        ("100,000 nested divs", "too_deep"),
        ("300,000 nested spans", "too_deep"),
        ("nested lists", "too_deep"),
        ("self-closed divs", "too_deep"),
        ("many options", "too_many_options"),
    ],
)
def test_engines_with_a_tree_are_not_given_what_they_cannot_take(name: str, outcome: str) -> None:
    stage = ExtractText(engine="resiliparse")
    began = time.monotonic()
    out = extract([page(1), (HOSTILE[name][0](), "text/html", None), page(2)], stage)
    assert out.column("quarantine").to_pylist() == [None] * 3
    assert out.column("extract.outcome").to_pylist() == [None, outcome, None]
    assert time.monotonic() - began < 9.0


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param("<table>" + "<tr><td>%d</td></tr>" * 300_000 % tuple(range(300_000)) + "</table>", id="rows"),
        pytest.param("<p>" + "word " * 1_500_000, id="one line of 7.5 MB"),
        pytest.param("<img src='data:image/png;base64," + "A" * 3_000_000 + "'>" + ARTICLE % "x", id="inline image"),
        pytest.param("<table><tr><td colspan=9007199254740991>wide " + ARTICLE % "x", id="colspan"),
        pytest.param("<div>" * 2_000 + ARTICLE % "x", id="2,000 deep"),
        pytest.param("<!--" + ARTICLE % "x", id="unclosed comment"),
        pytest.param("<script>" + ARTICLE % "x", id="unclosed script"),
        pytest.param("<" * 200_000 + ARTICLE % "x", id="angles"),
        pytest.param("&" * 300_000 + ARTICLE % "x", id="ampersands"),
        pytest.param("<a href='" * 50_000 + ARTICLE % "x", id="unclosed quotes"),
        pytest.param("<b><i><u>" * 30_000 + ARTICLE % "x", id="unclosed formatting"),
        pytest.param("<a><p>" * 30_000 + ARTICLE % "x", id="links and paragraphs"),
        pytest.param("<p>" + "\u202e\u0000\ud7ff\U0001f469\u200d" * 10_000, id="odd characters"),
        pytest.param("<svg><foreignObject>" * 5_000 + "x", id="foreign objects"),
        pytest.param("<form>" * 20_000 + "<input>" * 50_000, id="forms"),
        pytest.param("<table>" * 3_000 + "x", id="tables in tables"),
        pytest.param("<template>" * 4_000 + "x", id="templates"),
        pytest.param("<frameset>" * 50_000, id="framesets"),
        pytest.param("<math><mi>" * 4_000 + "x", id="mathml"),
    ],
)
def test_odd_pages_have_an_outcome_in_time(raw: str) -> None:
    began = time.monotonic()
    row = one(raw.encode("utf-8", "surrogatepass"))
    assert row["quarantine"] is None
    assert time.monotonic() - began < 9.0


KILLER = """
from stages.ingest._page import make as real
import ctypes, os, time

def make(max_bytes, engine):
    extract = real(max_bytes, engine)
    def work(header, body):
        if b"EXIT" in body:
            os._exit(0)
        if b"SEGV" in body:
            ctypes.string_at(0)
        if b"LOOP" in body:
            while True:
                pass
        if b"RAISE" in body:
            raise RuntimeError("parser bug")
        return extract(header, body)
    return work
"""


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("EXIT", "extract: crash: the parser process ended with exit 0"),
        ("SEGV", "extract: crash: the parser process ended with SIGSEGV: Fatal Python error: Segmentation fault"),
        ("LOOP", "extract: deadline (by the clock): no answer within 3 s"),
        ("RAISE", "extract: error: RuntimeError: parser bug"),
    ],
)
def test_a_page_that_kills_the_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, why: str) -> None:
    (tmp_path / "killable_parser_for_tests.py").write_text(KILLER)
    monkeypatch.syspath_prepend(str(tmp_path))
    stage = ExtractText(deadline_seconds=0.5)
    with Sandbox(
        "killable_parser_for_tests:make", {"max_bytes": 1 << 20, "engine": "blocks"}, deadline_seconds=0.5
    ) as box:
        monkeypatch.setattr(ExtractText, "opened", box)
        pages = [page(i) for i in range(40)]
        expected = extract(pages, stage)
        bad: Page = (f"<p>{word}</p>".encode(), "text/html", None)
        out = extract([*pages[:20], bad, *pages[20:], bad], stage)
    assert out.column("quarantine").to_pylist() == [None] * 20 + [why] + [None] * 20 + [why]
    assert out.take([*range(20), *range(21, 41)]).equals(expected)


def test_title_is_one_bounded_line() -> None:
    assert one("<title>" + "a b\n" * 1_000 + "</title><p>text</p>")["title"] == ("a b " * 1_000)[:500]


def test_extraction_is_a_function_of_the_page_alone() -> None:
    pages = [page(i) for i in range(200)]
    forward = extract(pages)
    backward = extract(pages[::-1])
    assert backward.take(list(range(200))[::-1]).equals(forward)


def test_what_a_page_says_of_itself() -> None:
    head = """<html lang="en-GB"><head><meta name="author" content="A. Writer &amp; B. Reader">
    <meta property='article:published_time' content=2024-05-01T10:00:00Z><meta name=date content="2020">
    <link rel="canonical" href="https://example.org/a?b=1&amp;c=2"></head>"""
    body = "<body><p>Some text of a page that is long enough to be kept, with a sentence in it.</p>"
    licence = '<footer><a href="https://creativecommons.org/licenses/by/4.0/" rel="license">CC BY</a></footer>'
    row = one(head + body + licence)
    assert {k.removeprefix("extract."): v for k, v in row.items() if k.startswith("extract.") and v is not None} == {
        **dict.fromkeys(RESERVATIONS, 0),
        "charset": "ascii",
        "language": "en-GB",
        "author": "A. Writer & B. Reader",
        "published": "2024-05-01T10:00:00Z",
        "canonical": "https://example.org/a?b=1&c=2",
        "licence": "https://creativecommons.org/licenses/by/4.0/",
    }


@pytest.mark.parametrize(
    ("markup", "licence"),
    [
        ('<a rel="license" href="https://x.org/l">', "https://x.org/l"),
        ("<a href='https://x.org/l' rel='license'>", "https://x.org/l"),
        ("<link rel=license href=https://x.org/l>", "https://x.org/l"),
        ('<a rel="nofollow license noopener" href="/terms">', "/terms"),
        ('<A REL="License" HREF="https://x.org/l">', "https://x.org/l"),
        ("<p>Its license</p> " * 20 + '<a rel="license" href="https://x.org/l">', "https://x.org/l"),
        (
            '<a href="https://creativecommons.org/licenses/by-sa/3.0/">',
            "https://creativecommons.org/licenses/by-sa/3.0/",
        ),
        (
            '<a href="//www.creativecommons.org/publicdomain/zero/1.0/">',
            "//www.creativecommons.org/publicdomain/zero/1.0/",
        ),
        ('<a href="https://creativecommons.org/about/">', None),
        ('<a class="license" href="https://x.org/no">the rel license </a>', None),
        ('<a rel="licensee" href="https://x.org/no">', None),
        ('<a data-rel=license href="https://x.org/no">', None),
    ],
)
def test_licences(markup: str, licence: str | None) -> None:
    assert one(ARTICLE % markup)["extract.licence"] == licence


def test_every_outcome_has_a_rule() -> None:
    assert [r.value for r in ExtractFilter().rules()] == [(o,) for o in OUTCOMES]


def test_contract() -> None:
    examples = pa.RecordBatch.from_arrays(
        [
            pa.array([None, BODY, gzip.compress(BODY), b"\x89PNG", b"", BODY], pa.large_binary()),
            pa.array([None, "text/html", "text/html", "image/png", "text/html", None], pa.string()),
            pa.array([None, None, "gzip", None, None, "gzip,chunked"], pa.string()),
            pa.array(["from elsewhere", None, None, None, None, "x"], pa.large_string()),
            pa.array([None, '{"x-robots-tag": "noai"}', None, "{}", "not JSON: x-robots-tag", None], pa.string()),
        ],
        names=["raw", "content_type", "content_encoding", "text", "meta"],
    )
    for part in Extract().expand():
        if isinstance(part, ExtractText):
            check_stage(part, examples=examples)
    check_stage(Extract())


@needs_data
@pytest.mark.parametrize(
    ("name", "html", "outcomes"),
    [
        ("docs-00", 7_773, {"empty": 1}),  # an empty resource record of the crawler's own
        ("chunked-gzip", 2_249, {}),
        ("recursive", 1_382, {"unsupported_type": 27, "binary": 2, "not_html": 2}),
        ("revisit", 18, {}),
    ],
)
def test_every_page_of_the_archives_is_read(name: str, html: int, outcomes: dict[str, int]) -> None:
    """As many pages as there are records of HTML or XHTML, whatever they are declared as, and text in all but the empty."""
    source = Warc(paths=(f"{DATA}/warc/{name}.warc.gz",))
    stage = ExtractText()
    found: Counter[str] = Counter()
    pages = 0
    for split in source.splits():
        for batch in source.read(split):
            documents = batch.filter(batch.column("skipped").is_null())
            assert documents.column("quarantine").null_count == documents.num_rows
            if "text" not in documents.schema.names:
                documents = documents.append_column("text", pa.nulls(documents.num_rows, pa.large_string()))
            out = stage.transform(documents.select(list(stage.reads)))
            assert out.column("quarantine").null_count == out.num_rows
            is_page = [
                str(t).startswith("text/html") or b"<html" in (raw or b"")[:1000]
                for t, raw in zip(
                    documents.column("content_type").to_pylist(), documents.column("raw").to_pylist(), strict=True
                )
            ]
            for outcome, text, html_page in zip(
                out.column("extract.outcome").to_pylist(), out.column("text").to_pylist(), is_page, strict=True
            ):
                pages += html_page and outcome in (None, "empty")
                found[str(outcome)] += not html_page
                # chunked-gzip.warc.gz read without undoing its codings would be full of these
                assert text is None or text.count("\ufffd") <= len(text) // 100
    assert pages == html
    assert {k: v for k, v in found.items() if v and k != "None"} == outcomes
