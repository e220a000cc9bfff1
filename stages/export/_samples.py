"""What the Sinks of samples share: token files of formats that hold one training sample after another.

A sample is a document, or, with `sequence`, so many tokens: documents one after the other, what is left over at the end of a
file being in no sample and counted; or, padded, documents whole where they fit, one or several to a sample. Where one document
ends within a sample is said by `seq_lengths` beside its tokens, or for padded files by `.pieces.parquet`.
"""

from __future__ import annotations

import struct
import tarfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Check, ConfigError, Packing, Part, PhaseInputs, PhaseTask, Published, pack, param

from ._publish import numbered, published
from ._shuffle import WRITE
from ._tokens import Piece, TokenSink
from ._verify import TOKENS, TokenFile, find_tokens, sample_documents, token_files

_DROPPED: Final = "dropped_tokens"
_PADDING: Final = "padding_tokens"
#: Samples that are put together at once.
_BLOCK: Final = 1_024
#: The first ids that uint16 files do not hold (stages/tokenize gives wider ones from there on).
_WIDE: Final = 65_500
_PIECES: Final = pa.schema(
    [("document", pa.int32()), ("start", pa.int64()), ("length", pa.int32()), ("offset", pa.int64())]
)


@dataclass(frozen=True)
class Samples:
    """Some samples of a file, in order.

    Attributes:
        ids: string array (n,): documents' ids, or for cut and packed sequences the id of the document each starts in.
        lengths: int64 array (n,), tokens of each.
        tokens: uint16 or uint32 (sum of lengths,).
        counts: int64 array (n,), stretches of documents in each; all 1 where a sample is a document.
        parts: int32 array (sum of counts,), tokens of each stretch; a sample's add up to its tokens, or to less if it is
            padded.
    """

    ids: pa.Array
    lengths: np.ndarray
    tokens: np.ndarray
    counts: np.ndarray
    parts: np.ndarray

    def __iter__(self) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """(id, tokens, parts) of each."""
        ends, last = np.cumsum(self.lengths), np.cumsum(self.counts)
        rows = zip(self.ids.to_pylist(), (ends - self.lengths).tolist(), ends.tolist(), strict=True)
        borders = zip((last - self.counts).tolist(), last.tolist(), strict=True)
        for (name, start, end), (first, behind) in zip(rows, borders, strict=True):
            yield name, self.tokens[start:end], self.parts[first:behind]


