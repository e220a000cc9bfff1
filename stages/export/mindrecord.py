"""MindRecord files, for MindSpore's `MindDataset`: rows that can be read in any order, with an SQLite index beside them.

Reads `id` and `tokenize.tokens`; writes a folder per file, `train-00000-of-00004/tokens.mindrecord` and
`tokens.mindrecord.db`, the same for `validation`, `manifest.json`, and the document indexes:
`MindDataset(sorted(glob("train-*/tokens.mindrecord")))`. A MindRecord file states its own name and cannot be renamed; in a
folder of its own it need not be. A row has `id` (string) and `tokens` (int32); with `sequence` also `seq_lengths` (int32),
tokens of each document in it. MindSpore is not needed to write one.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import numpy as np

from corpusflow import Check, ConfigError, PhaseInputs, PhaseTask, param
from stages.kernels.mindrecord import compressed

from ._samples import Samples, SampleSink, encoded_groups
from ._shuffle import WRITE
from ._verify import token_files

_NAME: Final = "tokens.mindrecord"
_SUFFIX: Final = "mindrecord"
_INDEX: Final = "mindrecord.db"
#: Room for some 5,000 pages. MindSpore reads files together only if their headers and pages have one size.
_HEADER: Final = 1 << 20
_SMALLEST_PAGE: Final = 1 << 16
_LARGEST_PAGE: Final = 1 << 28  # what the format allows
#: MindRecord has no unsigned integers.
_TOO_LARGE: Final = 1 << 31
#: Where SQLite notes which version of it wrote a file; with one number for all, files are the same on every machine.
_SQLITE_VERSION: Final = slice(96, 100)
_TABLE: Final = (
    "CREATE TABLE INDEXES(ROW_ID INT NOT NULL, PAGE_ID_RAW INT NOT NULL, PAGE_OFFSET_RAW INT NOT NULL, "
    "PAGE_OFFSET_RAW_END INT NOT NULL, ROW_GROUP_ID INT NOT NULL, PAGE_ID_BLOB INT NOT NULL, PAGE_OFFSET_BLOB INT NOT NULL, "
    "PAGE_OFFSET_BLOB_END INT NOT NULL, INC_0 INT, id_0 TEXT, PRIMARY KEY(ROW_ID, INC_0))"
)


@dataclass(frozen=True, kw_only=True)
class MindRecord(SampleSink):
    """MindRecord files of MindSpore.

    Source: mindspore, ccsrc/minddata/mindrecord: a header of JSON, pages of ids (msgpack), pages of integers (compressed), and
    an SQLite table that says where each row lies.
    """

    page_bytes: int = param(1 << 25, doc="Size of a page; the tokens of a document or a sequence lie in one.")

    version: ClassVar[int] = 1
    format_name: ClassVar[str] = "mindrecord"
    library: ClassVar[str] = "mindspore"
    indexes: ClassVar[frozenset[str]] = SampleSink.indexes | {_INDEX}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.page_bytes % 4 or not _SMALLEST_PAGE <= self.page_bytes <= _LARGEST_PAGE:
            raise ConfigError(
                f"page_bytes must be a multiple of 4 from {_SMALLEST_PAGE} to {_LARGEST_PAGE}, got {self.page_bytes}"
            )

    def file_name(self, split: str, stem: str, suffix: str) -> str:
        return f"{stem}/tokens.{suffix}" if suffix in (_SUFFIX, _INDEX) else super().file_name(split, stem, suffix)

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        names: list[str] = []
        rows: list[bytes] = []
        for block in samples:
            names += block.ids.to_pylist()
            rows += self._rows(block)
        blob = _Pages(rows, self.page_bytes, 0)
        raw = _Pages([_framed(_msgpack_id(name)) for name in names], self.page_bytes, len(blob.cuts))
        with task.file(f"{split}.{_SUFFIX}") as stream:
            stream.write(self._header(raw, blob))
            for page in (blob, raw):
                for number, data in enumerate(page, page.number):
                    last = number == len(blob.cuts) + len(raw.cuts) - 1
                    stream.write(data if last else data.ljust(self.page_bytes, b"\0"))
        with task.file(f"{split}.{_INDEX}") as stream:
            stream.write(_index(names, raw, blob))
        return len(rows)

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        reader: Any = import_module("mindspore.dataset")
        for path in paths:
            # one thread, since several hand on rows in no order
            rows = reader.MindDataset(str(path), columns_list=["tokens"], num_parallel_workers=1, shuffle=False)
            yield from (row["tokens"] for row in rows.create_dict_iterator(num_epochs=1, output_numpy=True))

    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        file = _File(stream.read())
        several = len(file.header["schema"][0]["blob_fields"]) > 1
        for _, start, end in file.rows("BLOB_DATA"):
            if several:  # lengths of documents are in front
                (before,) = struct.unpack_from(">Q", file.data, start)
                start += 8 + before + 8
            yield _integers(np.frombuffer(file.data, np.uint8, end - start, start)).astype(dtype)

    def verify(self, inputs: PhaseInputs, sample: int) -> Iterator[Check]:
        yield from super().verify(inputs, sample)
        problems, count = [], 0
        for file, noted in token_files(inputs, WRITE, ["id"]):
            count += noted["samples"]
            parts = file.parts
            try:
                with inputs.open(parts[_SUFFIX]) as stream, inputs.open(parts[_INDEX]) as index:
                    problems += [f"{file.stem}: {text}" for text in _wrong_places(_File(stream.read()), index.read())]
            except (ValueError, KeyError, struct.error, sqlite3.Error) as e:
                problems.append(f"{file.stem}/{_NAME}.db cannot be read: {type(e).__name__}: {e}")
        yield Check("rows are where the SQLite index says", count, tuple(problems[:10]))

    def _rows(self, block: Samples) -> list[bytes]:
        """The integers of each sample; of two columns each has its size before it, in the order of their names."""
        if len(block.tokens) and int(block.tokens.max()) >= _TOO_LARGE:
            raise ConfigError(
                f"export.mindrecord: a token's id is {int(block.tokens.max())}, MindRecord's integers end at {_TOO_LARGE - 1}",
                hint="export.tfrecord has integers of 64 bits, and MindSpore reads it, too",
            )
        tokens = encoded_groups(compressed, block.lengths, block.tokens)
        if self.sequence is None:
            return [_framed(bytes(own)) for own in tokens]
        borders = encoded_groups(compressed, block.counts, block.parts.astype(np.uint32))
        return [
            _framed(b"".join((struct.pack(">Q", len(a)), a, struct.pack(">Q", len(b)), b)))
            for a, b in zip(borders, tokens, strict=True)
        ]

    def _header(self, raw: _Pages, blob: _Pages) -> bytes:
        columns: dict[str, Any] = {"id": {"type": "string"}}
        if self.sequence is not None:
            columns["seq_lengths"] = {"shape": [-1], "type": "int32"}
        columns["tokens"] = {"shape": [-1 if self.sequence is None else self.sequence], "type": "int32"}
        header = {
            "compression_size": 0,
            "header_size": _HEADER,
            "index_fields": [{"index_field": "id", "schema_id": 0}],
            "page": [*blob.described("BLOB_DATA", None), *raw.described("RAW_DATA", blob)],
            "page_size": self.page_bytes,
            "schema": [{"blob_fields": [c for c in columns if c != "id"], "desc": "tokens", "schema": columns}],
            "shard_addresses": [_NAME],
            "shard_id": 0,
            "statistics": None,
            "version": "3.0",
        }
        data = _framed(json.dumps(header).encode())
        if len(data) > _HEADER:
            raise ConfigError(
                f"export.mindrecord: a file of {len(blob.cuts) + len(raw.cuts)} pages, too many for its header",
                hint=f"page_bytes: {min(_LARGEST_PAGE, 16 * self.page_bytes)}, or fewer file_tokens",
            )
        return data.ljust(_HEADER, b"\0")


class _Pages:
    """Rows in pages of one size, in order.

    Attributes:
        number: of the first page in its file.
        page: of each row, counted from the first.
        start: of each row in its page, bytes.
        cuts: (first row, row behind the last) of each page.
    """

    def __init__(self, rows: list[bytes], size: int, number: int) -> None:
        self.number = number
        self.rows = rows
        self.page: list[int] = []
        self.start: list[int] = []
        self.cuts: list[tuple[int, int]] = []
        first = filled = 0
        for i, row in enumerate(rows):
            if len(row) > size:
                raise ConfigError(
                    f"export.mindrecord: {len(row)} bytes in one row, a page has {size}",
                    hint=f"page_bytes: {_LARGEST_PAGE}, or cut documents by sequence: 2048",
                )
            if filled + len(row) > size:
                self.cuts.append((first, i))
                first, filled = i, 0
            self.page.append(len(self.cuts))
            self.start.append(filled)
            filled += len(row)
        self.cuts.append((first, len(rows)))

    def __iter__(self) -> Iterator[bytes]:
        return (b"".join(self.rows[first:behind]) for first, behind in self.cuts)

    def places(self) -> Iterator[tuple[int, int, int]]:
        """(page of the file, start, end) of each row."""
        for page, start, row in zip(self.page, self.start, self.rows, strict=True):
            yield self.number + page, start, start + len(row)

    def described(self, kind: str, groups: _Pages | None) -> Iterator[dict[str, Any]]:
        """What the header says of each page. A page of integers is a row group of its own; one of ids lists those that begin
        in it."""
        for i, (first, behind) in enumerate(self.cuts):
            listed = [{"id": 0, "offset": 0}]
            if groups is not None:
                begins = ((g, row) for g, (row, _) in enumerate(groups.cuts) if first <= row < behind)
                listed = [{"id": g, "offset": self.start[row]} for g, row in begins]
            yield {
                "end_row_id": behind if groups is None else 0,
                "page_id": self.number + i,
                "page_size": sum(map(len, self.rows[first:behind])),
                "page_type": kind,
                "page_type_id": i,
                "row_group_ids": listed,
                "shard_id": 0,
                "start_row_id": first if groups is None else 0,
            }


class _File:
    """A MindRecord file.

    Raises:
        ValueError: it ends too early, or has no header.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        (length,) = struct.unpack_from("<Q", data)
        self.header: dict[str, Any] = json.loads(data[8 : 8 + length])
        last = self.header["page"][-1]
        if len(data) != self._place(last) + last["page_size"]:
            raise ValueError("the file is cut off")

    def _place(self, page: dict[str, Any]) -> int:
        return int(self.header["header_size"] + page["page_id"] * self.header["page_size"])

    def rows(self, kind: str) -> Iterator[tuple[tuple[int, int, int], int, int]]:
        """((page, start, end) as the index has them, start, end of the contents) of each row of the pages of a kind."""
        for page in self.header["page"]:
            if page["page_type"] == kind:
                first = at = self._place(page)
                while at < first + page["page_size"]:
                    (size,) = struct.unpack_from("<Q", self.data, at)
                    end = at + 8 + size
                    yield (page["page_id"], at - first, end - first), at + 8, end
                    at = end


