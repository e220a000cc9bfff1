from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from stages.kernels.double_array import DoubleArray, below, double_array, ends, value_of
from stages.kernels.loads import load64, lowest_bit


@njit
def found(trie: Any, data: Any, numbers: Any, values: Any) -> int:
    """Numbers and values of all strings at the start of data, -1 between them; how many bytes of it are in the trie."""
    place = 0
    for i in range(len(data)):
        place = below(trie, place, data[i])
        if place < 0:
            return i
        numbers[i] = trie.numbers[place]
        values[i] = value_of(trie, place) if ends(trie, place) else -1
    return len(data)


def prefixes(trie: DoubleArray, text: bytes) -> list[int]:
    numbers, values = np.full(len(text), -1, np.int64), np.full(len(text), -1.0, np.float32)
    count = found(trie, np.frombuffer(text, np.uint8), numbers, values)
    assert np.array_equal(values[:count], np.where(numbers[:count] >= 0, numbers[:count] / 3, -1).astype(np.float32))
    return list(numbers[:count])


def made(strings: list[bytes], numbers: Iterable[int]) -> DoubleArray:
    """Values are a third of the numbers."""
    every = list(numbers)
    return double_array(strings, every, np.array(every, np.float64) / 3)


#: Few letters, so that strings share beginnings; NUL and 255, which are the ends of a block.
some = st.binary(min_size=1, max_size=6) | st.text("ab\x00\u00ff昨", min_size=1, max_size=6).map(str.encode)


@given(st.lists(some, unique=True, max_size=60), st.lists(some, max_size=20))
def test_as_a_dictionary(strings: list[bytes], others: list[bytes]) -> None:
    numbers = {s: 7 * i for i, s in enumerate(strings)}
    trie = made(strings, numbers.values())
    inside = {s[:k] for s in strings for k in range(1, len(s) + 1)}
    for text in strings + others:
        expected = []
        for k in range(1, len(text) + 1):
            if text[:k] not in inside:
                break
            expected.append(numbers.get(text[:k], -1))
        assert prefixes(trie, text) == expected


def test_more_strings_than_the_first_room_holds() -> None:
    strings = [bytes([a, b]) for a in range(256) for b in range(0, 256, 3)]
    trie = made(strings, range(len(strings)))
    assert [prefixes(trie, s)[-1] for s in strings] == list(range(len(strings)))


@njit
def loaded(data: Any, at: int) -> int:
    return load64(data, at)


@njit
def lowest(word: Any) -> int:
    return lowest_bit(word)


@pytest.mark.parametrize("at", range(9))
def test_eight_bytes_from_anywhere(at: int) -> None:
    data = np.arange(200, 217, dtype=np.uint8)
    assert loaded(data, at) == int.from_bytes(data[at : at + 8].tobytes(), "little")


@pytest.mark.parametrize("bit", [0, 1, 7, 31, 32, 63])
def test_the_lowest_bit(bit: int) -> None:
    word = (1 << bit) | (1 << 63)
    assert lowest(np.uint64(word)) == bit
