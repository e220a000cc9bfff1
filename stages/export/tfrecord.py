"""TFRecord files of `tf.train.Example`, for tf.data, MindSpore, T5X, MaxText and whatever else reads them.

Reads `id` and `tokenize.tokens`; writes `train-00000-of-00004.tfrecord`, the same for `validation`, `manifest.json`, and the
document indexes. An Example has `id` (bytes, UTF-8) and `tokens` (int64 list), with `sequence` also `seq_lengths` (int64 list),
tokens of each document in it; tensorflow is not needed to write one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import numpy as np

from corpusflow import PhaseTask
from stages.kernels.crc32c import TABLES, crc32c, masked, varints

from ._samples import Samples, SampleSink, encoded_groups

#: Samples joined into one write.
_BLOCK: Final = 1_024
_LENGTH_PREFIXED: Final = 2  # protobuf's wire type of strings and messages


@dataclass(frozen=True, kw_only=True)
class TfRecord(SampleSink):
    """TFRecord files, uncompressed.

    Source: tensorflow, core/lib/io/record_writer.h (framing) and core/example/example.proto (contents).
    """

    version: ClassVar[int] = 2
    format_name: ClassVar[str] = "tfrecord"
    library: ClassVar[str] = "tfrecord"

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        count = 0
        with task.file(f"{split}.tfrecord") as stream:
            for block in samples:
                records = [_record(example) for example in _examples(block, self.sequence is not None)]
                for start in range(0, len(records), _BLOCK):
                    stream.write(b"".join(records[start : start + _BLOCK]))
                count += len(records)
        return count

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        # the package and tensorflow cannot be in one process: both define tf.train.Example
        if find_spec("tensorflow") is not None:
            tensorflow: Any = import_module("tensorflow")
            for raw in tensorflow.data.TFRecordDataset([str(path) for path in paths]):
                features = tensorflow.train.Example.FromString(raw.numpy()).features.feature
                yield np.array(features["tokens"].int64_list.value, np.int64)
            return
        reader: Any = import_module("tfrecord")
        for path in paths:
            yield from (row["tokens"] for row in reader.tfrecord_loader(str(path), None, {"tokens": "int"}))

    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        while head := stream.read(12):
            size = struct.unpack("<Q", head[:8])[0]
            data, check = stream.read(size), stream.read(4)
            if len(check) != 4 or head[8:] != _checksum(head[:8]) or check != _checksum(data):
                raise ValueError("a record is damaged or cut off")
            for entry in _fields(_fields(data)[0]):
                name, feature = _fields(entry)
                if name == b"tokens":
                    yield _integers(_fields(_fields(feature)[0])[0]).astype(dtype)


def _fields(data: bytes) -> list[bytes]:
    """Contents of a message all of whose fields are bytes."""
    found, at = [], 0
    while at < len(data):
        at += 1  # number and kind
        size = shift = 0
        while True:
            byte = data[at]
            size |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if byte < 0x80:
                break
        found.append(data[at : at + size])
        at += size
    return found


def _integers(packed: bytes) -> np.ndarray:
    """Packed varints, int64."""
    data = np.frombuffer(packed, np.uint8)
    first = np.concatenate([[True], data[:-1] < 0x80])
    starts = np.flatnonzero(first)
    place = np.arange(len(data)) - starts[np.cumsum(first) - 1]
    out: np.ndarray = np.add.reduceat((data & 0x7F).astype(np.int64) << (7 * place), starts)
    return out


def _examples(block: Samples, borders: bool) -> Iterator[bytes]:
    """Each sample as a serialised tf.train.Example; features in the order id, seq_lengths, tokens."""
    tokens = encoded_groups(varints, block.lengths, block.tokens)
    parts: Iterator[bytes | memoryview] = repeat(b"")
    if borders:
        parts = encoded_groups(varints, block.counts, block.parts.astype(np.uint32))
    for name, numbers, lengths in zip(block.ids.to_pylist(), tokens, parts, strict=False):
        features = [_feature(b"id", 1, _field(1, name.encode()))]
        if borders:
            features.append(_feature(b"seq_lengths", 3, _field(1, lengths)))
        features.append(_feature(b"tokens", 3, _field(1, numbers)))
        yield _field(1, b"".join(features))


def _feature(name: bytes, kind: int, values: bytes) -> bytes:
    """An entry of the map of features; `kind` is the field of Feature: 1 bytes, 2 floats, 3 integers."""
    return _field(1, _field(1, name) + _field(2, _field(kind, values)))


def _field(number: int, data: bytes | memoryview) -> bytes:
    """A protobuf field of bytes."""
    size = len(data)
    head = bytearray([number << 3 | _LENGTH_PREFIXED])
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def _record(data: bytes) -> bytes:
    """Length, its checksum, the data, its checksum."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _checksum(length), data, _checksum(data)))


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", masked(int(crc32c(np.frombuffer(data, np.uint8), TABLES))))


STAGE = TfRecord
