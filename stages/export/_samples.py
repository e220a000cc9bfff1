"""What the Sinks of samples share: token files of formats that hold one training sample after another.

A sample is a document, or, with `sequence`, so many tokens of documents one after the other; what is left over at the end of a
file is in no sample and is counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Check, ConfigError, PhaseInputs, PhaseTask, Published, param

from ._publish import numbered, published
from ._shuffle import WRITE
from ._tokens import Piece, TokenSink
from ._verify import find_tokens

_DROPPED: Final = "dropped_tokens"


@dataclass(frozen=True)
class Samples:
    """Some samples of a file, in order.

    Attributes:
        ids: string array (n,): documents' ids, or for cut sequences the id of the document each starts in.
        lengths: int64 array (n,), tokens of each.
        tokens: uint16 or uint32 (sum of lengths,).
    """

    ids: pa.Array
    lengths: np.ndarray
    tokens: np.ndarray

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        """(id, tokens) of each."""
        ends = np.cumsum(self.lengths)
        for name, start, end in zip(self.ids.to_pylist(), ends - self.lengths, ends, strict=True):
            yield name, self.tokens[start:end]


@dataclass(frozen=True, kw_only=True)
class SampleSink(TokenSink):
    """Base of the Sinks of samples."""

    sequence: int | None = param(
        None, doc="Tokens per sample, cut from documents one after the other; a sample is a document if not given."
    )
    file_tokens: int = param(1 << 25, doc="Tokens per file, about; a file is held in memory while it is written.")

    #: Whether each split has a folder of its own.
    folders: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence is not None and self.sequence < 1:
            raise ConfigError(f"sequence must be positive, got {self.sequence}")

    @abstractmethod
    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        """Write one file of the format; its parts are called ``<split>.<suffix>``. Returns how many samples it holds."""

    def write_file(self, task: PhaseTask, split: str, pieces: Iterable[Piece]) -> None:
        samples = _documents(pieces) if self.sequence is None else _cut(task, pieces, self.sequence)
        task.note(**{f"{split}_samples": self.write_samples(task, split, samples)})

    def header(self, inputs: PhaseInputs) -> dict[str, Any]:
        return {**super().header(inputs), "sequence": self.sequence}

    def samples(self, inputs: PhaseInputs) -> list[tuple[str, str, int]]:
        """(split, stem, samples) of each file."""
        info = inputs.info(WRITE)
        return [(split, stem, info[task][f"{split}_samples"]) for split, stem, task in numbered(inputs)]

    def publish(self, inputs: PhaseInputs) -> Published:
        return published(inputs, self.format_name, self.header(inputs), self.texts(inputs), folders=self.folders)

    def find(self, inputs: PhaseInputs, document_id: str) -> Iterator[Mapping[str, Any]]:
        suffixes = {p.name.partition(".")[2] for p in inputs.parts(WRITE)} - {"documents.parquet"}
        for place in find_tokens(inputs, WRITE, document_id):
            stem = str(place["file"]).removesuffix(".bin")
            folder = f"{stem.partition('-')[0]}/" if self.folders else ""
            yield {**place, "file": f"{folder}{stem}.{next(iter(suffixes))}"}

    def texts(self, inputs: PhaseInputs) -> dict[str, str]:
        """Small files that the format wants besides its data."""
        return {}

    def verify(self, inputs: PhaseInputs, sample: int) -> Iterator[Check]:
        """The document indexes against what was written; the samples themselves are the format's to read."""
        problems, documents = [], 0
        info = inputs.info(WRITE)
        for split, stem, task in numbered(inputs):
            part = next(p for p in inputs.parts(WRITE, task) if p.name == f"{split}.documents.parquet")
            lengths = inputs.read_parquet(part, ["length"]).column("length").to_numpy()
            documents += len(lengths)
            tokens = int(lengths.sum(dtype=np.int64))
            if (len(lengths), tokens) != (info[task][split]["documents"], info[task][split]["tokens"]):
                problems.append(
                    f"{stem}: {len(lengths)} documents of {tokens} tokens in the index, others were written"
                )
            expected = len(lengths) if self.sequence is None else tokens // self.sequence
            if info[task][f"{split}_samples"] != expected:
                problems.append(f"{stem}: {info[task][f'{split}_samples']} samples, {expected} expected")
        yield Check("sample files have as many documents and samples as their indexes say", documents, tuple(problems))


def _documents(pieces: Iterable[Piece]) -> Iterator[Samples]:
    for piece in pieces:
        yield Samples(piece.ids, piece.lengths, piece.tokens)


def _cut(task: PhaseTask, pieces: Iterable[Piece], sequence: int) -> Iterator[Samples]:
    """Tokens of all pieces in samples of one length."""
    left: np.ndarray | None = None
    left_ids = pa.array([], pa.string())
    left_lengths = np.zeros(0, np.int64)
    for piece in pieces:
        tokens = piece.tokens if left is None else np.concatenate([left, piece.tokens])
        ids = pa.concat_arrays([left_ids, piece.ids.cast(pa.string())])
        lengths = np.concatenate([left_lengths, piece.lengths])
        count = len(tokens) // sequence
        ends = np.cumsum(lengths)
        starts_in = np.searchsorted(ends, np.arange(count) * sequence, "right")
        if count:
            yield Samples(ids.take(pa.array(starts_in)), np.full(count, sequence, np.int64), tokens[: count * sequence])
        left = tokens[count * sequence :]
        first = int(np.searchsorted(ends, count * sequence, "right"))
        left_ids = ids.slice(first)
        left_lengths = lengths[first:].copy()
        if len(left_lengths):
            left_lengths[0] = ends[first] - count * sequence
    task.count(_DROPPED, 0 if left is None else len(left))
