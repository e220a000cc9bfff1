"""Documents into sequences of one length: which tokens each sequence takes, and what is padded.

Three ways. "concatenate": the stream cut every `length` tokens, nothing padded, only the last remainder dropped. "documents":
each document in sequences of its own, the last of each padded. "best_fit": documents cut only where they are longer than a
sequence, the pieces put together so that little is padded (Ding et al. 2024, "Fewer truncations improve language modeling").
`pack` is the last two, for Sinks and for the feed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

PaddedWay = Literal["documents", "best_fit"]

#: Pieces that best fit looks at together: what it holds in memory besides arrays. 1,000 are enough for little padding.
_WINDOW: Final = 1 << 20
#: Pieces of one length are taken in this order of their numbers: were the first taken first, they would fill the rooms and the
#: last open the sequences, so that sequences of long pieces stood in front (1,700 tokens in the first eighth, 1,400 in the last).
_SCATTER: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Packing:
    """Pieces of the token stream, grouped into sequences.

    Attributes:
        first: int64 (sequences + 1,): number of each sequence's first piece, then of pieces.
        starts: int64 (pieces,), first token of each piece in the stream.
        lengths: int32 (pieces,), tokens of each.
        padded: tokens of padding in all sequences.
    """

    first: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    padded: int

    def __len__(self) -> int:
        return len(self.first) - 1


def pack(document_starts: np.ndarray, length: int, way: PaddedWay) -> Packing:
    """Every token of the stream once, in sequences of `length` at most.

    Args:
        document_starts: int64 (documents + 1,): first token of each document, then the number of tokens.
        length: tokens of a sequence.
        way: of the module's docstring.
    """
    return best_fit(document_starts, length) if way == "best_fit" else by_document(document_starts, length)


def pieces_of(document_starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents cut every `length` tokens: (starts int64, lengths int32) of the pieces, in order."""
    sizes = np.diff(document_starts)
    counts = -(-sizes // length)
    owner = np.repeat(np.arange(len(sizes)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = document_starts[:-1][owner] + within * length
    lengths = np.minimum(length, sizes[owner] - within * length)
    return starts, lengths.astype(np.int32)


def by_document(document_starts: np.ndarray, length: int) -> Packing:
    """A sequence for each piece."""
    starts, lengths = pieces_of(document_starts, length)
    padded = len(starts) * length - int(lengths.sum(dtype=np.int64))
    return Packing(np.arange(len(starts) + 1, dtype=np.int64), starts, lengths, padded)


def best_fit(document_starts: np.ndarray, length: int, window: int = _WINDOW) -> Packing:
    """Best-fit decreasing: each piece, longest first, into the sequence with the least room that still takes it.

    Sequences stand in the order of their longest piece, so that a shuffled stream gives shuffled sequences, not the long
    documents first; pieces within one stand as in the stream. Each `window` pieces are packed on their own.
    """
    starts, lengths = pieces_of(document_starts, length)
    sequence = np.empty(len(starts), np.int64)
    count = 0
    for begin in range(0, len(starts), window):
        within, openers = _fit(lengths[begin : begin + window], length)
        rank = np.empty(len(openers), np.int64)
        rank[np.argsort(openers)] = np.arange(len(openers))
        sequence[begin : begin + window] = count + rank[within]
        count += len(openers)
    by_sequence = np.argsort(sequence, kind="stable")
    first = np.searchsorted(sequence[by_sequence], np.arange(count + 1))
    padded = count * length - int(lengths.sum(dtype=np.int64))
    return Packing(first.astype(np.int64), starts[by_sequence], lengths[by_sequence], padded)


def _fit(lengths: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """(sequence of each piece, the piece that opened each sequence), int64.

    The room of open sequences is a bit set, so that finding one is a shift; about 1 µs per piece.
    """
    sequence = np.empty(len(lengths), np.int64)
    openers: list[int] = []
    waiting: list[list[int]] = [[] for _ in range(length + 1)]
    rooms = 0
    order = np.lexsort((np.arange(len(lengths), dtype=np.uint64) * _SCATTER, -lengths))
    for piece, size in zip(order.tolist(), lengths[order].tolist(), strict=True):
        above = rooms >> size
        if above:
            room = size + (above & -above).bit_length() - 1
            chosen = waiting[room].pop()
            if not waiting[room]:
                rooms &= ~(1 << room)
        else:
            room, chosen = length, len(openers)
            openers.append(piece)
        sequence[piece] = chosen
        left = room - size
        if left:
            waiting[left].append(chosen)
            rooms |= 1 << left
    return sequence, np.array(openers, np.int64)
