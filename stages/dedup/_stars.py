"""Connected components over files, where a union-find forest does not fit: alternating large-star and small-star.

Kiveris et al., "Connected Components in MapReduce and Beyond" (2014). Edges lie under their nodes, partitioned by a hash of
the node. A round is two phases: large-star hands every larger neighbour of a node to the smallest neighbour, small-star
every smaller one. When each node either has no smaller neighbour, or one and no other, all components are stars around
their smallest node. Measured: 3 rounds, the last of which only checks, on graphs like those of near-duplicates; 6 with a
giant component; 19 on a path of 200,000 nodes in order. A node with more neighbours than fit in memory is streamed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

import numpy as np

from corpusflow import Phase, PhaseInputs, PhaseTask, StageError
from stages.dedup import _shards
from stages.dedup._runs import Held, Run, RunWriter, bucket_counts, chunks, held, slices
from stages.kernels.sortruns import partition_order, smallest_per_key, starts_of, top_bits

ROUNDS: Final = 20
_TASK_RECORDS: Final = 80 << 20
_SLICE_RECORDS: Final = 4 << 20
_FLUSH_RECORDS: Final = 8 << 20


def spread(numbers: np.ndarray) -> np.ndarray:
    """Numbers made even over the 64-bit space, a bijection: uint64 array."""
    x: np.ndarray = numbers * np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    return x


def star_phases() -> tuple[Phase, ...]:
    """The phases from `edges` to `components`; they have no tasks once stars are stable."""
    phases = [Phase("stars_00", _scatter, _scatter_tasks)]
    for i in range(1, ROUNDS + 1):
        phases.append(Phase(_large_name(i), partial(_large, turn=i), partial(_large_tasks, turn=i)))
        phases.append(Phase(_small_name(i), partial(_small, turn=i), partial(_small_tasks, turn=i)))
    return tuple(phases)


def _large_name(turn: int) -> str:
    return f"stars_{turn:02d}_large"


def _small_name(turn: int) -> str:
    return f"stars_{turn:02d}_small" if turn else "stars_00"


def last_turn(inputs: PhaseInputs) -> int:
    """The round whose large-star found nothing to do.

    Raises:
        StageError: there is none.
    """
    for turn in range(1, ROUNDS + 1):
        if _stable(inputs, turn):
            return turn
    raise StageError(
        f"components did not settle in {ROUNDS} rounds: documents form chains of over 200,000",
        hint="dedup.minhash: more rows per band link fewer dissimilar documents",
    )


def star_label_tasks(inputs: PhaseInputs) -> int:
    """How many tasks `label_ranges` has."""
    return _range_tasks(inputs, _small_name(last_turn(inputs) - 1))


def stable_labels(task: PhaseTask) -> Iterator[np.ndarray]:
    """(document, component) of every node of this task's range, once stars are stable: uint64 arrays (n, 2)."""
    with ExitStack() as stack:
        for runs, lo, hi in _ranges(task, _small_name(last_turn(task) - 1), stack):
            smallest, _ = _smallest(runs, lo, hi)
            yield np.stack([smallest[:, 0], smallest.min(axis=1)], axis=1)


def _stable(inputs: PhaseInputs, turn: int) -> bool:
    notes = inputs.info(_large_name(turn)).values()
    return bool(notes) and not any(n["loose"] for n in notes)


