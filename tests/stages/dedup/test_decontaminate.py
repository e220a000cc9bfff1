"""dedup.decontaminate: every planted benchmark item is found, clean text is not, and spans are cut on character borders."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from corpusflow import ConfigError, check_stage
from stages.dedup._cutting import CutSpans
from stages.dedup.decontaminate import PREFIX, Decontaminate, Overlap
from stages.kernels.overlap import unit_ends

_WORDS = """which of these is the best reason for why water level in a lake rises when snow melts during spring and then falls
again before autumn because rivers carry it away to sea where ships sail between islands with cargo of grain iron wool"""
WORDS = _WORDS.split()
HAN = "下列哪一项最能说明春天雪融化时湖水位上升而秋天前又下降的原因是河流把水带到大海船只在岛屿之间运送粮食铁羊毛"


def question(rng: random.Random, n: int = 30) -> str:
    return " ".join(
        f"{rng.choice(WORDS)}{rng.randrange(50)}" if rng.random() < 0.5 else rng.choice(WORDS) for _ in range(n)
    )


def filler(rng: random.Random, n: int = 200) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(n))


@pytest.fixture(scope="module")
def items() -> list[dict]:
    rng = random.Random(1)
    rows = [{"id": f"q{i}", "question": question(rng, rng.choice([14, 20, 40])), "answer": "B"} for i in range(200)]
    rows += [{"id": f"z{i}", "question": "".join(rng.choices(HAN, k=25)), "answer": "乙"} for i in range(100)]
    rows += [{"id": f"s{i}", "question": question(rng, 9)} for i in range(20)]
    rows += [{"id": "tiny", "question": "What is two plus two?"}]
    return rows


@pytest.fixture(scope="module")
def benchmarks(items: list[dict], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("benchmarks")
    lines = [json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in items]
    (folder / "a.jsonl").write_bytes(b"".join(lines[:100]))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[100:150])))
    (folder / "c.jsonl.zst").write_bytes(zstandard.compress(b"".join(lines[150:200])))
    pq.write_table(pa.Table.from_pylist(items[200:]), folder / "d.parquet")
    return str(folder)


def two_words_changed(text: str) -> str:
    parts = text.split(" ")
    for i in (0, 1):  # 13 words in a row are left of 15 and more
        parts[i] = "changed"
    return " ".join(parts)


def variants(rng: random.Random, text: str) -> list[str]:
    out = [text, text.upper(), text.replace(" ", ",  "), "\n".join(text.split(" ")) + "!"]
    if len(text.split(" ")) >= 15:
        out.append(two_words_changed(text))
    if " " not in text:
        out.append("，".join(text))
    return [f"{filler(rng)}. {v}\n{filler(rng)}" for v in out]


def table(texts: list[str | None]) -> pa.Table:
    return pa.table(
        {"id": pa.array([f"web/{i}" for i in range(len(texts))]), "text": pa.array(texts, pa.large_string())}
    )


def scored(stage: Overlap, texts: list[str | None]) -> list[dict]:
    return stage.score(table(texts).select(["text"]).to_batches()[0]).to_pylist()


def test_contract(benchmarks: str) -> None:
    check_stage(Decontaminate(benchmarks=benchmarks))
    check_stage(Decontaminate(benchmarks=benchmarks, remove="spans"))


def test_every_planted_item_is_found_and_named(benchmarks: str, items: list[dict]) -> None:
    rng = random.Random(2)
    stage = Overlap(benchmarks=benchmarks)
    for item in items[:-1]:
        for row in scored(stage, variants(rng, item["question"])):
            assert row["dedup.decontaminate.hits"] > 0
            assert row["dedup.decontaminate.item"].partition("#")[2] == item["id"]
            assert 0 < row["dedup.decontaminate.item_hits"] <= row["dedup.decontaminate.item_ngrams"]


def test_whole_items_are_found_whole(benchmarks: str, items: list[dict]) -> None:
    (row,) = scored(Overlap(benchmarks=benchmarks, fields=("question",)), [items[0]["question"]])
    words = len(items[0]["question"].split())
    assert row["dedup.decontaminate.item_hits"] == row["dedup.decontaminate.item_ngrams"] == words - 12
    assert row["dedup.decontaminate.item"] == "a.jsonl#q0"


def test_clean_documents_are_not_touched(benchmarks: str) -> None:
    rng = random.Random(3)
    texts: list[str | None] = [filler(rng, 100) for _ in range(5_000)]
    texts += ["".join(rng.choices(HAN, k=150)) for _ in range(5_000)] + [None, "", "What is two plus two?"]
    rows = scored(Overlap(benchmarks=benchmarks), texts)
    assert sum(r["dedup.decontaminate.hits"] or 0 for r in rows) == 0
    assert Overlap(benchmarks=benchmarks).opened.too_short == 1


def test_ngrams_of_many_items_are_a_template(tmp_path: Path) -> None:
    rng = random.Random(4)
    template = question(rng, 20)
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"q": f"{template} {question(rng, 20)}"}) + "\n" for _ in range(30)))
    assert scored(Overlap(benchmarks=str(path)), [template])[0]["dedup.decontaminate.hits"] == 0
    assert scored(Overlap(benchmarks=str(path), max_items=30), [template])[0]["dedup.decontaminate.hits"] == 8


def test_documents_go_and_items_are_reported(dedup, benchmarks: str, items: list[dict]) -> None:
    rng = random.Random(5)
    texts = (
        [filler(rng) for _ in range(20)] + variants(rng, items[3]["question"]) + variants(rng, items[210]["question"])
    )
    got = dedup(Decontaminate(benchmarks=benchmarks), [table(texts[:22]), table(texts[22:])])
    assert got["kept"].to_pylist() == [True] * 20 + [False] * (len(texts) - 20)
    (part,) = dedup.last.parts("items")
    report = {r["item"]: r for r in dedup.last.read_parquet(part).to_pylist()}
    assert set(report) == {"a.jsonl#q3", "d.parquet#z10"}
    assert report["a.jsonl#q3"]["documents"] == len(variants(rng, items[3]["question"]))
    assert len(report["a.jsonl#q3"]["examples"]) <= 5
    found = got.filter(pa.compute.equal(got["dedup.decontaminate.item"], "d.parquet#z10"))
    assert set(found["dedup.decontaminate.documents"].to_pylist()) == {report["d.parquet#z10"]["documents"]}
    got = dedup(Decontaminate(benchmarks=benchmarks, max_share=0.5), [table([texts[0], texts[20]])])
    assert got["kept"].to_pylist() == [True, False]


@pytest.mark.parametrize("margin", [0, 7, 200])
def test_spans_go_and_the_rest_stays(benchmarks: str, items: list[dict], margin: int) -> None:
    rng = random.Random(6)
    chosen = [items[0]["question"], items[205]["question"], items[303]["question"]]
    before = [filler(rng, 80) + "。前面的文字 " for _ in chosen]
    after = [" 后面的文字。" + filler(rng, 80) for _ in chosen]
    texts = [b + q + a for b, q, a in zip(before, chosen, after, strict=True)] + ["clean", None]
    score = Overlap(benchmarks=benchmarks, spans=True, margin=margin)
    batch = table(texts).select(["text"]).to_batches()[0]
    spans = score.score(batch).column("dedup.decontaminate.spans")
    cut = CutSpans(prefix=PREFIX).transform(
        pa.record_batch([batch.column("text"), spans], names=["text", "dedup.decontaminate.spans"])
    )
    result = cut.column("text")
    result.validate(full=True)
    for text, b, q, a in zip(result.to_pylist(), before, chosen, after, strict=False):
        assert q not in text
        assert text.startswith(b[: len(b) - 12 - margin])
        assert text.endswith(a[12 + margin :])
        assert len(text.encode()) >= len((b + a).encode()) - 2 * margin - 16
    assert result.to_pylist()[3:] == ["clean", None]
    assert all(v == 0 for v in [r["dedup.decontaminate.hits"] or 0 for r in scored(score, result.to_pylist())])


@pytest.mark.parametrize(
    ("text", "ends"),
    [("ab中文 cd", [2, 5, 8, 11]), ("x中, y", [1, 4, 7]), ("aกิb", [1, 7, 8]), ("ก๊", [6]), ("a b", [2, 3])],
)
def test_units_end_where_the_next_begins(text: str, ends: list[int]) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    assert unit_ends(data, 0, len(data), 0).tolist() == ends


def test_unreadable_benchmarks_are_config_errors(tmp_path: Path) -> None:
    broken = tmp_path / "x.jsonl"
    broken.write_text("{not json}\n")
    with pytest.raises(ConfigError, match="cannot read benchmark"):
        Overlap(benchmarks=str(broken)).open()
    broken.write_text('{"q": 3}\n')
    with pytest.raises(ConfigError, match="no benchmark item"):
        Overlap(benchmarks=str(broken)).open()
    lines = [json.dumps({"q": " ".join(f"w{i}x{k}" for k in range(20))}) for i in range(2_000)]
    for name, pack in (("x.gz", gzip.compress), ("x.zst", zstandard.compress)):
        packed = pack("\n".join(lines).encode())
        (tmp_path / name).write_bytes(packed)
        assert len(Overlap(benchmarks=str(tmp_path / name)).open().names) == 2_000
        (tmp_path / name).write_bytes(packed[:-9])
        with pytest.raises(ConfigError, match=r"cannot read benchmark .*: cut_off"):
            Overlap(benchmarks=str(tmp_path / name)).open()
    with pytest.raises(ConfigError, match="min_ngram"):
        Decontaminate(benchmarks=str(broken), min_ngram=20)
