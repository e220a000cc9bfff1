"""Parts: bytes that do not depend on batches, row groups that fit in memory, columns found by row, damage noticed."""

from __future__ import annotations

import itertools
import random
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpusflow import CorruptShardError
from corpusflow.checkpoint import NarrowView, PartWriter, iterate_part, open_parquet, read_part
from corpusflow.commit import Dataset
from corpusflow.record import PartFile, Record

SCHEMA = pa.schema(
    [
        ("row", pa.int32()),
        ("id", pa.string()),
        ("text", pa.large_string()),
        ("source", pa.string()),
        ("a.count", pa.int32()),
        ("a.share", pa.float32()),
        ("a.flag", pa.bool_()),
        ("a.code", pa.string()),
        ("a.hash", pa.binary(4)),
        ("a.tokens", pa.list_(pa.int32())),
    ]
)
rows = st.lists(
    st.tuples(
        st.text("abé昨", max_size=5),
        st.none() | st.text("xy昨", max_size=20),
        st.sampled_from(["warc", "jsonl", None]),
        st.none() | st.integers(-5, 1 << 30),
        st.none() | st.floats(width=32, allow_nan=False),
        st.none() | st.booleans(),
        st.sampled_from(["en", "zh", None]),
        st.none() | st.binary(min_size=4, max_size=4),
        st.none() | st.lists(st.integers(0, 9), max_size=4),
    ),
    max_size=40,
)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def table(some: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*some, strict=True)) if some else [()] * 9
    arrays = [pa.array(range(len(some)), pa.int32())]
    arrays += [pa.array(c, f.type) for c, f in zip(columns, list(SCHEMA)[1:], strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def write(folder: Path, batches: list[pa.RecordBatch | pa.Table], **options: Any) -> tuple[Dataset, PartFile]:
    dataset = Dataset(str(folder), "f" * 64)
    attempt = dataset.attempt(0, "k" * 32)
    schema = batches[0].schema if batches else SCHEMA
    with PartWriter(attempt, "rows", schema, **options) as writer:
        for batch in batches:
            writer.write(batch)
    part = attempt.commit({}).part("rows")
    assert part is not None
    return dataset, part


def cut(whole: pa.Table, at: list[int], rng: random.Random) -> list[pa.RecordBatch | pa.Table]:
    """The rows in pieces: slices that share buffers, copies of their own, tables of several chunks, empty ones."""
    (batch,) = whole.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], SCHEMA)]
    edges = [0, *sorted(min(a, len(whole)) for a in at), len(whole)]
    pieces: list[pa.RecordBatch | pa.Table] = []
    for start, end in itertools.pairwise(edges):
        piece = batch.slice(start, end - start)
        kind = rng.randrange(3)
        if kind == 1:
            piece = piece.take(pa.array(range(piece.num_rows), pa.int64()))
        pieces.append(pa.Table.from_batches([piece, piece.slice(0, 0)]) if kind == 2 else piece)
    return pieces


@quick
@given(
    rows,
    st.lists(st.integers(0, 40), max_size=6),
    st.randoms(use_true_random=False),
    st.integers(1, 9),
    st.integers(1, 40),
)
def test_bytes_do_not_depend_on_batches(
    quick_root: Path, some: list[Any], at: list[int], rng: random.Random, group_rows: int, group_bytes: int
) -> None:
    whole = table(some)
    options = {"row_group_rows": group_rows, "sized_by": "text", "row_group_bytes": group_bytes}
    folder = quick_root / f"parts-{uuid.uuid4().hex}"
    dataset, part = write(folder / "a", [whole], **options)
    _, other = write(folder / "b", cut(whole, at, rng), **options)
    assert (part.digest, part.size, part.rows) == (other.digest, other.size, len(whole))
    assert read_part(dataset, part).equals(whole)
    with open_parquet(dataset, part) as file:
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
    lengths = [len((t or "").encode()) for t in whole.column("text").to_pylist()]
    start = 0
    for size in sizes:
        group = lengths[start : start + size]
        assert size <= group_rows
        assert sum(group) <= group_bytes or size == 1
        full = size == group_rows or start + size == len(lengths) or sum(group) + lengths[start + size] > group_bytes
        assert full or sum(group) > group_bytes, "a row group ended early"
        start += size
    assert start == len(whole)


def test_lists_end_row_groups_too(tmp_path: Path) -> None:
    """Else 65,536 documents of a shard would be one group of all its tokens."""
    lists = [[1] * n for n in (3, 9, 0, 25, 4, 4, 4)]
    whole = pa.table({"row": pa.array(range(7), pa.int32()), "tokens": pa.array(lists, pa.list_(pa.uint16()))})
    parts = [
        write(tmp_path / name, pieces, row_group_bytes=24)
        for name, pieces in (("a", [whole]), ("b", [whole.slice(0, 4), whole.slice(4)]))
    ]
    assert parts[0][1].digest == parts[1][1].digest
    dataset, part = parts[0]
    assert read_part(dataset, part).to_pydict() == whole.to_pydict()
    with open_parquet(dataset, part) as file:
        groups = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
    assert groups == [3, 1, 3]


def test_a_failed_part_leaves_nothing(tmp_path: Path) -> None:
    dataset = Dataset(str(tmp_path), "f")
    attempt = dataset.attempt(0, "k")

    def half() -> None:
        with PartWriter(attempt, "rows", SCHEMA) as writer:
            writer.write(table([]))
            raise KeyError

    with pytest.raises(KeyError):
        half()
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    assert attempt.commit({}).parts == ()


