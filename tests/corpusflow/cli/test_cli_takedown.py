"""Takedowns by command from a run of real stages: tokens, Parquet, evidence; domains and URLs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from leftovers import holding

import corpusflow
from corpusflow.datasets import datasets_of
from corpusflow.errors import ConfigError
from corpusflow.feed import TokenDataset
from corpusflow.hosts import below, host
from corpusflow.takedown.request import Request, read_request

SPAN = 200


def listed(folder: Path, name: str, entries: list[str]) -> Path:
    path = folder / name
    path.write_text("\n".join([*entries, ""]), encoding="utf-8")
    return path


def documents(folder: Path) -> dict[str, Any]:
    table = pq.read_table(folder / "exports" / "parquet" / "train-00000-of-00001.parquet")
    return {row["id"]: row for row in table.to_pylist()}


def own_spans(folder: Path, ids: list[str]) -> list[bytes]:
    """Stretches of 200 characters that a document shares with no other of the run's stored texts, some of each."""
    stored = corpusflow.open_run(str(folder)).stage("language.identify").table(["id", "text"])
    texts = dict(zip(stored.column("id").to_pylist(), stored.column("text").to_pylist(), strict=True))
    rest = "\0".join(text for key, text in texts.items() if key not in ids)
    spans = [texts[i][at : at + SPAN] for i in ids for at in range(0, len(texts[i]) - SPAN, SPAN // 2)]
    return [s.encode() for s in spans if s not in rest]


def test_documents_are_in_no_file_afterwards(call: Any, own_run: Any, tmp_path: Path) -> None:
    before = documents(own_run.folder)
    ids = sorted(before)[::9]
    spans = own_spans(own_run.folder, ids)
    assert len(spans) > 20
    data = np.fromfile(own_run.folder / "exports" / "bin" / "train-00000-of-00001.bin", "<u2").tobytes()
    tokens = {}
    for i in ids:
        (line,) = call("trace", own_run, "--id", i, "--export", "bin", "--json").out.splitlines()
        span = json.loads(line)
        tokens[i] = data[2 * span["start"] : 2 * (span["start"] + span["tokens"])]
    own = [t[at : at + 120] for t in tokens.values() for at in range(0, len(t) - 120, 120)]
    own = [t for t in own if data.count(t) == 1]
    assert len(own) > len(ids)
    needles = [*spans, *(f"{i}\0".encode() for i in ids), *own]
    assert len(holding(own_run.folder, needles)) > 8, "the search finds them while they are there"

    result = call("takedown", own_run, "--ids", listed(tmp_path, "ids", ids), "--json")
    assert result.status == 0, result.err
    body = json.loads(result.out)
    assert (body["records"], body["unknown"]) == (len(ids), [])
    assert sorted(body["published"]) == ["bin", "megatron", "parquet"]
    assert holding(own_run.folder, needles) == {}
    assert documents(own_run.folder) == {k: v for k, v in before.items() if k not in ids}
    assert call("verify", own_run).status == 0
    call("trace", own_run, "--id", ids[0]).fails(2, "no record")
    call("explain", own_run, ids[0]).fails(2, "no record")


def test_only_the_shards_concerned_are_rewritten(call: Any, own_run: Any, tmp_path: Path) -> None:
    plan = corpusflow.open_run(str(own_run)).plan

    def digests() -> dict[tuple[str, int], Any]:
        return {
            (item.name, n): [(p.label, p.digest) for p in record.parts]
            for item in datasets_of(plan)
            for n, record in item.dataset.records(item.keys).items()
        }

    one = next(iter(documents(own_run.folder)))
    before = digests()
    assert call("takedown", own_run, "--ids", listed(tmp_path, "ids", [one])).status == 0
    after = digests()
    changed = {(name, n) for (name, n), parts in before.items() if parts != after[name, n]}
    shards = {n for name, n in changed if "dedup" not in name and "write" not in name}
    assert len(shards) == 1
    assert {name for name, _ in changed} >= {
        "ingest.warc [source]", "clean.unicode [wide]", "tokenize.sentencepiece [score]", "export.megatron [write]"
    }  # fmt: skip


def test_a_domain_and_urls(call: Any, own_run: Any, tmp_path: Path) -> None:
    urls = [d["url"] for d in documents(own_run.folder).values()]
    domain = Counter(map(host, urls)).most_common(1)[0][0]
    url = next(u for u in urls if host(u) != domain)
    requests = [
        *("--domains", listed(tmp_path, "domains", [domain.upper(), "nowhere.example"])),
        *("--urls", listed(tmp_path, "urls", [url, f"{url}#else"])),
    ]
    would = call("takedown", own_run, *requests, "--dry-run")
    assert "records would be taken down" in would.out
    assert not (own_run.folder / "takedowns").exists()
    told = call("takedown", own_run, *requests)
    assert told.status == 0, told.err
    assert "not in this run: nowhere.example" in told.out
    assert f"not in this run: {url}#else" in told.out
    left = [d["url"] for d in documents(own_run.folder).values()]
    assert left == [u for u in urls if host(u) != domain and u != url]
    assert holding(own_run.folder, [f"//{domain}/".encode()]) == {}
    assert call("verify", own_run).status == 0
    assert len(TokenDataset(str(own_run.folder / "exports" / "megatron"), 64)) > 0


def test_mistakes(call: Any, small_run: Any, tmp_path: Path) -> None:
    call("takedown", small_run).fails(2, "nothing to take down", "--ids FILE")
    call("takedown", small_run, "--ids", tmp_path / "missing").fails(2, "missing is not a file")
    call("takedown", small_run, "--ids", listed(tmp_path, "ids", ["", "nobody"])).fails(2, "names no record")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    call("takedown", small_run, "--urls", tmp_path / "latin").fails(2, "not UTF-8", "byte 3")
    assert not (small_run.folder / "takedowns").exists()


@pytest.mark.parametrize("entry", ["https://example.org", "example.org/page", "localhost", "a b.org", "example.org:80"])
def test_what_is_no_domain(tmp_path: Path, entry: str) -> None:
    with pytest.raises(ConfigError, match="is no domain"):
        read_request(domains=[str(listed(tmp_path, "domains", [entry]))])


@pytest.mark.parametrize(
    ("url", "hit"),
    [
        ("https://example.org/a", True),
        ("http://user@WWW.Example.ORG.:8080/a?b#c", True),
        ("https://notexample.org/", False),
        ("https://example.org.evil.net/", False),
        ("https://bücher.example/", True),
        ("https://xn--bcher-kva.example/", True),
        ("not a url", False),
        ("https://[broken/", False),
    ],
)
def test_hosts_below_a_domain(tmp_path: Path, url: str, hit: bool) -> None:
    request: Request = read_request(domains=[str(listed(tmp_path, "d", ["example.org", "Bücher.example"]))])
    assert below(host(url), request.domains) is hit
