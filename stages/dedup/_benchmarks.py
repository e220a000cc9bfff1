"""Test sets as n-grams: reads JSON lines and Parquet, remembers which item each n-gram is of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpusflow import ConfigError, storage_for
from stages.ingest._members import pieces
from stages.kernels.buffers import text_buffers
from stages.kernels.minhash import permutations, signatures
from stages.kernels.overlap import NgramTable, ngram_table
from stages.kernels.shingles import shingle_sets

#: What a record may call itself.
_IDS: Final = ("id", "task_id", "question_id", "qid", "idx", "uid")


@dataclass(frozen=True)
class BenchmarkIndex:
    """The n-grams of all items.

    Args:
        table: of distinct n-grams.
        names: string array (items,), ``file#id``.
        sizes: int64 (items,), distinct n-grams of each that are looked for.
        starts, items: int64 (n-grams + 1,) and (pairs,): items[starts[e]:starts[e + 1]] have n-gram e.
        too_short: items with fewer words than are looked for.
    """

    table: NgramTable
    names: pa.Array
    sizes: np.ndarray
    starts: np.ndarray
    items: np.ndarray
    too_short: int

    def most(self, entries: np.ndarray) -> tuple[int, int]:
        """The item that has most of some distinct n-grams, the first of several, and how many."""
        found, counts = np.unique(
            np.concatenate([self.items[self.starts[e] : self.starts[e + 1]] for e in entries]), return_counts=True
        )
        best = int(np.argmax(counts))
        return int(found[best]), int(counts[best])


def build_index(
    path: str, fields: Sequence[str], ngram: int, min_ngram: int, max_items: int, mode: int
) -> BenchmarkIndex:
    """Read test sets.

    Args:
        path: a file or a folder.
        fields: which fields of an item; none: all that hold text.
        ngram, min_ngram: words, see `decontaminate`.
        max_items: n-grams of more items are left out.
        mode: of the units, see `shingles`.

    Raises:
        ConfigError: no file, no item with such fields, or a file that cannot be read.
    """
    names: list[str] = []
    texts: list[str] = []
    for name, text in _items(path, fields):
        names.append(name)
        texts.append(text)
    if not texts:
        raise ConfigError(
            f"no benchmark item in {path}", hint=f"is one of {', '.join(fields)} a field?" if fields else None
        )
    offsets, data, _ = text_buffers(pa.array(texts, pa.large_string()))
    _, words = signatures(data, offsets, 1, mode, *permutations(1, 0))
    of: list[np.ndarray] = []
    hashes: list[np.ndarray] = []
    lengths = sorted({min(int(w), ngram) for w in words if w >= min_ngram})
    for n in lengths:
        chosen = np.flatnonzero(words >= ngram if n == ngram else words == n)
        piece_offsets, piece, _ = text_buffers(pa.array([texts[i] for i in chosen], pa.large_string()))
        found, starts = shingle_sets(piece, piece_offsets, n, mode, int(words[chosen].sum()) + len(chosen))
        hashes.append(found)
        of.append(np.repeat(chosen, np.diff(starts)))
    every = np.concatenate([np.zeros(0, np.uint64), *hashes])
    item = np.concatenate([np.zeros(0, np.int64), *of])
    distinct, entry, count = np.unique(every, return_inverse=True, return_counts=True)
    kept = count <= max_items
    number = np.cumsum(kept) - 1
    pairs = kept[entry]
    entry, item = number[entry[pairs]], item[pairs]
    order = np.lexsort((item, entry))
    starts = np.zeros(int(kept.sum()) + 1, np.int64)
    np.cumsum(np.bincount(entry, minlength=int(kept.sum())), out=starts[1:])
    return BenchmarkIndex(
        table=ngram_table(distinct[kept], np.array(lengths or [ngram], np.int64)),
        names=pa.array(names, pa.string()),
        sizes=np.bincount(item, minlength=len(names)),
        starts=starts,
        items=item[order],
        too_short=int((words < min_ngram).sum()),
    )


def _items(path: str, fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(name, text) of every item, by file name, then in order."""
    storage = storage_for(path)
    files = sorted(i.path for i in storage.walk(path)) or [path]
    for file in files:
        # a run pins its own copy of a file under its hash
        short = re.sub(r"^[0-9a-f]{12}-", "", file.removeprefix(path).strip("/") or path.rpartition("/")[2])
        for number, record in enumerate(_records(file)):
            text = _text(record, fields)
            if text:
                given = next((record[k] for k in _IDS if isinstance(record.get(k), (str, int))), number)
                yield f"{short}#{given}", text


def _text(record: Mapping[str, Any], fields: Sequence[str]) -> str:
    values = [record.get(f) for f in fields] if fields else [v for k, v in record.items() if k not in _IDS]
    return "\n".join(t for v in values for t in _strings(v))


def _strings(value: Any) -> Iterator[str]:
    """Texts in a value: itself, or those of a list or table (answer choices)."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _strings(part)


def _records(path: str) -> Iterator[Mapping[str, Any]]:
    """Records of one file.

    Raises:
        ConfigError: it is neither JSON lines nor Parquet.
    """
    with storage_for(path).open(path) as stream:
        try:
            if path.endswith(".parquet"):
                yield from pq.read_table(stream).to_pylist()
                return
            for line in _lines(stream):
                if line.strip():
                    record = json.loads(line)
                    yield record if isinstance(record, Mapping) else {"text": record}
        except (ValueError, OSError, pa.ArrowException) as e:
            raise ConfigError(f"cannot read benchmark {path}: {e}", hint="JSON lines (.gz, .zst) or Parquet") from e


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces(stream):
        if piece.error is not None:  # items that are missing would not be looked for
            raise ValueError(piece.error)
        *lines, rest = (rest + piece.data).split(b"\n")
        yield from lines
    yield rest
