"""`corpusflow verify --libraries`: every export read by the library of its format, where that is installed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stages.export._tokens import TokenSink
from stages.export.bin import Bin
from stages.export.huggingface import HuggingFaceDataset
from stages.export.jsonl_tokens import JsonlTokens
from stages.export.llmc import Llmc
from stages.export.mds import Mds
from stages.export.megatron import Megatron
from stages.export.mindrecord import MindRecord
from stages.export.npy import Npy
from stages.export.tfrecord import TfRecord
from stages.export.webdataset import WebDataset

SAMPLES: list[type[Any]] = [Npy, Llmc, JsonlTokens, Mds, HuggingFaceDataset, WebDataset, TfRecord, MindRecord]
SINKS: list[TokenSink] = [
    *(made(file_tokens=9_000, validation=0.2) for made in (Megatron, Bin, *SAMPLES)),
    *(made(file_tokens=9_000, sequence=64, packing="best_fit") for made in SAMPLES),
]
pytestmark = pytest.mark.filterwarnings("ignore")


def cases(sinks: Sequence[TokenSink] = SINKS) -> Iterator[Any]:
    """Sinks, skipped with the package's name where it is not installed: nothing is written in vain."""
    for sink in sinks:
        package = sink.library.partition(".")[0]
        found = {package, "tensorflow"} if package == "tfrecord" else {package}
        missing = pytest.mark.skipif(
            all(importlib.util.find_spec(p) is None for p in found), reason=f"no package {package}"
        )
        yield pytest.param(sink, marks=missing, id=names(sink))


def names(sink: TokenSink) -> str:
    return f"{sink.format_name}{'-packed' if getattr(sink, 'sequence', None) else ''}"


def tables(width: str) -> list[pa.Table]:
    rng = np.random.default_rng(3)
    top = 65_000 if width == "uint16" else 200_000
    lists = [rng.integers(0, top, size=n).tolist() for n in rng.integers(1, 600, size=150)]
    tokens = pa.array(lists, pa.list_(pa.type_for_alias(width)))
    table = pa.table({"id": [f"w/é#{i}" for i in range(150)], "tokenize.tokens": tokens})
    return [table.slice(0, 40), table.slice(40)]


def published(run: Any, folder: Path) -> int:
    """Write an export down; how many tokens its manifest counts, padding included."""
    for name, data in [*run.published.items(), *((n, t.encode()) for n, t in run.texts.items())]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    splits = json.loads(run.texts["manifest.json"])["splits"].values()
    return sum(s["tokens"] + s.get("padding_tokens", 0) for s in splits)


def checked(sink: TokenSink, run: Any, folder: Path) -> Any:
    (check,) = sink.open_by_library(run.inputs(), str(folder))
    return check


@pytest.mark.parametrize("sink", list(cases()))
@pytest.mark.parametrize("width", ["uint16", "uint32"])
def test_the_library_reads_what_was_written(
    run_sink: Callable[..., Any], tmp_path: Path, sink: TokenSink, width: str
) -> None:
    run = run_sink(sink, tables(width))
    count = published(run, tmp_path)
    assert len(list(tmp_path.rglob("*documents.parquet"))) > 3
    check = checked(sink, run, tmp_path)
    assert check.problems == ()
    assert check.count == count
    assert check.what == f"tokens that {sink.library} reads as they were written"


@pytest.mark.parametrize("sink", list(cases([made(sequence=64, shuffle=False) for made in SAMPLES])))
@pytest.mark.parametrize("sizes", [(3, 5, 500), (3, 5)])
def test_shards_shorter_than_a_sequence(
    run_sink: Callable[..., Any], tmp_path: Path, sink: TokenSink, sizes: tuple[int, ...]
) -> None:
    lists = pa.array([[70_000] * n for n in sizes], pa.list_(pa.uint32()))
    shards = [pa.table({"id": [f"d{i}"], "tokenize.tokens": lists[i : i + 1]}) for i in range(len(sizes))]
    run = run_sink(sink, shards)
    published(run, tmp_path)
    assert checked(sink, run, tmp_path).problems == ()
    assert [check.problems for check in sink.verify(run.inputs(), 10)] == [()] * len(list(sink.verify(run.inputs(), 0)))


@pytest.mark.parametrize("sink", list(cases()))
def test_other_tokens_are_noticed(run_sink: Callable[..., Any], tmp_path: Path, sink: TokenSink) -> None:
    """The files of one run held against those of another, whose documents are the same but for one token."""
    given = tables("uint16")
    run = run_sink(sink, given)
    tokens = given[1].column("tokenize.tokens").to_pylist()
    tokens[7][0] ^= 1
    changed = given[1].set_column(1, "tokenize.tokens", pa.array(tokens, pa.list_(pa.uint16())))
    published(run_sink(sink, [given[0], changed]), tmp_path)
    (problem,) = checked(sink, run, tmp_path).problems
    assert f"{sink.library} reads other tokens than were written" in problem


@pytest.mark.parametrize("sink", list(cases()))
def test_what_the_library_raises_is_reported(run_sink: Callable[..., Any], tmp_path: Path, sink: TokenSink) -> None:
    run = run_sink(sink, tables("uint16"))
    published(run, tmp_path)
    for path in sorted(p for p in tmp_path.rglob("train*") if p.is_file() and p.suffix != ".parquet")[:2]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    if sink.format_name in ("mds", "mindrecord"):
        for path in [*tmp_path.rglob("train*.mds"), *tmp_path.rglob("tokens.*")]:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert any(sink.library in p for p in checked(sink, run, tmp_path).problems)
