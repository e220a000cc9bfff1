"""Samples of one length in the three ways of packing: every token accounted for, borders of documents kept."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusflow import ConfigError
from corpusflow.trace import TokenExport
from stages.export._samples import SampleSink
from stages.export.huggingface import HuggingFaceDataset
from stages.export.jsonl_tokens import JsonlTokens
from stages.export.llmc import Llmc
from stages.export.mds import Mds
from stages.export.mindrecord import MindRecord
from stages.export.npy import Npy
from stages.export.tfrecord import TfRecord
from stages.export.webdataset import WebDataset

SINKS: list[type[SampleSink]] = [Mds, HuggingFaceDataset, WebDataset, Npy, TfRecord, MindRecord, JsonlTokens, Llmc]
WAYS = ["concatenate", "best_fit", "documents"]
LENGTH = 96
EOS = 2
Row = tuple[str, list[int], list[int]]


@pytest.fixture(scope="module")
def documents() -> dict[str, list[int]]:
    rng = np.random.default_rng(5)
    sizes = [*np.clip(rng.lognormal(3.5, 1.0, 260), 1, 900).astype(int).tolist(), LENGTH, LENGTH - 1, LENGTH + 1]
    return {f"w/{i}#0": [*rng.integers(3, 60_000, size=n).tolist(), EOS] for i, n in enumerate(sizes)}


def shards(given: dict[str, list[int]]) -> list[pa.Table]:
    table = pa.table({"id": list(given), "tokenize.tokens": pa.array(list(given.values()), pa.list_(pa.uint16()))})
    return [table.slice(0, 100), table.slice(100)]


def json_rows(run: Any) -> Iterator[Row]:
    """Samples of `export.jsonl_tokens`, file by file."""
    for name, data in sorted(run.published.items()):
        if name.endswith(".jsonl"):
            for row in map(json.loads, data.splitlines()):
                yield row["id"], row["tokens"], row["seq_lengths"]


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_tokens_in_are_tokens_out(
    run_sink: Callable[..., Any], documents: dict[str, list[int]], way: Any, shuffle: bool
) -> None:
    sink = JsonlTokens(sequence=LENGTH, packing=way, shuffle=shuffle, file_tokens=4_000, validation=0.2)
    run = run_sink(sink, shards(documents))
    manifest = json.loads(run.texts["manifest.json"])
    assert (manifest["sequence"], manifest["packing"]) == (LENGTH, way)
    split = Counter({k: sum(s.get(k, 0) for s in manifest["splits"].values()) for k in run.counters | {"samples": 0}})
    assert sum(map(len, documents.values())) == sum(s["tokens"] for s in manifest["splits"].values())
    rows = list(json_rows(run))
    assert {len(tokens) for _, tokens, _ in rows} == {LENGTH}
    assert len(rows) == split["samples"]
    total = sum(s["tokens"] for s in manifest["splits"].values())
    assert split["samples"] * LENGTH == total + split["padding_tokens"] - split["dropped_tokens"]
    written = Counter(t for _, tokens, lengths in rows for t in tokens[: sum(lengths)])
    lost = Counter(t for tokens in documents.values() for t in tokens) - written
    assert sum(lost.values()) == split["dropped_tokens"]
    assert run.counters == {"empty_documents": 0} | {
        k: n for k, n in split.items() if k in ("dropped_tokens", "padding_tokens")
    }
    assert all(check.problems == () for check in sink.verify(run.inputs(), 10))
    if way == "concatenate":
        assert split["dropped_tokens"] < LENGTH * len(manifest["files"])
        return
    assert manifest["pad_id"] == EOS
    assert not lost
    share = split["padding_tokens"] / (split["samples"] * LENGTH)
    assert (share > 0.25) if way == "documents" else (share < 0.05)


@pytest.mark.parametrize("way", ["best_fit", "documents"])
def test_documents_are_whole_where_they_fit(
    run_sink: Callable[..., Any], documents: dict[str, list[int]], way: Any
) -> None:
    by_start = {tuple(tokens[:LENGTH]): key for key, tokens in documents.items()}
    whole = []
    for name, tokens, lengths in json_rows(
        run_sink(JsonlTokens(sequence=LENGTH, packing=way, pad=1), shards(documents))
    ):
        ends = np.cumsum(lengths).tolist()
        stretches = [tokens[end - n : end] for n, end in zip(lengths, ends, strict=True)]
        assert tokens[ends[-1] :] == [1] * (LENGTH - ends[-1])
        assert len(stretches) == 1 or way == "best_fit"
        assert stretches[0][0] in documents[name]
        whole += [by_start[tuple(s)] for s in stretches if tuple(s) in by_start and s[-1] == EOS]
    assert sorted(whole) == sorted(k for k, tokens in documents.items() if len(tokens) <= LENGTH)


@pytest.mark.parametrize("way", WAYS)
def test_order_is_shuffled(run_sink: Callable[..., Any], documents: dict[str, list[int]], way: Any) -> None:
    """Long documents do not come first, nor do samples stand in the order of the input."""
    rows = list(json_rows(run_sink(JsonlTokens(sequence=LENGTH, packing=way), shards(documents))))
    position = {key: i for i, key in enumerate(documents)}
    at = np.arange(len(rows))
    values = [[position[name] for name, _, _ in rows], [max(lengths) for _, _, lengths in rows]]
    for value in values[: 1 if way == "concatenate" else 2]:  # there nothing is put together by length
        assert abs(np.corrcoef(value, at)[0, 1]) < 0.35


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("way", ["best_fit", "documents"])
def test_bytes_do_not_depend_on_batches_or_shards(
    run_sink: Callable[..., Any], documents: dict[str, list[int]], sink: Any, way: Any
) -> None:
    stage = sink(sequence=LENGTH, packing=way, file_tokens=5_000)
    tables = shards(documents)
    a = run_sink(stage, tables)
    b = run_sink(stage, [pa.concat_tables(tables)], batch_rows=7)
    assert a.published == b.published
    assert a.texts == b.texts


@pytest.mark.parametrize("sink", SINKS)
def test_pieces_say_where_each_stretch_lies(
    run_sink: Callable[..., Any], documents: dict[str, list[int]], sink: Any, tmp_path: Path
) -> None:
    """By the manifest, the document index and the pieces alone; and `explain` and `trace` say the same."""
    stage = sink(sequence=LENGTH, packing="best_fit", file_tokens=5_000)
    run = run_sink(stage, shards(documents))
    for name, data in [*run.published.items(), *((n, t.encode()) for n, t in run.texts.items())]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    export = TokenExport(str(tmp_path))
    manifest = json.loads(run.texts["manifest.json"])
    seen: Counter[str] = Counter()
    for file in manifest["files"]:
        ids, pieces = (
            pq.read_table(tmp_path / file["parts"][f"{kind}.parquet"]["name"]) for kind in ("documents", "pieces")
        )
        keys = ids.column("id").to_pylist()
        for piece in pieces.to_pylist():
            seen[keys[piece["document"]]] += piece["length"]
            assert piece["offset"] // LENGTH == (piece["offset"] + piece["length"] - 1) // LENGTH < file["samples"]
            if sink is Npy:
                array = np.load(tmp_path / file["parts"]["npy"]["name"]).ravel()
                stretch = array[piece["offset"] : piece["offset"] + piece["length"]].tolist()
                own = documents[keys[piece["document"]]]
                assert stretch == own[piece["start"] : piece["start"] + piece["length"]]
        for key in keys[::9]:
            own = [p for p in pieces.to_pylist() if keys[p["document"]] == key]
            places = list(stage.find(run.inputs(), key))
            assert sorted((p["token"], p["tokens"]) for p in places) == [(p["offset"], p["length"]) for p in own]
            assert {p["file"] for p in places} <= set(run.published)
            (span,) = export.of(key)
            assert (span.file, span.tokens) == (places[0]["file"], len(documents[key]))
            assert span.file_token == places[0]["token"]
            assert span.samples == (own[0]["offset"] // LENGTH, own[-1]["offset"] // LENGTH)
            assert export.at("train", span.start + span.tokens - 1) == span
    assert seen == Counter({key: len(tokens) for key, tokens in documents.items()})


def test_every_format_has_the_same_samples(
    run_sink: Callable[..., Any], documents: dict[str, list[int]], tmp_path: Path
) -> None:
    """Those that need no library of their own to be read; the others are in test_samples and test_tfrecord."""
    options: dict[str, Any] = {"sequence": LENGTH, "packing": "best_fit"}
    expected = list(json_rows(run_sink(JsonlTokens(**options), shards(documents))))
    (array,) = (d for n, d in run_sink(Npy(**options), shards(documents)).published.items() if n.endswith(".npy"))
    assert np.load(io.BytesIO(array)).tolist() == [tokens for _, tokens, _ in expected]
    arrow = run_sink(HuggingFaceDataset(**options), shards(documents)).published["train/train-00000-of-00001.arrow"]
    rows = pa.ipc.open_stream(arrow).read_all().to_pylist()
    assert [(r["id"], r["input_ids"], r["seq_lengths"]) for r in rows] == expected
    tar = run_sink(WebDataset(**options), shards(documents)).published["train-00000-of-00001.tar"]
    with tarfile.open(fileobj=io.BytesIO(tar)) as members:
        files = [(m.name, members.extractfile(m).read()) for m in members]  # type: ignore[union-attr]
    found = []
    for (name, about), (_, tokens) in zip(files[::2], files[1::2], strict=True):
        assert name.endswith(".json")
        body = json.loads(about)
        found.append((body["id"], np.load(io.BytesIO(tokens)).tolist(), body["seq_lengths"]))
    assert found == expected


def test_wrong_pieces_are_found(run_sink: Callable[..., Any], documents: dict[str, list[int]]) -> None:
    stage = Npy(sequence=LENGTH, packing="best_fit")
    run = run_sink(stage, shards(documents))
    path = next(p for p in run.files if p.endswith("train.pieces.parquet"))
    good = pq.read_table(io.BytesIO(run.files[path]))

    def problems(column: str, row: int, change: int) -> list[str]:
        values = good.column(column).to_pylist()
        values[row] += change
        index = good.column_names.index(column)
        bad = good.set_column(index, good.schema.field(column), pa.array(values, good.schema.field(column).type))
        out = io.BytesIO()
        pq.write_table(bad, out, write_page_checksum=True)
        run.files[path] = out.getvalue()
        return [p for check in stage.verify(run.inputs(), 0) for p in check.problems]

    last = good.num_rows - 1
    assert problems("start", 3, 0) == []
    assert any("each token once" in p for p in problems("start", 3, 1))
    assert any("each token once" in p for p in problems("length", 3, -1))
    assert any("over one another" in p for p in problems("offset", 3, -40))
    assert any("behind the last sample" in p for p in problems("offset", last, 2 * LENGTH))
    assert any("not in the index" in p for p in problems("document", 3, 10_000))


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("options", [{}, {"sequence": LENGTH}, {"sequence": LENGTH, "packing": "best_fit"}])
def test_verify_reads_the_samples(
    run_sink: Callable[..., Any], documents: dict[str, list[int]], sink: Any, options: dict[str, Any]
) -> None:
    stage = sink(**options, file_tokens=5_000, validation=0.1)
    run = run_sink(stage, shards(documents))

    def problems() -> list[str]:
        return [p for check in stage.verify(run.inputs(), 1_000) for p in check.problems]

    assert problems() == []
    key = next(iter(documents))
    tokens = run.shards[0].column("tokenize.tokens").to_pylist()
    tokens[0] = [t ^ 1 for t in tokens[0]]
    run.shards[0] = run.shards[0].set_column(1, "tokenize.tokens", pa.array(tokens, pa.list_(pa.uint16())))
    assert [p for p in problems() if "are not those" in p and key in p]
    path = next(p for p in run.files if p.startswith("write/0/") and not p.endswith(".parquet"))
    run.files[path] = run.files[path][: len(run.files[path]) // 2]
    assert any("cannot be read" in p or "in samples" in p for p in problems())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"packing": "best_fit"}, "length of a sequence"),
        ({"packing": "documents", "sequence": 8, "pad": -1}, "token id"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Npy(**given)


def test_a_pad_that_the_files_cannot_hold(run_sink: Callable[..., Any], documents: dict[str, list[int]]) -> None:
    with pytest.raises(ConfigError, match="16 bits cannot be padded with 65500"):
        run_sink(Npy(packing="documents", sequence=8, pad=65_500), shards(documents))
