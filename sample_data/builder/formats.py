"""The same texts as JSONL, Parquet and plain text, and a tokenizer trained on the good ones."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sentencepiece as spm
import zstandard

from .common import LANGUAGES
from .pages import Page
from .texts import Text


def documents(pages: list[Page]) -> list[dict[str, Any]]:
    rows = []
    for page in pages:
        if page.text is None or page.kind in ("huge", "revisit"):
            continue
        lang, script = LANGUAGES.get(page.lang, (page.lang, "Latn"))
        meta = {"title": page.text.one("title"), "kind": page.kind, "date": page.text.one("date"), "script": script}
        rows.append({"id": page.doc_id, "text": page.text.plain, "url": page.url, "lang": lang, "meta": meta})
    return sorted(rows, key=lambda row: hashlib.sha256(f"jsonl/{row['id']}".encode()).digest())


BAD_LINES = (
    '{"id": "bad/cut", "text": "This line was cut in the mid',
    '{"id": "bad/null", "text": null, "url": "https://bad.example/null", "lang": "en", "meta": {}}',
    '{"id": "bad/surrogate", "text": "A lone half \\ud83d of an emoji.", "url": "https://bad.example/s", "lang": "en"}',
    '{"id": "bad/missing", "body": "There is no text field here.", "url": "https://bad.example/m", "lang": "en"}',
    "",
    '["not", "an", "object"]',
    '{"id": "bad/number", "text": 42, "url": "https://bad.example/n", "lang": "en", "meta": {}}',
)


def build_jsonl(rows: list[dict[str, Any]]) -> dict[str, bytes]:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    half = len(lines) // 2
    first, second = lines[:half], lines[half:]
    for i, bad in enumerate(BAD_LINES):
        second.insert(5 + 9 * i, bad)
    squeeze = zstandard.ZstdCompressor(level=19, write_content_size=False)
    cut = len(second) // 2
    frames = ["\n".join(part) + "\n" for part in (second[:cut], second[cut:])]
    return {
        "jsonl/docs-00.jsonl.zst": squeeze.compress(("\n".join(first) + "\n").encode()),
        "jsonl/docs-01.jsonl.zst": b"".join(squeeze.compress(frame.encode()) for frame in frames),
    }


def build_parquet(rows: list[dict[str, Any]]) -> dict[str, bytes]:
    body = pa.struct([("content", pa.string()), ("title", pa.string())])
    schema = pa.schema([("doc_id", pa.string()), ("body", body), ("url", pa.string()), ("crawl_date", pa.date32())])
    files: dict[str, bytes] = {}
    half = (len(rows) + 1) // 2
    for index, part in enumerate((rows[:half], rows[half:])):
        records = []
        for row in part:
            meta = row["meta"]
            date = dt.date.fromisoformat(meta["date"])
            content = {"content": row["text"], "title": meta["title"]}
            records.append({"doc_id": row["id"], "body": content, "url": row["url"], "crawl_date": date})
        if index == 1:
            nothing = {"content": None, "title": "A row without text"}
            records.append({"doc_id": "bad/null-content", "body": nothing, "url": None, "crawl_date": None})
            records.append({"doc_id": "bad/null-body", "body": None, "url": None, "crawl_date": None})
        sink = io.BytesIO()
        table = pa.Table.from_pylist(records, schema)
        pq.write_table(table, sink, compression="zstd", compression_level=19, row_group_size=48, use_dictionary=False)
        files[f"parquet/part-{index:05}.parquet"] = sink.getvalue()
    return files


def build_text(texts: dict[str, Text]) -> dict[str, bytes]:
    plain = sorted(name for name in texts if "plain_text" in texts[name].head)
    files = {"text/english.txt": "", "text/chinese.txt": "", "text/paragraphs.txt": ""}
    for name in plain:
        files["text/" + texts[name].one("plain_text")] += texts[name].plain + "\n\n"
    return {name: text.strip("\n").encode() + b"\n" for name, text in files.items()}


def build_tokenizer(texts: dict[str, Text]) -> bytes:
    model = io.BytesIO()
    sentences = [
        line
        for text in texts.values()
        if text.kind == "good" and "base" not in text.head
        for line in text.plain.split("\n")
        if line
    ]
    spm.set_random_generator_seed(0)
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="bpe",
        vocab_size=8000,
        character_coverage=0.9995,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        max_sentence_length=100000,
        num_threads=1,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        minloglevel=2,
    )
    return model.getvalue()
