"""Formats of samples, each opened by its own library where that is installed, and decoded to the same documents."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusflow import ConfigError
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


def documents(width: str = "uint16") -> dict[str, list[int]]:
    rng = np.random.default_rng(8)
    top = 65_000 if width == "uint16" else 200_000
    sizes = [*rng.integers(1, 600, size=150).tolist(), 255, 256, 70_000]
    return {f"w/é/a.warc.gz#{i}": rng.integers(0, top, size=n).tolist() for i, n in enumerate(sizes)}


def shards(given: dict[str, list[int]], width: str = "uint16") -> list[pa.Table]:
    lists = pa.array(list(given.values()), pa.list_(pa.type_for_alias(width)))
    table = pa.table({"id": list(given), "tokenize.tokens": lists})
    return [table.slice(0, 40), table.slice(40)]


def save(run: Any, folder: Path) -> Path:
    for name, data in [*run.published.items(), *((n, t.encode()) for n, t in run.texts.items())]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def stream_of(run: Any, split: str = "train") -> dict[str, list[int]]:
    """Tokens of each file by stem, as the document index has the documents; needs no format."""
    manifest = json.loads(run.texts["manifest.json"])
    return {
        f["parts"]["documents.parquet"]["name"]: pq.read_table(
            io.BytesIO(run.published[f["parts"]["documents.parquet"]["name"]])
        ).to_pylist()
        for f in manifest["files"]
        if f["split"] == split
    }


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("sequence", [None, 128])
def test_bytes_do_not_depend_on_batches_or_shards(
    run_sink: Callable[..., Any], sink: Any, sequence: int | None
) -> None:
    given = documents()
    tables = shards(given)
    stage = sink(sequence=sequence, file_tokens=30_000, validation=0.1)
    a = run_sink(stage, tables, batch_rows=1_000)
    b = run_sink(stage, [pa.concat_tables(tables)], batch_rows=7)
    assert a.published == b.published
    assert a.texts == b.texts
    assert all(check.problems == () for check in stage.verify(a.inputs(), 10))


@pytest.mark.parametrize("sink", SINKS)
def test_tokens_in_are_tokens_out_and_dropped(run_sink: Callable[..., Any], sink: Any) -> None:
    given = documents()
    stage = sink(sequence=100, file_tokens=30_000)
    run = run_sink(stage, shards(given))
    samples = sum(n for _, _, n in stage.samples(run.inputs()))
    dropped = run.counters["dropped_tokens"]
    assert samples * 100 + dropped == sum(map(len, given.values()))
    assert dropped < 100 * len(stream_of(run))


@pytest.mark.parametrize("width", ["uint16", "uint32"])
def test_mds(run_sink: Callable[..., Any], tmp_path: Path, width: str) -> None:
    mds = pytest.importorskip("streaming.base.format.mds.reader")
    given = documents(width)
    folder = save(run_sink(Mds(file_tokens=20_000), shards(given, width)), tmp_path)
    found = {}
    index = json.loads((folder / "train" / "index.json").read_text())
    for shard in index["shards"]:
        reader = mds.MDSReader.from_json(str(folder), "train", shard)
        for i in range(shard["samples"]):
            sample = reader[i]
            assert sample["tokens"].dtype == width
            found[sample["id"]] = sample["tokens"].tolist()
    assert found == given


def test_mds_sequences(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    mds = pytest.importorskip("streaming.base.format.mds.reader")
    given = documents()
    run = run_sink(Mds(sequence=64), shards(given))
    folder = save(run, tmp_path)
    (order,) = stream_of(run).values()
    expected = [t for row in order for t in given[row["id"]]]
    (shard,) = json.loads((folder / "train" / "index.json").read_text())["shards"]
    reader = mds.MDSReader.from_json(str(folder), "train", shard)
    starts = np.cumsum([0, *[row["length"] for row in order]])
    for i in range(shard["samples"]):
        assert reader[i]["tokens"].tolist() == expected[64 * i : 64 * i + 64]
        assert reader[i]["id"] == order[int(np.searchsorted(starts, 64 * i, "right")) - 1]["id"]
        borders = [0, *(int(s) - 64 * i for s in starts if 64 * i < s < 64 * i + 64), 64]
        assert reader[i]["seq_lengths"].tolist() == np.diff(borders).tolist()


@pytest.mark.filterwarnings("ignore")
def test_packed_sequences_by_the_libraries(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    """What MDS, datasets and webdataset read of the same packed samples; JSON lines say what these are."""
    options: dict[str, Any] = {"sequence": 64, "packing": "best_fit"}
    (lines,) = (d for n, d in run_sink(JsonlTokens(**options), shards(documents())).published.items() if "json" in n)
    expected = [tuple(json.loads(line).values()) for line in lines.splitlines()]
    mds = pytest.importorskip("streaming.base.format.mds.reader")
    folder = save(run_sink(Mds(**options), shards(documents())), tmp_path / "mds")
    (shard,) = json.loads((folder / "train" / "index.json").read_text())["shards"]
    reader = mds.MDSReader.from_json(str(folder), "train", shard)
    rows = [reader[i] for i in range(shard["samples"])]
    assert [(r["id"], r["tokens"].tolist(), r["seq_lengths"].tolist()) for r in rows] == expected
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_from_disk(str(save(run_sink(HuggingFaceDataset(**options), shards(documents())), tmp_path)))
    assert [(r["id"], r["input_ids"], r["seq_lengths"]) for r in loaded["train"]] == expected
    webdataset = pytest.importorskip("webdataset")
    folder = save(run_sink(WebDataset(**options), shards(documents())), tmp_path / "tar")
    tar = webdataset.WebDataset([str(p) for p in folder.glob("*.tar")], shardshuffle=False).decode()
    assert [(s["json"]["id"], s["npy"].tolist(), s["json"]["seq_lengths"]) for s in tar] == expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("width", ["uint16", "uint32"])
def test_huggingface(run_sink: Callable[..., Any], tmp_path: Path, width: str) -> None:
    datasets = pytest.importorskip("datasets")
    given = documents(width)
    folder = save(run_sink(HuggingFaceDataset(file_tokens=20_000, validation=0.2), shards(given, width)), tmp_path)
    loaded = datasets.load_from_disk(str(folder))
    assert set(loaded) == {"train", "validation"}
    found = {row["id"]: row["input_ids"] for split in loaded.values() for row in split}
    assert found == given


def test_huggingface_files_are_arrow_streams(run_sink: Callable[..., Any]) -> None:
    given = documents()
    run = run_sink(HuggingFaceDataset(file_tokens=20_000), shards(given))
    found = {}
    for name, data in run.published.items():
        if name.endswith(".arrow"):
            for row in pa.ipc.open_stream(data).read_all().to_pylist():
                found[row["id"]] = row["input_ids"]
    assert found == given
    assert json.loads(run.texts["dataset_dict.json"]) == {"splits": ["train"]}


@pytest.mark.filterwarnings("ignore")
def test_webdataset(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    given = documents()
    folder = save(run_sink(WebDataset(file_tokens=20_000), shards(given)), tmp_path)
    urls = [str(p) for p in sorted(folder.glob("*.tar"))]
    found = {s["json"]["id"]: s["npy"].tolist() for s in webdataset.WebDataset(urls, shardshuffle=False).decode()}
    assert found == given


def test_tar_members(run_sink: Callable[..., Any]) -> None:
    given = documents()
    run = run_sink(WebDataset(file_tokens=20_000), shards(given))
    found = {}
    for name, data in run.published.items():
        if name.endswith(".tar"):
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                members = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
            for key in {m.partition(".")[0] for m in members}:
                found[json.loads(members[f"{key}.json"])["id"]] = np.load(io.BytesIO(members[f"{key}.npy"])).tolist()
    assert found == given


@pytest.mark.parametrize("sequence", [None, 50])
def test_npy(run_sink: Callable[..., Any], tmp_path: Path, sequence: int | None) -> None:
    given = documents()
    run = run_sink(Npy(sequence=sequence), shards(given))
    folder = save(run, tmp_path)
    (order,) = stream_of(run).values()
    expected = [t for row in order for t in given[row["id"]]]
    array = np.load(folder / "train-00000-of-00001.npy", mmap_mode="r")
    assert array.dtype == np.uint16
    if sequence is None:
        assert array.tolist() == expected
    else:
        assert array.shape == (len(expected) // 50, 50)
        assert array.ravel().tolist() == expected[: array.size]


@pytest.mark.parametrize(("width", "magic"), [("uint16", (20240520, 1)), ("uint32", (20240801, 7))])
def test_llmc(run_sink: Callable[..., Any], width: str, magic: tuple[int, int]) -> None:
    """As dataloader.h reads a file: 256 int32, of which the third says how many tokens follow."""
    given = documents(width)
    run = run_sink(Llmc(), shards(given, width))
    (order,) = stream_of(run).values()
    data = run.published["train-00000-of-00001.bin"]
    header = np.frombuffer(data, "<i4", 256)
    tokens = np.frombuffer(data, "<u2" if width == "uint16" else "<u4", offset=1024)
    assert (header[0], header[1], header[2]) == (*magic, len(tokens))
    assert not header[3:].any()
    assert tokens.tolist() == [t for row in order for t in given[row["id"]]]
    with pytest.raises(ConfigError, match="less than"):
        Llmc(file_tokens=1 << 31)


@pytest.mark.parametrize(("sink", "limit"), [(Mds, "mds._LARGEST"), (Llmc, "llmc._MOST")])
def test_more_than_the_format_counts(
    run_sink: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, sink: Any, limit: str
) -> None:
    monkeypatch.setattr(f"stages.export.{limit}", 1_000)
    with pytest.raises(ConfigError, match=r"the format counts them in 3\d bits") as e:
        run_sink(sink(shuffle=False), shards(documents()))
    assert "shuffle: true" in str(e.value.hint)


@pytest.mark.parametrize("sink", SINKS)
def test_nothing_left_writes_nothing(run_sink: Callable[..., Any], sink: Any) -> None:
    empty = shards(documents())[0].slice(0, 0)
    run = run_sink(sink(), [empty])
    assert run.published == {}


@pytest.mark.parametrize("sink", SINKS)
def test_a_file_shorter_than_a_sequence_is_of_the_others_type(run_sink: Callable[..., Any], sink: Any) -> None:
    lists = pa.array([[70_000] * n for n in (3, 500, 63)], pa.list_(pa.uint32()))
    stage = sink(sequence=64, shuffle=False)
    run = run_sink(stage, [pa.table({"id": [f"d{i}"], "tokenize.tokens": lists[i : i + 1]}) for i in range(3)])
    assert [p for check in stage.verify(run.inputs(), 10) for p in check.problems] == []
    files = {n: data for n, data in run.published.items() if n.endswith((".arrow", ".npy", ".mds"))}
    if sink is HuggingFaceDataset:
        assert {str(pa.ipc.open_stream(d).schema.field("input_ids").type) for d in files.values()} == {
            "list<item: uint32>"
        }
    elif sink is Npy:
        assert {np.load(io.BytesIO(d)).dtype.name for d in files.values()} == {"uint32"}
    elif sink is Mds:
        assert all(b"ndarray:uint32:64" in d for d in files.values())


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("options", [{}, {"sequence": 16}, {"sequence": 16, "packing": "documents"}])
def test_one_id_in_two_files_is_a_problem(run_sink: Callable[..., Any], sink: Any, options: dict[str, Any]) -> None:
    table = pa.table({"id": ["a"], "tokenize.tokens": pa.array([list(range(40))], pa.list_(pa.uint16()))})
    stage = sink(**options, shuffle=False)
    run = run_sink(stage, [table, table])
    problems = [p for check in stage.verify(run.inputs(), 10) for p in check.problems]
    assert len(problems) == 1
    assert "a is in train-00001-of-00002" in problems[0]


def test_a_sequence_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="sequence"):
        Npy(sequence=0)


def test_what_was_left_over_is_nowhere(run_sink: Callable[..., Any]) -> None:
    """Of two documents of 50 tokens, samples of 64 hold the first and 14 of the second."""
    stage = JsonlTokens(sequence=64, shuffle=False)
    run = run_sink(stage, shards({"a": [1] * 50, "b": [2] * 50, "c": [3] * 9})[:1])
    assert run.counters["dropped_tokens"] == 45
    places = {key: [(p["token"], p["tokens"]) for p in stage.find(run.inputs(), key)] for key in "abc"}
    assert places == {"a": [(0, 50)], "b": [(50, 14)], "c": []}


@pytest.mark.parametrize("sink", SINKS)
def test_a_document_is_found_in_the_file_that_holds_it(run_sink: Callable[..., Any], sink: Any) -> None:
    stage = sink(file_tokens=30_000)
    run = run_sink(stage, shards(documents()))
    for key in list(documents())[::40]:
        (place,) = stage.find(run.inputs(), key)
        assert place["file"] in run.published
        rows = {row["id"]: row for rows in stream_of(run).values() for row in rows}
        assert (place["token"], place["tokens"]) == (rows[key]["offset"], rows[key]["length"])
