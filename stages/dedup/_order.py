"""The keep policy: a declared total order that says which of several equal documents stays.

`keep: [source_rank, quality.score desc, length desc, id]`: earlier entries decide first, nulls come last whatever the
direction. What all of them leave open is decided by a hash of the text, so that the same texts stay whatever files they
lie in, and among equal texts by the 128-bit hash of the id: never by arrival, file names or the plan. Before all of it comes
the epoch: what an earlier crawl kept stays kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from corpusflow import ConfigError, PhaseInputs, id_hashes
from stages.kernels.buffers import text_buffers

_LAST: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_SIGN: Final = np.uint64(1 << 63)
#: Strings are compared by their first bytes: enough for ISO dates and source names.
_STRING_BYTES: Final = 24


@dataclass(frozen=True)
class KeepKey:
    """One entry of a policy: a column and a direction."""

    column: str
    descending: bool


def parse_keep(stage: str, keep: Sequence[str], sources: Sequence[str]) -> tuple[KeepKey, ...]:
    """The entries before `id`, which ends every policy.

    Raises:
        ConfigError: an entry is not "column", "column asc" or "column desc"; `id` is not the last; a column comes twice;
            or source_rank without `sources`.
    """
    keys: list[KeepKey] = []
    for i, entry in enumerate(keep):
        words = entry.split()
        if len(words) not in (1, 2) or (len(words) == 2 and words[1] not in ("asc", "desc")):
            raise ConfigError(
                f"{stage}.keep: cannot read {entry!r}", hint="write a column, 'column asc' or 'column desc'"
            )
        if words[0] == "id":
            if i != len(keep) - 1 or len(words) == 2:
                raise ConfigError(f"{stage}.keep: id decides last, without a direction: nothing after it is looked at")
            break
        if words[0] in {k.column for k in keys}:
            raise ConfigError(f"{stage}.keep: {words[0]} comes twice")
        if words[0] == "source_rank" and not sources:
            raise ConfigError(
                f"{stage}.keep: source_rank needs `sources`, best first", hint="sources: [wikipedia, web]"
            )
        keys.append(KeepKey(words[0], len(words) == 2 and words[1] == "desc"))
    return tuple(keys)


@dataclass(frozen=True)
class KeepOrder:
    """A policy made ready: documents become rows of uint64 words that compare, word by word, like the documents.

    Args:
        keys: from `parse_keep`.
        prefix: of the stage's columns: ``<prefix>.length`` is what `length` stands for, ``<prefix>.content`` the text's hash.
        sources: values of `source`, best first, for source_rank.
    """

    keys: tuple[KeepKey, ...]
    prefix: str
    sources: tuple[str, ...]

    def columns(self) -> tuple[str, ...]:
        """What `words` reads."""
        names = {"length": f"{self.prefix}.length", "source_rank": "source"}
        chosen = (names.get(k.column, k.column) for k in self.keys)
        return tuple(dict.fromkeys(["id", f"{self.prefix}.content", *chosen]))

    def words(self, batch: pa.RecordBatch) -> np.ndarray:
        """The rank of each document within an epoch: uint64 array of shape (n, words), smallest first."""
        parts: list[np.ndarray] = []
        for key in self.keys:
            if key.column == "source_rank":
                column = pc.index_in(batch.column("source"), value_set=pa.array(self.sources, pa.string()))
            else:
                column = batch.column(f"{self.prefix}.length" if key.column == "length" else key.column)
            parts.append(_words(column, key.descending))
        parts.append(_words(batch.column(f"{self.prefix}.content"), False))
        parts.append(id_hashes(batch.column("id")))
        return np.concatenate(parts, axis=1)


def epochs(inputs: PhaseInputs) -> np.ndarray | None:
    """uint64 epoch of each shard position, or None where all are of one epoch and so it decides nothing."""
    values = np.array([inputs.epoch(s) for s in inputs.shards], np.uint64)
    return values if len(set(values.tolist())) > 1 else None


def _words(column: pa.Array, descending: bool) -> np.ndarray:
    """A column as uint64 words of shape (n, w) whose order is the column's; nulls and NaN last."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        words, valid = _string_words(column), _valid(column)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        valid = _valid(column)
        words = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)[:, None] ^ _SIGN
    else:
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
        valid = ~np.isnan(values)
        values[values == 0] = 0.0  # -0.0 and 0.0 are one value
        bits = values.view(np.uint64)
        words = np.where(bits & _SIGN, ~bits, bits | _SIGN)[:, None]
    if descending:
        words = ~words
    words[~valid] = _LAST
    return words


def _valid(column: pa.Array) -> np.ndarray:
    mask: np.ndarray = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _string_words(column: pa.Array) -> np.ndarray:
    offsets, data, _ = text_buffers(column)
    n = len(column)
    out = np.zeros((n, _STRING_BYTES), np.uint8)
    lengths = np.minimum(np.diff(offsets), _STRING_BYTES)
    for j in range(int(lengths.max(initial=0))):
        has = lengths > j
        out[has, j] = data[offsets[:-1][has] + j]
    return out.view(">u8").astype(np.uint64)


def content_hashes(text: pa.Array) -> pa.Array:
    """xxh3-64 of each text's UTF-8, as int64: what decides between texts that a policy holds equal."""
    offsets, data, valid = text_buffers(text)
    view, digest = data.data, xxhash.xxh3_64_intdigest
    hashes = np.array([digest(view[a:b]) for a, b in pairwise(offsets.tolist())], np.uint64)
    return pa.array(hashes.view(np.int64), mask=~valid)


def text_lengths(text: pa.Array) -> pa.Array:
    """Bytes of each text in UTF-8, int32: what `length` in a policy is."""
    return pc.binary_length(text).cast(pa.int32())
