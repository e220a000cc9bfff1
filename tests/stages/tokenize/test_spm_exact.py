"""Ids of the kernels against the library's: many models, real text, random text, texts made to break a splitter."""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.kernels.token_memo import AGAIN, HITS, MISSES, RESETS
from stages.tokenize._spm_exact import disagreement, kernel_encoder, refusal
from stages.tokenize._spm_model import NORMAL, USER_DEFINED, load
from stages.tokenize.sentencepiece import SentencePiece, library

MODELS: dict[str, dict[str, object]] = {
    "identity": {},
    "nfkc": {"normalization_rule_name": "nfkc", "remove_extra_whitespaces": True},
    "nmt_nfkc_cf": {"normalization_rule_name": "nmt_nfkc_cf", "remove_extra_whitespaces": True},
    "unknowns": {"byte_fallback": False, "character_coverage": 0.98},
    "unknowns_nfkc": {
        "byte_fallback": False,
        "character_coverage": 0.98,
        "normalization_rule_name": "nmt_nfkc",
        "remove_extra_whitespaces": True,
    },
    "no_prefix": {"add_dummy_prefix": False, "normalization_rule_name": "nmt_nfkc"},
    "suffix": {"treat_whitespace_as_suffix": True, "remove_extra_whitespaces": True},
    "symbols": {
        "user_defined_symbols": ["<sep>", "①", "  ", "é", "▁▁", "ab", "abab", "夜河"],
        "normalization_rule_name": "nmt_nfkc",
        "remove_extra_whitespaces": True,
    },
    "symbols_identity": {"user_defined_symbols": ["\n", "\t", "the", "e r", "<0x4"]},
    "across_words": {"split_by_whitespace": False, "vocab_size": 900},
    "digits": {"split_digits": True, "split_by_unicode_script": False, "allow_whitespace_only_pieces": True},
    "no_space_piece": {
        "add_dummy_prefix": False,
        "text": "昨夜河水上涨清晨时低处的道路已被淹没\n" * 9,
        "vocab_size": 300,
    },
}
UNIGRAM: dict[str, dict[str, object]] = {
    f"unigram_{name}": {**options, "model_type": "unigram", "vocab_size": 560}
    for name, options in MODELS.items()
    if name not in ("across_words", "no_space_piece")
}
MODELS |= UNIGRAM
ALPHABET = [
    *"abcdefghtheriv  \t\n\r\u3000\u00a0",
    *"▁▁é\u0301e\u0301ﬁ①㍿Å한글ｶﾞﷺ汉字昨夜河水上涨\U0001f642\u200b\u200d\ufeff\x00\x01\x7f\x85가\U0010ffff\ud7ff\ue000",
    *(
        "<sep>",
        "  ",
        " ",
        "<s>",
        "</s>",
        "<unk>",
        "<0x41>",
        "the ",
        "abab",
        "昨夜河",
        " the",
        "▁the",
        "\U0001f469\u200d\U0001f467",
    ),
]


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, train_spm: Any) -> tuple[Any, Any]:
    """(kernels, library) on the same model."""
    path = train_spm(tmp_path_factory.mktemp("exact") / "m.model", **MODELS[request.param])
    model, _ = load(path)
    assert refusal(model) is None
    return kernel_encoder(model, memo_bits=12), library_of(path)


def library_of(path: str) -> Any:
    return library(sentencepiece.SentencePieceProcessor(model_file=path))


def assert_same(pair: tuple[Any, Any], texts: list[str]) -> None:
    column = pa.array(texts, pa.large_string())
    ours, theirs = (encoder.encode(column, None, None) for encoder in pair)
    if not all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True)):
        for i, text in enumerate(texts):
            a, b = (ids[ends[i] : ends[i + 1]].tolist() for ends, ids in (ours, theirs))
            assert a == b, repr(text[:200])


def test_random_strings(pair: tuple[Any, Any]) -> None:
    rng = random.Random(11)
    assert_same(pair, ["".join(rng.choices(ALPHABET, k=rng.randrange(60))) for _ in range(2_500)])
    # a table this small is emptied again and again meanwhile
    assert pair[0].memo.state[HITS] > pair[0].memo.state[MISSES] > 0


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(), max_size=5))
def test_any_text(pair: tuple[Any, Any], texts: list[str]) -> None:
    assert_same(pair, texts)


def test_texts_made_to_break_a_splitter(pair: tuple[Any, Any]) -> None:
    runs = [
        "a",
        "ab",
        " ",
        "▁",
        "é",
        "e\u0301",
        "昨夜",
        "昨",
        "\U0001f642",
        "\x00",
        "the ",
        "th",
        "=",
        "\u0301",
        "①",
        "abab",
    ]
    lengths = (1, 2, 15, 16, 17, 31, 47, 48, 49, 95, 96, 97, 400)
    assert_same(pair, [r * n for r in runs for n in lengths])
    assert_same(pair, [f"x{r * 40}y {r}" for r in runs])
    assert disagreement(*pair) is None


def test_every_character_of_the_basic_plane(pair: tuple[Any, Any]) -> None:
    characters = [chr(c) for c in range(0x10000) if not 0xD800 <= c < 0xE000]
    assert_same(pair, ["".join(characters[i : i + 64]) for i in range(0, len(characters), 64)])
    assert_same(pair, [f"a{c}a {c}" for c in characters[::7]])


def test_full_table_is_emptied_and_changes_nothing(spm_model: str) -> None:
    model, _ = load(spm_model)
    small, engine = kernel_encoder(model, memo_bits=4), library_of(spm_model)
    rng = random.Random(3)
    assert_same((small, engine), ["".join(rng.choices(ALPHABET, k=50)) for _ in range(500)])
    assert small.memo.state[RESETS] > 100


