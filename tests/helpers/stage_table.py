"""What each registered stage needs to be built in a test, and documents to try it on: for tests over all stages."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusflow import Composite, Exchange, Sink, Stage
from corpusflow.checks import SAMPLE_TEXTS
from corpusflow.registry import find

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = str(ROOT / "sample_data" / "tokenizer" / "web.model")
TOKENS = ("tokenize.sentencepiece", {"model": MODEL})


def benchmark_items(folder: Path) -> str:
    path = folder / "items.jsonl"
    path.write_text(json.dumps({"question": SAMPLE_TEXTS[0], "answer": "yes"}) + "\n")
    return str(path)


def tokenizer_json(folder: Path) -> str:
    """A byte-level BPE small enough to be trained here."""
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
    pytest.importorskip("tiktoken")
    path = folder / "ranks.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)))
    return str(path)


def jsonl(folder: Path) -> list[str]:
    lines = [json.dumps({"text": t, "id": str(i)}) for i, t in enumerate(SAMPLE_TEXTS)]
    (folder / "a.jsonl").write_text("\n".join([*lines, "{broken", '{"text": 3}', ""]))
    return [str(folder / "a.jsonl")]


def parquet(folder: Path) -> list[str]:
    pq.write_table(pa.table({"text": pa.array(SAMPLE_TEXTS), "n": range(len(SAMPLE_TEXTS))}), folder / "a.parquet")
    return [str(folder / "a.parquet")]


def text(folder: Path) -> list[str]:
    (folder / "a.txt").write_text(f"{SAMPLE_TEXTS[0]}\n\n{SAMPLE_TEXTS[5]}")
    return [str(folder / "a.txt")]


def csv(folder: Path) -> list[str]:
    (folder / "a.csv").write_text(
        f'text,id\n"{SAMPLE_TEXTS[0]}\n\nmore",1\n,2\n"{SAMPLE_TEXTS[5]}",3\nthree,four,five\n'
    )
    return [str(folder / "a.csv")]


def arrow(folder: Path) -> list[str]:
    table = pa.table({"text": pa.array(SAMPLE_TEXTS), "n": range(len(SAMPLE_TEXTS))})
    with pa.ipc.new_stream(str(folder / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    return [str(folder / "a.arrow")]


def huggingface(folder: Path) -> list[str]:
    (folder / "dataset" / "data").mkdir(parents=True)
    parquet(folder)
    (folder / "a.parquet").rename(folder / "dataset" / "data" / "train-00000-of-00001.parquet")
    (folder / "dataset" / "data" / "test-00000-of-00001.parquet").write_bytes(b"")
    return [str(folder / "dataset")]


def html(folder: Path) -> list[str]:
    (folder / "a.html").write_text(f"<html><body><p>{SAMPLE_TEXTS[0]}</p></body></html>")
    (folder / "b.css").write_text("p {}")
    return [str(folder / "a.html"), str(folder / "b.css")]


def archive(folder: Path) -> list[str]:
    """A page, a text, two lines of JSON, one of them broken, and a picture."""
    members = {
        "site/a.html": f"<p>{SAMPLE_TEXTS[0]}</p>",
        "b.txt": SAMPLE_TEXTS[5] or "",
        "c.jsonl": json.dumps({"text": SAMPLE_TEXTS[0], "n": 1}) + "\n{broken\n",
        "d.png": "x",
    }
    with tarfile.open(folder / "a.tar", "w") as out:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content.encode())
            out.addfile(info, io.BytesIO(content.encode()))
    return [str(folder / "a.tar")]


def warc(folder: Path) -> list[str]:
    """Two pages, a request, and a record cut short."""
    page = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body><p>{}</p></body></html>"
    records = []
    for i, (kind, body) in enumerate(
        [
            ("response", page.format(SAMPLE_TEXTS[0])),
            ("request", "GET / HTTP/1.1\r\n\r\n"),
            ("response", page.format(SAMPLE_TEXTS[5])),
        ]
    ):
        data = body.encode()
        head = (
            f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-00000000000{i}>\r\n"
            f"WARC-Target-URI: https://www.example.org/{i}\r\nWARC-Date: 2024-05-01T00:00:00Z\r\n"
            f"Content-Type: application/http; msgtype={kind}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        records.append(head.encode() + data + b"\r\n\r\n")
    (folder / "a.warc").write_bytes(b"".join(records) + records[0][:300])
    return [str(folder / "a.warc")]


def arpa(folder: Path) -> str:
    """A language model of four words."""
    pytest.importorskip("kenlm")
    unigrams = "-1.0\t<unk>\n0\t<s>\t-0.5\n-0.6\t</s>\n-0.4\tthe\t-0.3\n"
    (folder / "a.arpa").write_text(
        f"\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n{unigrams}\n\\2-grams:\n-0.2\t<s> the\n\n\\end\\\n"
    )
    return str(folder / "a.arpa")


#: Stage -> the optional package that it needs.
PACKAGES: Mapping[str, str] = {"quality.signals_dictionary": "rjieba"}

#: Stage -> its required parameters, made in a folder.
REQUIRED: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "quality.perplexity": lambda folder: {"model": arpa(folder)},
    "ingest.archive": lambda folder: {"paths": archive(folder), "base_url": "https://"},
    "ingest.huggingface": lambda folder: {"paths": huggingface(folder)},
    "ingest.html": lambda folder: {"paths": html(folder), "base_url": "https://example.org"},
    "ingest.arrow": lambda folder: {"paths": arrow(folder)},
    "ingest.csv": lambda folder: {"paths": csv(folder)},
    "ingest.jsonl": lambda folder: {"paths": jsonl(folder)},
    "ingest.parquet": lambda folder: {"paths": parquet(folder)},
    "ingest.text": lambda folder: {"paths": text(folder)},
    "ingest.warc": lambda folder: {"paths": warc(folder)},
    "quality.threshold": lambda folder: {
        "column": "quality.digits",
        "per": "quality.chars",
        "max": 0.3,
        "reason": "too_many_digits",
    },
    "tokenize.sentencepiece": lambda folder: {"model": MODEL},
    "tokenize.huggingface": lambda folder: {"model": tokenizer_json(folder)},
    "tokenize.tiktoken": lambda folder: {"model": tiktoken_ranks(folder), "special": {"<|endoftext|>": 256}},
    "stats.quantile": lambda folder: {"column": "quality.words", "by": "language.code"},
    "dedup.decontaminate": lambda folder: {"benchmarks": benchmark_items(folder)},
}


def parameters(name: str, folder: Path) -> dict[str, Any]:
    """Required parameters of a stage; skips the test where its package is not installed."""
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    return REQUIRED[name](folder) if name in REQUIRED else {}


def before(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Stages in front of one: most Sinks read tokens, an index what dedup measured."""
    if name == "dedup.index":
        return [("dedup.exact", {}), ("dedup.minhash", {})]
    return [TOKENS] if issubclass(find(name), Sink) else []


def parts(stage: Stage) -> tuple[Stage, ...]:
    """The stage, or what a Composite stands for."""
    return stage.expand() if isinstance(stage, Composite) else (stage,)


def is_barrier(name: str) -> bool:
    """Whether a stage is a Sink or has an Exchange among its parts; by its family, since some need parameters."""
    return issubclass(find(name), (Sink, Exchange)) or name.startswith(("dedup.", "stats."))
