"""What one pending node is about to commit for one shard: its part, its quarantine, its counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow.checkpoint import PartWriter
from corpusflow.commit import Attempt
from corpusflow.errors import StageError
from corpusflow.inherit import Inheritance, MergingWriter
from corpusflow.plan import Node
from corpusflow.reader import QUARANTINED, ROWS, ShardReader
from corpusflow.schema import ID, LOCATION_COLUMNS, ROW
from corpusflow.stage import Stage

#: A stage that fails on this many documents of a shard, and on most, is broken; the documents are not.
_BROKEN_AFTER = 100
_QUARANTINE_SCHEMA = pa.schema(
    [
        (ROW, pa.int32()),
        (ID, pa.string()),
        ("url", pa.string()),
        *LOCATION_COLUMNS.items(),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)


class Output:
    """What one pending node is about to commit for this shard."""

    def __init__(self, reader: ShardReader, node: Node, inheritance: Inheritance | None = None) -> None:
        self.node = node
        self.stage: Stage | None = node.build() if node.kind != "wide" else None
        self.attempt: Attempt = reader.dataset(node).attempt(reader.shard.number, reader.plan.key(node, reader.shard))
        self.counters: dict[str, Any] = {}
        self.seconds = 0.0
        self.bytes = 0
        self.writer: PartWriter | MergingWriter | None = None
        self.inheritance = inheritance
        self._bad: list[tuple[int, str]] = []

    def open(self, schema: pa.Schema, **options: Any) -> None:
        """Begin the part of rows."""
        writer = PartWriter(self.attempt, ROWS, schema, **options)
        self.writer = writer if self.inheritance is None else MergingWriter(writer, self.inheritance.batches())

    @property
    def part(self) -> PartWriter | MergingWriter:
        """The open part.

        Raises:
            StageError: none was begun.
        """
        if self.writer is None:
            raise StageError(f"{self.node.name} has no open part")
        return self.writer

    def add(self, key: str, n: int) -> None:
        """Count."""
        self.counters[key] = self.counters.get(key, 0) + int(n)

    def quarantine(self, row: int, why: str) -> None:
        """Note a row that could not be processed; `why` is 'reason: detail'."""
        self._bad.append((row, why))
        reasons = self.counters.setdefault("quarantined", {})
        reason = reason_of(why)
        reasons[reason] = reasons.get(reason, 0) + 1

    def check_broken(self) -> None:
        """Stop when it is the stage that fails, not the documents.

        Raises:
            StageError: over 100 documents and most of those seen were quarantined.
        """
        if len(self._bad) >= _BROKEN_AFTER and len(self._bad) > 0.5 * self.counters.get("in", 0):
            raise StageError(
                f"{self.node.name} failed on {len(self._bad)} of {self.counters.get('in', 0)} documents, "
                f"first: {self._bad[0][1]}",
                hint="this looks like a fault of the stage, not of the documents",
            )

    def commit(self, reader: ShardReader) -> Mapping[str, Any]:
        """Publish the part, the quarantine and the record."""
        if self.writer is not None:
            self.writer.close()
        if self._bad:
            self._write_quarantine(reader)
        record = self.attempt.commit(
            self.counters,
            libraries=self.node.libraries,
            advice={"seconds": round(self.seconds, 3), "bytes": self.bytes},
        )
        return record.counters

    def _write_quarantine(self, reader: ShardReader) -> None:
        rows = np.array([r for r, _ in self._bad], np.int32)
        places = reader.locate(rows, self.node.base)
        whys = [w for _, w in self._bad]
        table = pa.table(
            [
                pa.array(rows),
                *(places.column(c).combine_chunks() for c in (ID, "url", *LOCATION_COLUMNS)),
                pa.array([self.node.stage] * len(whys)),
                pa.array([reason_of(w) for w in whys]),
                pa.array([w[:500] for w in whys]),
            ],
            schema=_QUARANTINE_SCHEMA,
        ).sort_by(ROW)
        with PartWriter(self.attempt, QUARANTINED, _QUARANTINE_SCHEMA) as writer:
            writer.write(table)

    def abort(self) -> None:
        """Forget what is not committed."""
        if self.writer is not None:
            self.writer.abort()


def byte_length(column: pa.Array) -> int:
    """Bytes of a string column's values; unlike `nbytes` it does not depend on how rows were cut into batches."""
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def reason_of(why: str) -> str:
    """The countable part of a quarantine text: what stands before the first colon."""
    return why.partition(":")[0].strip()[:60]
