"""Shingles as text, and signatures as datasketch's objects: what other tools need to work with what is stored.

Plain Python, some MB/s: for queries, for signatures in datasketch's own hash family, and as the oracle of the kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from stages.kernels.minhash import permutations
from stages.kernels.shingles import CHARACTERS, DIGITS_ALIKE
from stages.kernels.unicode_classes import (
    ALPHA,
    DIGIT,
    HAN,
    KANA,
    MARK,
    NUMBER,
    SPACE,
    UNSPACED,
    lower_table,
    unicode_tables,
)

_M64: Final = (1 << 64) - 1
_MERSENNE: Final = np.uint64((1 << 61) - 1)
#: Shingles hashed at a time in datasketch's old family: 8 bytes each per permutation.
_BLOCK: Final = 4096


def units(text: str, mode: int = 0) -> list[str]:
    """The units of a text, folded, as `shingles.next_units` hashes them."""
    tables, lower = unicode_tables(), lower_table()
    out: list[str] = []
    word = ""
    alone = False  # the last unit is a character that marks may follow
    for char in text:
        cp = ord(char)
        kind = int(tables.flags[tables.classes[cp]])
        folded = "0" if mode & DIGITS_ALIKE and kind & DIGIT else chr(lower[cp]) if cp < len(lower) else char
        if mode & CHARACTERS:
            if not kind & SPACE:
                out.append(folded)
            elif out and out[-1] != " ":
                out.append(" ")
        elif kind & MARK and alone:
            out[-1] += char
        elif kind & (HAN | KANA | UNSPACED) and not kind & MARK:
            out.extend(w for w in (word, char) if w)
            word, alone = "", bool(kind & UNSPACED)
        elif kind & (ALPHA | NUMBER) or (word and kind & MARK):
            word, alone = word + folded, False
        elif not kind & MARK:
            out.extend([word] if word else [])
            word, alone = "", False
    out.extend([word] if word else [])
    return out[:-1] if mode & CHARACTERS and out[-1:] == [" "] else out


def shingles(text: str, n: int, mode: int = 0) -> list[str]:
    """The n-grams of a text's units, joined by spaces (words) or nothing (characters), repetitions included."""
    found = units(text, mode)
    glue = "" if mode & CHARACTERS else " "
    return [glue.join(found[i : i + n]) for i in range(max(1, len(found) - n + 1))] if found else []


def hash_function(n: int, mode: int = 0) -> Callable[[bytes], int]:
    """The native 32-bit hash of a shingle's UTF-8, for ``datasketch.MinHash(hashfunc=…)``; see `kernels.minhash`."""

    def hashed(shingle: bytes) -> int:
        text = shingle.decode()
        parts: Sequence[str] = text if mode & CHARACTERS else text.split(" ")
        acc = 0
        for part in parts:
            unit = 0xCBF29CE484222325
            for char in part:
                unit = (unit ^ ord(char)) * 0x100000001B3 & _M64
            acc = (acc * 0x9E3779B97F4A7C15 + unit) & _M64
        if len(parts) < n:
            acc ^= (n - len(parts)) << 48
        acc ^= acc >> 33
        acc = acc * 0xFF51AFD7ED558CCD & _M64
        acc ^= acc >> 33
        acc = acc * 0xC4CEB9FE1A85EC53 & _M64
        return (acc ^ acc >> 33) >> 32

    return hashed


def sha1_signature(shingle_texts: Sequence[str], count: int, seed: int, *, legacy: bool) -> np.ndarray:
    """What `datasketch.MinHash(count, seed)` holds after ``update_batch`` of the shingles' UTF-8: uint32 (count,).

    Args:
        shingle_texts: at least one.
        count: permutations.
        seed: of them.
        legacy: the family of datasketch before 2.0, (a x + b) mod 2**64 mod (2**61 - 1), its lower 32 bits: the product wraps
            before the modulus is taken, so it is not the permutation its name says.
    """
    distinct = {s.encode() for s in shingle_texts}
    hashes = np.array([int.from_bytes(hashlib.sha1(s).digest()[:4], "little") for s in sorted(distinct)], np.uint32)
    least = np.full(count, 0xFFFFFFFF, np.uint32)
    if legacy:
        generator = np.random.RandomState(seed)
        top = int(_MERSENNE)
        pairs = [
            (generator.randint(1, top, dtype=np.uint64), generator.randint(0, top, dtype=np.uint64))
            for _ in range(count)
        ]
        a, b = np.array(pairs, np.uint64).T
    else:
        a, b = permutations(count, seed)
        hashes = _finalised(hashes)
    for start in range(0, len(hashes), _BLOCK):
        x = hashes[start : start + _BLOCK, None]
        if legacy:
            values = ((x.astype(np.uint64) * a + b) % _MERSENNE).astype(np.uint32)
        else:
            values = x * a + b
        least = np.minimum(least, values.min(axis=0))
    return least


def _finalised(h: np.ndarray) -> np.ndarray:
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    out: np.ndarray = h ^ (h >> np.uint32(16))
    return out


def as_datasketch(
    column: pa.Array | pa.ChunkedArray, num_perm: int, *, seed: int = 1, legacy: bool = False, lean: bool = True
) -> list[Any]:
    """Stored 32-bit signatures as `datasketch.LeanMinHash` (or `MinHash`) objects, None for null.

    Args:
        column: `dedup.minhash.signature` of a run with ``bits: 32``.
        num_perm: its bands x rows.
        seed: the run's `hash_seed`.
        legacy: the run's `family` is datasketch_legacy.
        lean: False: `MinHash` objects, which can be updated (with `hash_function` for the native family).

    Raises:
        ValueError: the signatures are not of 32-bit minima.
    """
    from datasketch import LeanMinHash, MinHash

    if column.type.byte_width != 4 * num_perm:
        raise ValueError(
            f"signatures of {column.type.byte_width} bytes are not {num_perm} minima of 32 bits; "
            "run dedup.minhash with `bits: 32`"
        )
    made: Any = LeanMinHash if lean else MinHash
    out: list[Any] = []
    for value in column.to_pylist():
        if value is None:
            out.append(None)
            continue
        minima = np.frombuffer(value, "<u4")
        kind = np.uint64 if legacy else np.uint32
        out.append(made(seed=seed, hashvalues=minima.astype(kind), scheme="legacy" if legacy else "affine32"))
    return out
