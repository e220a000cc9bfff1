"""Inference for fastText classifiers (supervised .bin and .ftz), on Arrow buffers instead of one Python string at a time.

Reads the model format of fastText 0.9 (version 12): words, character and word n-grams, product-quantised or dense
matrices, pruned vocabularies; hierarchical softmax, softmax, one-vs-all and negative sampling. Labels equal the
library's and probabilities agree to about 1e-6, at eight times its speed; only that a word which begins with ``__label__``
is a word here. The rows of a word and of its character n-grams are summed first, and the sums of words seen lately are
remembered. Promise: the same bits on every CPU, whatever is remembered: sums run in a fixed order, nothing is contracted or
reassociated, and the exponential is our own, not the C library's.

A. Joulin et al., Bag of Tricks for Efficient Text Classification, 2016; FastText.zip, 2016.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stages.kernels.fasttext_math import (
    MEMO,
    MEMO_BYTES,
    exp,
    find_word,
    hash_byte,
    memo_slot,
    packed,
    sigmoid,
    stepped_sigmoid,
)
from stages.kernels.jit import inlined, kernel

MAGIC: Final = 793712314
HS, NS, SOFTMAX, OVA = 1, 2, 3, 4  # fastText's loss_name
_LABEL_PREFIX: Final = "__label__"
_EOS: Final = "</s>"


@dataclass(frozen=True)
class FastText:
    """A model, as arrays.

    Attributes:
        labels: without ``__label__``, in the model's order.
        shape: int64 (5,): words, buckets, shortest and longest character n-gram, longest word n-gram.
        rows: float32 (words + buckets or what pruning left, dim).
        buckets: int32 (a power of two, 2): hash table from bucket to row, -1 in free slots; empty where bucket b is row
            words + b.
        table: int32, a power of two: word at every hash slot, -1 for none.
        words, word_offsets: uint8, int64 (words + 1,): the words' bytes.
        output: float32 (outputs, dim).
        left, right: int32 (inner nodes,): children in the Huffman tree of hierarchical softmax, by increasing parent.
        loss: HS, NS, SOFTMAX or OVA.
        eos: row of the end of line, -1 where the model has none.
    """

    labels: tuple[str, ...]
    shape: np.ndarray
    rows: np.ndarray
    buckets: np.ndarray
    table: np.ndarray
    words: np.ndarray
    word_offsets: np.ndarray
    output: np.ndarray
    left: np.ndarray
    right: np.ndarray
    loss: int
    eos: int

    def probabilities(self, data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """float32 (n, labels): probability of every label for n single-line texts (uint8 bytes, int64 offsets (n + 1,))."""
        out = np.empty((len(offsets) - 1, len(self.labels)), np.float32)
        data, offsets = read_only(data), read_only(offsets)
        longest = int(np.diff(offsets).max(initial=0))
        hashes = np.empty(longest // 2 + 3 if self.shape[4] > 1 else 1, np.int32)
        dim = self.rows.shape[1]
        classify(
            data, offsets, self.shape, self.rows, self.buckets, self.table, self.words, self.word_offsets,
            self.output, self.left, self.right, self.loss, self.eos,
            hashes, np.empty(dim, np.float32), np.empty(dim, np.float32), np.zeros((MEMO, 4), np.int64),
            np.empty((MEMO, dim), np.float32), np.empty(2 * len(self.labels)), out,
        )  # fmt: skip
        return out


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to: numba compiles a kernel again for arrays that can."""
    view = array.view()
    view.flags.writeable = False
    return view


class _Reader:
    """Little-endian values off a buffer, without copying arrays."""

    def __init__(self, buffer: bytes) -> None:
        self._buffer = buffer
        self._at = 0

    def values(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + layout, self._buffer, self._at)
        self._at += struct.calcsize("<" + layout)
        return found

    def array(self, kind: Any, count: int) -> np.ndarray:
        found = np.frombuffer(self._buffer, kind, count, self._at)
        self._at += found.nbytes
        return found

    def strings(self, count: int) -> list[tuple[bytes, int, int]]:
        """(bytes, count, kind) of dictionary entries."""
        entries = []
        for _ in range(count):
            end = self._buffer.index(b"\0", self._at)
            word = self._buffer[self._at : end]
            self._at = end + 1
            entries.append((word, *self.values("qb")))
        return entries


