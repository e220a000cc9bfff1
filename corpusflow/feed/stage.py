"""The tokens of a run whose exports are not there yet: its token column, document by document, as one long array.

    data = TokenDataset(StageTokens("runs/web"), length=2048)

Reads the stage's committed shards once for the lengths of documents, then shard by shard as they are asked for; keeps a few in
memory. Documents stand in the order of the input, not in an export's shuffled one, and a Loader that shuffles asks for shards in
any order: a finished export is what to train on at length.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import Any, Final

import numpy as np

from corpusflow.api import Run, StageView, open_run
from corpusflow.commit import Dataset
from corpusflow.errors import ConfigError
from corpusflow.feed.files import Span, TokenFiles
from corpusflow.plan import Node

_TOKENS: Final = "tokenize.tokens"


class StageTokens(TokenFiles):
    """Tokens of the documents that reached the stage that made them.

    Args:
        run: a run folder, finished or not.
        keep: shards held in memory.

    Raises:
        ConfigError: the run makes no tokens, or has not finished making them.
    """

    def __init__(self, run: str, keep: int = 4) -> None:
        opened = open_run(run)
        node = _maker(opened)
        self.folder = opened.plan.run_dir
        self.split = "train"
        self.dtype = np.dtype(np.uint16)
        self.manifest = {"format": "stage", "fingerprint": node.fp, "tokenizer": dict(node.build().facts())}
        self._keep = max(1, keep)
        self._view: StageView = opened.stage(node.stage)
        self._base = node.base
        self._shards = list(opened.plan.shards)
        self._held: OrderedDict[int, np.ndarray] = OrderedDict()
        lengths = [self._lengths(position) for position in range(len(self._shards))]
        #: int64 (documents + 1,)
        self._borders = np.concatenate([[0], np.cumsum(np.concatenate(lengths or [np.zeros(0, np.int64)]))])
        self._documents = np.concatenate([[0], np.cumsum([len(one) for one in lengths])])
        self.starts = self._borders[self._documents]

    def __len__(self) -> int:
        return int(self._borders[-1])

    def __getstate__(self) -> tuple[Any, ...]:
        return self.folder, self._keep

    @cached_property
    def document_starts(self) -> np.ndarray:
        return self._borders

    def read(self, start: int, length: int) -> np.ndarray:
        if start < 0 or length < 0 or start + length > len(self):
            raise IndexError(f"tokens {start} to {start + length} of {len(self)}")
        pieces = []
        position = int(np.searchsorted(self.starts, start, "right")) - 1
        while length > 0:
            at = start - int(self.starts[position])
            piece = self._tokens_of(position)[at : at + length]
            pieces.append(piece)
            start, length, position = start + len(piece), length - len(piece), position + 1
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [np.zeros(0, self.dtype)])

    def trace(self, token: int) -> Span:
        if not 0 <= token < len(self):
            raise IndexError(f"token {token} of {len(self)}")
        document = int(np.searchsorted(self._borders, token, "right")) - 1
        position = int(np.searchsorted(self._documents, document, "right")) - 1
        shard = self._shards[position]
        ids = [i for b in self._batches(position, ["id", _TOKENS]) for i in _with_tokens(b).column("id").to_pylist()]
        start = int(self._borders[document])
        identity = ids[document - int(self._documents[position])]
        return Span(identity, start, int(self._borders[document + 1]) - start, f"shard {shard.number}")

    def _batches(self, position: int, columns: list[str]) -> Any:
        base = self._base if "id" not in columns else self._view.resolve(columns)[1]
        return self._view.shard_batches(self._shards[position], columns, base)

    def _lengths(self, position: int) -> np.ndarray:
        out = [np.zeros(0, np.int64)]
        for batch in self._batches(position, [_TOKENS]):
            column = _with_tokens(batch).column(_TOKENS)
            self.dtype = np.promote_types(self.dtype, column.type.value_type.to_pandas_dtype())
            out.append(column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64))
        return np.concatenate(out)

    def _tokens_of(self, position: int) -> np.ndarray:
        if position in self._held:
            self._held.move_to_end(position)
            return self._held[position]
        pieces = [
            _with_tokens(batch).column(_TOKENS).flatten().to_numpy(zero_copy_only=False)
            for batch in self._batches(position, [_TOKENS])
        ]
        self._held[position] = np.concatenate([*pieces, np.zeros(0, self.dtype)]).astype(self.dtype, copy=False)
        while len(self._held) > self._keep:
            self._held.popitem(last=False)
        return self._held[position]


def _with_tokens(batch: Any) -> Any:
    """A batch without the documents that have no token."""
    lengths = batch.column(_TOKENS).value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return batch if lengths.all() else batch.take(np.flatnonzero(lengths))


def _maker(run: Run) -> Node:
    """The node that makes the run's tokens, sealed."""
    made = [n for n in run.plan.nodes if _TOKENS in n.adds]
    if not made:
        raise ConfigError(f"{run.plan.run_dir} makes no tokens", hint="add a tokenize stage to its config")
    node = made[-1]
    if Dataset(run.plan.root(node), node.fp).seal_of(run.plan.epoch) is None:
        raise ConfigError(
            f"{node.stage} has not finished in {run.plan.run_dir}", hint="corpusflow run  goes on with it"
        )
    return node
