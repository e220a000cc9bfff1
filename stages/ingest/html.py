"""ingest.html: folders of HTML files, such as mirrors of sites.

Reads files, compressed or not, each a document of raw bytes for ingest.extract, which finds out the encoding and whether it
is a page at all. The address comes from the path below the input's base: with `base_url: https://` a mirror's
`example.org/a/b.html` is `https://example.org/a/b.html`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from corpusflow import ConfigError, FileRange, FileSource, Split, param, storage_for
from stages.ingest._files import kind_of_name, url_of, whole
from stages.ingest._members import pieces
from stages.ingest._rows import batches
from stages.kernels.charset import codec_of

_COLUMNS: Final = ("id", "raw", "content_type", "url", "source", "path", "offset", "length", "skipped", "quarantine")


@dataclass(frozen=True, kw_only=True)
class Html(FileSource):
    """HTML files (gzip, zstd, bzip2, xz or not), a document each, for ingest.extract."""

    version: ClassVar[int] = 1
    default_name: ClassVar[str] = "html"
    gives_bytes: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("zstandard",)

    base_url: str | None = param(
        None, doc="What stands in front of a file's path in its address: https://example.org/docs/, or https:// alone."
    )
    encoding: str | None = param(None, doc="Encoding of the files, where it is known; otherwise found per page.")
    max_document_bytes: int = param(64 << 20, doc="Longer files go to quarantine.")

    def __post_init__(self) -> None:
        if self.encoding is not None and codec_of(self.encoding) is None:
            raise ConfigError(f"unknown encoding {self.encoding!r}", hint="for example utf-8, gb18030, windows-1252")

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return batches((self._row(item) for item in split.files), _COLUMNS)

    def _row(self, item: FileRange) -> Mapping[str, Any]:
        row: dict[str, Any] = {
            "id": f"{self.source_name}/{item.relative_path}#0",
            "source": self.source_name,
            "url": url_of(self.base_url, item.relative_path),
            "path": item.path,
            "offset": 0,
            "length": item.size,
        }
        if (kind := kind_of_name(item.relative_path)) not in ("page", "text", "jsonl", "unknown"):
            return {**row, "skipped": "unsupported_type"}
        with storage_for(item.path).open(item.path) as stream:
            _, data, error = whole(pieces(stream), self.max_document_bytes)
        if error is not None:
            return {**row, "quarantine": error}
        if not data:
            return {**row, "skipped": "empty"}
        return {**row, "raw": data, "content_type": content_type(kind, self.encoding)}


def content_type(kind: str, encoding: str | None) -> str | None:
    """What ingest.extract is told of a file: nothing, if its name says nothing."""
    declared = {"page": "text/html", "text": "text/plain"}.get(kind)
    if encoding is None:
        return declared
    return f"{declared or 'text/html'}; charset={encoding}"


STAGE = Html
