"""Are token files what their index says, and what the run's documents became: `corpusflow verify` and `explain`.

Reads committed parts and, for a seeded sample of documents, the tokens and the text that the run has of them; writes
nothing. Promises that a sentence per problem names the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Check, Part, PhaseInputs, Score, id_hashes

from ._publish import numbered

TOKENS: Final = "tokenize.tokens"
_SAMPLE_SEED: Final = 0x766572696679
_MOST_PROBLEMS: Final = 10

#: (parts by suffix, tokens of each document int64, dtype) -> what is wrong with the rest of the format, in sentences.
Format = Callable[[PhaseInputs, Mapping[str, Part], np.ndarray, np.dtype[Any]], Iterator[str]]


@dataclass(frozen=True)
class TokenFile:
    """A published file: its stem, its parts by suffix, and its document index."""

    stem: str
    parts: Mapping[str, Part]
    index: pa.Table

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each document, int64."""
        out: np.ndarray = self.index.column("length").to_numpy().astype(np.int64)
        return out

    @property
    def starts(self) -> np.ndarray:
        """First token of each document, int64."""
        out: np.ndarray = self.index.column("offset").to_numpy()
        return out


def token_files(
    inputs: PhaseInputs, phase: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[TokenFile, Any]]:
    """Every published file, with what its task noted of it."""
    info = inputs.info(phase)
    for split, stem, task in numbered(inputs):
        parts = {}
        for part in inputs.parts(phase, task):
            head, _, suffix = part.name.partition(".")
            if head == split:
                parts[suffix] = part
        index = inputs.read_parquet(parts["documents.parquet"], columns)
        yield TokenFile(stem, parts, index), {**info[task][split], "dtype": info[task]["dtype"]}


def check_files(inputs: PhaseInputs, phase: str, rest: Format) -> Check:
    """Index against tokens, file by file."""
    problems: list[str] = []
    count = 0
    for file, noted in token_files(inputs, phase, ["offset", "length"]):
        count += 1
        lengths, dtype = file.lengths, np.dtype(noted["dtype"])
        total = int(lengths.sum())
        if not np.array_equal(file.starts, np.cumsum(lengths) - lengths):
            problems.append(f"{file.stem}.documents.parquet: documents do not follow one another")
        if (len(lengths), total) != (noted["documents"], noted["tokens"]):
            problems.append(
                f"{file.stem}: {len(lengths)} documents of {total} tokens in the index, "
                f"{noted['documents']} of {noted['tokens']} were written"
            )
        if file.parts["bin"].size != total * dtype.itemsize:
            problems.append(
                f"{file.stem}.bin: {file.parts['bin'].size} bytes, {total} tokens of {dtype.name} take "
                f"{total * dtype.itemsize}"
            )
        problems += [f"{file.stem}: {text}" for text in rest(inputs, file.parts, lengths, dtype)]
    return Check("token files agree with their indexes", count, tuple(problems[:_MOST_PROBLEMS]))


def follow(inputs: PhaseInputs, phase: str, sample: int) -> Iterator[Check]:
    """A sample of documents: their tokens lie where the index says, and decode to the text they came from."""
    wanted = sample_documents(inputs, sample)
    expected = {row["id"]: row for row in wanted.to_pylist()}
    if not expected:
        return
    spans, problems = _spans(inputs, phase, wanted.column("id"))
    for key, row in expected.items():
        if key not in spans:
            problems.append(f"{key} is in no file, the run has {len(row[TOKENS])} tokens of it")
        elif spans[key][1].tolist() != row[TOKENS]:
            problems.append(f"{spans[key][0]}.bin: the tokens of {key} are not those that the run has of it")
    yield Check("sampled documents have the run's tokens in the files", len(expected), tuple(problems[:_MOST_PROBLEMS]))
    maker = inputs.maker(TOKENS)
    decode = getattr(maker, "decode", None)
    if isinstance(maker, Score) and callable(decode):
        yield from _decoded(maker, decode, expected, spans)


