"""dedup.minhash against brute-force Jaccard on planted duplicates, English and Chinese."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pyarrow as pa
import pytest

from corpusflow import ConfigError, check_stage
from stages.dedup import _bands, _clusters, _components, _large, _shards, _stars
from stages.dedup.minhash import MinHash, MinHashSignature

_WORDS = """river gate tide stone farmer morning letter market winter bridge garden window story water answer sailor village
engine paper forest silver captain lantern harbour meadow needle copper orchard weather thunder blanket"""
ENGLISH = _WORDS.split()
CHINESE = "河水上涨清晨低处道路淹没村民羊群山坡学校停课磨坊主说比这更大的见过风雨春秋石桥灯火市集书信铜针果园帆船远方"


def words_of(text: str) -> list[str]:
    return text.split() if " " in text else list(text)


def jaccard(a: str, b: str, n: int = 5) -> float:
    sets = []
    for text in (a, b):
        w = words_of(text)
        sets.append({tuple(w[i : i + n]) for i in range(max(1, len(w) - n + 1))})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def make_text(rng: random.Random, chinese: bool, n: int) -> list[str]:
    return [rng.choice(CHINESE) if chinese else rng.choice(ENGLISH) + str(rng.randrange(300)) for _ in range(n)]


def join(units: list[str], chinese: bool) -> str:
    return "".join(units) if chinese else " ".join(units)


def planted(seed: int = 1, families: int = 60) -> list[dict]:
    """Families of an original and: a copy, versions with 1-30 % of the words edited, one with a prefix, one with a suffix,
    its first half joined to another's second half, and a chain a ~ b ~ c with a unlike c."""
    rng = random.Random(seed)
    rows: list[dict] = []

    def add(family: str, units: list[str], chinese: bool) -> None:
        rows.append(
            {
                "id": f"web/{len(rows)}",
                "family": family,
                "text": join(units, chinese),
                "url": f"http://e.org/{len(rows)}",
            }
        )

    previous: dict[bool, list[str]] = {}
    for f in range(families):
        chinese = f % 2 == 1
        base = make_text(rng, chinese, rng.randint(150, 400))
        add(f"{f}", base, chinese)
        add(f"{f}", base, chinese)
        for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3):
            edited = [make_text(rng, chinese, 1)[0] if rng.random() < share else u for u in base]
            add(f"{f}", edited, chinese)
        add(f"{f}", make_text(rng, chinese, 20) + base, chinese)
        add(f"{f}", base + make_text(rng, chinese, 20), chinese)
        if chinese in previous:
            other = previous[chinese]
            add(f"{f}+", base[: len(base) // 2] + other[len(other) // 2 :], chinese)
        previous[chinese] = base
        a = make_text(rng, chinese, 300)
        b = a[45:] + make_text(rng, chinese, 45)
        c = b[45:] + make_text(rng, chinese, 45)
        for units in (a, b, c):
            add(f"chain {f}", units, chinese)
    rng.shuffle(rows)
    return rows


def table(rows: list[dict]) -> pa.Table:
    kinds = {"id": pa.string(), "text": pa.large_string(), "url": pa.string(), "source": pa.string()}
    return pa.table({c: pa.array([r.get(c) for r in rows], t) for c, t in kinds.items()})


def spread(rows: list[dict], shards: int, seed: int) -> dict[int, pa.Table]:
    rng = random.Random(seed)
    places = [rng.randrange(shards) for _ in rows]
    return {3 * s + 1: table([r for r, p in zip(rows, places, strict=True) if p == s]) for s in range(shards)}


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return planted()


def test_contract() -> None:
    check_stage(MinHash())
    check_stage(
        MinHash(keep=("id",), unit="characters", shingle=24, bands=56, rows=2, verify="signature", within="source")
    )


@pytest.mark.parametrize("verify", ["exact", "signature"])
def test_planted_duplicates(dedup, rows: list[dict], verify: str) -> None:
    got = dedup(MinHash(verify=verify), spread(rows, 3, seed=1))
    by_id = {r["id"]: r for r in rows}
    out = {r["id"]: r for r in got.select([c for c in got.column_names if "signature" not in c]).to_pylist()}
    kept = [by_id[i] for i, r in out.items() if r["kept"]]
    removed = [(by_id[i], by_id[r["dedup.minhash.twin"]], r) for i, r in out.items() if not r["kept"]]
    assert len(removed) > 300
    for row, twin, columns in removed:
        true = jaccard(row["text"], twin["text"])
        assert out[twin["id"]]["kept"]
        if verify == "exact":
            assert true >= 0.7
            assert columns["dedup.minhash.similarity"] == pytest.approx(true, abs=1e-6)
        else:
            assert true >= 0.7 - 0.13
    # what stays has, among what stays, no partner that the bands must have found
    missed = pairs = 0
    by_family: dict[str, list[dict]] = {}
    for r in rows:
        by_family.setdefault(r["family"], []).append(r)
    keeps = {r["id"] for r in kept}
    for family in by_family.values():
        for a, b in itertools.combinations(family, 2):
            if jaccard(a["text"], b["text"]) >= 0.85:
                pairs += 1
                missed += a["id"] in keeps and b["id"] in keeps
    assert pairs > 300
    assert missed / pairs <= 0.05


def test_chains_are_not_removed_transitively(dedup) -> None:
    rng = random.Random(5)
    rows = []
    for k in range(40):
        a = make_text(rng, False, 400)
        b = a[50:] + make_text(rng, False, 50)
        c = b[50:] + make_text(rng, False, 50)
        for name, units in zip("abc", (a, b, c), strict=True):
            rows.append({"id": f"{k}{name}", "text": join(units, False), "source": name})
    assert jaccard(rows[0]["text"], rows[1]["text"]) > 0.75
    assert jaccard(rows[0]["text"], rows[2]["text"]) < 0.65
    got = dedup(MinHash(bands=30, rows=5, keep=("source",)), [table(rows)])
    twins = dict(zip(got["id"].to_pylist(), got["dedup.minhash.twin"].to_pylist(), strict=True))
    assert all(twins[f"{k}a"] is None and twins[f"{k}c"] is None for k in range(40))
    assert sum(twins[f"{k}b"] == f"{k}a" for k in range(40)) >= 39


def columns_of(got: pa.Table) -> list[dict]:
    names = ["id", "kept", *(c for c in got.column_names if c.startswith("dedup."))]
    return sorted(got.select(names).to_pylist(), key=lambda r: r["id"])


def test_shards_order_and_batches_change_nothing(dedup, rows: list[dict], monkeypatch: pytest.MonkeyPatch) -> None:
    stage = MinHash()
    expected = columns_of(dedup(stage, [table(rows)]))
    assert columns_of(dedup(stage, spread(rows, 7, seed=2), batch_rows=17)) == expected
    shuffled = random.Random(3).sample(rows, len(rows))
    assert columns_of(dedup(stage, spread(shuffled, 150, seed=4))) == expected
    # many tasks per band, many slices, hot buckets
    monkeypatch.setattr(_bands, "_TASK_RECORDS", 200)
    monkeypatch.setattr(_bands, "_SLICE_RECORDS", 8)
    monkeypatch.setattr(_bands, "_FLUSH_EDGES", 16)
    monkeypatch.setattr(_clusters, "_TASK_BYTES", 1 << 19)
    monkeypatch.setattr(_clusters, "_HELD_BYTES", 1 << 19)
    monkeypatch.setattr(_clusters, "_READ_TASK_BYTES", 1 << 19)
    monkeypatch.setattr(_components, "_BUCKET_BYTES", 1 << 17)
    monkeypatch.setattr(_clusters, "_SLICE_BYTES", 1 << 16)
    assert columns_of(dedup(stage, spread(shuffled, 5, seed=5))) == expected
    assert len(dedup.last.committed["edges"]) == 14 * 5
    # texts carried along with members
    monkeypatch.setattr(_clusters, "_READ_BYTES", 0)
    assert columns_of(dedup(stage, spread(shuffled, 5, seed=5))) == expected
    # components over files
    monkeypatch.setattr(_stars, "_TASK_RECORDS", 500)
    assert columns_of(dedup(MinHash(components="files"), spread(shuffled, 5, seed=5))) == expected
    assert len(dedup.last.committed["stars_01_large"]) > 3
    assert len(dedup.last.committed["elect"]) >= 3


def test_evidence_has_a_row_per_removal(dedup, rows: list[dict]) -> None:
    got = dedup(MinHash(), spread(rows, 3, seed=1))
    parts = [p for p in dedup.last.parts("elect") if p.name == "evidence.parquet"]
    evidence = pa.concat_tables([dedup.last.read_parquet(p) for p in parts]).to_pylist()
    removed = {r["id"]: r for r in columns_of(got) if not r["kept"]}
    assert {e["removed_id"] for e in evidence} == set(removed)
    assert len(evidence) == len(removed)
    for e in evidence:
        row = removed[e["removed_id"]]
        assert e["kept_id"] == row["dedup.minhash.twin"]
        assert e["similarity"] == row["dedup.minhash.similarity"]
        assert e["removed_url"] == "http://e.org/" + e["removed_id"].removeprefix("web/")
        assert e["kept_url"] == "http://e.org/" + e["kept_id"].removeprefix("web/")


def summary_of(run) -> tuple[dict, list[dict]]:
    parts = {p.name: p for p in run.parts("summary")}
    with run.open(parts["summary.json"]) as stream:
        clusters, shares = (run.read_parquet(parts[f"{n}.parquet"]).to_pylist() for n in ("clusters", "shares"))
        return json.load(stream) | {"shares": shares}, clusters


def test_summary_tells_of_clusters_and_similarity(dedup, rows: list[dict]) -> None:
    got = columns_of(dedup(MinHash(), spread(rows, 4, seed=9)))
    summary, largest = summary_of(dedup.last)
    members: dict[int, list[dict]] = {}
    for r in got:
        if r["dedup.minhash.cluster"] is not None:
            members.setdefault(r["dedup.minhash.cluster"], []).append(r)
    removed = [r["dedup.minhash.similarity"] for r in got if not r["kept"]]
    assert summary["documents"] == len(rows)
    assert summary["clusters"] == len(members) == sum(summary["clusters_by_size"].values())
    assert summary["removed"] == len(removed) == sum(summary["removed_by_similarity"].values())
    assert summary["removed_by_similarity"]["1.00" if "1.00" in summary["removed_by_similarity"] else "0.95"] > 0
    shares = {(s["by"], s["value"]): (s["documents"], s["removed"]) for s in summary["shares"]}
    assert shares == {("source", None): (len(rows), len(removed)), ("host", "e.org"): (len(rows), len(removed))}
    assert summary["found_by_bands"]["0.80"] == pytest.approx(0.9235, abs=1e-3)
    order = sorted(members.items(), key=lambda m: (-len(m[1]), m[0]))
    assert [c["cluster"] for c in largest] == [name for name, _ in order[:50]]
    texts = {r["id"]: r["text"] for r in rows}
    for c in largest:
        mine = members[c["cluster"]]
        gone = [m["dedup.minhash.similarity"] for m in mine if not m["kept"]]
        assert (c["documents"], c["kept"]) == (len(mine), len(mine) - len(gone))
        assert c["least_similarity"] == min(gone)
        assert c["most_similarity"] == max(gone)
        assert {c["best_id"], *c["other_ids"]} <= {m["id"] for m in mine}
        assert c["best_text"] == texts[c["best_id"]][:300]


def test_each_cluster_keeps_one_and_knows_its_size(dedup, rows: list[dict]) -> None:
    clusters: dict[int, list[dict]] = {}
    for r in columns_of(dedup(MinHash(), spread(rows, 4, seed=9))):
        if r["dedup.minhash.cluster"] is not None:
            clusters.setdefault(r["dedup.minhash.cluster"], []).append(r)
        else:
            assert r["kept"]
            assert r["dedup.minhash.cluster_size"] == 1
    assert len(clusters) > 50
    for members in clusters.values():
        assert any(m["kept"] for m in members)
        assert {m["dedup.minhash.cluster_size"] for m in members} == {len(members)}


def test_keep_policy_decides(dedup) -> None:
    rng = random.Random(2)
    base = make_text(rng, False, 200)
    rows = [
        {"id": "long", "text": join([*base, "tail"], False), "source": "forum"},
        {"id": "short", "text": join(base, False), "source": "wiki"},
    ]
    assert columns_of(dedup(MinHash(), [table(rows)]))[1]["dedup.minhash.twin"] == "long"
    got = columns_of(dedup(MinHash(keep=("source_rank", "id"), sources=("wiki",)), [table(rows)]))
    assert got[0]["dedup.minhash.twin"] == "short"
    by_epoch = dedup(MinHash(), [table(rows[:1]), table(rows[1:])], epochs={0: 1, 1: 0})
    assert columns_of(by_epoch)[0]["dedup.minhash.twin"] == "short"


def test_short_blank_and_null_texts_never_collapse(dedup) -> None:
    texts = [
        None,
        None,
        "",
        "",
        " ",
        "...",
        "!!!",
        "a b",
        "a b.",
        "A  B",
        "a c",
        "b a",
        "a",
        "你好",
        "你好。",
        "您好",
        "a b c d",
    ]
    rows = [{"id": str(i), "text": t} for i, t in enumerate(texts)]
    got = dedup(MinHash(keep=("id",)), [table(rows)])
    groups = {}
    for i, twin in zip(got["id"].to_pylist(), got["dedup.minhash.twin"].to_pylist(), strict=True):
        groups.setdefault(twin or i, set()).add(texts[int(i)])
    assert sorted(map(sorted, (g for g in groups.values() if len(g) > 1))) == [
        ["A  B", "a b", "a b."],
        ["你好", "你好。"],
    ]
    assert sum(got["kept"].to_pylist()) == len(texts) - 3
    assert got["dedup.minhash.signature"].is_null().to_pylist() == [True] * 7 + [False] * 10


def test_shares_are_by_source_language_and_host(dedup) -> None:
    base = join(make_text(random.Random(1), True, 200), True)
    rows = [
        {"id": str(i), "text": base if i % 4 == 0 else f"{i} {join(make_text(random.Random(i), False, 60), False)}",
         "source": "ab"[i % 2], "url": f"http://h{i % 3}.org/{i}"}
        for i in range(24)
    ]  # fmt: skip
    full = table(rows).append_column("language.code", pa.array(["zh" if i % 4 == 0 else "en" for i in range(24)]))
    dedup(MinHash(), [full.slice(0, 10), full.slice(10)])
    shares = {(s["by"], s["value"]): (s["documents"], s["removed"]) for s in summary_of(dedup.last)[0]["shares"]}
    assert shares[("source", "a")] == (12, 5)
    assert shares[("source", "b")] == (12, 0)
    assert shares[("language", "zh")] == (6, 5)
    assert shares[("language", "en")] == (18, 0)
    assert sum(n for (by, _), (_, n) in shares.items() if by == "host") == 5


def test_a_language_label_plays_no_part_and_within_does(dedup) -> None:
    base = join(make_text(random.Random(1), True, 200), True)
    rows = [{"id": str(i), "text": base, "source": s} for i, s in enumerate(["a", "b", "a", None])]
    assert dedup(MinHash(), [table(rows)])["kept"].to_pylist().count(True) == 1
    assert dedup(MinHash(within="source"), [table(rows)])["kept"].to_pylist().count(True) == 3


def test_limit_of_representatives_keeps_and_counts(dedup) -> None:
    rng = random.Random(4)
    shared = make_text(rng, False, 100)
    rows = [{"id": str(i), "text": join(shared + make_text(rng, False, 60), False)} for i in range(30)]
    got = dedup(MinHash(bands=50, rows=3, min_similarity=0.9, max_representatives=8), [table(rows)])
    assert all(got["kept"].to_pylist())
    assert dedup.last.counters("elect")["kept_beyond_limit"] == 22


@pytest.mark.parametrize("representatives", [256, 8, 1])
@pytest.mark.parametrize(("verify", "carried"), [("exact", True), ("exact", False), ("signature", False)])
def test_a_cluster_larger_than_memory_is_streamed(
    dedup, monkeypatch: pytest.MonkeyPatch, verify: str, carried: bool, representatives: int
) -> None:
    rng = random.Random(6)
    template = make_text(rng, False, 100)
    rows = []
    for group in range(25):
        body = make_text(rng, False, 80)
        for _ in range(rng.randint(1, 25)):
            edited = [make_text(rng, False, 1)[0] if rng.random() < 0.01 else u for u in template + body]
            rows.append({"id": f"{group}/{len(rows)}", "text": join(edited, False)})
    rows += [{"id": f"x/{i}", "text": join(make_text(rng, False, 50) * (1 + i % 2), False)} for i in range(40)]
    stage = MinHash(bands=56, rows=2, min_similarity=0.8, verify=verify, max_representatives=representatives)
    expected = columns_of(dedup(stage, [table(rows)]))
    counted = dedup.last.counters("elect")
    told = summary_of(dedup.last)
    assert max(r["dedup.minhash.cluster_size"] for r in expected) > 250
    called = []
    hold = _large.hold
    monkeypatch.setattr(_large, "hold", lambda *a: (called.append(1), hold(*a)))
    monkeypatch.setattr(_clusters, "_SLICE_BYTES", 1 << 15)
    monkeypatch.setattr(_clusters, "_HELD_BYTES", 1 << 14)
    monkeypatch.setattr(_clusters, "_READ_TASK_BYTES", 1 << 13)
    monkeypatch.setattr(_components, "_BUCKET_BYTES", 1 << 12)
    monkeypatch.setattr(_clusters, "_READ_BYTES", 0 if carried else 1 << 40)
    monkeypatch.setattr(_components, "_FLUSH_BYTES", 1 << 15)
    assert columns_of(dedup(stage, spread(rows, 6, seed=1), batch_rows=7)) == expected
    assert dedup.last.counters("elect") == counted
    assert summary_of(dedup.last) == told
    assert told[0]["warnings"]
    assert called
    assert (counted["kept_beyond_limit"] > 0) == (representatives < 256)


def test_no_files_per_pair_of_tasks(dedup, rows: list[dict]) -> None:
    dedup(MinHash(), spread(rows, 20, seed=1))
    assert [len(dedup.last.parts(p)) for p in ("bands", "edges", "components", "elect")] == [20, 1, 1, 3]
    assert _shards.group_size(dedup.last) == 1


def signature_of(text: str, **parameters) -> list[int]:
    batch = pa.record_batch([pa.array([text], pa.large_string())], names=["text"])
    kind = "<u4" if parameters.get("bits") == 32 else "<u2"
    return np.frombuffer(MinHashSignature(**parameters).score(batch).column(0)[0].as_py(), kind).tolist()


def test_golden_signatures() -> None:
    # a change of these is a change of `version`
    assert signature_of("The tide gate rose; the river, too.", bands=1, rows=4) == [24081, 43811, 35657, 25235]
    assert signature_of("河水上涨，道路淹没", bands=1, rows=4) == [20840, 25014, 11424, 1360]


@pytest.mark.parametrize(
    "wrong",
    [
        {"bands": 0, "rows": 8},
        {"bands": 100, "rows": 100},
        {"bands": 3},
        {"target": 0.8, "bands": 2, "rows": 8},
        {"permutations": 99},
        {"target": 1.0},
        {"rows": 2, "bands": 50, "bits": 16},
        {"shingle": 0},
        {"min_similarity": 0.0},
        {"min_similarity": 1.5},
        {"max_representatives": 0},
        {"keep": ("length upwards",)},
    ],
)
def test_wrong_parameters_are_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError):
        MinHash(**wrong)