def test_a_wrong_table_would_be_caught(spm_model: str) -> None:
    """The probes must tell a model from one whose ids are off by one, or they prove nothing."""
    model, _ = load(spm_model)
    wrong = kernel_encoder(model)
    tables = wrong._tables
    rolled = np.roll(tables.ids, 1)
    rolled.flags.writeable = False
    wrong._tables = tables._replace(ids=rolled)
    assert disagreement(wrong, library_of(spm_model)) is not None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model_type": "char"}, "neither a BPE"),
        ({"model_type": "word", "vocab_size": 300, "byte_fallback": False}, "neither a BPE"),
    ],
)
def test_other_kinds_run_on_the_library_and_say_so(
    tmp_path: Path, train_spm: Any, caplog: pytest.LogCaptureFixture, options: dict[str, object], reason: str
) -> None:
    path = train_spm(tmp_path / "other.model", **options)
    stage = SentencePiece(model=path)
    batch = pa.record_batch({"text": pa.array(["The river rose."], pa.large_string())})
    got = stage.score(batch).column(0).to_pylist()
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    assert got == [[1, *processor.encode("The river rose."), 2]]
    assert reason in stage.facts()["encoder"]
    assert reason in caplog.text


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("what", ["writes U+2581", "holds NUL"])
def test_what_the_kernels_cannot_follow(tmp_path: Path, train_spm: Any, model_type: str, what: str) -> None:
    """A rule that writes U+2581 ended the run when the model was opened; with a NUL in a piece, ids were others."""
    options = {}
    if what == "writes U+2581":
        rules = tmp_path / "rules.tsv"
        rules.write_text("2014\t2581\n")
        options = {"normalization_rule_name": "", "normalization_rule_tsv": str(rules)}
    path = train_spm(tmp_path / "m.model", model_type=model_type, vocab_size=560, **options)
    if what == "holds NUL":
        piece = b"\x0a\x01\0" + b"\x15" + struct.pack("<f", -1.0)  # ModelProto.SentencePiece: piece and score
        with Path(path).open("ab") as model:
            model.write(b"\x0a" + bytes([len(piece)]) + piece)
    stage = SentencePiece(model=path)
    assert what in stage.facts()["encoder"]
    texts = ["a\u2014b \u2014 c", "the a\0 river"]
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    got = stage.score(pa.record_batch({"text": pa.array(texts, pa.large_string())})).column(0).to_pylist()
    assert got == [[1, *processor.encode(t), 2] for t in texts]


def test_a_unigram_model_without_normal_pieces_is_refused(tmp_path: Path, train_spm: Any) -> None:
    model, _ = load(train_spm(tmp_path / "m.model", model_type="unigram", vocab_size=560))
    without = replace(model, kinds=tuple(USER_DEFINED if k == NORMAL else k for k in model.kinds))
    assert "no normal piece" in str(refusal(without))


def test_more_pieces_than_the_tables_hold(
    tmp_path: Path, train_spm: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = train_spm(tmp_path / "many.model", model_type="unigram")
    assert SentencePiece(model=path).facts()["encoder"] == "kernels"
    monkeypatch.setattr("stages.tokenize._spm_exact.MOST_NODES", 300)
    stage = SentencePiece(model=path)
    assert "different beginnings, the tables hold 300" in stage.facts()["encoder"]
    stage.warm()
    assert "different beginnings" in caplog.text


def test_time_stays_linear_without_a_place_to_split(spm_model: str) -> None:
    model, _ = load(spm_model)
    encoder = kernel_encoder(model)
    times = []
    for size in (1 << 18, 1 << 20):
        column = pa.array(["a" * size], pa.large_string())
        encoder.encode(column, None, None)
        start = time.process_time()
        encoder.encode(column, None, None)
        times.append(time.process_time() - start)
    assert times[1] < 12 * times[0] + 0.2  # four times the text; a quadratic loop takes sixteen


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_unigram_sums_far_into_a_document(tmp_path: Path, train_spm: Any, byte_fallback: bool) -> None:
    """Scores are added in float32 from the start of the document: far in, close paths swap, and then they are reset."""
    path = train_spm(tmp_path / "u.model", model_type="unigram", vocab_size=560, byte_fallback=byte_fallback)
    encoder, engine = kernel_encoder(load(path)[0]), library_of(path)
    rng = random.Random(5)
    words = [
        "river",
        "mill",
        "school",
        "morning",
        "the",
        "they",
        "weren't",
        "1,024",
        "昨夜河水",
        "zzzq",
        "retelling",
        "Łódź",
        "unexpectedly",
    ]
    text = " ".join("".join(rng.choices(words, k=rng.randrange(1, 3))) for _ in range(60_000))
    assert_same((encoder, engine), [text])
    assert 0 < encoder.memo.state[AGAIN] < encoder.memo.state[HITS]


@lru_cache
def _real(name: str) -> list[str]:
    folder = os.environ.get("CORPUSFLOW_TEST_DATA")
    if not folder:
        pytest.skip("CORPUSFLOW_TEST_DATA is not set")
    with gzip.open(Path(folder) / "text" / name, "rt", encoding="utf-8") as f:
        return [json.loads(line)["text"][:20_000] for line, _ in zip(f, range(60), strict=False)]


@pytest.mark.parametrize("name", ["eltec_novels.jsonl.gz", "zh_classical-modern.jsonl.gz", "tldr_pages.jsonl.gz"])
def test_real_text(pair: tuple[Any, Any], name: str) -> None:
    assert_same(pair, _real(name))
