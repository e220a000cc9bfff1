"""Single documents of which kernels fill their scratch arrays to the last place; run as a program, it tries every stage on them.

A kernel's arrays are as large as the longest document of a batch needs, so a document must be alone to reach their ends, and
be made of what there can be most of. numba checks bounds only where NUMBA_BOUNDSCHECK says so before the first import.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from stage_table import parameters, parts

from corpusflow import Score, Transform
from corpusflow.build import build_stage
from corpusflow.registry import find, stage_names
from stages.ingest._main_text import Reader

PIECES = [
    "\n", "\r", " ", "\t", "a", "A", "1", ".", "#", "-", "'", "{", "@", "。", "中", "㐀", "\U00020000", "\U0001f600", "é",
    "e\u0301", "ก", "กา", "\u3000", "\u2028", "\0", "ß", "İ", "…", "“", "http://", "[1]", "a.b", "x\n", "\n\n", "a ", "ab ", "1,",
    "...", "-- ", "\u200b", "\u0660", "&amp;", "\ufffd", "ア", "한", "<p>", "&#", "京A",
]  # fmt: skip
SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 127, 255)
SCRIPTS = {"en": "Latn", "zh": "Hani", "th": "Thai", "und": "Zyyy"}


def documents() -> Iterator[str]:
    for piece in PIECES:
        yield from (piece * n for n in SIZES)
    rng = random.Random(3)
    for size in (70, 2_000):
        for _ in range(3_000 // size):
            some = rng.sample(PIECES, rng.randrange(1, len(PIECES)))
            yield "".join(rng.choice(some) for _ in range(rng.randrange(1, size)))


def batch(names: tuple[str, ...], text: str, language: str) -> pa.RecordBatch:
    values = {
        "text": pa.array([text], pa.large_string()),
        "raw": pa.array([text.encode()], pa.large_binary()),
        "language.code": pa.array([language]),
        "language.script": pa.array([SCRIPTS[language]]),
        "content_type": pa.nulls(1, pa.string()),
        "content_encoding": pa.nulls(1, pa.string()),
    }
    return pa.RecordBatch.from_pydict({n: values.get(n, pa.array([text])) for n in names})


def main() -> None:
    for name in stage_names():
        with tempfile.TemporaryDirectory() as folder:
            try:
                stage = build_stage(name, find(name), parameters(name, Path(folder)))
            except pytest.skip.Exception:
                continue
            for part in parts(stage):
                if (
                    not isinstance(part, (Score, Transform)) or name == "ingest.extract"
                ):  # that one has a process of its own
                    continue
                reads = tuple(n.rstrip("?") for n in part.inputs())
                if any(n.startswith("dedup.") for n in reads):
                    continue
                for i, text in enumerate(documents()):
                    one = batch(reads, text, [*SCRIPTS, "en"][i % 5])
                    try:
                        _ = part.score(one) if isinstance(part, Score) else part.transform(one)
                    except IndexError as e:
                        sys.exit(f"{name}, {type(part).__name__}: {text[:60]!r}, {len(text)} characters: {e}")
                print(name, type(part).__name__)
    for text in documents():
        Reader().read(text.encode())
    print("ingest.extract Reader")


if __name__ == "__main__":
    main()