def sample_documents(inputs: PhaseInputs, sample: int, columns: Sequence[str] = ("id", TOKENS, "text")) -> pa.Table:
    """Columns of about `sample` documents with tokens, spread over shards; chosen by a hash of the id."""
    names = pa.array([str(s) for s in inputs.shards], pa.string())
    order: np.ndarray = np.argsort(id_hashes(names, _SAMPLE_SEED)[:, 0])
    shards = [inputs.shards[i] for i in order[:sample]]
    tables = []
    for shard in shards:
        per_shard = math.ceil(sample / len(shards))
        ids = list(inputs.survivors(shard, ["id"]))
        if not ids:
            continue
        table = pa.Table.from_batches(ids)
        first = np.argsort(id_hashes(table.column("id"), _SAMPLE_SEED)[:, 0])[:per_shard]
        rows = np.sort(table.column("row").to_numpy()[first]).astype(np.int32)
        tables.append(pa.Table.from_batches(list(inputs.survivors(shard, list(columns), rows))))
    if not tables:
        return pa.table({"id": pa.array([], pa.string())})
    table = pa.concat_tables(tables)
    return table.filter(pc.greater(pc.list_value_length(table.column(TOKENS)), 0))


def _spans(
    inputs: PhaseInputs, phase: str, ids: pa.ChunkedArray
) -> tuple[dict[str, tuple[str, np.ndarray]], list[str]]:
    """id -> (stem, tokens as the file has them), and what went wrong on the way."""
    spans: dict[str, tuple[str, np.ndarray]] = {}
    problems = []
    for file, noted in token_files(inputs, phase):
        hits = np.flatnonzero(pc.is_in(file.index.column("id"), value_set=ids.combine_chunks()).to_numpy())
        dtype = np.dtype(noted["dtype"]).newbyteorder("<")
        with inputs.open(file.parts["bin"]) as stream:
            for row in hits:
                name = str(file.index.column("id")[int(row)].as_py())
                if name in spans:
                    problems.append(f"{name} is in {spans[name][0]} and again in {file.stem}")
                stream.seek(int(file.starts[row]) * dtype.itemsize)
                data = stream.read(int(file.lengths[row]) * dtype.itemsize)
                spans[name] = file.stem, np.frombuffer(data, dtype)
    return spans, problems


def _decoded(
    maker: Score,
    decode: Callable[[Sequence[int]], str],
    expected: Mapping[str, Mapping[str, Any]],
    spans: Mapping[str, tuple[str, np.ndarray]],
) -> Iterator[Check]:
    """Exact where decoding gives the text back; a tokenizer that normalises must at least give these ids for the text."""
    exact, lossy, problems = 0, [], []
    for key, (_, tokens) in spans.items():
        text = expected[key]["text"]
        if decode(tokens.tolist()) == text:
            exact += 1
        else:
            lossy.append(key)
    yield Check("token spans decode to the very text", exact)
    if not lossy:
        return
    batch = pa.record_batch([pa.array([expected[k]["text"] for k in lossy], pa.large_string())], names=["text"])
    again = maker.score(batch).column(TOKENS).to_pylist()
    for key, ids in zip(lossy, again, strict=True):
        if ids != spans[key][1].tolist():
            problems.append(f"{spans[key][0]}.bin: the tokens of {key} are not those of its text")
    yield Check(
        "token spans decode to a normalised form of the text, whose tokens they are",
        len(lossy) - len(problems),
        tuple(problems[:_MOST_PROBLEMS]),
    )


def find_tokens(inputs: PhaseInputs, phase: str, document_id: str) -> Iterator[Mapping[str, Any]]:
    """Where a document's tokens lie: file, first token, number of tokens."""
    for file, _ in token_files(inputs, phase):
        for row in np.flatnonzero(pc.equal(file.index.column("id"), document_id).to_numpy()):
            yield {"file": f"{file.stem}.bin", "token": int(file.starts[row]), "tokens": int(file.lengths[row])}
