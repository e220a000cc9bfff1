"""What every tokenizer stage shares: the column it adds, its width, and where documents begin and end.

Reads `text`; adds `tokenize.tokens`, a list of token ids per document: begin token (if asked for), the tokenizer's own ids
of the whole text, end token (if asked for). A null text gives a null list.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import pyarrow as pa

from corpusflow import ConfigError, Score, param, storage_for

TOKENS: Final = "tokenize.tokens"

#: Megatron-LM reads a file as uint16 if and only if the vocabulary is smaller than this, so nothing else is safe for it.
UINT16_BELOW: Final = 65_500

#: Characters handed to a library in one call: enough to make the call's cost vanish, little enough to bound its lists.
_CALL_CHARACTERS: Final = 4 << 20


def token_type(largest_id: int) -> pa.DataType:
    """uint16 where all ids, added tokens included, are below Megatron's limit; uint32 otherwise."""
    return pa.uint16() if largest_id < UINT16_BELOW else pa.uint32()


@dataclass(frozen=True)
class Vocabulary:
    """What a tokenizer file says of its ids. `largest_id` counts added tokens; an id is None where there is no such token."""

    largest_id: int
    bos: int | None
    eos: int | None
    unk: int | None
    pad: int | None
    sha256: str


class Encoder(Protocol):
    """A loaded tokenizer."""

    def encode(self, text: pa.Array, before: int | None, after: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Token ids of each text, between `before` and `after` where these are not None; nothing for a null.

        Returns:
            (offsets, ids): int64 array (n + 1,) and int32 array (offsets[n],).
        """


class Library:
    """A tokenizer library itself, one thread, in batches of some megabytes of text.

    Args:
        encode: ids of each of a list of texts.
    """

    def __init__(self, encode: Callable[[list[str]], Iterable[Sequence[int]]]) -> None:
        self._encode = encode

    def encode(self, text: pa.Array, before: int | None, after: int | None) -> tuple[np.ndarray, np.ndarray]:
        """See `Encoder`."""
        lengths = np.zeros(len(text) + 1, np.int64)
        pieces = []
        head = [] if before is None else [before]
        tail = [] if after is None else [after]
        at = 0
        for batch in _calls(text):
            encoded = iter(self._encode([t for t in batch if t is not None]))
            for value in batch:
                at += 1
                if value is not None:
                    pieces.append(np.array([*head, *next(encoded), *tail], np.int32))
                    lengths[at] = len(pieces[-1])
        return np.cumsum(lengths), np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _calls(text: pa.Array) -> Iterator[list[str | None]]:
    batch: list[str | None] = []
    size = 0
    for scalar in text:
        value = scalar.as_py()
        batch.append(value)
        size += len(value or "")
        if size >= _CALL_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@dataclass(frozen=True)
class Opened:
    """A loaded tokenizer: what encodes (kernels or the library), and the library's way back."""

    encoder: Encoder
    decode: Callable[[list[int]], str]


@dataclass(frozen=True, kw_only=True)
class TokenScore(Score):
    """Base of the tokenizer stages."""

    model: str = param(doc="Tokenizer file; its SHA-256 is in the fingerprint and in every manifest.", model="")
    add_bos: bool = param(True, doc="Begin each document with the tokenizer's begin token.")
    add_eos: bool = param(True, doc="End each document with the tokenizer's end token.")

    survivors_only: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("text",)

    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Ids of the tokenizer file; cheap, for it is asked in the driver too."""

    @abstractmethod
    def open(self) -> Opened:
        """Load the tokenizer."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a document's ids, begin and end tokens left out; bytes that are not UTF-8 become U+FFFD."""
        before, after = self.ends()
        first = 1 if before is not None and len(ids) and ids[0] == before else 0
        last = len(ids) - (1 if after is not None and len(ids) > first and ids[-1] == after else 0)
        return str(self.opened.decode([int(i) for i in ids[first:last]]))

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {TOKENS: pa.list_(token_type(self.vocabulary().largest_id))}

    def facts(self) -> Mapping[str, Any]:
        """What a trainer must know of the ids, for the manifests of Sinks."""
        v = self.vocabulary()
        return {
            "tokenizer_sha256": v.sha256,
            "vocabulary_size": v.largest_id + 1,
            "bos_id": v.bos,
            "eos_id": v.eos,
            "unk_id": v.unk,
            "pad_id": v.pad,
            "add_bos": self.add_bos,
            "add_eos": self.add_eos,
        }

    def ends(self) -> tuple[int | None, int | None]:
        """Ids put before and after each document.

        Raises:
            ConfigError: asked for, but the tokenizer has none.
        """
        v = self.vocabulary()
        for name, wanted, found in (("add_bos", self.add_bos, v.bos), ("add_eos", self.add_eos, v.eos)):
            if wanted and found is None:
                raise ConfigError(
                    f"{self.model} has no {'begin' if name == 'add_bos' else 'end'} token",
                    hint=f"set {name}: false, or use a tokenizer that defines one",
                )
        return (v.bos if self.add_bos else None), (v.eos if self.add_eos else None)

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = batch.column("text")
        offsets, ids = self.opened.encoder.encode(text, *self.ends())
        width = self.outputs()[TOKENS].value_type.to_pandas_dtype()
        tokens = pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32)),
            pa.array(ids.astype(width)),
            mask=text.is_null() if text.null_count else None,
        )
        return pa.RecordBatch.from_arrays([tokens], names=[TOKENS])

    def warm(self) -> None:
        self.opened.encoder.encode(pa.array(["a"], pa.large_string()), *self.ends())


@lru_cache(maxsize=16)
def _read(path: str, etag: str) -> tuple[bytes, str]:
    data = storage_for(path).get(path)
    return data, hashlib.sha256(data).hexdigest()


def model_bytes(path: str) -> tuple[bytes, str]:
    """A tokenizer file and its SHA-256, read once per process and version of the file.

    Raises:
        ConfigError: no such file.
    """
    try:
        return _read(path, storage_for(path).stat(path).etag)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as e:
        raise ConfigError(
            f"tokenizer file {path} does not exist", hint="train one: corpusflow train tokenizer, or give a path"
        ) from e
