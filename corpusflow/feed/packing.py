"""Documents into sequences of one length: which tokens each sequence takes, and what is padded.

Three ways. "concatenate": the stream cut every `length` tokens, nothing padded, only the last remainder dropped. "documents":
each document in sequences of its own, the last of each padded. "best_fit": documents cut only where they are longer than a
sequence, the pieces put together so that little is padded (Ding et al. 2024, "Fewer truncations improve language modeling").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
    padded = len(starts) * length - int(lengths.sum())
    return Packing(np.arange(len(starts) + 1, dtype=np.int64), starts, lengths, padded)


def best_fit(document_starts: np.ndarray, length: int) -> Packing:
    """Best-fit decreasing: each piece, longest first, into the sequence with the least room that still takes it.

    The room of open sequences is a bit set, so that finding one is a shift; about 1 µs per piece.
    """
    starts, lengths = pieces_of(document_starts, length)
    order = np.argsort(-lengths, kind="stable")
    sequence = np.empty(len(starts), np.int64)
    waiting: list[list[int]] = [[] for _ in range(length + 1)]
    rooms = 0
    count = 0
    for piece in order.tolist():
        size = int(lengths[piece])
        above = rooms >> size
        if above:
            room = size + (above & -above).bit_length() - 1
            chosen = waiting[room].pop()
            if not waiting[room]:
                rooms &= ~(1 << room)
        else:
            room, chosen = length, count
            count += 1
        sequence[piece] = chosen
        left = room - size
        if left:
            waiting[left].append(chosen)
            rooms |= 1 << left
    by_sequence = np.lexsort((np.arange(len(starts)), sequence))
    first = np.searchsorted(sequence[by_sequence], np.arange(count + 1))
    padded = count * length - int(lengths.sum())
    return Packing(first.astype(np.int64), starts[by_sequence], lengths[by_sequence], padded)