@quick
@given(st.lists(st.booleans(), max_size=30), st.integers(1, 7), st.booleans())
def test_only_wanted_row_groups_are_read(quick_root: Path, mask: list[bool], group_rows: int, all_rows: bool) -> None:
    whole = table([("i", f"t{i}", None, i, None, None, None, None, None) for i in range(len(mask))])
    dataset, part = write(quick_root / f"wanted-{uuid.uuid4().hex}", [whole], row_group_rows=group_rows)
    wanted = None if all_rows else np.array(mask, np.bool_)
    got = list(iterate_part(dataset, part, ["a.count", "id"], wanted))
    seen = {start + i: batch.column("a.count")[i].as_py() for start, batch in got for i in range(batch.num_rows)}
    assert all(batch.schema.names == ["a.count", "id"] for _, batch in got)
    needed = [i for i in range(len(mask)) if all_rows or any(mask[i // group_rows * group_rows :][:group_rows])]
    assert seen == {i: i for i in needed}


@quick
@given(
    st.sets(st.integers(0, 30)),
    st.lists(st.integers(0, 30), max_size=40, unique=True),
    st.none() | st.integers(0, 9),
)
def test_take_by_row(quick_root: Path, measured: set[int], asked: list[int], none_every: int | None) -> None:
    values = {r: None if none_every and r % 10 == none_every else r * 10 for r in sorted(measured)}
    schema = pa.schema([("row", pa.int32()), ("a.n", pa.int64()), ("a.t", pa.list_(pa.int32()))])
    columns = [list(values), list(values.values()), [None if v is None else [v, v] for v in values.values()]]
    whole = pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    dataset, part = write(quick_root / f"narrow-{uuid.uuid4().hex}", [whole], row_group_rows=4)
    record = Record(dataset.fp, 0, "k" * 32, "a", (part,), {})
    view = NarrowView(dataset, record, {"a.n": pa.int64(), "a.t": pa.list_(pa.int32())})
    rows = np.array(sorted(asked), np.int32)
    assert view.take("a.n", rows).to_pylist() == [values.get(r) for r in rows.tolist()]
    assert view.take("a.t", rows).to_pylist() == [
        None if values.get(r) is None else [values[r]] * 2 for r in rows.tolist()
    ]
    assert view.measured(rows).tolist() == [r in values for r in rows.tolist()]
    assert view.rows.tolist() == list(values)


def test_a_view_of_nothing() -> None:
    view = NarrowView(Dataset("/nowhere", "f"), Record("f", 0, "k", "a", (), {}), {"a.n": pa.int64()})
    rows = np.array([1, 5], np.int32)
    assert view.rows.tolist() == []
    assert view.take("a.n", rows).equals(pa.nulls(2, pa.int64()))
    assert view.measured(rows).tolist() == [False, False]


# ---- damage ----


@pytest.fixture
def committed(tmp_path: Path) -> tuple[Dataset, PartFile]:
    rng = random.Random(1)
    some = [(f"id{i}", "word " * rng.randrange(40), "warc", i, i / 7, None, "en", b"abcd", [i, 2]) for i in range(300)]
    return write(tmp_path / "d", [table(some)], row_group_rows=100)


def test_damage_is_noticed_or_harmless(committed: tuple[Dataset, PartFile]) -> None:
    """Flip bits all over a part: reading it says so, or gives the very rows that were written. Never a third thing."""
    dataset, part = committed
    path = Path(dataset.path(part.path))
    whole = read_part(dataset, part)
    sound = path.read_bytes()
    rng = random.Random(7)
    noticed = 0
    for n in range(300):
        data = bytearray(sound)
        at = rng.randrange(len(data)) if n % 3 else len(data) - 1 - rng.randrange(min(2000, len(data)))
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        try:
            same = read_part(dataset, part).equals(whole)
        except CorruptShardError:
            noticed += 1
        else:
            assert same, f"byte {at} of {len(data)} was changed and read as data"
    assert noticed > 200
    path.write_bytes(sound)


def test_truncation_and_loss_are_noticed(committed: tuple[Dataset, PartFile]) -> None:
    dataset, part = committed
    path = Path(dataset.path(part.path))
    sound = path.read_bytes()
    for cut_at in (0, 4, len(sound) // 2, len(sound) - 1):
        path.write_bytes(sound[:cut_at])
        with pytest.raises(CorruptShardError, match=f"has {cut_at} bytes"):
            read_part(dataset, part)
    path.write_bytes(bytes(len(sound)))
    with pytest.raises(CorruptShardError):
        list(iterate_part(dataset, part, ["id"]))
    path.unlink()
    with pytest.raises(CorruptShardError, match="missing"):
        read_part(dataset, part)


def test_pages_have_checksums(committed: tuple[Dataset, PartFile]) -> None:
    dataset, part = committed
    path = dataset.path(part.path)
    column = pq.ParquetFile(path).metadata.row_group(0).column(2)
    assert column.compression == "ZSTD"
    data = bytearray(Path(path).read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 20] ^= 1  # inside a page's data
    Path(path).write_bytes(bytes(data))
    with pytest.raises(CorruptShardError, match="cannot be read") as caught:
        read_part(dataset, part, ["text"])
    assert "--repair" in str(caught.value.hint)
