"""From a token of an export to the document it came from, and back: behind `corpusflow trace`.

Reads the manifests and document indexes of finished exports and the Sources' indexes; no tokens. Token numbers count through
all files of a split in the manifest's order, which is how `corpusflow.feed` counts them, too. An export that cuts samples of
one length leaves out what remains at the end of each file; such tokens have a number, and no sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpusflow.api import Run
from corpusflow.checkpoint import read_part
from corpusflow.errors import ConfigError, CorruptShardError
from corpusflow.explain import Place, excerpt, find_documents
from corpusflow.plan import Node
from corpusflow.publish import MANIFEST, export_folder
from corpusflow.reader import INDEX_COLUMNS, ROWS, ShardReader
from corpusflow.schema import QUARANTINE, SKIPPED
from corpusflow.storage import read_json, storage_for

_INDEX: Final = "documents.parquet"
#: Of padded samples: which stretch of which document (by its row) lies where.
_PIECES: Final = "pieces.parquet"


@dataclass(frozen=True)
class TokenSpan:
    """A document's tokens in an export.

    Attributes:
        export: folder name below `exports/`.
        file: of the export, the one that holds the tokens.
        start: number of its first token in the split, padding not counted; in the file it is `file_token`.
        tokens: how many there are.
        samples: (first, last) sample of the file that holds a token of it, None where none does; an export without
            `sequence` has a sample per document. Where documents are packed, a long one's lie apart.
    """

    export: str
    split: str
    id: str
    file: str
    start: int
    file_token: int
    tokens: int
    samples: tuple[int, int] | None

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


class TokenExport:
    """A finished export of tokens, by its manifest.

    Raises:
        ConfigError: it is none.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.name = folder.rpartition("/")[2]
        path = f"{folder}/{MANIFEST}"
        try:
            self.manifest: Mapping[str, Any] = read_json(path, hint="corpusflow run  writes it again")
        except (FileNotFoundError, NotADirectoryError) as e:
            raise ConfigError(f"{folder} has no {MANIFEST}", hint="corpusflow run  finishes the export") from e
        if not holds_tokens(self.manifest):
            raise ConfigError(f"{folder} holds {self.manifest.get('format')}, not tokens")

    @property
    def splits(self) -> tuple[str, ...]:
        """Names, in order."""
        return tuple(dict.fromkeys(f["split"] for f in self.manifest["files"]))

    def tokens(self, split: str) -> int:
        """Tokens of a split."""
        return sum(int(f["tokens"]) for f in self._files(split))

    def at(self, split: str, token: int) -> TokenSpan:
        """The document that token number `token` of a split belongs to.

        Raises:
            ConfigError: the split has no such token.
        """
        start = 0
        for file in self._files(split):
            if start <= token < start + file["tokens"]:
                index = self._index(file, ["id", "offset", "length"])
                row = int(np.searchsorted(index.column("offset").to_numpy(), token - start, "right")) - 1
                return self._span(file, start, index, row)
            start += file["tokens"]
        raise ConfigError(
            f"{self.name} has no token {token} in {split}",
            hint=f"its tokens are 0 to {start - 1}" if start else f"its splits are {', '.join(self.splits) or 'none'}",
        )

    def of(self, document_id: str) -> Iterator[TokenSpan]:
        """Where the tokens of a document lie; nothing where it has none here."""
        for split in self.splits:
            start = 0
            for file in self._files(split):
                ids = self._index(file, ["id"]).column("id")
                for row in np.flatnonzero(pc.equal(ids, document_id).fill_null(False).to_numpy()):
                    index = self._index(file, ["id", "offset", "length"])
                    yield self._span(file, start, index, int(row))
                start += file["tokens"]

    def _files(self, split: str) -> list[Mapping[str, Any]]:
        return [f for f in self.manifest["files"] if f["split"] == split]

    def _span(self, file: Mapping[str, Any], start: int, index: pa.Table, row: int) -> TokenSpan:
        first, length = index.column("offset")[row].as_py(), index.column("length")[row].as_py()
        number = start + first
        sequence = self.manifest.get("sequence")
        samples: tuple[int, int] | None = (row, row)
        if _PIECES in file["parts"]:
            first, samples = self._packed(file, row, int(sequence or 1))
        elif sequence is not None:
            whole = file["tokens"] // sequence - 1
            samples = (first // sequence, min((first + length - 1) // sequence, whole))
            samples = samples if samples[0] <= samples[1] else None
        data = next(p["name"] for suffix, p in file["parts"].items() if suffix not in (_INDEX, _PIECES))
        identity = index.column("id")[row].as_py()
        return TokenSpan(self.name, file["split"], identity, data, number, first, length, samples)

    def _packed(self, file: Mapping[str, Any], row: int, sequence: int) -> tuple[int, tuple[int, int]]:
        """First token in the padded file of the document of a row, and the first and last sample that has some of it."""
        pieces = self._index(file, ["document", "start", "offset"], _PIECES)
        own = pieces.filter(pc.equal(pieces.column("document"), row)).sort_by("start")
        offsets = own.column("offset").to_numpy()
        return int(offsets[0]), (int(offsets.min()) // sequence, int(offsets.max()) // sequence)

    def _index(self, file: Mapping[str, Any], columns: list[str], suffix: str = _INDEX) -> pa.Table:
        path = f"{self.folder}/{file['parts'][suffix]['name']}"
        try:
            with (
                storage_for(path).open(path) as stream,
                pq.ParquetFile(stream, page_checksum_verification=True) as parquet,
            ):
                return parquet.read(columns=columns, use_threads=False)  # as `storage.parquet_table`
        except (OSError, pa.ArrowException) as e:
            raise CorruptShardError(f"{path} cannot be read: {e}", hint="corpusflow verify RUN --repair") from e


def holds_tokens(manifest: Mapping[str, Any]) -> bool:
    """Whether an export's files say which document each token is of."""
    files = manifest.get("files", [])
    return "tokenizer" in manifest and all(_INDEX in f["parts"] and "tokens" in f for f in files)


def token_exports(run: Run, name: str | None = None) -> list[TokenExport]:
    """The run's finished exports of tokens, or the one called `name`.

    Raises:
        ConfigError: there is none.
    """
    folders = {export_folder(run.plan, n).rpartition("/")[2]: n for n in run.plan.nodes if n.kind == "sink"}
    if name is not None:
        if name not in folders:
            raise ConfigError(f"this run has no export {name!r}", hint=f"it has {', '.join(folders) or 'none'}")
        return [TokenExport(export_folder(run.plan, folders[name]))]
    found = [export for node in folders.values() if (export := _if_tokens(run, node)) is not None]
    if not found:
        raise ConfigError(
            f"{run.plan.run_dir} has no finished export of tokens",
            hint="add one to the config's output, export.megatron for one, and run it again",
        )
    return found


def _if_tokens(run: Run, node: Node) -> TokenExport | None:
    try:
        return TokenExport(export_folder(run.plan, node))
    except ConfigError:
        return None


@dataclass(frozen=True)
class Traced:
    """A token's document: the span, what the Source knows of it, and the start of its text where it is at hand."""

    span: TokenSpan
    document: Mapping[str, Any]
    excerpt: str | None

    def as_data(self) -> dict[str, Any]:
        """JSON form."""
        return {**self.span.as_data(), "document": dict(self.document), "excerpt": self.excerpt}


def trace_tokens(run: Run, export: TokenExport, split: str, first: int, count: int) -> Iterator[Traced]:
    """The documents of tokens [first, first + count) of a split, in order.

    Raises:
        ConfigError: the split has fewer tokens.
    """
    token = first
    while token < first + count:
        span = export.at(split, token)
        place = find_documents(run, span.id, most=1)[0]
        reader = ShardReader(run.plan, place.shard)
        yield Traced(span, _document(reader, place), excerpt(run, place, reader))
        token = span.start + span.tokens


def _document(reader: ShardReader, place: Place) -> dict[str, Any]:
    node = reader.source_node()
    part = reader.need(node).part(ROWS)
    if part is None:
        raise ConfigError(f"shard {place.shard.number} has no index")
    columns = [c for c in INDEX_COLUMNS if c not in (SKIPPED, QUARANTINE)]
    row: dict[str, Any] = read_part(reader.dataset(node), part, columns).slice(place.row, 1).to_pylist()[0]
    return row


def trace_document(run: Run, key: str, exports: list[TokenExport]) -> list[TokenSpan]:
    """Where the tokens of a document lie.

    Args:
        key: its id; or its URL or record id, which may be several documents'.

    Raises:
        ConfigError: the run has no such document.
    """
    spans = [span for export in exports for span in export.of(key)]
    if spans:
        return spans
    ids = [_document(ShardReader(run.plan, place.shard), place)["id"] for place in find_documents(run, key)]
    return [span for identity in ids if identity != key for export in exports for span in export.of(identity)]
