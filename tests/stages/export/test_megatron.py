from __future__ import annotations

import io
import itertools
import json
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError
from stages.export.megatron import Megatron
from stages.kernels.megatron_index import read_index, write_index


def documents(count: int, seed: int = 1, width: str = "uint16", top: int = 65_499) -> pa.Table:
    rng = np.random.default_rng(seed)
    lists = [rng.integers(0, top + 1, size=n).tolist() for n in rng.integers(0, 60, size=count)]
    return pa.table(
        {
            "id": pa.array([f"t/a.jsonl#{seed}-{i}" for i in range(count)]),
            "tokenize.tokens": pa.array(lists, pa.list_(pa.type_for_alias(width))),
        }
    )


def cut(table: pa.Table, pieces: int) -> list[pa.Table]:
    bounds = np.linspace(0, table.num_rows, pieces + 1).astype(int)
    return [table.slice(a, b - a) for a, b in itertools.pairwise(bounds)]


def read_by_the_specification(idx: bytes, bin_: bytes) -> list[np.ndarray]:
    """A reader of its own, written from the format's description: struct fields one after the other."""
    stream = io.BytesIO(idx)
    assert stream.read(9) == b"MMIDIDX\x00\x00"
    (version,) = struct.unpack("<Q", stream.read(8))
    (code,) = struct.unpack("<B", stream.read(1))
    (sequences,) = struct.unpack("<Q", stream.read(8))
    (borders,) = struct.unpack("<Q", stream.read(8))
    lengths = struct.unpack(f"<{sequences}i", stream.read(4 * sequences))
    pointers = struct.unpack(f"<{sequences}q", stream.read(8 * sequences))
    document_indices = struct.unpack(f"<{borders}q", stream.read(8 * borders))
    assert stream.read() == b""
    assert version == 1
    assert document_indices == tuple(range(sequences + 1))
    dtype = {8: np.uint16, 4: np.int32}[code]
    return [np.frombuffer(bin_, dtype, n, p) for n, p in zip(lengths, pointers, strict=True)]


def by_id(run: Any, suffix: str = "bin") -> dict[str, list[int]]:
    """Token list of every exported document, through the .idx and the document index alone."""
    found: dict[str, list[int]] = {}
    for name, data in run.published.items():
        if name.endswith(".idx"):
            stem = name.removesuffix(".idx")
            sequences = read_by_the_specification(data, run.published[stem + ".bin"])
            index = pq.read_table(io.BytesIO(run.published[stem + ".documents.parquet"])).to_pylist()
            assert len(index) == len(sequences)
            at = 0
            for row, tokens in zip(index, sequences, strict=True):
                assert (row["offset"], row["length"]) == (at, len(tokens))
                at += len(tokens)
                assert row["id"] not in found
                found[row["id"]] = tokens.tolist()
    return found


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("width", "top"), [("uint16", 65_499), ("uint32", 200_000)])
def test_every_document_comes_back_token_for_token(
    run_sink: Callable[..., Any], shuffle: bool, width: str, top: int
) -> None:
    table = documents(700, width=width, top=top)
    run = run_sink(Megatron(shuffle=shuffle, file_tokens=4_000, validation=0.1), cut(table, 5), batch_rows=37)
    expected = {row["id"]: row["tokenize.tokens"] for row in table.to_pylist() if row["tokenize.tokens"]}
    assert by_id(run) == expected
    manifest = json.loads(run.texts["manifest.json"])
    assert manifest["dtype"] == width
    assert manifest["tokenizer"] == {"eos_id": 2}
    assert sum(s["documents"] for s in manifest["splits"].values()) == len(expected)
    assert sum(s["tokens"] for s in manifest["splits"].values()) == sum(map(len, expected.values()))
    assert run.counters["empty_documents"] == 700 - len(expected)
    listed = [p["name"] for f in manifest["files"] for p in f["parts"].values()]
    assert sorted(listed) == sorted(run.published)
    codes = {data[17] for name, data in run.published.items() if name.endswith(".idx")}
    assert codes == {8 if width == "uint16" else 4}


def test_order_does_not_depend_on_shards_or_batches(run_sink: Callable[..., Any]) -> None:
    table = documents(900)
    sink = Megatron(file_tokens=5_000, validation=0.05)
    runs = [run_sink(sink, cut(table, n), batch_rows=b) for n, b in ((1, 900), (2, 64), (5, 7))]
    for other in runs[1:]:
        assert other.published == runs[0].published
        assert other.texts == runs[0].texts
    backwards = run_sink(sink, cut(table.take(pa.array(np.arange(899, -1, -1))), 3))
    assert backwards.published == runs[0].published