def load(buffer: bytes) -> FastText:
    """Parse a model file.

    Raises:
        ValueError: not a supervised fastText model of the format this reads.
    """
    read = _Reader(buffer)
    (word_ngrams, loss, bucket, minn, maxn), nwords, pruned, entries = _dictionary(read)
    pairs = read.array(np.int32, 2 * max(pruned, 0)).reshape(-1, 2)
    buckets = np.empty((0, 2), np.int32)
    if pruned >= 0:
        buckets = np.full((_table_size(pruned), 2), -1, np.int32)
        _fill_buckets(pairs, nwords, buckets)
    (quantised,) = read.values("?")
    rows = _quantised(read) if quantised else _dense(read)
    (quantised_output,) = read.values("?")
    output = _quantised(read) if quantised and quantised_output else _dense(read)
    words = [w for w, _, kind in entries if kind == 0]
    table, joined, word_offsets = _word_table(words)
    counts = [c for _, c, kind in entries if kind == 1]
    left, right = _huffman(counts) if loss == HS else (np.empty(0, np.int32), np.empty(0, np.int32))
    eos = _EOS.encode()
    return FastText(
        labels=_labels(entries),
        shape=np.array([nwords, bucket, minn, maxn, word_ngrams], np.int64),
        rows=read_only(rows),
        buckets=read_only(buckets),
        table=read_only(table),
        words=read_only(joined),
        word_offsets=read_only(word_offsets),
        output=read_only(output),
        left=read_only(left),
        right=read_only(right),
        loss=loss,
        eos=words.index(eos) if eos in words else -1,
    )


def labels_of(buffer: bytes) -> tuple[str, ...]:
    """The labels of a model file, which stand in front of all that takes time to read.

    Raises:
        ValueError: as `load`.
    """
    return _labels(_dictionary(_Reader(buffer))[3])


def _dictionary(read: _Reader) -> tuple[tuple[int, int, int, int, int], int, int, list[tuple[bytes, int, int]]]:
    """((word n-grams, loss, buckets, least, most), words, buckets left or -1, entries) of a file from its beginning."""
    try:
        if read.values("ii") != (MAGIC, 12):
            raise ValueError("not a fastText model of format version 12")
        _, _, _, _, _, word_ngrams, loss, kind, bucket, minn, maxn, _ = read.values("12i")
        read.values("d")
        if kind != 3:
            raise ValueError("a fastText model, but not a supervised one (it has no labels)")
        size, nwords, _ = read.values("3i")
        _, pruned = read.values("2q")
        return (word_ngrams, loss, bucket, minn, maxn), nwords, pruned, read.strings(size)
    except struct.error as e:
        raise ValueError("not a fastText model of format version 12, or a part of one") from e


def _labels(entries: Sequence[tuple[bytes, int, int]]) -> tuple[str, ...]:
    return tuple(word.decode().removeprefix(_LABEL_PREFIX) for word, _, kind in entries if kind == 1)


def _dense(read: _Reader) -> np.ndarray:
    m, n = read.values("2q")
    return read.array(np.float32, m * n).reshape(m, n)


def _quantised(read: _Reader) -> np.ndarray:
    """A product-quantised matrix, taken out of its codes: float32 (m, n)."""
    (normed,) = read.values("?")
    m, n = read.values("2q")
    (codesize,) = read.values("i")
    codes = read.array(np.uint8, codesize)
    matrix = _decode(codes, m, *_centroids(read))
    if normed:
        norm_codes = read.array(np.uint8, m)
        matrix *= _decode(norm_codes, m, *_centroids(read))
    return np.ascontiguousarray(matrix[:, :n])


def _centroids(read: _Reader) -> tuple[np.ndarray, int, int, int]:
    dim, parts, width, last = read.values("4i")
    return read.array(np.float32, dim * 256), parts, width, last


def _decode(codes: np.ndarray, m: int, centroids: np.ndarray, parts: int, width: int, last: int) -> np.ndarray:
    codes = codes[: m * parts].reshape(m, parts)
    columns = []
    for part in range(parts):
        size = last if part == parts - 1 else width
        start = part * 256 * width
        columns.append(centroids[start : start + 256 * size].reshape(256, size)[codes[:, part]])
    return np.concatenate(columns, axis=1)


def _table_size(entries: int) -> int:
    """A power of two that leaves the table at most half full."""
    return 1 << max(4, (2 * entries - 1).bit_length())


