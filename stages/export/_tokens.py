"""What every Sink of token files shares: order, splits, file sizes, and the index of which document lies where.

Reads `id` and `tokenize.tokens`. A format says only how the tokens of one file are written (`TokenSink.write_file`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import xxhash

from corpusflow import Check, ConfigError, Part, Phase, PhaseInputs, PhaseTask, Published, Sink, param

from ._publish import flat, holding, published
from ._shuffle import SORT, SPLITS, WRITE, ordered, output_files, split_of, write_runs
from ._verify import TOKENS, TokenFile, check_files, find_tokens, follow, token_files

#: Tokens that are put in order at once: 16 MB of uint32, three times over while they are. A process that shuffles 200 M tokens
#: stays below 256 MB with it, of which 110 MB are there before the first; twice as much took 250 to 280 MB.
_SLICE_TOKENS: Final = 1 << 22
_DOCUMENTS: Final = pa.schema([("id", pa.string()), ("offset", pa.int64()), ("length", pa.int32())])


@dataclass(frozen=True)
class Piece:
    """Some documents of a file, in order.

    Attributes:
        ids: string array (n,).
        lengths: int64 array (n,), tokens of each document; all above 0.
        tokens: uint16 or uint32 array (sum of lengths,).
    """

    ids: pa.Array
    lengths: np.ndarray
    tokens: np.ndarray

    def bytes(self) -> memoryview:
        """The tokens, little-endian."""
        dtype = self.tokens.dtype.newbyteorder("<")
        return np.ascontiguousarray(self.tokens.astype(dtype, copy=False)).data.cast("B")


def lengths_of(batch: pa.RecordBatch) -> np.ndarray:
    """Tokens of each document, int64 array (n,); 0 where there is no list."""
    out: np.ndarray = batch.column(TOKENS).value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return out


def piece_of(batch: pa.RecordBatch) -> Piece:
    """A batch of `id` and tokens without the documents that have no token."""
    lengths = lengths_of(batch)
    if not lengths.all():
        kept = np.flatnonzero(lengths)
        batch, lengths = batch.take(pa.array(kept)), lengths[kept]
    column = batch.column(TOKENS)
    return Piece(batch.column("id"), lengths, column.flatten().to_numpy())


@dataclass(frozen=True, kw_only=True)
class TokenSink(Sink):
    """Base of the Sinks of token files."""

    shuffle: bool = param(True, doc="Order documents by a seeded hash of their id, over all shards.")
    validation: float = param(0.0, doc="Share of documents, picked by a hash of the id, that go to validation files.")
    file_tokens: int = param(1 << 27, doc="Tokens per file, about; a document is never cut.")

    reads: ClassVar[tuple[str, ...]] = ("id", TOKENS)
    layout_phases: ClassVar[tuple[str, ...]] = (SORT,)

    #: What the manifest calls the format.
    format_name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not 0.0 <= self.validation < 1.0:
            raise ConfigError(f"validation must be at least 0 and below 1, got {self.validation}")
        if self.file_tokens < 1:
            raise ConfigError(f"file_tokens must be positive, got {self.file_tokens}")

    #: Package that reads the format, by its import name.
    library: ClassVar[str] = "numpy"

    @abstractmethod
    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        """Arrays that together are the tokens of all files of a split, as `library` reads them."""

    def file_name(self, split: str, stem: str, suffix: str) -> str:
        """What a file is called in the export."""
        return flat(split, stem, suffix)

    @abstractmethod
    def write_file(self, task: PhaseTask, split: str, pieces: Iterable[Piece]) -> Mapping[str, int]:
        """Write one file of the format; its parts are called ``<split>.<suffix>``. Returns what the manifest is to count."""

    def header(self, inputs: PhaseInputs) -> dict[str, Any]:
        """What the manifest says besides files and totals; dtype is "uint16", "uint32", or None where no token is."""
        dtype = next((i["dtype"] for i in inputs.info(WRITE).values() if "dtype" in i), None)
        return {
            "dtype": dtype,
            "byte_order": "little",
            "tokenizer": dict(inputs.facts(TOKENS)),
            "shuffled": self.shuffle,
            "validation": self.validation,
        }

    def phases(self) -> tuple[Phase, ...]:
        if self.shuffle:
            return (Phase(SORT, self._sort), Phase(WRITE, self._write_ordered, self._file_count))
        return (Phase(WRITE, self._write_as_read),)

    def publish(self, inputs: PhaseInputs) -> Published:
        return published(inputs, self.format_name, self.header(inputs))

    def verify(self, inputs: PhaseInputs, sample: int) -> Iterator[Check]:
        yield check_files(inputs, WRITE, self.check_format)
        yield from follow(inputs, WRITE, sample)

    def written(self, inputs: PhaseInputs, file: TokenFile, dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        """The tokens of a committed file, in order."""
        with inputs.open(file.parts["bin"]) as stream:
            yield np.frombuffer(stream.read(), dtype.newbyteorder("<"))

    def data_suffix(self, parts: Mapping[str, Part]) -> str:
        """Which of a file's parts holds the tokens."""
        return "bin"

    def open_by_library(self, inputs: PhaseInputs, folder: str) -> Iterator[Check]:
        files = list(token_files(inputs, WRITE, []))
        problems, count = [], 0
        for split in SPLITS:
            own = [(file, np.dtype(noted["dtype"])) for file, noted in files if file.stem.startswith(split)]
            if not own:
                continue
            names = [self.file_name(split, file.stem, self.data_suffix(file.parts)) for file, _ in own]
            expected = _digest((a for file, dtype in own for a in self.written(inputs, file, dtype)), own[0][1])
            paths = [Path(folder, name) for name in names]
            try:
                found = _digest(self.read_by_library(Path(folder), split, paths, own[0][1]), own[0][1])
            except ModuleNotFoundError:
                raise
            except Exception as e:  # noqa: BLE001 - a library may raise anything, which is what is to be reported
                problems.append(f"{self.library} cannot read {split}: {type(e).__name__}: {e}")
                continue
            count += found[0]
            if found != expected:
                problems.append(
                    f"{split}: {self.library} reads {found[0]} tokens, {expected[0]} were written"
                    if found[0] != expected[0]
                    else f"{split}: {self.library} reads other tokens than were written"
                )
        yield Check(f"tokens that {self.library} reads as they were written", count, tuple(problems))

    def check_format(
        self, inputs: PhaseInputs, parts: Mapping[str, Part], lengths: np.ndarray, dtype: np.dtype[Any]
    ) -> Iterator[str]:
        """What is wrong with a file of the format besides its tokens and document index."""
        return iter(())

    def find(self, inputs: PhaseInputs, document_id: str) -> Iterator[Mapping[str, Any]]:
        return find_tokens(inputs, WRITE, document_id)

    def holding(self, inputs: PhaseInputs, phase: str, ids: pa.Array) -> set[int] | None:
        return holding(inputs, phase, ids, "documents.parquet")

    def _sort(self, task: PhaseTask) -> None:
        write_runs(task, ("id", TOKENS), lengths_of, self.validation, min(self.file_tokens, _SLICE_TOKENS))

    def _file_count(self, inputs: PhaseInputs) -> int:
        return len(output_files(inputs, self.file_tokens))

    def _write_ordered(self, task: PhaseTask) -> None:
        output = output_files(task, self.file_tokens)[task.index]
        self._write(task, output.split, (piece_of(b) for b in ordered(task, output, _SLICE_TOKENS)))

    def _write_as_read(self, task: PhaseTask) -> None:
        for i, split in enumerate(SPLITS):
            if i == 0 or self.validation > 0.0:
                self._write(task, split, self._survivors(task, i))

    def _survivors(self, task: PhaseTask, split: int) -> Iterator[Piece]:
        for batch in task.survivors(task.shards[task.index], ("id", TOKENS)):
            if split == 0:
                task.count("empty_documents", int((lengths_of(batch) == 0).sum()))
            rows = np.flatnonzero(split_of(batch.column("id"), self.validation) == split)
            yield piece_of(batch if len(rows) == batch.num_rows else batch.take(pa.array(rows)))

    def _write(self, task: PhaseTask, split: str, pieces: Iterator[Piece]) -> None:
        first = next((p for p in pieces if len(p.lengths)), None)
        if first is None:
            return  # nothing of this split: no file, and no note
        totals = {"documents": 0, "tokens": 0}
        with task.parquet(f"{split}.documents.parquet", _DOCUMENTS) as index:
            counts = self.write_file(task, split, _indexed(index, first, pieces, totals))
        task.note(dtype=first.tokens.dtype.name, **{split: {**totals, **counts}})