def test_another_seed_is_another_order_with_the_same_validation_set(run_sink: Callable[..., Any]) -> None:
    table = documents(600)
    sink = Megatron(validation=0.1)
    a, b = (run_sink(sink, cut(table, 3), seed=seed) for seed in (7, 8))

    def order(run: Any, split: str) -> list[str]:
        data = run.published[f"{split}-00000-of-00001.documents.parquet"]
        return pq.read_table(io.BytesIO(data)).column("id").to_pylist()

    assert order(a, "train") != order(b, "train")
    assert sorted(order(a, "train")) == sorted(order(b, "train"))
    assert set(order(a, "validation")) == set(order(b, "validation"))


def test_shuffled_order_is_uniform(run_sink: Callable[..., Any]) -> None:
    table = documents(4_000).filter(pa.array([True] * 4_000))
    run = run_sink(Megatron(file_tokens=1 << 40), cut(table, 4))
    ids = pq.read_table(io.BytesIO(run.published["train-00000-of-00001.documents.parquet"])).column("id").to_pylist()
    source = np.array([int(i.rpartition("-")[2]) for i in ids])
    ranks = np.argsort(np.argsort(source))
    n = len(ranks)
    # Spearman's rho of a random permutation has deviation 1/sqrt(n-1); neighbours must not stay neighbours either
    assert abs(np.corrcoef(ranks, np.arange(n))[0, 1]) < 4 / np.sqrt(n)
    assert (np.abs(np.diff(ranks)) == 1).sum() < 20
    counts = np.histogram2d(np.arange(n), ranks, bins=8)[0].ravel()
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 64 + 5 * np.sqrt(2 * 64)


def test_split_shares(run_sink: Callable[..., Any]) -> None:
    table = documents(6_000)
    manifest = json.loads(run_sink(Megatron(validation=0.25), cut(table, 2)).texts["manifest.json"])
    documents_total = sum(s["documents"] for s in manifest["splits"].values())
    share = manifest["splits"]["validation"]["documents"] / documents_total
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 6_000)


def test_a_smaller_validation_share_is_a_subset(run_sink: Callable[..., Any]) -> None:
    table = documents(2_000)

    def validation(share: float) -> set[str]:
        run = run_sink(Megatron(validation=share), cut(table, 2))
        data = run.published["validation-00000-of-00001.documents.parquet"]
        return set(pq.read_table(io.BytesIO(data)).column("id").to_pylist())

    assert validation(0.02) < validation(0.1)


def test_files_have_about_the_asked_size_and_documents_stay_whole(run_sink: Callable[..., Any]) -> None:
    table = documents(5_000)
    run = run_sink(Megatron(file_tokens=10_000), cut(table, 6))
    sizes = [len(d) // 2 for n, d in run.published.items() if n.endswith(".bin")]
    assert len(sizes) == -(-sum(sizes) // 10_000)
    assert max(sizes) < 13_000
    assert "train-00000-of-00015.bin" in run.published


def test_ranged_reads_touch_only_what_they_need(run_sink: Callable[..., Any]) -> None:
    table = documents(40_000)
    run = run_sink(Megatron(file_tokens=60_000), cut(table, 4))
    files = run.tasks["write"]
    assert files > 15
    # 4 runs and `files` output files: a row group or two of each run for each file
    assert run.ranges_read <= 4 * files * 2.5


def test_a_file_is_put_in_order_slice_by_slice(run_sink: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    table = documents(3_000)
    whole = run_sink(Megatron(file_tokens=50_000), cut(table, 3))
    monkeypatch.setattr("stages.export._tokens._SLICE_TOKENS", 4_000)
    sliced = run_sink(Megatron(file_tokens=50_000), cut(table, 3))
    assert sliced.published == whole.published
    assert sliced.ranges_read > 5 * whole.ranges_read / 2


def test_nothing_left_writes_nothing(run_sink: Callable[..., Any]) -> None:
    empty = documents(0)
    for shuffle in (True, False):
        run = run_sink(Megatron(shuffle=shuffle, validation=0.5), [empty, empty])
        assert run.published == {}
        assert json.loads(run.texts["manifest.json"])["files"] == []


def test_null_and_empty_token_lists_are_left_out_and_counted(run_sink: Callable[..., Any]) -> None:
    table = pa.table({"id": ["a", "b", "c"], "tokenize.tokens": pa.array([None, [], [5, 6]], pa.list_(pa.uint16()))})
    for shuffle in (True, False):
        run = run_sink(Megatron(shuffle=shuffle), [table])
        assert by_id(run) == {"c": [5, 6]}
        assert run.counters["empty_documents"] == 2


def test_blend_file_names_every_prefix_with_its_tokens(run_sink: Callable[..., Any]) -> None:
    run = run_sink(Megatron(file_tokens=2_000), cut(documents(300), 2))
    fields = run.texts["train.blend.txt"].split()
    for tokens, prefix in zip(fields[::2], fields[1::2], strict=True):
        assert len(run.published[f"{prefix}.bin"]) == 2 * int(tokens)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5_000), max_size=300), st.sampled_from(["uint16", "uint32"]))
