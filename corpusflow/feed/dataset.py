"""Token files as sequences of one length: a map-style dataset, plain numpy.

Promises that a sequence depends on its number alone, and that tokens in = tokens out + what `dropped` says.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, Literal

import numpy as np

from corpusflow.errors import ConfigError
from corpusflow.feed.files import TokenFiles
from corpusflow.packing import Packing, pack

Mode = Literal["concatenate", "documents", "best_fit"]
_MODES: Final = ("concatenate", "documents", "best_fit")


class TokenDataset:
    """Sequences of `length` tokens to predict.

    Args:
        folder: an export of token files, `runs/web/exports/megatron`; or TokenFiles.
        length: tokens to predict per sequence; an item holds one more, so that inputs are item[:-1], targets item[1:].
        split: "train" or "validation".
        mode: "concatenate" (documents one after the other, cut every `length`; neighbours share one token), "documents"
            (padded), or "best_fit" (documents whole where they fit, little padding). The last two hold all document
            borders in memory; Sinks of samples pack file by file.
        segments: whether items say which document each token is of, for attention masks.
        pad: id to pad with; the tokenizer's pad or end token if not given.

    Raises:
        ConfigError: bad arguments, or fewer tokens than one sequence.
    """

    def __init__(
        self,
        folder: str | TokenFiles,
        length: int,
        *,
        split: str = "train",
        mode: Mode = "concatenate",
        segments: bool = False,
        pad: int | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ConfigError(f"mode is {mode!r}", hint=f"one of {', '.join(_MODES)}")
        if length < 1:
            raise ConfigError(f"length must be positive, got {length}")
        self.files = folder if isinstance(folder, TokenFiles) else TokenFiles(folder, split)
        self.length = length
        self.mode = mode
        self.segments = segments
        self.pad = self._padding(pad) if mode != "concatenate" else 0
        if len(self) < 1:
            raise ConfigError(
                f"{self.files.folder} has {len(self.files)} tokens in {split}, a sequence takes {length + 1}",
                hint="a smaller length, or more data",
            )

    def _padding(self, pad: int | None) -> int:
        if pad is not None:
            return pad
        facts = self.files.tokenizer
        for name in ("pad_id", "eos_id"):
            if facts.get(name) is not None:
                return int(facts[name])
        raise ConfigError("the tokenizer has neither pad nor end token", hint="give pad=…")

    @cached_property
    def packing(self) -> Packing:
        """The pieces of each sequence, for the padded modes: a document longer than a sequence is cut, all others are whole."""
        return pack(
            self.files.document_starts, self.length + 1, "documents" if self.mode == "documents" else "best_fit"
        )

    def __len__(self) -> int:
        if self.mode == "concatenate":
            return (len(self.files) - 1) // self.length
        return len(self.packing)

    @property
    def dropped(self) -> int:
        """Tokens of the split that are in no sequence."""
        return len(self.files) - len(self) * self.length - 1 if self.mode == "concatenate" else 0

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """Sequence number `index`.

        Returns:
            "tokens": int64 (length + 1,). In padded modes "mask": bool (length,), targets that count: of the same document
            and no padding. With `segments`, "segments": int32 (length + 1,), 0, 1, … by document, -1 for padding.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        if self.mode == "concatenate":
            return self._window(index)
        tokens = np.full(self.length + 1, self.pad, np.int64)
        segments = np.full(self.length + 1, -1, np.int32)
        at = 0
        first, last = self.packing.first[index : index + 2]
        for number, piece in enumerate(range(int(first), int(last))):
            size = int(self.packing.lengths[piece])
            tokens[at : at + size] = self.files.read(int(self.packing.starts[piece]), size)
            segments[at : at + size] = number
            at += size
        item = {"tokens": tokens, "mask": (segments[1:] >= 0) & (segments[1:] == segments[:-1])}
        return {**item, "segments": segments} if self.segments else item

    def _window(self, index: int) -> dict[str, np.ndarray]:
        start = index * self.length
        item = {"tokens": self.files.read(start, self.length + 1).astype(np.int64)}
        if self.segments:
            where = np.arange(start, start + self.length + 1)
            document = np.searchsorted(self.files.document_starts, where, "right")
            item["segments"] = (document - document[0]).astype(np.int32)
        return item

    def describe(self) -> str:
        """What two datasets must agree on for a loader's state to fit: tokens, tokenizer, length and mode."""
        facts = self.files.tokenizer.get("tokenizer_sha256"), self.files.manifest.get("fingerprint")
        return f"{len(self.files)} tokens by {self.length}, {self.mode}, tokenizer {facts[0]}, run {facts[1]}"
