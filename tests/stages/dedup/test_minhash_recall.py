"""How many near-duplicates dedup.minhash finds, against theory, and that what it removes is one, on made-up and on real text."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.dedup._settings import found_at
from stages.dedup.minhash import MinHash
from stages.kernels.shingle_text import shingles

DATA = os.environ.get("CORPUSFLOW_TEST_DATA")
HAN = [chr(c) for c in range(0x4E00, 0x4E00 + 3_000)]


def jaccard(a: str, b: str) -> float:
    """By the library's own shingles, slowly."""
    one, two = set(shingles(a, 5)), set(shingles(b, 5))
    return len(one & two) / len(one | two)


def jaccard_of_words(a: str, b: str) -> float:
    one, two = (t.split(" ") if " " in t else t for t in (a, b))
    left, right = ({tuple(t[i : i + 5]) for i in range(len(t) - 4)} for t in (one, two))
    return len(left & right) / len(left | right)


def documents(rows: list[tuple[str, str | None]]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([i for i, _ in rows], pa.string()),
            "text": pa.array([t for _, t in rows], pa.large_string()),
            "url": pa.array([None] * len(rows), pa.string()),
            "source": pa.array(["web"] * len(rows), pa.string()),
        }
    )


def similar_pairs(count: int, chinese: bool, seed: int) -> list[tuple[str, str]]:
    """Pairs that share nothing with each other, of similarities from about 0.75 to 1."""
    rng = random.Random(seed)
    pairs = []
    for k in range(count):
        n = rng.randint(100, 250)
        base = rng.choices(HAN, k=n) if chinese else [f"w{rng.randrange(10**6)}" for _ in range(n)]
        edited = list(base)
        for at in rng.sample(range(n), rng.randint(1, max(1, n // 40))):
            edited[at] = rng.choice(HAN) if chinese else f"new{k}x{at}"
        glue = "" if chinese else " "
        pairs.append((glue.join(base), glue.join(edited)))
    return pairs


@pytest.mark.parametrize(("chinese", "verify"), [(False, "exact"), (True, "signature")])
def test_recall_is_what_the_bands_promise(dedup, chinese: bool, verify: str) -> None:
    pairs = similar_pairs(6_000, chinese, seed=11)
    rows = [(f"{i}/{side}", text) for i, pair in enumerate(pairs) for side, text in enumerate(pair)]
    got = dedup(MinHash(verify=verify), [documents(rows[:5_000]), documents(rows[5_000:])])
    twins = {i: t for i, t in zip(got["id"].to_pylist(), got["dedup.minhash.twin"].to_pylist(), strict=True) if t}
    found = {int(i.partition("/")[0]) for i in twins}
    # a removal is of a pair, and no pair loses both
    assert all(i.partition("/")[0] == t.partition("/")[0] for i, t in twins.items())
    assert len(found) == len(twins)
    bins: dict[int, list[tuple[float, bool]]] = {}
    for i, (a, b) in enumerate(pairs):
        s = jaccard_of_words(a, b)
        bins.setdefault(int(s * 20), []).append((s, i in found))
        if verify == "exact":
            assert s >= 0.7 or i not in found
        else:
            assert s >= 0.7 - 0.13 or i not in found
    for low in (16, 17, 18, 19):
        members = bins[low]
        assert len(members) > 400
        promised = sum(found_at(s, 14, 8) for s, _ in members) / len(members)
        assert sum(f for _, f in members) / len(members) == pytest.approx(promised, abs=0.02)
    above = [f for low in (17, 18, 19, 20) for _, f in bins.get(low, [])]
    assert sum(above) / len(above) >= 0.95


def real_text() -> dict[str, list[str]]:
    folder = Path(str(DATA))
    with gzip.open(folder / "text/zh_classical-modern.jsonl.gz", "rt", encoding="utf-8") as lines:
        chinese = [json.loads(line)["text"] for line in lines]
    pages = pq.read_table(folder / "parity/text.parquet", columns=["text"]).column(0).to_pylist()
    return {"zh_classical-modern": chinese, "pages": [p for p in pages if p]}


@pytest.mark.skipif(not DATA, reason="needs $CORPUSFLOW_TEST_DATA")
@pytest.mark.parametrize("name", ["zh_classical-modern", "pages"])
def test_evidence_on_real_text_is_right(dedup, name: str) -> None:
    texts = real_text()[name]
    rows = [(f"{name}/{i}", t) for i, t in enumerate(texts)]
    got = dedup(MinHash(), [documents(rows[i::3]) for i in range(3)])
    by_id = dict(rows)
    parts = [p for p in dedup.last.parts("elect") if p.name == "evidence.parquet"]
    evidence = pa.concat_tables([dedup.last.read_parquet(p) for p in parts]).to_pylist()
    kept = set(got.filter(got["kept"])["id"].to_pylist())
    assert {e["removed_id"] for e in evidence} == set(by_id) - kept
    for e in random.Random(1).sample(evidence, min(100, len(evidence))):
        assert e["kept_id"] in kept
        true = jaccard(by_id[e["removed_id"]], by_id[e["kept_id"]])
        assert true >= 0.7
        assert e["similarity"] == pytest.approx(true, abs=1e-6)
        # the policy keeps the longer one
        assert len(by_id[e["kept_id"]].encode()) >= len(by_id[e["removed_id"]].encode())


def test_what_is_kept_is_the_same_whatever_files_documents_are_in(dedup) -> None:
    pairs = list(itertools.chain(similar_pairs(150, False, 3), similar_pairs(150, True, 4)))
    texts = [t for pair in pairs for t in pair]
    kept = set()
    for seed, shards in ((1, 1), (2, 3), (3, 9)):
        order = random.Random(seed).sample(range(len(texts)), len(texts))
        # ids say where a document lies, so they change with the files
        tables = [
            documents([(f"file{s}#{i}", texts[d]) for i, d in enumerate(order[s::shards])]) for s in range(shards)
        ]
        got = dedup(MinHash(), tables)
        kept.add(frozenset(got.filter(got["kept"])["text"].to_pylist()))
    assert len(kept) == 1