@dataclass(frozen=True, kw_only=True)
class SampleSink(TokenSink):
    """Base of the Sinks of samples."""

    sequence: int | None = param(None, doc="Tokens per sample; a sample is a document if not given.")
    packing: Literal["concatenate", "best_fit", "documents"] = param(
        "concatenate",
        doc="How documents fill sequences: one after the other, cut anywhere; best_fit: cut only where longer than a sequence, "
        "put together so that little is padded; documents: one in each, padded.",
    )
    pad: int | None = param(None, doc="Id to pad with; the tokenizer's pad or end token if not given.")
    file_tokens: int = param(1 << 25, doc="Tokens per file, about; a file is held in memory while it is written.")

    #: What is written beside the samples of a file.
    indexes: ClassVar[frozenset[str]] = frozenset(("documents.parquet", "pieces.parquet"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence is not None and self.sequence < 1:
            raise ConfigError(f"sequence must be positive, got {self.sequence}")
        if self.sequence is None and self.packing != "concatenate":
            raise ConfigError(f"packing: {self.packing} needs the length of a sequence", hint="sequence: 2048")
        if self.pad is not None and not 0 <= self.pad < 1 << 32:
            raise ConfigError(f"pad must be a token id, got {self.pad}")

    @property
    def padded(self) -> bool:
        """Whether samples may end in padding."""
        return self.sequence is not None and self.packing != "concatenate"

    @abstractmethod
    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        """Write one file of the format; its parts are called ``<split>.<suffix>``. Returns how many samples it holds.

        Args:
            samples: at least one block; where the file has no sample, one that is empty and has the type of its tokens.
        """

    @abstractmethod
    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        """Tokens of a file that `write_samples` wrote, one array or several in its order, for `verify`.

        Raises:
            ValueError: the file is not of the format.
        """

    def write_file(self, task: PhaseTask, split: str, pieces: Iterable[Piece]) -> dict[str, int]:
        noted: dict[str, int] = {}
        if self.sequence is None:
            samples = _documents(pieces)
        elif self.padded:
            samples = self._packed(task, split, pieces, noted)
        else:
            samples = _cut(pieces, self.sequence, noted)
        count = self.write_samples(task, split, samples)
        for counter, n in noted.items():
            task.count(counter, n)
        return {"samples": count, **noted}

    def written(self, inputs: PhaseInputs, file: TokenFile, dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        with inputs.open(file.parts[self.data_suffix(file.parts)]) as stream:
            yield from self.read_samples(stream, dtype)

    def data_suffix(self, parts: Mapping[str, Part]) -> str:
        (suffix,) = set(parts) - self.indexes
        return suffix

    def header(self, inputs: PhaseInputs) -> dict[str, Any]:
        header = {**super().header(inputs), "sequence": self.sequence}
        if self.sequence is not None:
            header["packing"] = self.packing
        return {**header, "pad_id": self._pad(inputs)} if self.padded else header

    def samples(self, inputs: PhaseInputs) -> list[tuple[str, str, int]]:
        """(split, stem, samples) of each file."""
        info = inputs.info(WRITE)
        return [(split, stem, info[task][split]["samples"]) for split, stem, task in numbered(inputs)]

    def publish(self, inputs: PhaseInputs) -> Published:
        return published(inputs, self.format_name, self.header(inputs), self.texts(inputs), self.file_name)

    def find(self, inputs: PhaseInputs, document_id: str) -> Iterator[Mapping[str, Any]]:
        suffixes = {p.name.partition(".")[2] for p in inputs.parts(WRITE)} - self.indexes
        for place in self._found(inputs, document_id):
            stem = str(place["file"]).removesuffix(".bin")
            yield {**place, "file": self.file_name(stem.partition("-")[0], stem, next(iter(suffixes)))}

    def _found(self, inputs: PhaseInputs, document_id: str) -> Iterator[Mapping[str, Any]]:
        """Its place as in the document index, without what was left over behind the last sample; of padded files a place for
        each piece."""
        if not self.padded:
            ends = {f"{file.stem}.bin": n["tokens"] - n.get(_DROPPED, 0) for file, n in token_files(inputs, WRITE, [])}
            for place in find_tokens(inputs, WRITE, document_id):
                left = ends[place["file"]] - place["token"]
                if left > 0:
                    yield {**place, "tokens": min(place["tokens"], left)}
            return
        for file, _ in token_files(inputs, WRITE):
            rows = np.flatnonzero(pc.equal(file.index.column("id"), document_id).to_numpy())
            if len(rows):
                pieces = inputs.read_parquet(file.parts["pieces.parquet"])
                own = pieces.filter(pc.is_in(pieces.column("document"), value_set=pa.array(rows, pa.int32())))
                for piece in own.sort_by("start").to_pylist():
                    yield {"file": f"{file.stem}.bin", "token": piece["offset"], "tokens": piece["length"]}

    def texts(self, inputs: PhaseInputs) -> dict[str, str]:
        """Small files that the format wants besides its data."""
        return {}

    def verify(self, inputs: PhaseInputs, sample: int) -> Iterator[Check]:
        """The document indexes against what was written, and the samples against the indexes and the run's own tokens."""
        problems, documents = [], 0
        info = inputs.info(WRITE)
        for split, stem, task in numbered(inputs):
            noted = info[task][split]
            parts = {p.name.partition(".")[2]: p for p in inputs.parts(WRITE, task) if p.name.startswith(f"{split}.")}
            lengths = inputs.read_parquet(parts["documents.parquet"], ["length"]).column("length").to_numpy()
            documents += len(lengths)
            tokens = int(lengths.sum(dtype=np.int64))
            if (len(lengths), tokens) != (noted["documents"], noted["tokens"]):
                problems.append(
                    f"{stem}: {len(lengths)} documents of {tokens} tokens in the index, others were written"
                )
            expected = len(lengths) if self.sequence is None else tokens // self.sequence
            if self.padded:
                pieces = inputs.read_parquet(parts["pieces.parquet"])
                expected = (tokens + noted[_PADDING]) // (self.sequence or 1)
                problems += [f"{stem}: {text}" for text in _wrong_pieces(pieces, lengths, self.sequence or 1, expected)]
            if noted["samples"] != expected:
                problems.append(f"{stem}: {noted['samples']} samples, {expected} expected")
        yield Check("documents lie in sample files as their indexes say", documents, tuple(problems))
        yield self._follow(inputs, sample)

    def _follow(self, inputs: PhaseInputs, sample: int) -> Check:
        """Every file read through; a sample of documents has the run's tokens in it."""
        wanted = sample_documents(inputs, sample, ("id", TOKENS))
        expected = {row["id"]: row[TOKENS] for row in wanted.to_pylist()}
        problems: list[str] = []
        for file, noted in token_files(inputs, WRITE):
            suffix = self.data_suffix(file.parts)
            name = f"{file.stem}.{suffix}"
            try:
                arrays = self.written(inputs, file, np.dtype(noted["dtype"]))
                tokens = np.concatenate([*arrays, np.zeros(0, "<u2")])
            except (ValueError, KeyError, struct.error, pa.ArrowException, tarfile.TarError) as e:
                problems.append(f"{name} cannot be read: {type(e).__name__}: {e}")
                continue
            size = noted["tokens"] + noted.get(_PADDING, 0) - noted.get(_DROPPED, 0)
            if len(tokens) != size:
                problems.append(f"{name}: {len(tokens)} tokens in samples, {size} expected")
                continue
            rows = np.flatnonzero(pc.is_in(file.index.column("id"), value_set=wanted.column("id")).to_numpy())
            for row, places in self._stretches(inputs, file, rows):
                key = file.index.column("id")[row].as_py()
                if key not in expected:
                    problems.append(f"{key} is in {name} and in a file before it, or twice in it")
                    continue
                own = np.array(expected.pop(key), np.int64)
                # the last document of a file that cuts samples may go on behind them
                if any(
                    not np.array_equal(tokens[at : at + n], own[i : i + n][: max(0, len(tokens) - at)])
                    for i, n, at in places
                ):
                    problems.append(f"{name}: the tokens of {key} are not those that the run has of it")
        problems += [f"{key} is in no file" for key in expected]
        return Check("sampled documents have the run's tokens in the samples", wanted.num_rows, tuple(problems[:10]))

    def _stretches(
        self, inputs: PhaseInputs, file: TokenFile, rows: np.ndarray
    ) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
        """(row, [(first token of the document, number, where in the file)]) of documents of a file."""
        if not self.padded:
            for row in rows.tolist():
                yield row, [(0, int(file.lengths[row]), int(file.starts[row]))]
            return
        pieces = inputs.read_parquet(file.parts["pieces.parquet"])
        for row in rows.tolist():
            own = pieces.filter(pc.equal(pieces.column("document"), row)).to_pylist()
            yield row, [(p["start"], p["length"], p["offset"]) for p in own]

    def _pad(self, inputs: PhaseInputs) -> int:
        if self.pad is not None:
            return self.pad
        facts = inputs.facts(TOKENS)
        for name in ("pad_id", "eos_id"):
            if facts.get(name) is not None:
                return int(facts[name])
        raise ConfigError("the tokenizer has neither pad nor end token to pad sequences with", hint="give pad: ID")

    def _packed(self, task: PhaseTask, split: str, pieces: Iterable[Piece], noted: dict[str, int]) -> Iterator[Samples]:
        """Sequences of whole documents, padded; writes which piece of which document lies where."""
        sequence, pad = self.sequence or 1, self._pad(task)
        ids, lengths, tokens = _joined(pieces)
        if tokens.dtype == np.uint16 and pad >= _WIDE:
            raise ConfigError(f"tokens of 16 bits cannot be padded with {pad}", hint=f"pad: an id below {_WIDE}")
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        packing = pack(starts, sequence, "best_fit" if self.packing == "best_fit" else "documents")
        noted[_PADDING] = packing.padded
        owner = np.searchsorted(starts, packing.starts, "right") - 1
        places = _places(packing, sequence)
        columns = [
            owner.astype(np.int32),
            packing.starts - starts[owner],
            packing.lengths,
            places,
        ]
        with task.parquet(f"{split}.pieces.parquet", _PIECES) as index:
            index.write(pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=_PIECES))
        for begin in range(0, len(packing), _BLOCK):
            end = min(begin + _BLOCK, len(packing))
            first, behind = int(packing.first[begin]), int(packing.first[end])
            block = np.full((end - begin) * sequence, pad, tokens.dtype)
            rows = (packing.starts, places - begin * sequence, packing.lengths)
            for start, at, size in zip(*(r[first:behind].tolist() for r in rows), strict=True):
                block[at : at + size] = tokens[start : start + size]
            yield Samples(
                ids.take(pa.array(owner[packing.first[begin:end]])),
                np.full(end - begin, sequence, np.int64),
                block,
                np.diff(packing.first[begin : end + 1]),
                packing.lengths[first:behind],
            )


def encoded_groups(
    encode: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], int], counts: np.ndarray, values: np.ndarray
) -> Iterator[memoryview]:
    """The bytes that a kernel makes of each group of values.

    Args:
        encode: (values, ends of groups, out, ends of their bytes in out); fills the last two. It writes at most 5 bytes for a
            value, and 5 for a group.
        counts: values in each group, int64.
        values: as `encode` takes them.
    """
    data = np.empty(5 * (len(values) + len(counts)), np.uint8)
    ends = np.empty(len(counts), np.int64)
    encode(values, np.cumsum(counts), data, ends)
    start = 0
    for end in ends.tolist():
        yield data.data[start:end]
        start = end


