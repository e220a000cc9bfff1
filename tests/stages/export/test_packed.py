"""Token lists as bytes come back as they were."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.export._packed import pack_tokens, unpack_tokens


@pytest.mark.parametrize("width", [pa.uint16(), pa.uint32()])
@given(
    lists=st.lists(st.none() | st.lists(st.integers(0, 65_499), max_size=4), max_size=9),
    start=st.integers(0, 9),
    length=st.integers(0, 9),
)
def test_round_trip(width: pa.DataType, lists: list[list[int] | None], start: int, length: int) -> None:
    kind = pa.list_(pa.field("element", width))
    whole = pa.record_batch({"id": [str(i) for i in range(len(lists))], "tokenize.tokens": pa.array(lists, kind)})
    batch = whole.slice(start, length)
    packed = pack_tokens(batch)
    assert pa.types.is_large_binary(packed.schema.field("tokenize.tokens").type)
    back = unpack_tokens(packed)
    back.validate(full=True)
    assert back.schema.equals(batch.schema, check_metadata=True)
    assert back.to_pylist() == batch.to_pylist()
    part = unpack_tokens(packed.slice(1, 2))
    assert part.to_pylist() == batch.slice(1, 2).to_pylist()


def test_what_has_no_tokens_stays_as_it_is() -> None:
    batch = pa.record_batch({"id": ["a"], "text": ["b"]})
    assert pack_tokens(batch) is batch
    assert unpack_tokens(batch) is batch
