"""TFRecord files read by a parser of the test's own, and by the libraries where they are installed."""

from __future__ import annotations

import importlib.util
import io
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stages.export.jsonl_tokens import JsonlTokens
from stages.export.tfrecord import TfRecord
from stages.kernels.crc32c import TABLES, crc32c, masked


def documents(width: str) -> dict[str, list[int]]:
    rng = np.random.default_rng(8)
    top = 65_000 if width == "uint16" else 1 << 32
    sizes = [*rng.integers(1, 300, size=60).tolist(), 127, 128, 20_000]
    return {f"w/é/a.warc.gz#{i}": rng.integers(0, top, size=n).tolist() for i, n in enumerate(sizes)}


def shards(given: dict[str, list[int]], width: str) -> list[pa.Table]:
    lists = pa.array(list(given.values()), pa.list_(pa.type_for_alias(width)))
    table = pa.table({"id": list(given), "tokenize.tokens": lists})
    return [table.slice(0, 20), table.slice(20)]


def records(data: bytes) -> Iterator[bytes]:
    """The framing, checksums checked."""
    stream = io.BytesIO(data)
    while head := stream.read(12):
        length, check = struct.unpack("<QI", head)
        assert check == masked(int(crc32c(np.frombuffer(head[:8], np.uint8), TABLES)))
        body = stream.read(length)
        (check,) = struct.unpack("<I", stream.read(4))
        assert check == masked(int(crc32c(np.frombuffer(body, np.uint8), TABLES)))
        yield body


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of a message all of whose fields are length-prefixed."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 == 2
        size, at = varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def example(data: bytes, *more: str) -> tuple[str, list[int], dict[str, list[int]]]:
    """(id, tokens, other features) of an Example that has these others."""
    ((one, features),) = fields(data)
    assert one == 1
    found = {}
    for _, entry in fields(features):
        (_, name), (_, feature) = fields(entry)
        ((kind, values),) = fields(feature)
        ((_, content),) = fields(values)
        found[name.decode()] = kind, content
    assert list(found) == ["id", *more, "tokens"]
    assert [kind for kind, _ in found.values()] == [1, *(3 for _ in more), 3]
    numbers = {name: packed_integers(data) for name, (_, data) in found.items() if name != "id"}
    return found["id"][1].decode(), numbers.pop("tokens"), numbers


def packed_integers(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


@pytest.mark.parametrize("width", ["uint16", "uint32"])
def test_framing_and_contents(run_sink: Callable[..., Any], width: str) -> None:
    given = documents(width)
    run = run_sink(TfRecord(file_tokens=8_000, validation=0.1), shards(given, width))
    files = {n: d for n, d in run.published.items() if n.endswith(".tfrecord")}
    assert {n.partition("-")[0] for n in files} == {"train", "validation"}
    assert len(files) > 2
    assert {name: tokens for d in files.values() for name, tokens, _ in map(example, records(d))} == given
    manifest = json.loads(run.texts["manifest.json"])
    assert manifest["format"] == "tfrecord"
    assert sum(f["tokens"] for f in manifest["files"]) == sum(map(len, given.values()))


def test_cut_samples(run_sink: Callable[..., Any]) -> None:
    given = documents("uint16")
    run = run_sink(TfRecord(sequence=128, shuffle=False), shards(given, "uint16"))
    files = [d for n, d in sorted(run.published.items()) if n.endswith(".tfrecord")]
    made, borders = [], []
    for _, tokens, more in (example(r, "seq_lengths") for d in files for r in records(d)):
        made.append(tokens)
        borders.append(more["seq_lengths"])
    assert {len(t) for t in made} == {128} == {sum(b) for b in borders}
    first = [t for key in list(given)[:20] for t in given[key]]
    assert [t for sample in made for t in sample][: len(first) // 128 * 128] == first[: len(first) // 128 * 128]
    assert len(made) * 128 + run.counters["dropped_tokens"] == sum(map(len, given.values()))


@pytest.mark.filterwarnings("ignore")
def test_tensorflow_reads_it(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    given = documents("uint32")
    paths = saved(run_sink(TfRecord(file_tokens=8_000), shards(given, "uint32")), tmp_path)
    found = {}
    for raw in tensorflow.data.TFRecordDataset(paths):
        features = tensorflow.train.Example.FromString(raw.numpy()).features.feature
        found[features["id"].bytes_list.value[0].decode()] = list(features["tokens"].int64_list.value)
    assert found == given


@pytest.mark.filterwarnings("ignore")
def test_the_tfrecord_package_reads_it(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorflow") is not None:
        pytest.skip("tensorflow is there, and both define tf.train.Example")
    tfrecord = pytest.importorskip("tfrecord")
    given = documents("uint16")
    found = {}
    for path in saved(run_sink(TfRecord(file_tokens=8_000), shards(given, "uint16")), tmp_path):
        for row in tfrecord.tfrecord_loader(path, None, {"id": "byte", "tokens": "int"}):
            found[bytes(row["id"]).decode()] = row["tokens"].tolist()
    assert found == given


@pytest.mark.filterwarnings("ignore")
def test_mindspore_reads_it(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    dataset = pytest.importorskip("mindspore.dataset")
    given = documents("uint16")
    paths = saved(run_sink(TfRecord(file_tokens=8_000), shards(given, "uint16")), tmp_path)
    columns = dataset.Schema()
    columns.add_column("id", "string", [1])
    columns.add_column("tokens", "int64", [-1])
    rows = dataset.TFRecordDataset(paths, columns, shuffle=False).create_dict_iterator(output_numpy=True, num_epochs=1)
    assert {str(row["id"].item()): row["tokens"].tolist() for row in rows} == given


def saved(run: Any, folder: Path) -> list[str]:
    for name, data in run.published.items():
        (folder / name).write_bytes(data)
    return [str(p) for p in sorted(folder.glob("*.tfrecord"))]


@pytest.mark.parametrize("width", ["uint16", "uint32"])
def test_json_lines(run_sink: Callable[..., Any], width: str) -> None:
    given = documents(width)
    run = run_sink(JsonlTokens(file_tokens=8_000), shards(given, width))
    lines = [line for n, d in run.published.items() if n.endswith(".jsonl") for line in d.splitlines()]
    assert {r["id"]: r["tokens"] for r in map(json.loads, lines)} == given
