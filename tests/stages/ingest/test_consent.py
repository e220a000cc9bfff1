"""ingest.extract: who objects to training, on the page and in the response, and what becomes of such pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpusflow
from corpusflow import ConfigError
from corpusflow.build import build_stage
from stages.ingest.extract import Extract, ExtractFilter, ExtractText
from stages.kernels.consent import of_headers, reservations
from stages.kernels.http import parse_head

HEAD = (
    "<html><head><title>t</title>{}</head><body><p>A page with some text to be read by people only.</p></body></html>"
)
TEXT = "The reader of this text may do with it what the licence says, and that is what it is here for."


@pytest.mark.parametrize(
    ("robots", "reservation", "expected"),
    [
        ("noai", None, {"noai"}),
        ("noindex, NoAI, noimageai", None, {"noai", "noimageai"}),
        ("noimageai", None, {"noimageai"}),
        ("GPTBot: noai", None, {"noai"}),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST, noai", None, {"noai"}),
        ("noindex, nofollow, max-image-preview:large", None, set()),
        ("x-noai, noairline, no-ai, mainoai", None, set()),
        ("all", "1", {"tdm"}),
        (None, " 1 ", {"tdm"}),
        (None, "0, 1", {"tdm"}),
        (None, "0", set()),
        (None, "2", set()),
        (None, "10", set()),
        (None, "yes", set()),
        (None, None, set()),
        ("", "", set()),
    ],
)
def test_what_values_mean(robots: str | None, reservation: str | None, expected: set[str]) -> None:
    assert reservations(robots, reservation) == expected


@given(
    st.one_of(
        st.none(),
        st.text(max_size=60),
        st.dictionaries(st.sampled_from(["x-robots-tag", "a"]), st.text() | st.floats()),
    )
)
@settings(max_examples=50, deadline=None)
def test_headers_may_be_anything(meta: Any) -> None:
    of_headers(meta if meta is None or isinstance(meta, str) else json.dumps(meta))


def test_headers_as_sources_keep_them() -> None:
    assert of_headers('{"x-robots-tag": "noai", "tdm-reservation": "1"}') == {"noai", "tdm"}
    assert of_headers('{"tdm-reservation": 1}') == {"tdm"}
    assert of_headers('{"tdm-reservation": true, "x-robots-tag": ["noai"]}') == set()
    assert of_headers('["x-robots-tag"]') == set()


def test_a_repeated_header_counts_whole() -> None:
    head = parse_head(
        b"HTTP/1.1 200\r\nX-Robots-Tag: noai\r\nServer: a\r\nTDM-Reservation: 1\r\nServer: b\r\nX-ROBOTS-TAG : noindex\r\n\r\n"
    )
    assert head is not None
    assert head.headers == {"x-robots-tag": "noai, noindex", "server": "b", "tdm-reservation": "1"}


def marks(pages: list[str | None], metas: list[str | None]) -> dict[str, list[int | None]]:
    n = len(pages)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([None if p is None else p.encode() for p in pages], pa.large_binary()),
            pa.array(["text/html"] * n),
            pa.nulls(n, pa.string()),
            pa.array([TEXT if p is None else None for p in pages], pa.large_string()),
            pa.array(metas, pa.string()),
        ],
        names=list(ExtractText.reads),
    )
    made = ExtractText().transform(batch)
    return {c: made.column(f"extract.{c}").to_pylist() for c in ("noai", "noimageai", "tdm")}


def test_the_page_and_the_response() -> None:
    meta = '<meta name="robots" content="{}">'
    reserved = "<meta name='TDM-Reservation' content=1>"
    header = '{"x-robots-tag": "noai"}'
    cases: list[tuple[str | None, str | None, tuple[int | None, int | None, int | None]]] = [
        (HEAD.format(""), None, (0, 0, 0)),
        (HEAD.format(meta.format("noai, noimageai")), None, (1, 1, 0)),
        (HEAD.format(meta.format("index") + '<META CONTENT="NOAI" NAME="Robots" />'), None, (1, 0, 0)),
        (HEAD.format(reserved), None, (0, 0, 1)),
        (HEAD.format(meta.format("noai")), header, (3, 0, 0)),
        (HEAD.format(""), header, (2, 0, 0)),
        (HEAD.format(""), '{"tdm-reservation": "1", "truncated": "length"}', (0, 0, 2)),
        (HEAD.format(reserved), '{"tdm-reservation": "0"}', (0, 0, 1)),
        (HEAD.format('<meta name="description" content="noai">'), '{"a": "noai"}', (0, 0, 0)),
        (HEAD.format("").replace("<p>", '<p>&lt;meta name="robots" content="noai"&gt;'), None, (0, 0, 0)),
        (None, None, (None, None, None)),
        (None, header, (2, 0, 0)),
    ]
    got = marks([p for p, _, _ in cases], [m for _, m, _ in cases])
    assert list(zip(*got.values(), strict=True)) == [expected for _, _, expected in cases]


def test_which_objections_are_heeded_is_a_parameter() -> None:
    def names(**params: Any) -> list[str]:
        rules = [r.reason for p in Extract(**params).expand() if isinstance(p, ExtractFilter) for r in p.rules()]
        return [r for r in rules if not r.startswith("page_")]

    assert names() == ["consent_noai", "consent_noimageai", "consent_tdm"]
    assert names(consent=("tdm",)) == ["consent_tdm"]
    assert names(consent=()) == []
    with pytest.raises(ConfigError, match="consent"):
        build_stage("ingest.extract", Extract, {"consent": ["noads"]})


def warc(path: Path, pages: list[tuple[str, str]]) -> None:
    records = b""
    for i, (headers, head) in enumerate(pages):
        body = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{headers}\r\n{HEAD.format(head)}".encode()
        records += (
            (
                f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://example.org/{i}\r\n"
                f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(body)}\r\n\r\n"
            ).encode()
            + body
            + b"\r\n\r\n"
        )
    path.write_bytes(records)


@pytest.mark.parametrize(("consent", "kept"), [(None, [0]), ([], [0, 1, 2, 3]), (["noai"], [0, 3])])
def test_a_run_stores_nothing_of_what_is_kept_back(tmp_path: Path, consent: list[str] | None, kept: list[int]) -> None:
    warc(
        tmp_path / "a.warc",
        [
            ("", ""),
            ("X-Robots-Tag: noai\r\nX-Robots-Tag: noarchive\r\n", ""),
            ("", "<meta name=robots content=noai>"),
            ("TDM-Reservation: 1\r\n", ""),
        ],
    )
    config = {
        "name": "c",
        "input": [{"ingest.warc": {"paths": [str(tmp_path / "a.warc")]}}],
        "stages": [{"ingest.extract": {} if consent is None else {"consent": consent}}],
        "output": ["export.parquet"],
        "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
    }
    result = corpusflow.run(config)
    wide = corpusflow.open_run(str(tmp_path / "run")).stage("ingest.extract")
    assert [u[-1] for u in wide.table(["url"]).column("url").to_pylist()] == [str(k) for k in kept]
    dropped = {k: v for c in result.counts for k, v in c.dropped.items()}
    assert sum(dropped.values()) == 4 - len(kept)
    assert set(dropped) <= {"consent_noai", "consent_tdm"}
    stored = sum(w.part("rows").rows for n in wide.run.plan.wides for w in wide.run.committed(n).values())
    assert stored == len(kept)
