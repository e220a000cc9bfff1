"""Ten million strings through six tokenizers: not one id other than the engine's.

    pytest -m slow -s tests/stages/tokenize/test_many_strings.py

CORPUSFLOW_STRINGS says how many each model is given (10 M). Real strings and vocabularies come from CORPUSFLOW_TEST_DATA (text/),
in 20 languages; without it from the few sentences that other tests here use. Everything is seeded: a batch can be made again.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece

from stages.tokenize._patterns import SHAPES
from stages.tokenize._score import Library
from stages.tokenize.huggingface import HuggingFace, byte_letters
from stages.tokenize.sentencepiece import SentencePiece, library
from stages.tokenize.tiktoken import Tiktoken

pytestmark = pytest.mark.slow

STRINGS = int(float(os.environ.get("CORPUSFLOW_STRINGS", "1e7")))
BATCH = 50_000
VOCABULARY = 16_000
Encoders = tuple[Any, Any]

SENTENCEPIECE: dict[str, dict[str, object]] = {
    "bpe_identity": {},
    "bpe_nfkc": {"normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True},
    "unigram": {"model_type": "unigram"},
    "bpe_without_byte_fallback": {"byte_fallback": False, "character_coverage": 0.98},
}
#: What splitters and normalisers trip over.
HARD = [
    *"abcdetheriv 'smdlvre.,!?/\\=0123456789  \t\n\r\u3000\u00a0\u0085\u200b\u200d\ufeff\x00\x01\x7f",
    *"▁é\u0301e\u0301ﬁ①㍿Å한글ｶﾞﷺ汉字昨夜河水上涨\U0001f642가\U0010ffff\ud7ff\ue000ǅʰªſK٣²½ⅧİıßΩб",
    *("  ", "\n\n", " \n ", "<s>", "</s>", "<unk>", "<0x41>", "<|endoftext|>", "the ", " the", "▁the", "'ll", "'LL"),
    *("\U0001f469\u200d\U0001f467", "e\u0301\u0323", "\u1100\u1161\u11a8", "क\u094dष", "ร\u0e31\u0e49"),
]
SCRIPTS = [
    (0x20, 0x7F),
    (0xA0, 0x250),
    (0x300, 0x370),
    (0x370, 0x530),
    (0x590, 0x780),
    (0x900, 0xE80),
    (0x1000, 0x1200),
    (0x1E00, 0x2200),
    (0x2460, 0x2500),
    (0x3000, 0x3100),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A4),
    (0xF900, 0xFFFE),
    (0x1F300, 0x1FAFF),
    (0x0, 0xD800),
    (0xE000, 0x110000),
]


@pytest.fixture(scope="module")
def real(corpus: list[str]) -> list[str]:
    """Lines of real text, 200,000 at most of each file."""
    folder = os.environ.get("CORPUSFLOW_TEST_DATA")
    if not folder:
        return [line for text in corpus for line in text.split("\n") if line]
    return _lines(folder)


@lru_cache(maxsize=1)
def _lines(folder: str) -> list[str]:
    lines: list[str] = []
    for path in sorted(Path(folder, "text").glob("*.jsonl.gz")):
        own: list[str] = []
        with gzip.open(path, "rt", encoding="utf-8") as f:
            for record in f:
                own += [line for line in json.loads(record)["text"].split("\n") if line]
                if len(own) >= 200_000:
                    break
        lines += own
    return lines


def sentencepiece_model(
    path: Path, lines: list[str], options: dict[str, object], train: Callable[..., str]
) -> Encoders:
    big = len(lines) > 10_000
    some = [line[:500] for line in random.Random(1).sample(lines, 40_000)] if big else lines
    size = {"vocab_size": VOCABULARY, "character_coverage": 0.9995} if big else {"vocab_size": 600}
    given = {**size, "text": "\n".join(some), **options}
    model = train(path / "m.model", **given)
    stage = SentencePiece(model=model)
    assert stage.facts()["encoder"] == "kernels"
    return stage.open().encoder, library(sentencepiece.SentencePieceProcessor(model_file=model))


def byte_level_json(path: Path, lines: list[str]) -> str:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False, initial_alphabet=alphabet)
    some = random.Random(2).sample(lines, min(len(lines), 60_000))
    tokenizer.train_from_iterator(some, trainer)
    tokenizer.save(str(path / "tokenizer.json"))
    return str(path / "tokenizer.json")


def huggingface_model(path: Path, lines: list[str]) -> Encoders:
    tokenizers = pytest.importorskip("tokenizers")
    file = byte_level_json(path, lines)
    stage = HuggingFace(model=file, add_eos=False)
    assert stage.facts()["encoder"] == "kernels"
    engine = tokenizers.Tokenizer.from_file(file)
    engine.encode_special_tokens = True
    return stage.open().encoder, Library(
        lambda texts: [e.ids for e in engine.encode_batch_fast(texts, add_special_tokens=False)]
    )


def tiktoken_model(path: Path, lines: list[str]) -> Encoders:
    """The same merges as ranks, with another expression."""
    tiktoken = pytest.importorskip("tiktoken")
    model = json.loads(Path(byte_level_json(path, lines)).read_text())["model"]
    to_byte = {letter: byte for byte, letter in enumerate(byte_letters())}
    ranks = {bytes([byte]): byte for byte in range(256)}
    for merge in model["merges"]:
        ranks.setdefault(bytes(to_byte[letter] for letter in "".join(merge)), len(ranks))
    file = path / "x.tiktoken"
    file.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items()))
    expression = list(SHAPES)[-1]
    stage = Tiktoken(model=str(file), pattern=expression, add_eos=False)
    assert stage.facts()["encoder"] == "kernels"
    engine = tiktoken.Encoding("x", pat_str=expression, mergeable_ranks=ranks, special_tokens={})
    return stage.open().encoder, Library(lambda texts: engine.encode_ordinary_batch(texts, num_threads=1))


def strings(lines: list[str], batch: int) -> Iterator[str]:
    """The strings of a batch: half real, in part damaged; the rest random."""
    rng = random.Random(batch)
    for _ in range(BATCH):
        kind = rng.random()
        if kind < 0.5:
            line = lines[rng.randrange(len(lines))]
            start = rng.randrange(len(line)) if len(line) > 40 and kind < 0.4 else 0
            text = line[start : start + 1 + rng.randrange(160)]
            if kind < 0.15:
                at = rng.randrange(len(text) + 1)
                text = text[:at] + rng.choice(HARD) + text[at + rng.randrange(3) :]
            yield text
        elif kind < 0.8:
            yield "".join(rng.choices(HARD, k=rng.randrange(40)))
        elif kind < 0.95:
            low, high = rng.choice(SCRIPTS)
            codes = [rng.randrange(low, high) for _ in range(rng.randrange(1, 24))]
            yield "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)
        else:
            run = rng.choice(HARD) + rng.choice(["", "", rng.choice(HARD)])
            yield rng.choice(["", "x", " "]) + run * rng.randrange(1, 120) + rng.choice(["", "y"])


@pytest.mark.parametrize("name", [*SENTENCEPIECE, "tokenizer_json", "tiktoken"])
def test_no_id_differs(name: str, real: list[str], train_spm: Any, tmp_path: Path) -> None:
    if name in SENTENCEPIECE:
        ours, theirs = sentencepiece_model(tmp_path, real, SENTENCEPIECE[name], train_spm)
    else:
        ours, theirs = (huggingface_model if name == "tokenizer_json" else tiktoken_model)(tmp_path, real)
    assert not isinstance(ours, Library)
    done = ids = 0
    began = time.monotonic()
    for batch in range(-(-STRINGS // BATCH)):
        texts = list(strings(real, batch))[: STRINGS - done]
        column = pa.array(texts, pa.large_string())
        (our_ends, our_ids), (their_ends, their_ids) = (e.encode(column, None, None) for e in (ours, theirs))
        if not (np.array_equal(our_ends, their_ends) and np.array_equal(our_ids, their_ids)):
            for i, text in enumerate(texts):
                a, b = our_ids[our_ends[i] : our_ends[i + 1]], their_ids[their_ends[i] : their_ends[i + 1]]
                assert a.tolist() == b.tolist(), f"batch {batch}, string {i}: {text!r}"
        done += len(texts)
        ids += len(our_ids)
        if batch % 20 == 19 or done == STRINGS:
            print(f"\n{name}: {done:,} strings, {ids:,} ids, no difference, {time.monotonic() - began:.0f} s", end="")
    assert done == STRINGS
