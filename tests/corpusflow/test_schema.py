"""Ids and the shape of batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from corpusflow import DOCUMENT_COLUMNS, LOCATION_COLUMNS, document_id, id_hashes
from corpusflow.plan import parse_type, type_string
from corpusflow.schema import conform, empty_batch, is_signal


def test_document_id() -> None:
    assert document_id("warc", "a/b.warc.gz", 1234) == "warc/a/b.warc.gz#1234"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8)), st.integers(0, 2**63))
def test_hashes_are_xxh3_and_compare_like_the_number(ids: list[str], seed: int) -> None:
    got = id_hashes(pa.array(ids, pa.string()), seed)
    assert got.dtype == np.uint64
    assert got.shape == (len(ids), 2)
    wanted = [xxhash.xxh3_128_intdigest(i.encode(), seed) for i in ids]
    assert [(int(a) << 64) | int(b) for a, b in got] == wanted
    order = np.lexsort((got[:, 1], got[:, 0])).tolist()
    assert order == sorted(range(len(ids)), key=wanted.__getitem__)


def test_hash_is_golden() -> None:
    """Which copy of a duplicate stays in every corpus ever made hangs on it."""
    assert id_hashes(pa.array(["warc/a.warc.gz#0"]), 7).tolist() == [[6040383111412041852, 14675170376077196976]]


def test_signals_are_dotted() -> None:
    assert [is_signal(c) for c in ("text", "quality.words", "a.b.c")] == [False, True, True]
    assert not any(map(is_signal, (*DOCUMENT_COLUMNS, *LOCATION_COLUMNS)))


def test_conform() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["x"]), pa.array([1], pa.int8()), pa.array([2])], names=["text", "n", "z"]
    )
    got = conform(batch, {"id": pa.string(), "text": pa.large_string(), "n": pa.int64()})
    assert got.schema == pa.schema([("id", pa.string()), ("text", pa.large_string()), ("n", pa.int64())])
    assert got.to_pylist() == [{"id": None, "text": "x", "n": 1}]
    with pytest.raises(pa.ArrowInvalid):
        conform(pa.RecordBatch.from_arrays([pa.array([1.5])], names=["n"]), {"n": pa.int32()})


def test_empty_batch() -> None:
    schema = pa.schema([("a", pa.list_(pa.int32())), ("b", pa.binary(16))])
    assert empty_batch(schema).schema == schema
    assert empty_batch(schema).num_rows == 0


NUMBERS = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
]
STRINGS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(16)]
types = st.recursive(
    st.sampled_from([*NUMBERS, *STRINGS, pa.bool_(), pa.date32()]),
    lambda t: (
        st.builds(pa.list_, t)
        | st.builds(pa.large_list, t)
        | st.lists(t, max_size=3).map(lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)]))
    ),
    max_leaves=4,
)


@given(types)
def test_types_as_text(kind: pa.DataType) -> None:
    assert parse_type(type_string(kind)) == kind
