"""dedup.url: which addresses are one, and that documents without any are left alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from corpusflow import ConfigError, check_stage
from stages.dedup.url import Url, normalised


def test_contract() -> None:
    check_stage(Url())
    check_stage(Url(keep=("length desc",)))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://www.Example.org/", "example.org"),
        ("https://example.org", "example.org"),
        ("HTTPS://user:pw@EXAMPLE.org:443/A/b/?#top", "example.org/A/b"),
        ("http://example.org.:80/a", "example.org/a"),
        ("https://example.org:8080/a", "example.org:8080/a"),
        ("//example.org/a", "example.org/a"),
        ("https://example.org/a?utm_source=x&utm_medium=y&id=3&fbclid=7&q=", "example.org/a?id=3&q="),
        ("https://example.org/a?GCLID=1&utm_x", "example.org/a"),
        ("https://example.org/a?gclidx=1", "example.org/a?gclidx=1"),
        ("https://example.org/a?b=2&a=1", "example.org/a?b=2&a=1"),
        ("https://example.org/a;jsessionid=AB12?x=1", "example.org/a?x=1"),
        (
            "https://example.org/a?next=http://other.org/?utm_source=1",
            "example.org/a?next=http://other.org/?utm_source=1",
        ),
        ("  https://例子.中国/首页  ", "例子.中国/首页"),
        ("https://wwwide.org/", "wwwide.org"),
        ("mailto:someone", "mailto:someone"),
        ("", ""),
        (None, None),
    ],
)
def test_normal_form(url: str | None, expected: str | None) -> None:
    assert normalised(pa.array([url], pa.string())).to_pylist() == [expected]
    if expected and "//" not in expected and ":" not in expected:
        assert normalised(pa.array(["https://" + expected], pa.string())).to_pylist() == [expected]


def test_latest_of_an_address_stays(dedup) -> None:
    urls = ["http://a.org/x", "https://www.a.org/x/", None, "", None, "http://a.org/y"]
    dates = ["2024-01-02", "2024-03-01", None, None, None, None]
    table = pa.table(
        {
            "id": pa.array([f"web/{i}" for i in range(6)], pa.string()),
            "url": pa.array(urls, pa.string()),
            "date": pa.array(dates, pa.string()),
            "text": pa.array(["text"] * 6, pa.large_string()),
        }
    )
    got = dedup(Url(), [table.slice(0, 1), table.slice(1)])
    assert got["dedup.url.twin"].to_pylist() == ["web/1", None, None, None, None, None]
    assert got["dedup.url.copies"].to_pylist() == [2, 2, 1, 1, 1, 1]


def test_wildcards_inside_a_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="ignore_parameters"):
        Url(ignore_parameters=("a*b",))