def _joined(pieces: Iterable[Piece]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """(ids, lengths, tokens) of a whole file."""
    every = list(pieces)
    ids = pa.concat_arrays([p.ids.cast(pa.string()) for p in every])
    return ids, np.concatenate([p.lengths for p in every]), np.concatenate([p.tokens for p in every])


def _places(packing: Packing, sequence: int) -> np.ndarray:
    """Where in the padded file each piece begins, int64."""
    before = np.cumsum(packing.lengths, dtype=np.int64) - packing.lengths
    counts = np.diff(packing.first)
    own = np.repeat(np.arange(len(packing)), counts)
    out: np.ndarray = own * sequence + before - before[packing.first[:-1]][own]
    return out


def _wrong_pieces(pieces: pa.Table, lengths: np.ndarray, sequence: int, samples: int) -> Iterator[str]:
    """Every token of every document in one place, no two in the same, none over the end of a sample."""
    document, start, length, offset = (pieces.column(n).to_numpy().astype(np.int64) for n in _PIECES.names)
    order = np.lexsort((start, document))
    begins = np.cumsum(lengths, dtype=np.int64) - lengths
    if len(document) and not 0 <= document.min() <= document.max() < len(lengths):
        yield "pieces of documents that are not in the index"
        return
    at = (begins[document] + start)[order]
    if not np.array_equal(at, np.cumsum(length[order]) - length[order]) or length.sum() != lengths.sum(dtype=np.int64):
        yield "the pieces are not the documents, each token once"
    ends = offset + length
    if (offset[1:] < ends[:-1]).any() or (offset // sequence != (ends - 1) // sequence).any():
        yield "pieces lie over one another, or over the end of a sample"
    if len(offset) and ends[-1] > samples * sequence:
        yield "pieces lie behind the last sample"


def _documents(pieces: Iterable[Piece]) -> Iterator[Samples]:
    for piece in pieces:
        ones = np.ones(len(piece.lengths), np.int64)
        yield Samples(piece.ids, piece.lengths, piece.tokens, ones, piece.lengths.astype(np.int32))


def _cut(pieces: Iterable[Piece], sequence: int, noted: dict[str, int]) -> Iterator[Samples]:
    """Tokens of all pieces in samples of one length."""
    left: np.ndarray | None = None
    left_ids = pa.array([], pa.string())
    left_lengths = np.zeros(0, np.int64)
    cut = 0
    for piece in pieces:
        tokens = piece.tokens if left is None else np.concatenate([left, piece.tokens])
        ids = pa.concat_arrays([left_ids, piece.ids.cast(pa.string())])
        lengths = np.concatenate([left_lengths, piece.lengths])
        count = len(tokens) // sequence
        ends = np.cumsum(lengths)
        cuts = np.arange(count + 1) * sequence
        cut += count
        if count:
            borders = np.unique(np.concatenate([cuts, ends[ends < cuts[-1]]]))
            yield Samples(
                ids.take(pa.array(np.searchsorted(ends, cuts[:-1], "right"))),
                np.full(count, sequence, np.int64),
                tokens[: count * sequence],
                np.diff(np.searchsorted(borders, cuts)),
                np.diff(borders).astype(np.int32),
            )
        left = tokens[count * sequence :]
        first = int(np.searchsorted(ends, count * sequence, "right"))
        left_ids = ids.slice(first)
        left_lengths = lengths[first:].copy()
        if len(left_lengths):
            left_lengths[0] = ends[first] - count * sequence
    if left is not None and not cut:  # fewer tokens than a sequence: a file without samples, of the type of the others
        none = np.zeros(0, np.int64)
        yield Samples(left_ids.slice(0, 0), none, left[:0], none, none.astype(np.int32))
    noted[_DROPPED] = 0 if left is None else len(left)
