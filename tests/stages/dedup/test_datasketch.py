"""Signatures, candidates and band settings against datasketch, which is the oracle."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from datasketch import LeanMinHash, MinHash, MinHashLSH
from datasketch.lsh import _optimal_param

import corpusflow
from stages.dedup._settings import PRESETS, found_at, optimal_bands
from stages.dedup.minhash import MinHash as MinHashStage
from stages.dedup.minhash import MinHashSignature
from stages.kernels.minhash import band_keys
from stages.kernels.shingle_text import as_datasketch, hash_function, shingles, units
from stages.kernels.shingles import CHARACTERS, DIGITS_ALIKE

SCRIPTS = [
    "abcdefghijklmnopqrstuvwxyz ABC  ,.'\n\t0123456789",
    "éàüßñ ÇÖŁŞİı ǅ ﬁ e\u0301",
    "河水上涨清晨。，、《》\u3000１２３",
    "かなカナ々ーｶﾅ",
    "กขคงจฉ เแโใไ ่้๊๋ ิีุู",
    "مرحبا بالعالم ٠١٢٣ شُكْرًا",
    "한국어 문장",
    "🙂👩‍👩‍👧\u200b\u200d\ufeff\u00ad\x00\x1f",
]


def texts(n: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        alphabet = "".join(rng.sample(SCRIPTS, rng.randint(1, 3)))
        out.append("".join(rng.choices(alphabet, k=rng.choice([0, 1, 2, 5, 9, 30, 120]))))
    return out


def minima_of(values: list[str], **parameters) -> list[np.ndarray | None]:
    batch = pa.record_batch([pa.array(values, pa.large_string())], names=["text"])
    column = MinHashSignature(bits=32, **parameters).score(batch).column(0)
    return [None if v is None else np.frombuffer(v, "<u4") for v in column.to_pylist()]


MODES = [
    ("words", False, 5),
    ("words", True, 3),
    ("words", False, 1),
    ("characters", False, 5),
    ("characters", True, 24),
]


@pytest.mark.parametrize(("unit", "digits", "n"), MODES)
def test_native_signatures_are_datasketch_with_our_hash(unit: str, digits: bool, n: int) -> None:
    mode = (CHARACTERS if unit == "characters" else 0) | (DIGITS_ALIKE if digits else 0)
    values = [*texts(700), "tide " * 5_000 + " ".join(map(str, range(9_000)))]
    got = minima_of(values, bands=4, rows=8, shingle=n, unit=unit, digits_alike=digits, hash_seed=3)
    permutations = MinHash(num_perm=32, seed=3).permutations
    for text, minima in zip(values, got, strict=True):
        found = shingles(text, n, mode)
        assert (minima is None) == (not found)
        if minima is not None:
            oracle = MinHash(
                seed=3, hashfunc=hash_function(n, mode), permutations=permutations, scheme="affine32", num_perm=32
            )
            oracle.update_batch([s.encode() for s in found])
            assert minima.tolist() == oracle.hashvalues.tolist(), text


@pytest.mark.parametrize("family", ["datasketch", "datasketch_legacy"])
def test_compatible_families_are_datasketch_by_default(family: str) -> None:
    values = texts(10_000 if family == "datasketch" else 1_500, seed=2)
    got = minima_of(values, bands=4, rows=8, family=family, hash_seed=7)
    scheme = "legacy" if family == "datasketch_legacy" else "affine32"
    permutations = MinHash(num_perm=32, seed=7, scheme=scheme).permutations
    for text, minima in zip(values, got, strict=True):
        found = shingles(text, 5)
        assert (minima is None) == (not found)
        if minima is not None:
            oracle = MinHash(num_perm=32, seed=7, scheme=scheme, permutations=permutations)
            oracle.update_batch([s.encode() for s in found])
            assert minima.tolist() == oracle.hashvalues.tolist(), text


def test_units_are_by_script() -> None:
    assert units("Don't panic: the ÉCOLE re-opens in 2024!") == [
        "don",
        "t",
        "panic",
        "the",
        "école",
        "re",
        "opens",
        "in",
        "2024",
    ]
    assert units("我们go学校。第2天") == ["我", "们", "go", "学", "校", "第", "2", "天"]
    assert units("カナkana かな") == ["カ", "ナ", "kana", "か", "な"]
    assert units("น้ำ ที่นี่") == ["น้", "ำ", "ที่", "นี่"]
    assert units("e\u0301cole") == ["e\u0301cole"]
    assert units("A  1\n\tb ", CHARACTERS | DIGITS_ALIKE) == ["a", " ", "0", " ", "b"]
    assert units(" … — ") == []


def test_stored_signatures_open_in_datasketch() -> None:
    base = " ".join(f"word{i}" for i in range(300))
    near = base.replace("word150", "changed")
    batch = pa.record_batch([pa.array([base, near, None], pa.large_string())], names=["text"])
    column = MinHashSignature(bits=32, bands=16, rows=8).score(batch).column(0)
    stored = as_datasketch(column, 128)
    assert isinstance(stored[0], LeanMinHash)
    assert stored[2] is None
    index = MinHashLSH(threshold=0.8, num_perm=128)
    index.insert("base", stored[0])
    assert index.query(stored[1]) == ["base"]
    query = MinHash(num_perm=128, hashfunc=hash_function(5))
    query.update_batch([s.encode() for s in shingles(near, 5)])
    assert query.jaccard(as_datasketch(column, 128, lean=False)[1]) == 1.0
    with pytest.raises(ValueError, match="bits: 32"):
        as_datasketch(MinHashSignature(bits=16, bands=16, rows=8).score(batch).column(0), 128)


def test_candidates_are_those_of_minhash_lsh() -> None:
    rng = random.Random(9)
    values = []
    for _ in range(150):
        words = [f"w{rng.randrange(5_000)}" for _ in range(80)]
        for share in (0, 0.01, 0.03, 0.1):
            values.append(" ".join(w if rng.random() >= share else "x" for w in words))
    got = [m for m in minima_of(values, bands=14, rows=8) if m is not None]
    lsh = MinHashLSH(num_perm=112, params=(14, 8))
    for i, minima in enumerate(got):
        lsh.insert(i, LeanMinHash(seed=1, hashvalues=minima, scheme="affine32"))
    expected = set()
    for i, minima in enumerate(got):
        found = lsh.query(LeanMinHash(seed=1, hashvalues=minima, scheme="affine32"))
        expected |= {(min(i, j), max(i, j)) for j in found if i != j}
    for kind in (np.uint32, np.uint16):
        pairs = set()
        stacked = np.stack(got).astype(kind)
        for band in range(14):
            keys = band_keys(stacked, band, 8)
            for key in np.unique(keys):
                members = np.flatnonzero(keys == key).tolist()
                pairs |= {(a, b) for a in members for b in members if a < b}
        assert pairs == expected
    assert len(expected) > 100


@pytest.mark.parametrize("permutations", [16, 112, 128])
def test_bands_are_chosen_as_datasketch_does(permutations: int) -> None:
    for similarity in (0.5, 0.7, 0.8, 0.9):
        assert optimal_bands(similarity, permutations) == _optimal_param(similarity, permutations, 0.5, 0.5)
    stage = MinHashStage(target=0.8, permutations=permutations)
    assert (stage.expand()[0].bands, stage.expand()[0].rows) == optimal_bands(0.8, permutations)


def test_presets_and_what_overrides_them() -> None:
    signature, exchange, _ = MinHashStage(preset="nemo").expand()
    assert (signature.bands, signature.rows, signature.shingle, signature.unit) == (20, 13, 24, "characters")
    assert exchange.min_similarity == 0.8
    signature, exchange, _ = MinHashStage(preset="nemo", shingle=12, min_similarity=0.9).expand()
    assert (signature.shingle, exchange.shingle, exchange.min_similarity) == (12, 12, 0.9)
    assert found_at(0.8, 14, 8) == pytest.approx(0.924, abs=5e-4)  # FineWeb's stated figure
    for name, preset in PRESETS.items():
        assert found_at(preset.min_similarity, preset.bands, preset.rows) > 0.35, name


def test_signatures_of_a_run_can_be_queried(tmp_path: Path) -> None:
    """What README.md shows."""
    words = [f"word{i}" for i in range(300)]
    rows = [" ".join(words), " ".join(reversed(words)), "one more document of its own, with enough words in it"]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in rows), encoding="utf-8")
    corpusflow.run(
        {
            "name": "signed",
            "input": [{"ingest.jsonl": {"paths": [str(tmp_path / "in.jsonl")]}}],
            "stages": [{"dedup.minhash": {"bits": 32}}],
            "output": [],
            "run": {"dir": str(tmp_path / "run"), "executor": "inline"},
        }
    )
    column = "dedup.minhash.signature"
    table = corpusflow.open_run(str(tmp_path / "run")).stage("dedup.minhash").table(["id", column])
    index = MinHashLSH(threshold=0.7, num_perm=112)
    for key, signature in zip(table["id"].to_pylist(), as_datasketch(table[column], num_perm=112), strict=True):
        index.insert(key, signature)
    query = MinHash(num_perm=112, hashfunc=hash_function(5))
    query.update_batch([s.encode() for s in shingles(" ".join([*words, "and", "more"]), 5)])
    assert index.query(query) == [table["id"][0].as_py()]
