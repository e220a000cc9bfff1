"""dedup.exact against GROUP BY in Python: who stays, who is twin of whom, whatever the shards are."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
import xxhash

from corpusflow import ConfigError, check_stage
from stages.dedup import _keyed, _runs, _shards, _verdicts
from stages.dedup.exact import Exact, ExactHash

COLUMNS = {"id": pa.string(), "text": pa.large_string(), "source": pa.string(), "date": pa.string()}


def documents(rows: list[dict]) -> pa.Table:
    return pa.table({c: pa.array([r.get(c) for r in rows], t) for c, t in COLUMNS.items()})


def corpus(n: int = 3_000, seed: int = 1) -> list[dict]:
    rng = random.Random(seed)
    texts = [
        " ".join(rng.choices(["tide", "gate", "Mühle", "河水", "上涨", "stone"], k=rng.randint(1, 9)))
        for _ in range(n // 3)
    ]
    rows = [
        {"id": f"web/a#{i}", "text": rng.choice(texts), "source": rng.choice(["wiki", "web", "forum"]),
         "date": f"20{rng.randint(10, 25)}-0{rng.randint(1, 9)}-11"}
        for i in range(n)
    ]  # fmt: skip
    for i in range(0, n, 50):
        rows[i]["text"] = rng.choice([None, "", " \n", "\u3000"])
    return rows


def spread(rows: list[dict], shards: int, seed: int) -> dict[int, pa.Table]:
    rng = random.Random(seed)
    places = [rng.randrange(shards) for _ in rows]
    return {2 * s + 3: documents([r for r, p in zip(rows, places, strict=True) if p == s]) for s in range(shards)}


def expected_twins(rows: list[dict], rank) -> dict[str, str | None]:
    groups = defaultdict(list)
    for r in rows:
        folded = "".join((r["text"] or "").split()).lower()
        groups[folded or r["id"]].append(r)
    twins: dict[str, str | None] = {}
    for members in groups.values():
        best = min(members, key=rank)
        twins |= {r["id"]: None if r is best else best["id"] for r in members}
    return twins


def id_rank(r: dict) -> tuple[int, int]:
    content = xxhash.xxh3_64_intdigest((r["text"] or "").encode())
    return (content + 2**63) % 2**64, xxhash.xxh3_128_intdigest(r["id"].encode())


def test_contract() -> None:
    check_stage(Exact())
    check_stage(Exact(keep=("length desc", "id"), ignore_space=False, within="source"))


@pytest.mark.parametrize("shards", [1, 2, 5, 130])
def test_twins_are_those_of_group_by(dedup, shards: int) -> None:
    rows = corpus()
    got = dedup(Exact(), spread(rows, shards, seed=shards))
    twins = dict(zip(got["id"].to_pylist(), got["dedup.exact.twin"].to_pylist(), strict=True))
    assert twins == expected_twins(rows, id_rank)
    assert got["kept"].to_pylist() == [t is None for t in got["dedup.exact.twin"].to_pylist()]


def test_policy_decides_before_ids(dedup) -> None:
    rows = corpus()
    stage = Exact(keep=("source_rank", "date desc", "id"), sources=("wiki", "forum"))
    got = dedup(stage, spread(rows, 4, seed=3))

    def rank(r: dict) -> tuple:
        place = {"wiki": 0, "forum": 1}.get(r["source"], 2)
        return place, [-ord(c) for c in r["date"]], id_rank(r)

    assert dict(zip(got["id"].to_pylist(), got["dedup.exact.twin"].to_pylist(), strict=True)) == expected_twins(
        rows, rank
    )


def test_earlier_epochs_win_whatever_the_policy(dedup) -> None:
    rows = [{"id": f"web/{i}", "text": "same text", "date": f"20{i:02}"} for i in range(20)]
    shards = {i: documents([r]) for i, r in enumerate(rows)}
    got = dedup(Exact(keep=("date desc",)), shards, epochs={i: i // 7 for i in shards})
    assert got.filter(got["kept"])["id"].to_pylist() == ["web/6"]
    got = dedup(Exact(keep=("date desc",)), shards)
    assert got.filter(got["kept"])["id"].to_pylist() == ["web/19"]


def test_blank_and_null_texts_equal_nothing(dedup) -> None:
    rows = [
        {"id": f"web/{i}", "text": t}
        for i, t in enumerate([None, None, "", "", " ", " ", "\n\u3000" * 90, "\n\u3000" * 90])
    ]
    for ignore_space in (True, False):
        got = dedup(Exact(ignore_space=ignore_space), [documents(rows)])
        assert got["kept"].to_pylist() == [True] * 8
        assert got["dedup.exact.copies"].to_pylist() == [1] * 8


def test_copies_count_the_group(dedup) -> None:
    rows = [{"id": f"web/{i}", "text": t} for i, t in enumerate(["a", "b", "a", "A ", "c"])]
    got = dedup(Exact(), [documents(rows[:2]), documents([]), documents(rows[2:])])
    assert got["dedup.exact.copies"].to_pylist() == [3, 1, 3, 3, 1]


def test_within_compares_only_equals_of_a_column(dedup) -> None:
    rows = [{"id": f"web/{i}", "text": "same", "source": s} for i, s in enumerate(["a", "b", "a", None, None, "None"])]
    got = dedup(Exact(within="source"), [documents(rows)])
    kept = got.filter(got["kept"])
    assert Counter(kept["source"].to_pylist()) == Counter(["a", "b", None, "None"])


@pytest.mark.parametrize(
    ("a", "b", "ignore_case", "ignore_space", "same"),
    [
        ("River Rose", "river rose", True, True, True),
        ("River Rose", "river rose", False, True, False),
        ("ÉCOLE ΣΑΣ ДА Ა", "école σασ да ა", True, True, True),
        ("a b", "ab", True, True, True),
        ("a b", "a  b", True, False, False),
        ("你好\u3000世界", "你好世界", True, True, True),
        ("你好，世界", "你好世界", True, True, False),
        ("\u212a", "k", True, True, True),  # KELVIN SIGN
        ("\ua64a \ua722 가", "\ua64b \ua723 가", True, True, True),  # letters with case among ideographs and syllables
        ("\u023a", "\u2c65", True, True, False),  # lower case is longer in UTF-8
    ],
)
def test_what_counts_as_the_same_text(a: str, b: str, ignore_case: bool, ignore_space: bool, same: bool) -> None:
    score = ExactHash(ignore_case=ignore_case, ignore_space=ignore_space)
    hashes = score.score(pa.record_batch([pa.array([a, b], pa.large_string())], names=["text"])).column(0).to_pylist()
    assert (hashes[0] == hashes[1]) is same


def test_hash_is_xxh3_128_of_the_folded_text() -> None:
    batch = pa.record_batch([pa.array(["The Gate,\n 河水"], pa.large_string())], names=["text"])
    assert ExactHash().score(batch).column(0).to_pylist() == [xxhash.xxh3_128_digest("thegate,河水".encode())]


def test_a_key_larger_than_memory_is_streamed(dedup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_keyed, "_SLICE_RECORDS", 8)
    monkeypatch.setattr(_keyed, "_TASK_RECORDS", 100)
    monkeypatch.setattr(_verdicts, "_FLUSH_ROWS", 32)
    monkeypatch.setattr(_shards, "_ROWS", 1 << 22)
    rows = corpus(900)
    for r in rows[100:400]:
        r["text"] = "cookie banner"
    got = dedup(Exact(), spread(rows, 7, seed=3))
    assert dict(zip(got["id"].to_pylist(), got["dedup.exact.twin"].to_pylist(), strict=True)) == expected_twins(
        rows, id_rank
    )
    assert len(dedup.last.committed["groups"]) == 9
    assert len(dedup.last.parts("groups")) > 9


def test_no_files_per_pair_of_tasks(dedup) -> None:
    dedup(Exact(), spread(corpus(2_000), 40, seed=1))
    assert [len(dedup.last.parts(p)) for p in ("runs", "groups", "lists")] == [40, 1, 40]


def test_a_flipped_bit_is_found(dedup) -> None:
    dedup(Exact(), spread(corpus(300), 1, seed=1))
    part = dedup.last.parts("runs")[0]
    with open(part.path, "r+b") as f:
        f.seek(1000)
        byte = f.read(1)[0]
        f.seek(1000)
        f.write(bytes([byte ^ 4]))
    with _runs.Run(dedup.last, part) as run, pytest.raises(Exception, match="checksum"):
        run.records(0, 0, 16)


@pytest.mark.parametrize(
    "keep", [("length down",), ("id", "length"), ("id desc",), ("length", "length desc"), ("source_rank",), ("",)]
)
def test_wrong_policies_are_refused(keep: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="keep"):
        Exact(keep=keep)
