# mypy: allow-untyped-calls
"""Main text of an HTML page: taken apart into blocks, each judged by a small model, the kept ones joined.

Reads a page as UTF-8, gives its text and title. Promises linear time and memory in the page's size, no state between pages,
and the same verdict on every machine. The model and its measured quality: models/main_text.md.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from corpusflow import storage_for
from stages.kernels import blocks as b
from stages.kernels.block_features import FEATURES, N_FEATURES, describe
from stages.kernels.block_measures import MEASURES, TITLE_SLOTS, measure
from stages.kernels.block_places import FACTS, PLACES, SUMS, survey, tag_kinds
from stages.kernels.block_text import main_text
from stages.kernels.block_words import word_hashes
from stages.kernels.html_scan import STATE_ENTRIES
from stages.kernels.html_tables import TAG_PROPERTIES, name_tables
from stages.kernels.trees import ONE, Trees, from_json

MODEL: Final = os.path.join(os.path.dirname(__file__), "models", "main_text.json")
#: Blocks are described and judged so many at a time.
_RANGE: Final = 1024
#: Elements nested deeper than blocks.MAX_DEPTH, and attributes of one tag, that no page has which people read.
MAX_TOO_DEEP: Final = 10_000
MAX_ATTRIBUTES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """What was found.

    Attributes:
        text: UTF-8, possibly empty.
        title: one line.
        most_attributes: of any tag.
        too_deep: elements beyond the depth that is followed.
    """

    text: bytes
    title: str
    most_attributes: int
    too_deep: int


@dataclass(frozen=True)
class Model:
    """Blocks that score above `keep_above` are kept; on pages where hardly any do, above `keep_above_if_few`."""

    trees: Trees
    keep_above: int = 0
    keep_above_if_few: int = -ONE


class Reader:
    """Reads pages one after another; keeps its buffers, and nothing else, between them."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model or load()
        self._names = name_tables()
        self._hashes = word_hashes()
        self._kinds = tag_kinds()
        self._stack = np.zeros((b.MAX_DEPTH, 2), np.int64)
        self._state = np.zeros(STATE_ENTRIES, np.int64)
        self._facts = np.zeros(FACTS, np.int64)
        self._title = np.zeros(TITLE_SLOTS, np.int64)
        self._features = np.zeros((_RANGE, N_FEATURES), np.float32)
        self._grow(1 << 16, 1 << 10)

    def _grow(self, size: int, tags: int) -> None:
        self._text = np.empty(size + 8, np.uint8)
        self._out = np.empty(size + 8 + 3 * tags, np.uint8)
        self._blocks = np.empty((tags, b.BLOCK_COLUMNS), np.int32)
        self._elements = np.empty((tags, b.ELEMENT_COLUMNS), np.int32)
        self._masks = np.empty(tags, np.int64)
        self._measures = np.empty((tags + 1, MEASURES), np.int32)
        self._sums = np.empty((tags + 1, SUMS), np.int64)
        self._places = np.empty((tags, PLACES), np.int64)
        self._scores = np.empty(tags, np.int32)

    def read(self, page: bytes) -> Page:
        """Main text and title."""
        data = self._fit(page)
        model, state = self._model, self._state
        size = main_text(
            data,
            self._names,
            self._text,
            self._blocks,
            self._elements,
            self._masks,
            self._stack,
            state,
            self._hashes,
            self._title,
            self._measures,
            TAG_PROPERTIES,
            self._kinds,
            self._sums,
            self._places,
            self._facts,
            self._features,
            *model.trees,
            model.keep_above,
            model.keep_above_if_few,
            self._scores,
            self._out,
        )
        title = self._text[state[b.TITLE_START] : state[b.TITLE_END]].tobytes().decode("utf-8", "replace")
        return Page(
            self._out[:size].tobytes(),
            " ".join(html.unescape(title).split()),
            int(state[b.MOST_ATTRIBUTES]),
            int(state[b.TOO_DEEP]),
        )

    def _fit(self, page: bytes) -> np.ndarray:
        """The page as an array; buffers are made large enough for it."""
        tags = page.count(b"<") + 2  # no more blocks, and no more elements, than that
        if len(page) + 8 > len(self._text) or tags > len(self._blocks):
            self._grow(max(2 * len(page), len(self._text)), max(2 * tags, len(self._blocks)))
        return np.frombuffer(page, np.uint8)

    def take_apart(self, page: bytes) -> tuple[int, int]:
        """(blocks, elements) of a page, left in the buffers."""
        data = self._fit(page)
        b.scan(data, self._names, self._text, self._blocks, self._elements, self._masks, self._stack, self._state)
        return int(self._state[b.N_BLOCKS]), int(self._state[b.N_ELEMENTS])

    def described(self, n: int, made: int) -> Iterator[tuple[int, np.ndarray]]:
        """(first block, features of the next blocks) for the page in the buffers; the array is used again."""
        state, blocks, measures = self._state, self._blocks, self._measures
        start, end = state[b.TITLE_START], state[b.TITLE_END]
        measure(self._text, blocks, n, start, end, self._hashes, self._title, measures)
        page = (blocks, n, self._elements, self._masks)
        survey(*page, made, measures, TAG_PROPERTIES, self._kinds, self._sums, self._places, self._facts)
        for first in range(0, n, _RANGE):
            last = min(n, first + _RANGE)
            places = (self._sums, self._places, self._facts)
            describe(*page, measures, TAG_PROPERTIES, *places, first, last, self._features)
            yield first, self._features[: last - first]

    def lines(self, n: int) -> list[str]:
        """The texts of the blocks in the buffers."""
        text = self._text.tobytes()
        return [text[i:j].decode() for i, j in self._blocks[:n, : b.END + 1].tolist()]


def load() -> Model:
    """The trained model."""
    data = json.loads(storage_for(MODEL).get(MODEL))
    return Model(from_json(data["trees"], FEATURES), data["keep_above"], data["keep_above_if_few"])
