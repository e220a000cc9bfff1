"""Members of clusters with their texts: whatever is taken, joined or cut from them, each keeps its own text."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from stages.dedup._members import Members
from stages.dedup._texts import Texts


def members(numbers: list[int], chunk: int) -> Members:
    """Documents whose text tells their number."""
    records = np.zeros((len(numbers), 5), np.uint64)
    records[:, 1] = np.array(numbers) % 3
    records[:, -1] = numbers
    texts = [f"text {n} " * 40 for n in numbers]
    column = pa.array(["before", *texts, "behind"], pa.large_string()).slice(1, len(texts))
    held = Texts.of([column.slice(i, chunk) for i in range(0, len(texts), chunk)])
    return Members(records, pa.table({"n": numbers}), held, np.arange(len(numbers)))


def told(some: Members) -> list[int]:
    offsets, data = some.texts()
    texts = [data[a:b].tobytes().decode() for a, b in pairwise(offsets)]
    assert texts == [f"text {n} " * 40 for n in some.columns.column("n").to_pylist()]
    assert some.records[:, -1].tolist() == some.columns.column("n").to_pylist()
    return some.columns.column("n").to_pylist()


def test_texts_follow_their_documents() -> None:
    every = members(list(range(50, 0, -1)), 7)
    assert told(every) == list(range(50, 0, -1))
    assert told(every.ordered()) == sorted(range(1, 51), key=lambda n: (n % 3, n))
    assert told(every.slice(5, 9)) == [45, 44, 43, 42]
    assert told(every.slice(10, 40).take(np.array([3, 3, 0]))) == [37, 37, 40]
    both = Members.join([every.take(np.array([1, 2])), members([90, 91], 1), every.slice(0, 1)])
    assert told(both) == [49, 48, 90, 91, 50]
    assert told(every.take(np.zeros(0, np.int64))) == []
    assert every.slice(2, 3).first_text() == "text 48 " * 40


def test_few_that_are_taken_let_go_of_the_others() -> None:
    every = members(list(range(100)), 9)
    few = every.take(np.arange(10, 20))
    assert len(few.shared or ()) == 10
    assert every.ordered().shared is every.shared
    pool = few
    for start in range(20, 90, 10):  # as a search for representatives goes through a large cluster
        pool = Members.join([pool, every.take(np.arange(start, start + 10))]).ordered().take(np.arange(4))
        assert len(pool.shared or ()) <= 20
    told(pool)