def _word_table(words: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(table, words, word_offsets): open addressing by fastText's own hash, at most half full."""
    joined = np.frombuffer(b"".join(words) or b"\0", np.uint8)
    offsets = np.zeros(len(words) + 1, np.int64)
    offsets[1:] = np.cumsum([len(w) for w in words])
    table = np.full(_table_size(len(words)), -1, np.int32)
    _fill(joined, offsets, table)
    return table, joined, offsets


def _huffman(counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Children of the inner nodes of fastText's Huffman tree; leaves are 0 … n - 1, the root is the last node."""
    n = len(counts)
    weight = counts + [10**15] * (n - 1)
    children = np.zeros((n - 1, 2), np.int32)
    leaf, node = n - 1, n
    for branch in range(n, 2 * n - 1):
        for side in range(2):
            if leaf >= 0 and weight[leaf] < weight[node]:
                children[branch - n, side] = leaf
                leaf -= 1
            else:
                children[branch - n, side] = node
                node += 1
        weight[branch] = weight[children[branch - n, 0]] + weight[children[branch - n, 1]]
    return np.ascontiguousarray(children[:, 0]), np.ascontiguousarray(children[:, 1])


@kernel
def _fill(words: Any, offsets: Any, table: Any) -> Any:
    mask = np.int64(table.shape[0] - 1)
    for w in range(offsets.shape[0] - 1):
        h = np.uint32(2166136261)
        for i in range(offsets[w], offsets[w + 1]):
            h = hash_byte(h, words[i])
        slot = np.int64(h) & mask
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = w


@inlined
def _add(hidden: Any, rows: Any, buckets: Any, nwords: Any, bucket: Any) -> Any:
    """Add the row of a bucket; how many rows that was, 0 where pruning removed it."""
    row = nwords + bucket
    if buckets.shape[0] > 0:
        mask = np.int64(buckets.shape[0] - 1)
        slot = _slot(bucket, mask)
        while buckets[slot, 0] != bucket:
            if buckets[slot, 0] < 0:
                return 0
            slot = (slot + 1) & mask
        row = np.int64(buckets[slot, 1])
    _add_row(hidden, rows, row)
    return 1


@inlined
def _slot(bucket: Any, mask: Any) -> Any:
    """Where the search for a bucket begins (Fibonacci hashing)."""
    return np.int64((np.uint64(bucket) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & mask


@inlined
def _add_row(hidden: Any, rows: Any, row: Any) -> None:
    # Sixteen is what language models have; a loop of known length becomes two vector additions.
    if hidden.shape[0] == 16:
        for t in range(16):
            hidden[t] += rows[row, t]
    else:
        for t in range(hidden.shape[0]):
            hidden[t] += rows[row, t]


@kernel
def _fill_buckets(pairs: Any, nwords: Any, buckets: Any) -> None:
    mask = np.int64(buckets.shape[0] - 1)
    for k in range(pairs.shape[0]):
        bucket = np.int64(pairs[k, 0])
        slot = _slot(bucket, mask)
        while buckets[slot, 0] >= 0:
            slot = (slot + 1) & mask
        buckets[slot, 0] = bucket
        buckets[slot, 1] = pairs[k, 1] + nwords


@inlined
def _byte(data: Any, start: Any, end: Any, i: Any) -> Any:
    """Byte i of the word with fastText's borders around it: ``<word>``."""
    if i == 0:
        return np.uint8(60)
    if i == end - start + 1:
        return np.uint8(62)
    return data[start + i - 1]


@inlined
def _characters(data: Any, start: Any, end: Any, shape: Any, rows: Any, buckets: Any, hidden: Any) -> Any:
    """Add the character n-grams of a word; how many there were."""
    nwords, bucket, minn, maxn = shape[0], np.uint32(shape[1]), shape[2], shape[3]
    size = end - start + 2
    count = 0
    for i in range(size):
        if (_byte(data, start, end, i) & 0xC0) == 0x80:
            continue
        h = np.uint32(2166136261)
        j = i
        n = 1
        while j < size and n <= maxn:
            h = hash_byte(h, _byte(data, start, end, j))
            j += 1
            while j < size and (_byte(data, start, end, j) & 0xC0) == 0x80:
                h = hash_byte(h, data[start + j - 1])
                j += 1
            if n >= minn and not (n == 1 and (i == 0 or j == size)):
                count += _add(hidden, rows, buckets, nwords, np.int64(h % bucket))
            n += 1
    return count


@inlined
def _dot(hidden: Any, output: Any, k: Any) -> Any:
    total = 0.0
    for t in range(hidden.shape[0]):
        total += np.float64(hidden[t]) * np.float64(output[k, t])
    return total


@inlined
def _output(hidden: Any, output: Any, left: Any, right: Any, loss: Any, scores: Any, out: Any) -> Any:
    """From the mean of the rows to probabilities."""
    labels = out.shape[0]
    if loss == HS:
        scores[2 * labels - 2] = 1.0
        for node in range(2 * labels - 2, labels - 1, -1):
            f = sigmoid(_dot(hidden, output, node - labels))
            # 1e-5 is what fastText adds before it takes the logarithm.
            scores[left[node - labels]] = scores[node] * (1.0 - f + 1e-5)
            scores[right[node - labels]] = scores[node] * (f + 1e-5)
        for k in range(labels):
            out[k] = min(scores[k], 1.0)
    elif loss == SOFTMAX:
        best = -1e30
        for k in range(labels):
            scores[k] = _dot(hidden, output, k)
            best = max(best, scores[k])
        total = 0.0
        for k in range(labels):
            scores[k] = exp(scores[k] - best)
            total += scores[k]
        for k in range(labels):
            out[k] = scores[k] / total
    else:
        for k in range(labels):
            out[k] = stepped_sigmoid(_dot(hidden, output, k))


@kernel
def classify(
    data: Any, offsets: Any, shape: Any, rows: Any, buckets: Any, table: Any, words: Any, word_offsets: Any, output: Any,
    left: Any, right: Any, loss: Any, eos: Any, hashes: Any, hidden: Any, own: Any, known: Any, sums: Any, scores: Any,
    out: Any,
) -> Any:  # fmt: skip
    """Probability of every label for n lines; see `FastText.probabilities`.

    Words are what lies between spaces; tabs and line ends must not occur.

    Args:
        hashes, hidden, own, scores: scratch: int32 (words of the longest line + 1), float32 (dim,) twice, float64 (2 * labels,).
        known: int64 (MEMO, 4), zeros: the bytes and size of a word that is remembered, and how many rows it has.
        sums: float32 (MEMO, dim): the sum of these.
    """
    nwords = shape[0]
    bucket = np.uint64(shape[1])
    for d in range(offsets.shape[0] - 1):
        for t in range(hidden.shape[0]):
            hidden[t] = 0
        count: Any = np.int64(0)
        number = 0
        i = offsets[d]
        end = offsets[d + 1]
        while i < end:
            if data[i] == 32:
                i += 1
                continue
            start = i
            h = np.uint32(2166136261)
            while i < end and data[i] != 32:
                h = hash_byte(h, data[i])
                i += 1
            if shape[4] > 1:
                hashes[number] = np.int32(h)
                number += 1
            first, second, third = packed(data, start, i)
            slot = memo_slot(h)
            short = i - start <= MEMO_BYTES
            if short and known[slot, 0] == first and known[slot, 1] == second and known[slot, 2] == third:
                _add_row(hidden, sums, slot)
                count += known[slot, 3]
                continue
            of_word: Any = np.int64(0)
            for t in range(own.shape[0]):
                own[t] = 0
            word = find_word(data, start, i, h, table, words, word_offsets)
            if word >= 0:
                of_word += 1
                _add_row(own, rows, word)
            if shape[3] > 0:
                of_word += _characters(data, start, i, shape, rows, buckets, own)
            count += of_word
            for t in range(own.shape[0]):
                hidden[t] += own[t]
            if short:
                known[slot, 0] = first
                known[slot, 1] = second
                known[slot, 2] = third
                known[slot, 3] = of_word
                for t in range(own.shape[0]):
                    sums[slot, t] = own[t]
        if eos >= 0:
            count += 1
            _add_row(hidden, rows, eos)
        if shape[4] > 1:
            h = np.uint32(2166136261)
            for byte in (60, 47, 115, 62):
                h = hash_byte(h, np.uint8(byte))
            hashes[number] = np.int32(h)
            number += 1
            for a in range(number):
                wide = np.uint64(np.int64(hashes[a]))
                for b in range(a + 1, min(number, a + shape[4])):
                    wide = wide * np.uint64(116049371) + np.uint64(np.int64(hashes[b]))
                    count += _add(hidden, rows, buckets, nwords, np.int64(wide % bucket))
        if count == 0:
            for k in range(out.shape[1]):
                out[d, k] = 0
            continue
        for t in range(hidden.shape[0]):
            hidden[t] = hidden[t] * np.float32(1.0 / count)
        _output(hidden, output, left, right, loss, scores, out[d])
