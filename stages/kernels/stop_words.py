"""Stop words of many languages in one hash table."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from stages.kernels.jit import inner

_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)


class StopWords(NamedTuple):
    """Languages and their words.

    Attributes:
        languages: codes; kernels name a language by its position.
        keys: uint64 (a power of two): hash of (language, word), 0 for an empty slot.
        numbers: uint8: which word of its list, below 64.
        longest: int64, characters of the longest word.
    """

    languages: tuple[str, ...]
    keys: np.ndarray
    numbers: np.ndarray
    longest: int


def build_stop_words(languages: tuple[str, ...], first: np.ndarray, hashes: np.ndarray, chars: np.ndarray) -> StopWords:
    """Make the table.

    Args:
        languages: codes.
        first: int64 (3 * languages + 1,): where the words of each list begin in `hashes`; three lists a language, the
            same words in lower, title and upper case.
        hashes, chars: of words, from `words.word_table`.
    """
    size = 1 << (4 * len(hashes)).bit_length()
    keys, numbers = np.zeros(size, np.uint64), np.zeros(size, np.uint8)
    for language in range(len(languages)):
        for variant in range(3):
            begin, end = first[3 * language + variant], first[3 * language + variant + 1]
            for number, h in enumerate(hashes[begin:end].tolist()):
                key = ((h ^ (language + 1)) * int(_PRIME)) % (1 << 64)
                slot = (key >> 32) & (size - 1)
                while keys[slot] != 0 and keys[slot] != key:
                    slot = (slot + 1) & (size - 1)
                if keys[slot] == 0:
                    keys[slot], numbers[slot] = key, number
    for table in (keys, numbers):
        table.flags.writeable = False
    return StopWords(languages, keys, numbers, int(chars.max()))


def language_numbers(languages: pa.Array, stop: StopWords) -> np.ndarray:
    """int32 (n,): position of each document's language in `stop`, -1 where it has no list."""
    place = {code: i for i, code in enumerate(stop.languages)}
    encoded = languages.dictionary_encode()
    lookup = np.array([*(place.get(code, -1) for code in encoded.dictionary.to_pylist()), -1], np.int32)
    index = encoded.indices.fill_null(len(lookup) - 1).to_numpy(zero_copy_only=False)
    numbers: np.ndarray = lookup[index]
    return numbers


@inner
def count_stop_words(n: Any, hashes: Any, chars: Any, language: Any, keys: Any, numbers: Any, longest: Any) -> Any:
    """(distinct stop words, occurrences) among the first `n` words, for the language at position `language`."""
    mask = keys.shape[0] - 1
    seen = np.uint64(0)
    hits = 0
    for i in range(n):
        if chars[i] > longest:
            continue
        key = (hashes[i] ^ np.uint64(language + 1)) * _PRIME
        slot = np.int64(key >> np.uint64(32)) & mask
        while keys[slot] != np.uint64(0):
            if keys[slot] == key:
                seen |= np.uint64(1) << np.uint64(numbers[slot])
                hits += 1
                break
            slot = (slot + 1) & mask
    distinct = 0
    while seen != np.uint64(0):
        seen &= seen - np.uint64(1)
        distinct += 1
    return distinct, hits
