"""Tokenizers: MB/s of UTF-8 per core, cold (an empty table) and again, beside the libraries on the same texts and vocabularies.

    pytest -m bench -s tests/benchmarks/bench_tokenize.py

Needs CORPUSFLOW_TEST_DATA (text/, parity/). Distinct texts only. Models of 32,000 ids are trained here on part of the same
data, which flatters nobody: all engines run the same vocabulary. sentencepiece, tokenizers, tiktoken and kitoken are shown
where they are installed. Times are CPU seconds of one thread; ids are compared, and a difference fails the benchmark.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sentencepiece

from stages.kernels.buffers import text_buffers
from stages.kernels.token_memo import HITS, MISSES
from stages.tokenize.huggingface import HuggingFace, byte_letters
from stages.tokenize.sentencepiece import SentencePiece

pytestmark = pytest.mark.bench
DATA = os.environ.get("CORPUSFLOW_TEST_DATA")
MEGABYTES = int(os.environ.get("CORPUSFLOW_BENCH_MB", "40"))


def texts_of(*names: str) -> Iterator[str]:
    for name in names:
        with gzip.open(Path(str(DATA)) / "text" / name, "rt", encoding="utf-8") as f:
            for line in f:
                yield json.loads(line)["text"]


def web(wanted: Callable[[str], bool]) -> list[str]:
    column = pq.read_table(Path(str(DATA)) / "parity" / "text.parquet", columns=["text"]).column("text")
    return [t for t in dict.fromkeys(column.to_pylist()) if t and wanted(t)]


def english() -> list[str]:
    return capped([*texts_of("en_100novels.jsonl.gz"), *web(lambda t: sum(map(str.isascii, t[:500])) > 480)])


def chinese() -> list[str]:
    return capped([*texts_of("zh_classical-modern.jsonl.gz")])


def modern_chinese() -> list[str]:
    """Web pages of mostly Chinese, whatever else is on them."""
    return capped(web(lambda t: sum("\u4e00" <= c <= "\u9fff" for c in t[:500]) > 150))


def capped(texts: list[str]) -> list[str]:
    kept, size = [], 0
    for text in texts:
        size += len(text.encode())
        if size > MEGABYTES * 1_000_000:
            break
        kept.append(text)
    return kept


def train_spm(path: Path, texts: list[str], kind: str) -> str:
    model = io.BytesIO()
    lines = (line[i : i + 1_000] for t in texts for line in t.split("\n") for i in range(0, len(line), 1_000))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for line in lines if line.strip()),
        model_writer=model,
        model_type=kind,
        vocab_size=32_000,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        input_sentence_size=100_000,
        max_sentence_length=8_000,
        num_threads=1,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())
    return str(path)


def report(title: str, size: int, seconds: float, more: str = "") -> None:
    print(f"  {title:<44}{size / 1e6 / seconds:8.1f} MB/s{more}")


def measure(title: str, stage: Any, column: pa.Array, size: int) -> np.ndarray:
    """Two passes of a stage's kernels, over batches of about 4 MB, since tasks hand them batches."""
    sizes = np.diff(text_buffers(column).offsets)
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // 4_000_000)) + 1
    batches = [column.slice(a, b - a) for a, b in pairwise([0, *cuts.tolist(), len(column)])]
    encoder = stage.open().encoder
    encoder.encode(pa.array(["warm"], pa.large_string()), None, None)
    ids = np.zeros(0, np.int32)
    for run in ("cold", "again"):
        before = encoder.memo.state.copy()
        start = time.process_time()
        found = [encoder.encode(batch, None, None)[1] for batch in batches]
        seconds = time.process_time() - start
        ids = np.concatenate(found)
        hits, misses = (encoder.memo.state - before)[[HITS, MISSES]]
        report(f"corpusflow {title}, {run}", size, seconds, f"   {hits / (hits + misses):.2%} of chunks known")
    return ids


def library(title: str, size: int, encode: Callable[[], list[Any]]) -> np.ndarray:
    start = time.process_time()
    encoded = encode()
    report(title, size, time.process_time() - start)
    return np.concatenate([np.asarray(e, np.int32) for e in encoded])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("source", [english, chinese, modern_chinese], ids=["english", "chinese", "modern_chinese"])
def test_sentencepiece(tmp_path: Path, source: Callable[[], list[str]], kind: str) -> None:
    if not DATA:
        pytest.skip("CORPUSFLOW_TEST_DATA is not set")
    texts = source()
    size = sum(len(t.encode()) for t in texts)
    trained_on = chinese() if source is modern_chinese else texts  # too few pages for a vocabulary of their own
    path = train_spm(tmp_path / "m.model", trained_on[::3], kind)
    print(f"\n{source.__name__}, sentencepiece {kind}, 32,000 ids, {size / 1e6:.0f} MB")
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    theirs = library("sentencepiece", size, lambda: processor.encode(texts, out_type=int, num_threads=1))
    ours = measure(kind, SentencePiece(model=path), pa.array(texts, pa.large_string()), size)
    assert np.array_equal(ours, theirs)
    try:
        import kitoken
    except ImportError:
        return
    engine = kitoken.Kitoken.from_sentencepiece_file(path)
    library("kitoken", size, lambda: [engine.encode(t, False) for t in texts])


@pytest.mark.parametrize("source", [english, chinese], ids=["english", "chinese"])
def test_byte_level(tmp_path: Path, source: Callable[[], list[str]]) -> None:
    if not DATA:
        pytest.skip("CORPUSFLOW_TEST_DATA is not set")
    tokenizers = pytest.importorskip("tokenizers")
    texts = source()
    size = sum(len(t.encode()) for t in texts)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=32_000, show_progress=False, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts[::3], trainer)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    print(f"\n{source.__name__}, byte-level BPE (GPT-2's expression), 32,000 ids, {size / 1e6:.0f} MB")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    theirs = library(
        "tokenizers", size, lambda: [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    )
    ours = measure("byte-level", HuggingFace(model=str(path), add_eos=False), pa.array(texts, pa.large_string()), size)
    assert np.array_equal(ours, theirs)
    _tiktoken(json.loads(path.read_text()), texts, size, theirs)


def _tiktoken(description: dict[str, Any], texts: list[str], size: int, expected: np.ndarray) -> None:
    """tiktoken on the same vocabulary, its ids being the order of merging."""
    try:
        import tiktoken
    except ImportError:
        return
    to_byte = {c: b for b, c in enumerate(byte_letters())}
    vocabulary = description["model"]["vocab"]
    order = [*byte_letters(), *("".join(m) for m in description["model"]["merges"])]
    ranks: dict[bytes, int] = {}
    for token in order:
        ranks.setdefault(bytes(to_byte[c] for c in token), len(ranks))
    expression = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    encoding = tiktoken.Encoding("bench", pat_str=expression, mergeable_ranks=ranks, special_tokens={})
    theirs = library("tiktoken", size, lambda: encoding.encode_ordinary_batch(texts, num_threads=1))
    back = np.zeros(len(ranks), np.int32)
    for token in order:
        back[ranks[bytes(to_byte[c] for c in token)]] = vocabulary[token]
    assert np.array_equal(back[theirs], expected)
