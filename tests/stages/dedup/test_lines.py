"""dedup.lines against a count in Python, on lines and paragraphs of several scripts."""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
import xxhash

from corpusflow import ConfigError, check_stage
from stages.dedup import _outbox, _pieces, _verdicts
from stages.dedup.lines import Lines
from stages.kernels.shingle_text import units
from stages.kernels.shingles import DIGITS_ALIKE

COMMON = [
    "Accept all cookies to continue reading this page",
    "ACCEPT all cookies, to continue reading this page!",
    "Copyright 2024 The Tide Gate, all rights reserved here",
    "Copyright 1999 the tide gate — all rights reserved here",
    "我们使用 cookie 来改善您的浏览体验",
    "Home | About",
    "* * *",
    "",
    "   ",
]


def corpus(n: int = 400, seed: int = 1) -> list[dict]:
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        lines = [
            f"sentence number {rng.choice('abcdef')} of page {chr(97 + i % 26)}{chr(97 + i // 26)} with words"
            for _ in range(6)
        ]
        lines += rng.sample(COMMON, rng.randint(0, 5))
        rng.shuffle(lines)
        rows.append({"id": f"web/{i}", "url": f"https://www.site{i % 7}.org/{i}", "text": "\n".join(lines)})
    rows[5]["text"] = None
    rows[6]["text"] = ""
    return rows


def table(rows: list[dict]) -> pa.Table:
    kinds = {"id": pa.string(), "url": pa.string(), "text": pa.large_string()}
    return pa.table({c: pa.array([r[c] for r in rows], t) for c, t in kinds.items()})


def spread(rows: list[dict], shards: int, seed: int) -> dict[int, pa.Table]:
    rng = random.Random(seed)
    places = [rng.randrange(shards) for _ in rows]
    return {3 * s + 1: table([r for r, p in zip(rows, places, strict=True) if p == s]) for s in range(shards)}


def pieces_of(text: str, paragraphs: bool) -> list[str]:
    if paragraphs:
        ends = [m.end() for m in re.finditer(r"\n(?:[ \t\r]*\n)+", text) if text[m.end() :].strip()]
        return [text[a:b] for a, b in itertools.pairwise([0, *ends, len(text)])]
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def expected(
    rows: list[dict], *, limit: int, keep: str, min_words: int, paragraphs: bool, site: bool
) -> dict[str, str | None]:
    having = defaultdict(set)

    def key(row: dict, piece: str) -> tuple | None:
        found = units(piece, DIGITS_ALIKE)
        return (tuple(found), urlsplit(row["url"]).netloc if site else "") if len(found) >= min_words else None

    for r in rows:
        for piece in pieces_of(r["text"] or "", paragraphs):
            having[key(r, piece)].add(r["id"])
    out: dict[str, str | None] = {}
    for r in rows:
        kept, seen = [], set()
        for piece in pieces_of(r["text"] or "", paragraphs):
            k = key(r, piece)
            if k is not None and len(having[k]) > limit:
                best = min(having[k], key=lambda i: xxhash.xxh3_128_intdigest(i.encode()))
                if keep == "none" or best != r["id"] or k in seen:
                    continue
                seen.add(k)
            kept.append(piece)
        out[r["id"]] = None if r["text"] is None else "".join(kept)
    return out


def texts(got: pa.Table) -> dict[str, str | None]:
    return dict(zip(got["id"].to_pylist(), got["text"].to_pylist(), strict=True))


def test_contract() -> None:
    check_stage(Lines())
    check_stage(Lines(unit="paragraphs", within="site"))


@pytest.mark.parametrize("keep", ["first", "none"])
@pytest.mark.parametrize("limit", [1, 30])
@pytest.mark.parametrize("site", [False, True])
def test_lines_are_those_of_a_count(dedup, keep: str, limit: int, site: bool) -> None:
    rows = corpus()
    stage = Lines(keep=keep, max_documents=limit, within="site" if site else None)
    want = expected(rows, limit=limit, keep=keep, min_words=5, paragraphs=False, site=site)
    got = dedup(stage, spread(rows, 3, seed=1))
    assert texts(got) == want
    assert sum(len(t or "") for t in want.values()) < sum(len(r["text"] or "") for r in rows)
    left = {i: len(units(t)) if t is not None else None for i, t in want.items()}
    assert dict(zip(got["id"].to_pylist(), got["dedup.lines.words_left"].to_pylist(), strict=True)) == left
    assert got["kept"].to_pylist() == [left[i] is None or left[i] > 0 for i in got["id"].to_pylist()]


@pytest.mark.parametrize("keep", ["first", "none"])
def test_paragraphs_are_those_of_a_count(dedup, keep: str) -> None:
    rng = random.Random(2)
    rows = corpus()
    for r in rows:
        if r["text"]:
            r["text"] = "".join(
                line + rng.choice(["\n", "\n\n", "\n \t\n", "\n\n\n  "]) for line in r["text"].split("\n")
            )
    want = expected(rows, limit=1, keep=keep, min_words=5, paragraphs=True, site=False)
    assert texts(dedup(Lines(unit="paragraphs", keep=keep), spread(rows, 2, seed=5))) == want


def test_shards_and_memory_change_nothing(dedup, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = corpus()
    want = texts(dedup(Lines(), [table(rows)]))
    assert texts(dedup(Lines(), spread(rows, 90, seed=3), batch_rows=3)) == want
    monkeypatch.setattr(_pieces, "_SLICE_RECORDS", 10)
    monkeypatch.setattr(_pieces, "_TASK_RECORDS", 300)
    monkeypatch.setattr(_outbox, "_FLUSH_BYTES", 1_500)
    monkeypatch.setattr(_verdicts, "_FLUSH_ROWS", 20)
    assert texts(dedup(Lines(), spread(rows, 4, seed=4), batch_rows=11)) == want
    assert len(dedup.last.committed["groups"]) > 5


def test_a_documents_own_repeats_are_not_its_neighbours(dedup) -> None:
    line = "one line of several words here"
    rows = [
        {"id": "a", "url": None, "text": "\n".join([line] * 3)},
        {"id": "b", "url": None, "text": "nothing of the kind"},
    ]
    assert texts(dedup(Lines(), [table(rows)]))["a"] == "\n".join([line] * 3)


def test_documents_without_an_address_are_of_no_site(dedup) -> None:
    line = "one line of several words here"
    rows = [
        {"id": i, "url": u, "text": f"{line}\n{i}"}
        for i, u in zip("abcd", [None, None, "http://x.org/1", "http://x.org/2"], strict=True)
    ]
    got = texts(dedup(Lines(within="site", keep="none"), [table(rows)]))
    assert got == {"a": f"{line}\na", "b": f"{line}\nb", "c": "c", "d": "d"}


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ConfigError):
        Lines(max_documents=0)
