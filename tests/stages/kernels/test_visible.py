"""The visible text of raw pages: what is stripped, codings and charsets, hostile input."""

from __future__ import annotations

import gzip
import random
import time

import numpy as np
import pyarrow as pa
import pytest

from stages.kernels.visible import visible_sample


def visible(
    raw: bytes | None, content_type: str | None = "text/html", coding: str | None = None, limit: int = 1000
) -> str | None:
    arrays = [
        pa.array([raw], pa.large_binary()),
        pa.array([content_type], pa.string()),
        pa.array([coding], pa.string()),
    ]
    text: str | None = visible_sample(*arrays, limit).to_pylist()[0]
    return text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one</p><p>two</p>", "one two "),
        ("a <b>bo</b>ld w<span class=x>or</span>d", "a bold word"),
        ("<title>t</title><script>var x = '<p>no</p>';</script>yes", "t yes"),
        ("<STYLE type=a>p > b { }</STYLE >yes<scripture>also", "yes also"),
        ("<!-- no <p>no</p> --->yes<!DOCTYPE html>", "yes"),
        ("<a title='a > b' href=\"x>y\">link</a>", "link"),
        ("a &lt; b &amp; c&nbsp;d &#65;&#x4e2d; caf&eacute; &notaname; & x", "a b c d A中 cafe n & x"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<p", ""),
        ("<script>never closed", ""),
        ("<!-- never closed", ""),
        ("&#xD800;&#0;&#99999999;x", "x"),
        ("昨夜河水上涨", "昨夜河水上涨"),
        ("", ""),
    ],
)
def test_what_is_visible(html: str, text: str) -> None:
    got = visible(html.encode())
    assert got is not None
    assert got.split() == text.split()


def test_nulls_and_what_is_no_page() -> None:
    assert visible(None) is None
    assert visible(b"\x89PNG\r\n", "image/png") == ""
    assert visible(b"{}", "application/json") == ""
    assert visible(b"<p>x</p>"[:3], coding="compress") == ""
    assert visible(b"\xff\xd8\xff\xe0 JFIF " + bytes(9), "image/jpeg") == ""  # begins like UTF-16
    assert visible(b"\xff\xfea coding nobody knows", coding="compress") == ""
    assert visible(None, "image/png") is None


def test_what_lies_under_a_null_is_never_looked_at() -> None:
    offsets, bits = np.array([0, 3, 8], np.int64), bytes([1])
    buffers = [pa.py_buffer(bits), pa.py_buffer(offsets), pa.py_buffer(b"<p>\xff\xfe<b>")]
    raw = pa.Array.from_buffers(pa.large_binary(), 2, buffers)
    none = pa.nulls(2, pa.string())
    assert visible_sample(raw, none, none).to_pylist() == ["", None]


def test_codings_and_charsets() -> None:
    text = "昨夜河水上涨，清晨时低处的道路已被淹没。村民们把羊群赶到山坡上，学校停课一天。"
    page = f"<html><head><meta charset=gbk></head><body><p>{text}"
    assert visible(page.encode("gb18030")) == text
    assert visible(gzip.compress(page.replace("gbk", "utf-8").encode()), coding="gzip") == text
    assert visible(page.replace("gbk", "").encode("utf-16")) == text
    assert visible(page.replace("gbk", "").encode("utf-16-le"), "text/html") == text
    assert visible(gzip.compress(page.replace("gbk", "").encode("utf-16")), coding="gzip") == text
    for limit in range(20, 60):  # cut inside characters
        cut = visible(page.replace("gbk", "utf-8").encode(), limit=limit)
        assert cut is not None
        assert text.startswith(cut)
        assert len(cut) >= (limit - 8) // 3


def test_each_page_on_its_own() -> None:
    rng = random.Random(1)
    pages = [
        b"".join(rng.choice([b"<p>", b"x", b"&#65;", b"<!--", b"-->", b"'", b"\xff", b">"]) for _ in range(50))
        for _ in range(50)
    ]
    raw = pa.array([*pages, None], pa.large_binary())
    types = pa.array(["text/html"] * 51)
    codings = pa.nulls(51, pa.string())
    whole = visible_sample(raw, types, codings, 40)
    for i in range(51):
        assert visible_sample(raw.slice(i, 1), types.slice(i, 1), codings.slice(i, 1), 40).equals(whole.slice(i, 1))


@pytest.mark.parametrize("unit", [b"<", b"<a ", b"<!--", b"<script>", b"<a b='", b"&", b"&#", b"</script", b"<style><"])
def test_linear_on_any_input(unit: bytes) -> None:
    began = time.process_time()
    visible(unit * (400_000 // len(unit)), limit=1 << 20)
    assert time.process_time() - began < 5.0
