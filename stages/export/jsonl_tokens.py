"""Tokens as JSON lines: `{"id": …, "tokens": [1, 2, …]}`, for looking at and for programs that read nothing else.

Reads `id` and `tokenize.tokens`; writes `train-00000-of-00004.jsonl`, the same for `validation`, `manifest.json`, and the
document indexes. With `sequence`, a line also has `seq_lengths`, tokens of each document in it. About four times the size of the
other formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import numpy as np
import orjson

from corpusflow import PhaseTask

from ._samples import Samples, SampleSink

#: Samples joined into one write.
_BLOCK: Final = 1_024


@dataclass(frozen=True, kw_only=True)
class JsonlTokens(SampleSink):
    """Tokens as JSON lines."""

    version: ClassVar[int] = 2
    format_name: ClassVar[str] = "jsonl"
    library: ClassVar[str] = "json"

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        count = 0
        with task.file(f"{split}.jsonl") as stream:
            for block in samples:
                lines = [self._line(*sample) for sample in block]
                for start in range(0, len(lines), _BLOCK):
                    stream.write(b"".join(lines[start : start + _BLOCK]))
                count += len(lines)
        return count

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        for path in paths:
            with path.open("rb") as lines:
                yield from (json.loads(line)["tokens"] for line in lines)

    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        for line in stream:
            yield np.array(orjson.loads(line)["tokens"], dtype)

    def _line(self, name: str, tokens: np.ndarray, parts: np.ndarray) -> bytes:
        row = {"id": name, "tokens": tokens.tolist()}
        if self.sequence is not None:
            row["seq_lengths"] = parts.tolist()
        return orjson.dumps(row) + b"\n"


STAGE = JsonlTokens