def test_index_round_trip(lengths: list[int], dtype: str) -> None:
    stream = io.BytesIO()
    write_index(stream, np.array(lengths, np.int64), np.dtype(dtype))
    index = read_index(stream.getvalue())
    assert index.lengths.tolist() == lengths
    width = np.dtype(dtype).itemsize
    assert index.pointers.tolist() == [width * sum(lengths[:i]) for i in range(len(lengths))]
    assert index.documents.tolist() == list(range(len(lengths) + 1))


@pytest.mark.parametrize("damage", [lambda d: b"X" + d[1:], lambda d: d[:-1], lambda d: d[:9] + b"\x02" + d[10:]])
def test_a_damaged_index_is_refused(damage: Callable[[bytes], bytes]) -> None:
    stream = io.BytesIO()
    write_index(stream, np.array([3, 4]), np.dtype(np.uint16))
    with pytest.raises(ValueError, match="expected"):
        read_index(damage(stream.getvalue()))


@pytest.mark.filterwarnings("ignore")
def test_megatron_core_reads_the_same_documents(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    indexed_dataset = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    table = documents(200)
    run = run_sink(Megatron(file_tokens=1_500), cut(table, 3))
    for name, data in run.published.items():
        (tmp_path / name).write_bytes(data)
    expected = {row["id"]: row["tokenize.tokens"] for row in table.to_pylist() if row["tokenize.tokens"]}
    found: dict[str, list[int]] = {}
    for name in run.published:
        if name.endswith(".idx"):
            stem = name.removesuffix(".idx")
            theirs = indexed_dataset.IndexedDataset(str(tmp_path / stem))
            ids = pq.read_table(tmp_path / f"{stem}.documents.parquet").column("id").to_pylist()
            assert len(theirs) == len(ids)
            assert theirs.index.dtype is np.uint16
            assert theirs.document_indices.tolist() == list(range(len(ids) + 1))
            found |= {key: theirs[i].tolist() for i, key in enumerate(ids)}
    assert found == expected


@pytest.mark.filterwarnings("ignore")
def test_megatron_trains_by_the_blend_file(run_sink: Callable[..., Any], tmp_path: Path) -> None:
    """GPTDataset, which cuts sequences itself: an epoch of each file has every token of it but a remainder."""
    gpt = pytest.importorskip("megatron.core.datasets.gpt_dataset")
    builder = pytest.importorskip("megatron.core.datasets.blended_megatron_dataset_builder")
    utils = pytest.importorskip("megatron.core.datasets.utils")
    distributed = pytest.importorskip("torch.distributed")
    run = run_sink(Megatron(file_tokens=6_000), cut(documents(500, top=900), 3))
    for name, data in run.published.items():
        (tmp_path / name).write_bytes(data)
    words = run.texts["train.blend.txt"].split()
    half = sum(map(int, words[::2])) // 64 // 2
    assert len(words) > 4
    blend = [w if i % 2 == 0 else str(tmp_path / w) for i, w in enumerate(words)]
    tokenizer = SimpleNamespace(eod=2, pad=0, vocab_size=1_000, unique_identifiers={"class": "test"})
    length = 64
    config = gpt.GPTDatasetConfig(
        random_seed=1,
        sequence_length=length,
        blend=utils.get_blend_from_list(blend),
        split="100,0,0",
        path_to_cache=str(tmp_path / "cache"),
        tokenizer=tokenizer,
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        train, _, _ = builder.BlendedMegatronDatasetBuilder(gpt.GPTDataset, [half, 0, 0], lambda: True, config).build()
    finally:
        distributed.destroy_process_group()
    parts = getattr(train, "datasets", train)
    assert len(parts) == len(words) // 2
    for part, stem in zip(parts, words[1::2], strict=True):
        whole = Counter(np.frombuffer(run.published[f"{stem}.bin"], "<u2").tolist())
        given = Counter(t for i in range(len(part)) for t in part[i]["labels"].tolist())
        assert 0 <= (whole.total() - 1) // length * length - given.total() <= length
        assert not given - whole
    drawn = np.bincount([train[i]["dataset_id"] for i in range(len(train))])
    assert np.abs(drawn / half - np.array(words[::2], int) / sum(map(int, words[::2]))).max() < 0.02


@pytest.mark.parametrize("validation", [-0.1, 1.0, 2.0])
def test_a_share_outside_its_range_is_refused(validation: float) -> None:
    with pytest.raises(ConfigError, match="validation"):
        Megatron(validation=validation)
