"""Every stage the registry has, held against the contract: a new stage is tested by existing.

Stages with required parameters get them from the table below; everything else runs by its defaults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusflow import Composite, Exchange, Sink, Source, Stage, check_barrier, check_stage
from corpusflow.build import build_stage
from corpusflow.checks import SAMPLE_TEXTS
from corpusflow.registry import find, stage_names

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = str(ROOT / "sample_data" / "tokenizer" / "web.model")
TOKENS = ("tokenize.sentencepiece", {"model": MODEL})


def benchmark_items(folder: Path) -> str:
    path = folder / "items.jsonl"
    path.write_text(json.dumps({"question": SAMPLE_TEXTS[0], "answer": "yes"}) + "\n")
    return str(path)


def tokenizer_json(folder: Path) -> str:
    """A byte-level BPE small enough to be written here."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=sorted(alphabet), special_tokens=["<s>", "</s>"], show_progress=False
    )
    made.train_from_iterator([t for t in SAMPLE_TEXTS if t], trainer)
    made.save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


def tiktoken_ranks(folder: Path) -> str:
    import base64

    pytest.importorskip("tiktoken")
    path = folder / "ranks.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)))
    return str(path)


def jsonl(folder: Path) -> list[str]:
    path = folder / "a.jsonl"
    path.write_text(
        "".join(json.dumps({"text": t, "id": str(i)}) + "\n" for i, t in enumerate(SAMPLE_TEXTS)) + "{broken\n"
    )
    return [str(path)]


def parquet(folder: Path) -> list[str]:
    pq.write_table(pa.table({"text": pa.array(SAMPLE_TEXTS), "n": range(len(SAMPLE_TEXTS))}), folder / "a.parquet")
    return [str(folder / "a.parquet")]


def text(folder: Path) -> list[str]:
    (folder / "a.txt").write_text(str(SAMPLE_TEXTS[0]) + "\n\n" + str(SAMPLE_TEXTS[5]))
    return [str(folder / "a.txt")]


def arpa(folder: Path) -> str:
    pytest.importorskip("kenlm")
    unigrams = "-1.0\t<unk>\n0\t<s>\t-0.5\n-0.6\t</s>\n-0.4\tthe\t-0.3\n"
    (folder / "a.arpa").write_text(
        f"\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n{unigrams}\n\\2-grams:\n-0.2\t<s> the\n\n\\end\\\n"
    )
    return str(folder / "a.arpa")


#: Stage -> its required parameters, made in a folder.
REQUIRED: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "ingest.jsonl": lambda folder: {"paths": jsonl(folder)},
    "quality.perplexity": lambda folder: {"model": arpa(folder)},
    "stats.quantile": lambda folder: {"column": "quality.chars", "by": None},
    "ingest.parquet": lambda folder: {"paths": parquet(folder)},
    "ingest.text": lambda folder: {"paths": text(folder)},
    "ingest.warc": lambda folder: {"paths": [str(ROOT / "sample_data" / "web" / "web-00.warc.gz")]},
    "quality.threshold": lambda folder: {
        "column": "quality.digits",
        "per": "quality.chars",
        "max": 0.3,
        "reason": "too_many_digits",
    },
    "tokenize.sentencepiece": lambda folder: {"model": MODEL},
    "tokenize.huggingface": lambda folder: {"model": tokenizer_json(folder)},
    "tokenize.tiktoken": lambda folder: {"model": tiktoken_ranks(folder)},
    "dedup.decontaminate": lambda folder: {"benchmarks": benchmark_items(folder)},
}
#: What Sinks of tokens need in front of them.
BEFORE: Mapping[str, list[tuple[str, dict[str, Any]]]] = {
    f"export.{name}": [TOKENS] for name in ("megatron", "bin", "npy", "mds", "huggingface", "webdataset")
}


def parts(stage: Stage) -> tuple[Stage, ...]:
    return stage.expand() if isinstance(stage, Composite) else (stage,)


def is_barrier(name: str) -> bool:
    """Whether a stage is a Sink, or has an Exchange among its parts (by a look at required parameters only)."""
    cls = find(name)
    return issubclass(cls, (Sink, Exchange)) or name.startswith(("dedup.", "stats."))


@pytest.mark.parametrize("name", stage_names())
def test_contract(name: str, tmp_path: Path) -> None:
    params = REQUIRED.get(name, lambda _: {})(tmp_path)
    stage = build_stage(name, find(name), params)
    check_stage(stage)
    barrier = any(isinstance(p, (Sink, Exchange)) for p in parts(stage))
    assert barrier == is_barrier(name), f"{name}: test_barrier would miss it"


@pytest.mark.parametrize("name", [n for n in stage_names() if is_barrier(n)])
def test_barrier(name: str, tmp_path: Path) -> None:
    check_barrier(name, REQUIRED.get(name, lambda _: {})(tmp_path), before=BEFORE.get(name, ()))


def test_table_is_not_stale() -> None:
    assert set(REQUIRED) <= set(stage_names())
    for name in stage_names():
        cls = find(name)
        needs = [f for f in cls.__dataclass_fields__.values() if _required(f)]
        assert bool(needs) == (name in REQUIRED) or issubclass(cls, Source), f"{name} needs {[f.name for f in needs]}"


def _required(field: Any) -> bool:
    import dataclasses

    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