def _digest(arrays: Iterable[Any], dtype: np.dtype[Any]) -> tuple[int, str]:
    """(tokens, digest) of arrays one after the other, whatever type of integers they have."""
    count, hashed = 0, xxhash.xxh3_128()
    for array in arrays:
        values = np.asarray(array).ravel()
        count += len(values)
        hashed.update(np.ascontiguousarray(values.astype(dtype.newbyteorder("<"), copy=False)).data.cast("B"))
    return count, hashed.hexdigest()


def _indexed(index: Any, first: Piece, rest: Iterator[Piece], totals: dict[str, int]) -> Iterator[Piece]:
    """Pass pieces on, writing where each document lies and adding up totals."""
    piece: Piece | None = first
    while piece is not None:
        if len(piece.lengths):
            offsets = totals["tokens"] + np.cumsum(piece.lengths) - piece.lengths
            lengths = pa.array(piece.lengths.astype(np.int32))
            index.write(pa.RecordBatch.from_arrays([piece.ids, pa.array(offsets), lengths], schema=_DOCUMENTS))
            totals["documents"] += len(piece.lengths)
            totals["tokens"] += len(piece.tokens)
            yield piece
        piece = next(rest, None)


def write_tokens(stream: IO[bytes], pieces: Iterable[Piece]) -> tuple[np.ndarray, np.dtype[Any]]:
    """Write the tokens of all pieces one after the other.

    Returns:
        (lengths, dtype): int64 array of tokens per document, and the tokens' dtype.
    """
    lengths = []
    dtype: np.dtype[Any] = np.dtype(np.uint16)
    for piece in pieces:
        stream.write(piece.bytes())
        lengths.append(piece.lengths)
        dtype = piece.tokens.dtype
    return np.concatenate(lengths) if lengths else np.zeros(0, np.int64), dtype
