"""Some documents of an export as one long array: those of one language, one domain, one value of any signal.

Reads the export's files where they are; nothing is copied. Which documents they are comes from a mixture folder (mix/).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from corpusflow.errors import CorruptShardError
from corpusflow.feed.files import Span, TokenFiles


class SelectedTokens(TokenFiles):
    """Documents of one split, one after the other in the export's order.

    Args:
        folder, split: as for TokenFiles.
        documents: numbers of documents in the split, int64, ascending.

    Raises:
        CorruptShardError: the split has fewer documents.
    """

    def __init__(self, folder: str, split: str, documents: np.ndarray) -> None:
        super().__init__(folder, split)
        self.documents = documents
        borders = self._borders_of_all()
        if len(documents) and documents[-1] >= len(borders) - 1:
            raise CorruptShardError(
                f"{folder} has {len(borders) - 1} documents in {split}, one of number {documents[-1]} is wanted",
                hint="the export has changed since the mixture was made: corpusflow mix CONFIG",
            )
        self._first = borders[:-1][documents]
        sizes = borders[1:][documents] - self._first
        self._borders = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._borders[-1])

    def __getstate__(self) -> tuple[Any, ...]:
        return self.folder, self.split, self.documents

    @cached_property
    def document_starts(self) -> np.ndarray:
        return self._borders

    def read(self, start: int, length: int) -> np.ndarray:
        if start < 0 or length < 0 or start + length > len(self):
            raise IndexError(f"tokens {start} to {start + length} of {len(self)}")
        pieces = []
        document = int(np.searchsorted(self._borders, start, "right")) - 1
        while length > 0:
            within = start - int(self._borders[document])
            take = min(length, int(self._borders[document + 1]) - start)
            pieces.append(self._read(int(self._first[document]) + within, take))
            start, length, document = start + take, length - take, document + 1
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [np.zeros(0, self.dtype)])

    def trace(self, token: int) -> Span:
        if not 0 <= token < len(self):
            raise IndexError(f"token {token} of {len(self)}")
        document = int(np.searchsorted(self._borders, token, "right")) - 1
        span = self._trace(int(self._first[document]))
        return Span(span.id, int(self._borders[document]), span.length, span.file)
