"""Token files for llm.c: a header of 1,024 bytes, then tokens, as its `dataloader.h` reads them.

Reads `id` and `tokenize.tokens`; writes `train-00000-of-00004.bin`, the same for `validation`, `manifest.json`, and the document
indexes. The header holds 256 int32: 20240520, 1, the number of tokens where these are uint16; 20240801, 7 where they are uint32.
A model's `bos` or `eos` between documents is what its loader goes by. `export.bin` is the same without a header.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import numpy as np

from corpusflow import ConfigError, PhaseTask

from ._samples import Samples, SampleSink

_HEADER: Final = 256
_MOST: Final = (1 << 31) - 1
#: (magic, version) by bytes of a token.
_FORMS: Final = {2: (20240520, 1), 4: (20240801, 7)}


@dataclass(frozen=True, kw_only=True)
class Llmc(SampleSink):
    """Token files for llm.c.

    Source: karpathy/llm.c, dev/data/data_common.py, write_datafile.
    """

    version: ClassVar[int] = 2
    format_name: ClassVar[str] = "llm.c"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file_tokens >= 1 << 30:
            raise ConfigError("a file of llm.c holds less than 2**31 tokens", hint="a smaller file_tokens")

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        blocks = list(samples)
        dtype = blocks[0].tokens.dtype.newbyteorder("<")
        total = sum(len(b.tokens) for b in blocks)
        if total > _MOST:
            raise ConfigError(
                f"export.llmc: a file of {total} tokens; the format counts them in 31 bits",
                hint=f"fewer file_tokens than {self.file_tokens}, and shuffle: true, without which a file is a whole shard",
            )
        header = np.zeros(_HEADER, "<i4")
        header[:3] = *_FORMS[dtype.itemsize], total
        with task.file(f"{split}.bin") as stream:
            stream.write(header.tobytes())
            for block in blocks:
                stream.write(np.ascontiguousarray(block.tokens.astype(dtype, copy=False)).data.cast("B"))
        return sum(len(b.lengths) for b in blocks)

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        return (np.memmap(path, dtype.newbyteorder("<"), "r", 4 * _HEADER) for path in paths)

    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        header = np.frombuffer(stream.read(4 * _HEADER), "<i4")
        tokens = np.frombuffer(stream.read(), dtype.newbyteorder("<"))
        if len(header) != _HEADER or tuple(header[:3]) != (*_FORMS[dtype.itemsize], len(tokens)):
            raise ValueError("the header is not that of these tokens")
        yield tokens


STAGE = Llmc
