"""Run files: what one task of a shuffle writes for all tasks of the next phase, each of which reads one slice of it.

A run holds segments. A segment is fixed-width records (rows of uint64 words) partitioned into buckets, an optional batch of
further columns in the same row order, and an index of both. A reader that wants buckets [lo, hi) makes two small ranged
reads and one large one, so M writers and R readers need M files, not M x R. Layout, all little-endian::

    per segment:  records | per bucket: Arrow IPC record batch (zstd) of the other columns
    per segment:  index: int64 (buckets + 1, 4): where records and columns of the bucket start, xxh3-64 of each
    per segment:  Arrow IPC schema of the other columns
    directory:    int64 (segments, 8): words, buckets, records, where records, columns, index and schema start, its length
    trailer:      int64 segments | uint64 xxh3-64 of the directory | 8 bytes magic

Every read verifies the checksums of the buckets it touches: a ranged read cannot be held against the digest of a file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import IO, Final, Protocol, Self

import numpy as np
import pyarrow as pa
import xxhash

from corpusflow import CorruptShardError, Part

_MAGIC: Final = b"CFRUN\x00\x00\x02"
_TRAILER: Final = 24
_DIRECTORY_ROW: Final = 64
_INDEX_ROW: Final = 32
_TAIL: Final = 4096
_IPC: Final = pa.ipc.IpcWriteOptions(compression="zstd")


class Ordered:
    """Columns whose rows are put in order when a bucket of them is written: in one piece they would be there twice.

    Args:
        columns: any order.
        order: int64 array, row of `columns` that comes at each place.
    """

    def __init__(self, columns: pa.RecordBatch, order: np.ndarray) -> None:
        self.schema = columns.schema
        self._columns, self._order = columns, order

    def slice(self, offset: int, length: int) -> pa.RecordBatch:
        """Some rows, in order."""
        return self._columns.take(pa.array(self._order[offset : offset + length]))


class RunWriter:
    """Writes one run to a stream; `close` writes index and trailer.

    Args:
        stream: where to; not closed.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._at = 0
        self._indexes: list[np.ndarray] = []
        self._schemas: list[bytes] = []
        self._directory: list[list[int]] = []

    def add(self, records: np.ndarray, offsets: np.ndarray, columns: pa.RecordBatch | Ordered | None = None) -> None:
        """Append a segment.

        Args:
            records: uint64 array of shape (n, words), by bucket.
            offsets: int64 array of shape (buckets + 1,).
            columns: further columns of the same n rows, or None.
        """
        buckets = len(offsets) - 1
        index = np.zeros((buckets + 1, 4), np.int64)
        sums = index.view(np.uint64)[:, 2:]
        index[:, 0] = offsets
        entry = [records.shape[1], buckets, len(records), self._at, 0, 0, 0, 0]
        records = np.ascontiguousarray(records)
        self._write(records.data.cast("B") if records.size else b"")
        for b in range(buckets):
            piece = records[offsets[b] : offsets[b + 1]]
            sums[b, 0] = xxhash.xxh3_64_intdigest(piece.data.cast("B")) if piece.size else 0
        entry[4] = self._at
        for b in range(buckets):
            if columns is not None and offsets[b + 1] > offsets[b]:
                blob = _encode(columns.slice(int(offsets[b]), int(offsets[b + 1] - offsets[b])))
                sums[b, 1] = xxhash.xxh3_64_intdigest(blob)
                self._write(blob)
            index[b + 1, 1] = self._at - entry[4]
        self._indexes.append(index)
        self._schemas.append(b"" if columns is None else columns.schema.serialize().to_pybytes())
        self._directory.append(entry)

    def close(self) -> None:
        """Write the index; nothing can be added afterwards."""
        for entry, index in zip(self._directory, self._indexes, strict=True):
            entry[5] = self._at
            self._write(index.tobytes())
        for entry, schema in zip(self._directory, self._schemas, strict=True):
            entry[6:] = self._at, len(schema)
            self._write(schema)
        directory = np.array(self._directory, np.int64).tobytes()
        self._write(directory)
        checksum = np.uint64(xxhash.xxh3_64_intdigest(directory))
        self._write(np.int64(len(self._directory)).tobytes() + checksum.tobytes() + _MAGIC)

    def _write(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self._at += len(data)


def _encode(batch: pa.RecordBatch) -> bytes:
    """One IPC message: the stream's, without the schema in front and the end-of-stream mark."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema, options=_IPC) as writer:
        writer.write_batch(batch)
        end = sink.tell()
    return sink.getvalue()[batch.schema.serialize().size : end]


class Opens(Protocol):
    """What a run needs of `PhaseInputs`."""

    def open(self, part: Part) -> IO[bytes]:
        """A seekable stream."""


class Run:
    """A committed run, opened for slices.

    Raises:
        CorruptShardError: the file is not a run, or a checksum of what is read does not match.
    """

    def __init__(self, inputs: Opens, part: Part) -> None:
        self._name = part.path
        self._last: tuple[tuple[int, int, int], np.ndarray] | None = None
        self._stream = inputs.open(part)
        # most directories lie in the last 4 kB: one read
        tail = self._read(max(0, part.size - _TAIL), min(part.size, _TAIL))
        trailer = tail[-_TRAILER:]
        if trailer[16:] != _MAGIC:
            raise CorruptShardError(f"{part.path} is not a run file, or its end is missing")
        segments = int(np.frombuffer(trailer, np.int64, 1)[0])
        length = segments * _DIRECTORY_ROW
        if length + _TRAILER > len(tail):
            tail = self._read(part.size - _TRAILER - length, length + _TRAILER)
        directory = tail[len(tail) - _TRAILER - length : len(tail) - _TRAILER]
        self._verify(directory, int(np.frombuffer(trailer, np.uint64, 1, 8)[0]), "its directory")
        self._directory = np.frombuffer(directory, np.int64).reshape(segments, 8)
        self._tail = tail[: len(tail) - _TRAILER - length]
        self._tail_at = part.size - len(tail)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def words(self, segment: int = 0) -> int:
        """Words of a record."""
        return int(self._directory[segment, 0])

    def rows(self, segment: int = 0) -> int:
        """Records in a segment."""
        return int(self._directory[segment, 2])

    def offsets(self, segment: int, lo: int, hi: int) -> np.ndarray:
        """Where records of buckets lo … hi start: int64 array of shape (hi - lo + 1,)."""
        return self._index(segment, lo, hi)[:, 0]

    def records(self, segment: int, lo: int, hi: int) -> np.ndarray:
        """Records of buckets [lo, hi): uint64 array of shape (n, words), not writable."""
        return self._records(segment, lo, self._index(segment, lo, hi))

    def hold(self, segment: int, lo: int, hi: int) -> Held:
        """Buckets [lo, hi) in memory, for readers that take them slice by slice."""
        index = self._index(segment, lo, hi)
        return Held(self._records(segment, lo, index), index[:, 0] - index[0, 0], lo)

    def columns(self, segment: int, lo: int, hi: int) -> pa.Table | None:
        """The other columns of buckets [lo, hi), rows as in `records`; None if these buckets are empty."""
        base = int(self._directory[segment, 4])
        index = self._index(segment, lo, hi)
        places, sums = index[:, 1], index.view(np.uint64)[:, 3]
        data = memoryview(self._read(base + int(places[0]), int(places[-1] - places[0])))
        batches = []
        for i in range(hi - lo):
            blob = data[int(places[i] - places[0]) : int(places[i + 1] - places[0])]
            if len(blob):
                self._verify(blob, int(sums[i]), f"columns of bucket {lo + i}")
                batches.append(pa.ipc.read_record_batch(pa.py_buffer(blob), self._schema(segment)))
        return pa.Table.from_batches(batches) if batches else None

    def _schema(self, segment: int) -> pa.Schema:
        at, length = (int(v) for v in self._directory[segment, 6:])
        known = at >= self._tail_at
        data = self._tail[at - self._tail_at : at - self._tail_at + length] if known else self._read(at, length)
        return pa.ipc.read_schema(pa.py_buffer(data))

    def _records(self, segment: int, lo: int, index: np.ndarray) -> np.ndarray:
        words, start = int(self._directory[segment, 0]), int(self._directory[segment, 3])
        width = words * 8
        offsets, sums = index[:, 0], index.view(np.uint64)[:, 2]
        data = self._read(start + int(offsets[0]) * width, int(offsets[-1] - offsets[0]) * width)
        view = memoryview(data)
        for i in range(len(index) - 1):
            piece = view[int(offsets[i] - offsets[0]) * width : int(offsets[i + 1] - offsets[0]) * width]
            if len(piece):
                self._verify(piece, int(sums[i]), f"bucket {lo + i}")
        return np.frombuffer(data, np.uint64).reshape(-1, words)

    def _index(self, segment: int, lo: int, hi: int) -> np.ndarray:
        if self._last is None or self._last[0] != (segment, lo, hi):
            at = int(self._directory[segment, 5]) + lo * _INDEX_ROW
            index = np.frombuffer(self._read(at, (hi - lo + 1) * _INDEX_ROW), np.int64).reshape(-1, 4)
            self._last = ((segment, lo, hi), index)
        return self._last[1]

    def _read(self, start: int, length: int) -> bytes:
        self._stream.seek(start)
        data = self._stream.read(length)
        if len(data) != length:
            raise CorruptShardError(f"{self._name} is cut short: {len(data)} of {length} bytes at {start}")
        return data

    def _verify(self, data: bytes | memoryview, expected: int, what: str) -> None:
        if xxhash.xxh3_64_intdigest(data) != expected:
            raise CorruptShardError(f"{self._name}: checksum of {what} does not match", hint="corpusflow repair")


class Held:
    """Buckets [first, …) of one segment in memory; reads like a Run, whatever the segment asked for."""

    def __init__(self, records: np.ndarray, offsets: np.ndarray, first: int) -> None:
        self._records = records
        self._offsets = offsets
        self._first = first

    def offsets(self, _: int, lo: int, hi: int) -> np.ndarray:
        """As `Run.offsets`."""
        return self._offsets[lo - self._first : hi - self._first + 1]

    def records(self, _: int, lo: int, hi: int) -> np.ndarray:
        """As `Run.records`."""
        return self._records[self._offsets[lo - self._first] : self._offsets[hi - self._first]]


def held(runs: Sequence[Run], segment: int, lo: int, hi: int, limit: int) -> Sequence[Run | Held]:
    """The runs, buckets [lo, hi) of them in memory if they are at most `limit` records: a large read each and no small ones."""
    if int(bucket_counts(runs, segment, lo, hi).sum()) > limit:
        return runs
    return [run.hold(segment, lo, hi) for run in runs]


def slices(counts: np.ndarray, limit: int) -> list[tuple[int, int]]:
    """Consecutive buckets [lo, hi) of at most `limit` records together; a single larger bucket stands alone.

    Args:
        counts: int64 array of shape (buckets,), records per bucket over all runs.
        limit: records.
    """
    out: list[tuple[int, int]] = []
    lo = 0
    total = 0
    for b, n in enumerate(counts.tolist()):
        if b > lo and total + n > limit:
            out.append((lo, b))
            lo, total = b, 0
        total += n
    if lo < len(counts):
        out.append((lo, len(counts)))
    return out


def bucket_counts(runs: Sequence[Run | Held], segment: int, lo: int, hi: int) -> np.ndarray:
    """Records of all runs per bucket in [lo, hi): int64 array."""
    total = np.zeros(hi - lo, np.int64)
    for run in runs:
        total += np.diff(run.offsets(segment, lo, hi))
    return total


class Records(Protocol):
    """What can be read in slices."""

    def records(self, segment: int, lo: int, hi: int) -> np.ndarray:
        """As `Run.records`."""


def chunks(
    runs: Sequence[Records], segment: int, lo: int, hi: int, limit: int
) -> Iterator[list[tuple[int, np.ndarray]]]:
    """(position of the run, records) of buckets [lo, hi), as many runs at a time as have `limit` records or one has more.

    Buckets that fit come in one chunk; more than one means that a key is too common to be held at once.
    """
    held: list[tuple[int, np.ndarray]] = []
    total = 0
    for i, run in enumerate(runs):
        records = run.records(segment, lo, hi)
        if held and total + len(records) > limit:
            yield held
            held, total = [], 0
        if len(records):
            held.append((i, records))
            total += len(records)
    if held:
        yield held
