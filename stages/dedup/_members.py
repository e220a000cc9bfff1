"""Members of clusters in memory, and how they are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs
from stages.dedup import _shards
from stages.dedup._bands import minima
from stages.dedup._texts import Texts
from stages.kernels.buffers import text_buffers
from stages.kernels.elect import elect
from stages.kernels.shingles import shingle_sets

#: What is decided of a document, and the evidence for each that goes.
VERDICT: Final = pa.schema(
    [("twin", pa.string()), ("similarity", pa.float32()), ("cluster", pa.int64()), ("cluster_size", pa.int32())]
)
EVIDENCE: Final = pa.schema(
    [
        ("removed_id", pa.string()),
        ("kept_id", pa.string()),
        ("similarity", pa.float32()),
        ("cluster", pa.int64()),
        ("cluster_size", pa.int32()),
        ("removed_url", pa.string()),
        ("kept_url", pa.string()),
    ]
)
#: Completes members with what was not carried along.
Load = Callable[["Members"], "Members"]
#: Words of a record before the rank: hash of the component, component.
RANK: Final = 2


@dataclass(frozen=True)
class Members:
    """Documents of clusters.

    Args:
        records: uint64 (n, words): hash of the component, component, rank words, of which the last three are the id's hash
            and the document's number.
        columns: n rows.
        shared: texts, shared by all that were taken from the same members, so that neither an order nor a slice copies them;
            None where `columns` has the text, or nobody needs it.
        at: int64 (n,), where each one's text is in `shared`.
    """

    records: np.ndarray
    columns: pa.Table
    shared: Texts | None = None
    at: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.records)

    @staticmethod
    def join(parts: Sequence[Members]) -> Members:
        """All of them."""
        if not parts:
            return Members(np.zeros((0, RANK + 3), np.uint64), pa.table({}))
        held = [p for p in parts if p.shared is not None]
        firsts = np.cumsum([0, *(len(p.shared or ()) for p in held)]).tolist()
        return Members(
            np.concatenate([p.records for p in parts]),
            pa.concat_tables([p.columns for p in parts]),
            Texts.join([p.shared for p in held if p.shared is not None]) if held else None,
            np.concatenate([p.at + f for p, f in zip(held, firsts[:-1], strict=True) if p.at is not None])
            if held
            else None,
        )

    def take(self, at: np.ndarray) -> Members:
        """Some of them; texts of the others are let go of where they are most."""
        records, columns = self.records[at], self.columns.take(pa.array(at))
        if self.shared is None or self.at is None:
            return Members(records, columns)
        places = self.at[at]
        if 2 * len(places) >= len(self.shared):
            return Members(records, columns, self.shared, places)
        return Members(records, columns, self.shared.only(places), np.arange(len(places)))

    def slice(self, start: int, end: int) -> Members:
        """Members [start, end)."""
        places = None if self.at is None else self.at[start:end]
        return Members(self.records[start:end], self.columns.slice(start, end - start), self.shared, places)

    def texts(self) -> tuple[np.ndarray, np.ndarray]:
        """(offsets, data) of their texts, as from `buffers.text_buffers`."""
        if self.shared is not None and self.at is not None:
            return self.shared.gather(self.at)
        offsets, data, _ = text_buffers(self.columns.column("text").combine_chunks())
        return offsets, data

    def first_text(self) -> str | None:
        """The first one's text, where texts are at hand."""
        if self.shared is None and "text" not in self.columns.column_names:
            return None
        offsets, data = self.slice(0, 1).texts()
        return data[offsets[0] : offsets[1]].tobytes().decode(errors="replace")

    def ordered(self) -> Members:
        """By component, best first."""
        return self.take(np.lexsort(self.records[:, ::-1].T))

    def after(self, other: np.ndarray) -> np.ndarray:
        """Bool (n,): whether each ranks behind a record of the same component."""
        behind = np.zeros(len(self), np.bool_)
        equal = np.ones(len(self), np.bool_)
        for w in range(RANK, self.records.shape[1]):
            behind |= equal & (self.records[:, w] > other[w])
            equal &= self.records[:, w] == other[w]
        return behind


def with_text(inputs: PhaseInputs, members: Members) -> Members:
    """Members with their texts, read shard by shard from where they lie."""
    if not len(members):
        return members
    numbers = members.records[:, -1]
    order = np.argsort(numbers)
    texts: list[pa.Array] = []
    for position in np.unique(_shards.positions(numbers)).tolist():
        bounds = np.array([position, position + 1], np.uint64) << np.uint64(32)
        a, b = np.searchsorted(numbers[order], bounds)
        for batch in inputs.survivors(inputs.shards[position], ("text",), _shards.rows(numbers[order[a:b]])):
            texts.append(batch.column("text"))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Members(members.records, members.columns, Texts.of(texts), place)


@dataclass(frozen=True)
class Election:
    """How documents of a cluster are compared.

    Args:
        signature: column of the stored minima.
        units, length: columns of the number of units and of bytes.
        permutations: minima in a signature.
        shingle: units in a shingle.
        mode: of the units, see `shingles`.
        threshold: least similarity of a document that goes.
        limit: kept documents of a cluster that others are compared with.
    """

    signature: str
    units: str
    length: str
    permutations: int
    shingle: int
    mode: int
    threshold: float
    limit: int

    def columns(self, text: bool) -> tuple[str, ...]:
        """What it needs of a document, its text included or not."""
        return (self.signature, self.units, self.length, "id", "url", *(("text",) if text else ()))

    def hold(
        self,
        members: Members,
        clusters: np.ndarray,
        exact: bool,
        *,
        given: int = 0,
        eligible: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """(twins, similarity, unheld) of members in order; see `stages.kernels.elect.elect`."""
        sets = None
        if exact:
            offsets, data = members.texts()
            room = int(members.columns.column(self.units).to_numpy().sum()) + len(members)
            sets = shingle_sets(data, offsets, self.shingle, self.mode, room)
        signatures = minima(members.columns.column(self.signature).combine_chunks(), self.permutations)
        return elect(
            clusters, signatures, self.threshold, sets=sets, limit=self.limit, given=given, eligible=eligible
        )  # fmt: skip

    def warm(self) -> None:
        """Compile what `hold` calls."""
        table = pa.table(
            {
                self.signature: pa.array([bytes(2 * self.permutations)], pa.binary(2 * self.permutations)),
                self.units: pa.array([2], pa.int32()),
                "text": pa.array(["a b"], pa.large_string()),
            }
        )
        self.hold(Members(np.zeros((1, RANK + 3), np.uint64), table), np.array([0, 1]), True)
