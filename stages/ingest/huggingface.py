"""ingest.huggingface: datasets in Hugging Face's layouts, from a folder on disk.

Reads what `save_to_disk` wrote or what a hub repository holds (a downloaded snapshot): which files are the data of a split
comes from the folder itself, each is read as ingest.parquet, arrow, jsonl or csv would. Nothing is downloaded, and no code of
a dataset is run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from corpusflow import ConfigError, FileRange, FileSource, Split, param, storage_for
from stages.ingest._fields import RECORD_COLUMNS, FieldSource
from stages.ingest._layout import data_files, format_of
from stages.ingest._rows import shaped
from stages.ingest.arrow import Arrow
from stages.ingest.csv import Csv
from stages.ingest.jsonl import Jsonl
from stages.ingest.parquet import Parquet

_READERS: Final[dict[str, type[FieldSource]]] = {"parquet": Parquet, "arrow": Arrow, "jsonl": Jsonl, "csv": Csv}


@dataclass(frozen=True, kw_only=True)
class HuggingFace(FieldSource):
    """Hugging Face datasets on disk (`paths` are their folders): Parquet, Arrow, JSONL or CSV files of one split."""

    version: ClassVar[int] = 2
    default_name: ClassVar[str] = "huggingface"
    libraries: ClassVar[tuple[str, ...]] = ("orjson", "pyarrow", "zstandard")

    split: str = param("train", doc="Split to read: train, validation, test, or what the dataset calls it.")
    config: str | None = param(None, doc="Configuration (subset) to read, where the dataset has several.")

    def listed(self, path: str) -> Iterator[FileRange]:
        storage = storage_for(path)
        found = {os.path.relpath(info.path, path): info for info in storage.walk(path)}
        if not found:
            raise ConfigError(
                f"{path} is no folder of a dataset, or an empty one", hint="give the dataset's own folder"
            )
        try:
            chosen = data_files(sorted(found), lambda name: storage.get(found[name].path), self.split, self.config)
        except ConfigError as e:
            raise ConfigError(f"{path}: {e.message}", hint=e.hint) from e
        for name in chosen:
            info = found[name]
            yield FileRange(info.path, name, info.size, info.etag)

    def check_input(self, item: FileRange) -> None:
        self._reader(item).check_input(item)

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        return self._reader(item).cut(item)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for item in split.files:
            for batch in self._reader(item).read(Split((item,))):
                yield shaped(batch, RECORD_COLUMNS, tuple(self.columns))

    def _reader(self, item: FileRange) -> FileSource:
        reader = _READERS[format_of(item.path) or "parquet"]
        return reader(
            paths=(),
            name=self.source_name,
            split_size=self.split_size,
            text=self.text,
            id=self.id,
            url=self.url,
            date=self.date,
            columns=self.columns,
        )


STAGE = HuggingFace