def _wrong_places(file: _File, index: bytes) -> Iterator[str]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(index)
        if db.execute("SELECT NAME FROM SHARD_NAME").fetchall() != [(_NAME,)]:
            yield f"the index is not that of {_NAME}"
        listed = db.execute("SELECT * FROM INDEXES ORDER BY ROW_ID").fetchall()
    ids, tokens = list(file.rows("RAW_DATA")), list(file.rows("BLOB_DATA"))
    if not len(ids) == len(tokens) == len(listed):
        yield f"{len(listed)} rows in the index, {len(ids)} ids and {len(tokens)} rows in the file"
        return
    for i, ((id_place, start, end), (place, _, _), row) in enumerate(zip(ids, tokens, listed, strict=True)):
        name = row[-1]
        if row[:4] != (i, *id_place) or row[5:8] != place or file.data[start:end] != _msgpack_id(name):
            yield f"row {i}, {name}, is not where the index says"


def _framed(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _msgpack_id(name: str) -> bytes:
    """{"id": name} in MessagePack."""
    data = name.encode()
    if len(data) < 32:
        head = struct.pack(">B", 0xA0 | len(data))
    elif len(data) < 1 << 8:
        head = struct.pack(">BB", 0xD9, len(data))
    elif len(data) < 1 << 16:
        head = struct.pack(">BH", 0xDA, len(data))
    else:
        head = struct.pack(">BI", 0xDB, len(data))
    return b"\x81\xa2id" + head + data


def _index(names: list[str], raw: _Pages, blob: _Pages) -> bytes:
    """The SQLite file of a MindRecord file."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("PRAGMA page_size=4096")
        db.execute(_TABLE)
        db.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL)")
        places = zip(range(len(names)), raw.places(), blob.page, blob.places(), names, strict=True)
        rows = ((row, *ids, group, *tokens, 0, name) for row, ids, group, tokens, name in places)
        db.executemany("INSERT INTO INDEXES VALUES(?,?,?,?,?,?,?,?,?,?)", rows)
        db.execute("INSERT INTO SHARD_NAME VALUES(?)", (_NAME,))
        db.commit()
        data = bytearray(db.serialize())
    data[_SQLITE_VERSION] = bytes(4)
    return bytes(data)


def _integers(data: np.ndarray) -> np.ndarray:
    """What `compressed` wrote of one group, int64."""
    count = int.from_bytes(data[:4].tobytes(), "big")
    codes = data[4 : 4 + (count + 3) // 4, None] >> np.array([6, 4, 2, 0], np.uint8) & 3
    sizes = np.int64(1) << codes.ravel()[:count].astype(np.int64)
    starts = 4 + (count + 3) // 4 + np.cumsum(sizes) - sizes
    if count and int(starts[-1] + sizes[-1]) != len(data):
        raise ValueError("a row is damaged or cut off")
    out: np.ndarray = data[starts].astype(np.int64)
    for byte in (1, 2, 3):
        long = np.flatnonzero(sizes > byte)
        out[long] |= data[starts[long] + byte].astype(np.int64) << 8 * byte
    return out


STAGE = MindRecord
