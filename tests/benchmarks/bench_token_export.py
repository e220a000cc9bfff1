"""Text to token files, whole: tokenize, shuffle, pack and export as one run; MB of text per CPU second, and memory.

    pytest -m bench -s tests/benchmarks/bench_token_export.py

Needs CORPUSFLOW_TEST_DATA (text/, parity/). CORPUSFLOW_EXPORT_MB (500) sets the size: English novels and web pages, copied
as often as it takes. In each copy every 37th word, another one each time, is written backwards, so that about as many chunks
are new as in distinct text (2.5 %); ids differ. CPU seconds are those of the whole process tree, start-up included (Ray's too,
and each worker's own libraries); what of them a run of 57 lines takes is shown.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bench_pipeline import measured
from bench_tokenize import english, train_spm

from stages.tokenize.sentencepiece import SentencePiece

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="set CORPUSFLOW_TEST_DATA"),
]

MEGABYTES = int(os.environ.get("CORPUSFLOW_EXPORT_MB", "500"))
FILES = 8
EVERY = 37


def copies(texts: list[str], size: int) -> Iterator[str]:
    """`size` bytes of text, about."""
    written = copy = 0
    while True:
        for text in texts:
            if written >= size:
                return
            words = text.split(" ")
            if copy:
                words[copy % EVERY :: EVERY] = [w[::-1] for w in words[copy % EVERY :: EVERY]]
            made = " ".join(words)
            written += len(made.encode())
            yield made
        copy += 1


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """(folder of JSON lines, model trained on a third of the texts, bytes of text)."""
    folder = tmp_path_factory.mktemp("texts")
    texts = english()
    model = train_spm(folder / "m.model", texts[::3], "bpe")
    size = 0
    outs = [(folder / f"{f}.jsonl").open("w", encoding="utf-8") for f in range(FILES)]
    for n, text in enumerate(copies(texts, MEGABYTES * 1_000_000)):
        size += len(text.encode())
        outs[n % FILES].write(json.dumps({"text": text, "id": f"d{n}"}, ensure_ascii=False) + "\n")
    for out in outs:
        out.close()
    return folder, model, size


OUTPUTS: dict[str, list[Any]] = {
    "Megatron": ["export.megatron"],
    "Megatron, and packed by best fit": [
        "export.megatron",
        {"export.npy": {"sequence": 2_048, "packing": "best_fit"}},
    ],
}


@pytest.mark.parametrize("executor", ["inline", "ray"])
def test_tokenize_shuffle_pack_export(corpus: tuple[Path, str, int], tmp_path: Path, executor: str) -> None:
    texts, model, size = corpus
    print(f"\n{size / 1e6:.0f} MB of English, sentencepiece BPE of 32,000 ids; {executor}")
    tiny = tmp_path / "tiny"
    tiny.mkdir()
    (tiny / "0.jsonl").write_text("".join(json.dumps({"text": f"Line {i}."}) + "\n" for i in range(57)))
    runs = [("warm", tiny, ["export.megatron"]), ("start-up", tiny, ["export.megatron"])]
    for i, (name, folder, output) in enumerate([*runs, *((n, texts, o) for n, o in OUTPUTS.items())]):
        run = tmp_path / f"run{i}"
        body = {
            "name": "bench",
            "input": [{"ingest.jsonl": {"paths": [f"{folder}/*.jsonl"]}}],
            "stages": [{"tokenize.sentencepiece": {"model": model}}],
            "output": output,
            "run": {"dir": str(run), "executor": executor, "workers": 1 if executor == "inline" else 2},
        }
        config = tmp_path / f"run{i}.yaml"
        config.write_text(json.dumps(body), encoding="utf-8")
        command = [sys.executable, "-m", "corpusflow", "run", "--json", str(config)]
        usage = measured(f"usage{i}", tmp_path, command)
        if folder == tiny:
            if name == "start-up":
                print(f"  {name:34}{usage['cpu_s']:7.1f} CPU s {usage['wall_s']:28.1f} s")
            continue
        outcome = json.loads((run / "run.json").read_text())
        manifest = json.loads((run / "exports" / "megatron" / "manifest.json").read_text())
        tokens = sum(s["tokens"] for s in manifest["splits"].values())
        rate, peak = size / 1e6 / usage["cpu_s"], outcome["peak_worker_bytes"] / 1e6
        print(
            f"  {name:34}{usage['cpu_s']:7.1f} CPU s {rate:6.1f} MB/s per core {usage['wall_s']:7.1f} s, largest worker "
            f"{peak:4.0f} MB, {tokens:,} tokens"
        )
        for step in outcome["steps"]:
            print(f"      {step['title']}: {step['seconds']:.1f} s")
        if len(output) > 1:
            packed = json.loads((run / "exports" / "npy" / "manifest.json").read_text())["splits"]["train"]
            assert packed["tokens"] + packed["padding_tokens"] == packed["samples"] * 2_048
            print(f"      padding {packed['padding_tokens'] / packed['samples'] / 2_048:.3%}")
        assert peak < 1_000


@pytest.mark.parametrize("kind", ["words", "one word"])
def test_sixteen_megabytes_without_a_line_break(corpus: tuple[Path, str, int], kind: str) -> None:
    _, model, _ = corpus
    stage = SentencePiece(model=model)
    stage.score(pa.record_batch({"text": pa.array(["warm"], pa.large_string())}))
    text = " ".join(" ".join(copies(english(), 17_000_000)).split())
    text = (text if kind == "words" else text.replace(" ", ""))[: 16 << 20]
    start = time.process_time()
    stage.score(pa.record_batch({"text": pa.array([text], pa.large_string())}))
    seconds = time.process_time() - start
    print(f"\n{len(text.encode()) / 1e6:.1f} MB in one document, {kind}: {seconds:.2f} CPU s")
    assert seconds < 2
