"""A sentencepiece model file as data: its pieces, its normaliser and the switches that change ids.

The file is a protocol buffer (ModelProto of sentencepiece_model.proto). Only the fields that bear on encoding are read, by a
reader of the wire format of its own: the generated classes would tie us to one version of the protobuf package.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from corpusflow import ConfigError

from ._score import Vocabulary, model_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4

#: What to give instead.
NOT_A_MODEL: Final = "give the .model file that `corpusflow train tokenizer` or spm_train wrote"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}


@dataclass(frozen=True)
class SpmModel:
    """A parsed model. `pieces[i]` is the UTF-8 of id i; `scores` are float32 values; `kinds` as in ModelProto.Type."""

    pieces: tuple[bytes, ...]
    scores: tuple[float, ...]
    kinds: tuple[int, ...]
    kind: int
    byte_fallback: bool
    suffix_whitespace: bool
    charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool
    named: tuple[bytes, bytes, bytes, bytes]  # unk, bos, eos, pad


def parse(data: bytes) -> SpmModel:
    """Read a serialized ModelProto.

    Raises:
        ValueError: not a protocol buffer, or one without pieces.
    """
    pieces: list[bytes] = []
    scores: list[float] = []
    kinds: list[int] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    for field, value in _fields(data):
        if field == 1 and isinstance(value, bytes):
            piece = dict(_fields(value))
            score = piece.get(2, b"\0\0\0\0")
            pieces.append(_as_bytes(piece.get(1, b"")))
            scores.append(struct.unpack("<f", _as_bytes(score))[0])
            kinds.append(int(piece.get(3, NORMAL)))
        elif field == 2 and isinstance(value, bytes):
            trainer = dict(_fields(value))
        elif field == 3 and isinstance(value, bytes):
            normalizer = dict(_fields(value))
    if not pieces:
        raise ValueError("no pieces in it")
    return SpmModel(
        pieces=tuple(pieces),
        scores=tuple(scores),
        kinds=tuple(kinds),
        kind=int(trainer.get(3, UNIGRAM)),
        byte_fallback=bool(trainer.get(35, 0)),
        suffix_whitespace=bool(trainer.get(24, 0)),
        charsmap=_as_bytes(normalizer.get(2, b"")),
        add_dummy_prefix=bool(normalizer.get(3, 1)),
        remove_extra_whitespaces=bool(normalizer.get(4, 1)),
        escape_whitespaces=bool(normalizer.get(5, 1)),
        named=(
            _as_bytes(trainer.get(45, b"<unk>")),
            _as_bytes(trainer.get(46, b"<s>")),
            _as_bytes(trainer.get(47, b"</s>")),
            _as_bytes(trainer.get(48, b"<pad>")),
        ),
    )


@lru_cache(maxsize=8)
def _load(sha256: str, data: bytes, path: str) -> tuple[SpmModel, Vocabulary]:
    try:
        model = parse(data)
    except (ValueError, struct.error, IndexError) as e:
        raise ConfigError(f"{path} is not a sentencepiece model: {e}", hint=NOT_A_MODEL) from e
    ids = {p: i for i, p in reversed(list(enumerate(model.pieces)))}

    def special(piece: bytes, *kinds: int) -> int | None:
        found = ids.get(piece)
        return found if found is not None and model.kinds[found] in kinds else None

    unk, bos, eos, pad = model.named
    vocabulary = Vocabulary(
        largest_id=len(model.pieces) - 1,
        bos=special(bos, CONTROL, USER_DEFINED),
        eos=special(eos, CONTROL, USER_DEFINED),
        unk=special(unk, UNKNOWN),
        pad=special(pad, CONTROL, USER_DEFINED),
        sha256=sha256,
    )
    return model, vocabulary


def load(path: str) -> tuple[SpmModel, Vocabulary]:
    """Parse a model file, once per process.

    Raises:
        ConfigError: no such file, or not a sentencepiece model.
    """
    data, sha256 = model_bytes(path)
    return _load(sha256, data, path)


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ValueError("a field has another wire type than ModelProto's")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of one message: varints as int, all else as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in _SIZES:
            size = _SIZES[wire]
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if at + size > len(data):
            raise ValueError(f"a field of {size} bytes at byte {at} reaches past the end")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError(f"a number of more than 64 bits at byte {at}")
