"""Text without some of its spans.

A document's spans are a list of int32 byte offsets into its UTF-8, start, end, start, end, …: ascending, disjoint, on
character borders.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from stages.kernels.buffers import text_buffers, text_column
from stages.kernels.jit import kernel

#: Arrow type of a column of spans.
SPANS: Final = pa.list_(pa.int32())


@kernel
def _cut(data: Any, offsets: Any, spans: Any, span_offsets: Any, out: Any, out_offsets: Any) -> Any:
    k = 0
    for d in range(offsets.shape[0] - 1):
        out_offsets[d] = k
        i = offsets[d]
        s = span_offsets[d]
        while i < offsets[d + 1]:
            stop = offsets[d + 1]
            resume = stop
            if s + 1 < span_offsets[d + 1]:
                stop = min(stop, offsets[d] + spans[s])
                resume = min(resume, offsets[d] + spans[s + 1])
            while i < stop:
                out[k] = data[i]
                k += 1
                i += 1
            i = resume
            s += 2
    out_offsets[offsets.shape[0] - 1] = k


def cut_spans(text: pa.Array, spans: pa.Array) -> pa.Array:
    """Each text without its spans.

    Args:
        text: string array of n documents.
        spans: list<int32> array (n,), null for none.

    Returns:
        large_string array (n,), null where `text` is.
    """
    offsets, data, valid = text_buffers(text)
    lengths = spans.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    span_offsets = np.zeros(len(text) + 1, np.int64)
    np.cumsum(lengths, out=span_offsets[1:])
    values = spans.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    out = np.empty(max(1, int(offsets[-1] - offsets[0])), np.uint8)
    out_offsets = np.zeros(len(offsets), np.int64)
    _cut(data, offsets, values, span_offsets, out, out_offsets)
    return text_column(out[: out_offsets[-1]], out_offsets, valid)


def spans_column(starts: np.ndarray, ends: np.ndarray, documents: np.ndarray, count: int) -> pa.Array:
    """A column of spans.

    Args:
        starts, ends, documents: int64 arrays of shape (spans,): ascending by document, then start; disjoint within one.
        count: documents.

    Returns:
        list<int32> array (count,), null where there are none.
    """
    per_document = np.bincount(documents, minlength=count)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(2 * per_document, out=offsets[1:])
    flat = np.stack([starts, ends], axis=1).reshape(-1).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), mask=pa.array(per_document == 0))


def merged(starts: np.ndarray, ends: np.ndarray, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(starts, ends, documents) of the union of spans in any order: ascending, disjoint, not touching."""
    order = np.lexsort((ends, starts, documents))
    starts, ends, documents = starts[order], ends[order], documents[order]
    if not len(starts):
        return starts, ends, documents
    # the furthest end so far within the document; documents are kept apart by a large step
    step = int(max(ends.max(), starts.max())) + 2
    reach = np.maximum.accumulate(ends + documents * step)
    new = np.ones(len(starts), np.bool_)
    new[1:] = starts[1:] + documents[1:] * step > reach[:-1]
    first = np.flatnonzero(new)
    last = np.concatenate([first[1:], [len(starts)]]) - 1
    return starts[first], reach[last] - documents[last] * step, documents[first]