def _range_tasks(inputs: PhaseInputs, phase: str) -> int:
    records = sum(int(n["records"]) for n in inputs.info(phase).values())
    return min(1 << _shards.bucket_bits(inputs), max(1, -(-records // _TASK_RECORDS)))


def _scatter_tasks(inputs: PhaseInputs) -> int:
    return len(inputs.info("edges"))


def _large_tasks(inputs: PhaseInputs, turn: int) -> int:
    if any(_stable(inputs, t) for t in range(1, turn)):
        return 0
    return _range_tasks(inputs, _small_name(turn - 1))


def _small_tasks(inputs: PhaseInputs, turn: int) -> int:
    if any(_stable(inputs, t) for t in range(1, turn + 1)):
        return 0
    return _range_tasks(inputs, _large_name(turn))


def _scatter(task: PhaseTask) -> None:
    """The edges of one earlier task under both of their ends."""
    out = _Pairs(task)
    for part in task.parts("edges", task.index):
        if not part.name.startswith("edges"):
            continue
        with Run(task, part) as run:
            out.add_both(run.records(0, 0, 1))
    out.close()


def _large(task: PhaseTask, turn: int) -> None:
    """Larger neighbours go to the smallest; counts the edges that no star has."""
    out = _Pairs(task)
    loose = 0
    for nodes, centres, pairs, at in _neighbourhoods(task, _small_name(turn - 1)):
        # in a star, who has a smaller neighbour has no other
        loose += int(np.count_nonzero((centres < nodes)[at] & (pairs[:, 1] != centres[at])))
        larger = pairs[:, 1] > pairs[:, 0]
        out.add(np.stack([pairs[larger, 1], np.minimum(nodes, centres)[at[larger]]], axis=1))
    out.close(loose=loose)


def _small(task: PhaseTask, turn: int) -> None:
    """Smaller neighbours, and the node itself, go to the smallest."""
    out = _Pairs(task)
    for nodes, centres, pairs, at in _neighbourhoods(task, _large_name(turn)):
        others = pairs[:, 1] != centres[at]
        out.add_both(np.stack([pairs[others, 1], centres[at[others]]], axis=1))
        out.add_both(np.stack([nodes, centres], axis=1))
    out.close()


def _neighbourhoods(task: PhaseTask, phase: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """(nodes, smallest neighbour of each, pairs, position of each pair's node) for this task's range of nodes.

    Pairs are (node, neighbour), distinct within what is yielded. A node with very many neighbours is yielded in pieces, the
    smallest neighbour being that of all of them.
    """
    with ExitStack() as stack:
        for runs, lo, hi in _ranges(task, phase, stack):
            smallest, only = _smallest(runs, lo, hi)
            for piece in _pieces(runs, lo, hi) if only is None else [only]:
                start = starts_of(piece[:, :1])
                nodes = piece[start, 0]
                centres = smallest[np.searchsorted(smallest[:, 0], nodes), 1]
                yield nodes, centres, piece, np.repeat(np.arange(len(nodes)), np.diff([*start, len(piece)]))


def _ranges(task: PhaseTask, phase: str, stack: ExitStack) -> Iterator[tuple[Sequence[Run | Held], int, int]]:
    """The runs of a phase, and buckets [lo, hi) of this task a slice at a time."""
    lo, hi = _shards.range_of(task, task.index, _range_tasks(task, phase))
    runs = [stack.enter_context(Run(task, part)) for part in task.parts(phase)]
    near = held(runs, 0, lo, hi, 2 * _TASK_RECORDS)
    for a, b in slices(bucket_counts(near, 0, lo, hi), _SLICE_RECORDS):
        yield near, lo + a, lo + b


def _smallest(runs: Sequence[Run | Held], lo: int, hi: int) -> tuple[np.ndarray, np.ndarray | None]:
    """(node, smallest neighbour) of buckets [lo, hi), ascending; and all their pairs, if they fit in memory."""
    smallest = np.zeros((0, 2), np.uint64)
    seen = 0
    only = None
    for piece in _pieces(runs, lo, hi):
        smallest = smallest_per_key(np.concatenate([smallest, smallest_per_key(piece)]))
        seen += 1
        only = piece if seen == 1 else None
    return smallest, only if seen else np.zeros((0, 2), np.uint64)


def _pieces(runs: Sequence[Run | Held], lo: int, hi: int) -> Iterator[np.ndarray]:
    for part in chunks(runs, 0, lo, hi, 2 * _SLICE_RECORDS):
        yield _distinct(np.concatenate([records for _, records in part]))


def _distinct(pairs: np.ndarray) -> np.ndarray:
    """Distinct rows, ascending."""
    ordered = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    kept: np.ndarray = ordered[starts_of(ordered)]
    return kept


class _Pairs:
    """(node, neighbour) records of a task, partitioned by a hash of the node, written as they come."""

    def __init__(self, task: PhaseTask) -> None:
        self._task = task
        self._held: list[np.ndarray] = []
        self._rows = self._files = self._total = 0

    def add(self, pairs: np.ndarray) -> None:
        self._held.append(pairs)
        self._rows += len(pairs)
        if self._rows >= _FLUSH_RECORDS:
            self._flush()

    def add_both(self, pairs: np.ndarray) -> None:
        self.add(pairs)
        self.add(pairs[:, ::-1])

    def close(self, **notes: int) -> None:
        self._flush()
        self._task.note(records=self._total, **notes)

    def _flush(self) -> None:
        if not self._rows:
            return
        pairs = _distinct(np.concatenate(self._held))
        bits = _shards.bucket_bits(self._task)
        order, offsets = partition_order(top_bits(spread(pairs[:, 0]), bits), 1 << bits)
        with self._task.file(f"pairs-{self._files:03d}.bin") as stream:
            run = RunWriter(stream)
            run.add(pairs[order], offsets)
            run.close()
        self._total += len(pairs)
        self._held, self._rows = [], 0
        self._files += 1
