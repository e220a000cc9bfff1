"""dedup.substring: what is cut is elsewhere in what is left, checked by search; what is long enough is cut; nothing is torn."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from corpusflow import ConfigError, check_stage
from stages.dedup import _outbox, _substrings
from stages.dedup._chains import Span, chosen, without
from stages.dedup.substring import Substring
from stages.kernels.buffers import text_buffers
from stages.kernels.winnow import seeds

ALPHABETS = ["abcdefghij klmnop", "河水上涨清晨低处道路淹没，。", "éüßñ çöł żó", "🙂🌊🚪"]


def noise(rng: random.Random, n: int) -> str:
    return "".join(rng.choices(rng.choice(ALPHABETS), k=n))


def corpus(n: int = 45, seed: int = 1) -> tuple[list[dict], list[str]]:
    """Documents of noise with planted passages of all lengths, some within one another, some twice in a document."""
    rng = random.Random(seed)
    planted = [noise(rng, k) for k in [20, 60, 120, 210, 250, 400, 900, 3_000] for _ in range(4)]
    planted += [planted[-1][500:900], planted[-2][100:2_000], planted[4] + planted[13]]
    rows = []
    for i in range(n):
        pieces = [noise(rng, rng.randint(0, 600)) for _ in range(rng.randint(1, 4))]
        pieces += rng.sample(planted, rng.randint(0, 3))
        if i % 11 == 0:
            pieces += [pieces[-1], noise(rng, 30), pieces[-1]]
        rng.shuffle(pieces)
        rows.append({"id": f"web/{i}", "text": "".join(pieces)})
    rows += [{"id": "null", "text": None}, {"id": "empty", "text": ""}, {"id": "same", "text": "a" * 3_000}]
    rows += [{"id": "period", "text": "buy now! " * 300}, {"id": "period2", "text": "buy now! " * 200}]
    return rows, planted


def table(rows: list[dict]) -> pa.Table:
    kinds = {"id": pa.string(), "text": pa.large_string()}
    return pa.table({c: pa.array([r[c] for r in rows], t) for c, t in kinds.items()})


def spread(rows: list[dict], shards: int, seed: int) -> dict[int, pa.Table]:
    rng = random.Random(seed)
    places = [rng.randrange(shards) for _ in rows]
    return {3 * s + 1: table([r for r, p in zip(rows, places, strict=True) if p == s]) for s in range(shards)}


def texts(got: pa.Table) -> dict[str, str | None]:
    return dict(zip(got["id"].to_pylist(), got["text"].to_pylist(), strict=True))


def evidence_of(run) -> list[dict]:
    parts = [p for p in run.parts("lists") if p.name == "evidence.parquet"]
    return pa.concat_tables([run.read_parquet(p) for p in parts]).to_pylist()


def check_cuts(before: dict[str, str | None], after: dict[str, str | None], evidence: list[dict]) -> int:
    """Every cut is in the text that is left, at the source that the evidence names, and cuts are all that changed."""
    left = {i: (t or "").encode() for i, t in after.items()}
    everything = b"\x00".join(left.values())
    cuts: dict[str, list[tuple[int, int]]] = {}
    for e in evidence:
        raw = before[e["id"]].encode()
        span = raw[e["start"] : e["end"]]
        span.decode()  # not torn
        assert span in left[e["source_id"]]
        assert span in everything
        source = before[e["source_id"]].encode()
        assert source[e["source_start"] : e["source_start"] + len(span)] == span
        cuts.setdefault(e["id"], []).append((e["start"], e["end"]))
    for i, text in before.items():
        raw, at, pieces = (text or "").encode(), 0, []
        for start, end in sorted(cuts.get(i, [])):
            assert start >= at
            pieces.append(raw[at:start])
            at = end
        assert b"".join([*pieces, raw[at:]]) == left[i]
    return sum(e["end"] - e["start"] for e in evidence)


def test_contract() -> None:
    check_stage(Substring())


@pytest.mark.parametrize("min_bytes", [50, 200, 500])
def test_planted_passages_stay_once(dedup, min_bytes: int) -> None:
    rows, planted = corpus()
    before = {r["id"]: r["text"] for r in rows}
    got = dedup(Substring(min_bytes=min_bytes), spread(rows, 3, seed=1))
    after = texts(got)
    cut = check_cuts(before, after, evidence_of(dedup.last))
    assert cut == sum(len((before[i] or "").encode()) - len((after[i] or "").encode()) for i in before)
    used = [p for p in planted if any(p in (t or "") for t in before.values())]
    for passage in used:
        copies = sum((t or "").count(passage) for t in after.values())
        if len(passage.encode()) >= min_bytes:
            # none is left whole where a part of it has a better-ranked place
            assert copies <= 1, (len(passage.encode()), passage[:30])
    assert after["null"] is None
    assert len(after["same"]) < 3 * min_bytes
    assert len(after["period"]) + len(after["period2"]) < 2_000


def test_short_repeats_stay(dedup) -> None:
    rng = random.Random(3)
    passage = noise(rng, 40)
    rows = [{"id": str(i), "text": f"{i}{noise(rng, 300)}{passage}{i}{noise(rng, 300)}"} for i in range(30)]
    before = {r["id"]: r["text"] for r in rows}
    assert len(passage.encode()) < 200
    assert texts(dedup(Substring(), [table(rows)])) == before


def test_shards_and_memory_change_nothing(dedup, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = corpus()
    stage = Substring(min_bytes=100)
    want = texts(dedup(stage, [table(rows)]))
    proof = sorted(evidence_of(dedup.last), key=repr)
    assert texts(dedup(stage, spread(rows, 12, seed=2), batch_rows=3)) == want
    assert sorted(evidence_of(dedup.last), key=repr) == proof
    monkeypatch.setattr(_outbox, "_FLUSH_BYTES", 3_000)
    monkeypatch.setattr(_substrings, "_SLICE_RECORDS", 5)
    monkeypatch.setattr(_substrings, "_TASK_RECORDS", 500)
    assert texts(dedup(stage, spread(rows, 5, seed=3), batch_rows=7)) == want
    assert sorted(evidence_of(dedup.last), key=repr) == proof
    assert len(dedup.last.committed["matches"]) > 3


def test_a_repeat_of_width_and_window_shares_a_seed() -> None:
    rng = random.Random(4)
    for _ in range(200):
        shared = noise(rng, 400).encode()[:200]
        a, b = (noise(rng, rng.randint(0, 200)).encode() for _ in range(2))
        one, two = a + shared + noise(rng, 50).encode(), b + shared + noise(rng, 70).encode()
        offsets, data, valid = text_buffers(pa.array([one, two], pa.large_binary()))
        hashes, documents, at, _ = seeds(data, offsets, valid, 32, 169)
        relative = at - np.where(documents == 0, len(a), len(b))
        inside = (relative >= 0) & (relative <= 168)
        assert set(hashes[inside & (documents == 0)]) & set(hashes[inside & (documents == 1)])


def test_every_byte_is_of_one_span_and_protected_ones_of_none() -> None:
    rng = random.Random(3)
    for _ in range(2_000):
        spans = []
        for _ in range(rng.randrange(8)):
            start = rng.randrange(30)
            end = start + rng.randrange(1, 12)
            spans.append(Span(start, end, (0, rng.randrange(3)), rng.choice("abc"), 0, rng.randrange(20)))
        kept = [(a, a + rng.randrange(1, 9)) for a in (rng.randrange(40) for _ in range(rng.randrange(5)))]
        best = {}
        for s in sorted(spans, key=lambda s: (s.rank, s.source, s.at, s.start)):
            for byte in range(s.start, s.end):
                best.setdefault(byte, (s.source, s.at + byte - s.start))
        cut = chosen(spans)
        assert [(b, (s.source, s.at + b - s.start)) for s in cut for b in range(s.start, s.end)] == sorted(best.items())
        left = [b for s in without(cut, kept) for b in range(s.start, s.end)]
        assert left == [b for b in sorted(best) if not any(a <= b < e for a, e in kept)]


def test_a_page_made_of_pieces_of_others_takes_no_quadratic_time() -> None:
    spans = [Span(i * 300, i * 300 + 350, (0, i % 10), f"d{i}", 0, i) for i in range(20_000)]
    began = time.process_time()
    cut = chosen(spans)
    assert without(cut, [(s.start, s.end) for s in cut[1::2]]) == cut[::2]
    assert time.process_time() - began < 5.0  # 0.2 s; minutes, when each was held against all others


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ConfigError, match="min_bytes"):
        Substring(min_bytes=3)


@pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="needs $CORPUSFLOW_TEST_DATA")
@pytest.mark.parametrize("name", ["zh_classical-modern", "en_100novels", "tldr_pages", "zh_poetry"])
def test_on_real_text(dedup, name: str) -> None:
    import gzip
    import json

    path = Path(os.environ["CORPUSFLOW_TEST_DATA"]) / "text" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [{"id": f"{name}/{i}", "text": json.loads(line)["text"]} for i, line in enumerate(lines)][:4_000]
    before = {r["id"]: r["text"] for r in rows}
    after = texts(dedup(Substring(min_bytes=150), spread(rows, 3, seed=1)))
    check_cuts(before, after, evidence_of(dedup.last))
