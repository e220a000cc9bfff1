"""Token ids by a tiktoken vocabulary (https://github.com/openai/tiktoken): a file of ranks and a regular expression.

Reads `text`, adds `tokenize.tokens`. Promises the ids of tiktoken's `encode_ordinary`: special tokens never come from text.
Vocabularies with a known expression run on kernels of our own, others on the library. Nothing is downloaded: the name of a
public encoding (`model: o200k_base`) stands for the file that tiktoken has kept of it on this machine.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from corpusflow import ConfigError, param

from ._byte_exact import UNREACHED, byte_encoder, pairs_of
from ._patterns import NAMED, PUBLIC, SHAPES, characters, pattern
from ._score import Encoder, Library, Opened, TokenScore, Vocabulary, model_bytes
from ._spm_exact import KernelEncoder, disagreement

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Tiktoken(TokenScore):
    """Token ids by a tiktoken vocabulary.

    Adds: `tokenize.tokens`, list of uint16 (largest id below 65,500) or uint32.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("tiktoken",)

    pattern: str | None = param(
        None,
        doc="Regular expression that cuts the text, or the name of the encoding whose it is; that of `model` if it is a name, "
        "else cl100k_base.",
    )
    special: dict[str, int] = param(
        factory=dict,
        doc='Special tokens and their ids, e.g. {"<|endoftext|>": 100257}; they never come from text. Those of `model` if it '
        "is a name.",
    )
    bos: str | None = param(None, doc="Special token that begins a document, if add_bos.")
    eos: str | None = param("<|endoftext|>", doc="Special token that ends a document, if add_eos.")
    add_bos: bool = param(False, doc="Begin each document with `bos`.")

    def __post_init__(self) -> None:
        public = PUBLIC.get(self.model)
        found: dict[str, Any] = {"pattern": self.pattern or "cl100k_base"}
        if public is not None and not os.path.exists(self.model):
            found = {
                "model": kept_file(self.model),
                "pattern": self.pattern or self.model,
                "special": dict(self.special or public.special),
            }
        for key, value in found.items():
            object.__setattr__(self, key, value)

    def vocabulary(self) -> Vocabulary:
        ranks, sha256 = self._ranks()
        return Vocabulary(
            largest_id=max([*ranks.values(), *self.special.values()]),
            bos=self.special.get(self.bos or ""),
            eos=self.special.get(self.eos or ""),
            unk=None,
            pad=None,
            sha256=sha256,
        )

    def facts(self) -> Mapping[str, Any]:
        why = None if self._expression() in SHAPES else "its expression is not one the kernels follow"
        return {
            **super().facts(),
            "kind": "tiktoken",
            "pattern": self._expression(),
            "encoder": "kernels" if why is None else f"library: {why}",
        }

    def open(self) -> Opened:
        tiktoken = _tiktoken()
        ranks, _ = self._ranks()
        encoding = tiktoken.Encoding(
            name=self.model, pat_str=self._expression(), mergeable_ranks=dict(ranks), special_tokens=dict(self.special)
        )
        library = Library(lambda texts: encoding.encode_ordinary_batch(texts, num_threads=1))
        return Opened(self._encoder(tiktoken, library), encoding.decode)

    def _encoder(self, tiktoken: Any, library: Library) -> Encoder:
        ranks, _ = self._ranks()
        shape = SHAPES.get(self._expression())
        why = "its expression is not one the kernels follow" if shape is None else "its vocabulary lacks some bytes"
        if shape is not None and all(bytes([b]) in ranks for b in range(256)):
            why = UNREACHED
            kernels = self._kernels(tiktoken)
            if kernels is not None:
                probe = disagreement(kernels, library)
                if probe is None:
                    return kernels
                why = f"the installed library gives other ids for {probe[:40]!r}"
        _LOG.warning("tokenize.tiktoken: %s runs on the library: %s", self.model, why)
        return library

    def _kernels(self, tiktoken: Any) -> KernelEncoder | None:
        ranks, _ = self._ranks()
        shape = SHAPES[self._expression()]
        return byte_encoder(
            pattern(shape, lambda expression: _members(tiktoken, expression)),
            pairs_of(ranks),
            ranks,
            by_whole=True,
        )

    def _expression(self) -> str:
        pattern = self.pattern or ""
        return NAMED.get(pattern, pattern)

    def _ranks(self) -> tuple[dict[bytes, int], str]:
        data, sha256 = model_bytes(self.model)
        return _parse(sha256, data, self.model), sha256


def kept_file(name: str) -> str:
    """Where tiktoken keeps the file of a public encoding once it has fetched it (load.py, read_file_cached).

    Raises:
        ConfigError: it is not there, or another one.
    """
    public = PUBLIC[name]
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    folder = folder or os.path.join(tempfile.gettempdir(), "data-gym-cache")
    path = os.path.abspath(os.path.join(folder, hashlib.sha1(public.address.encode()).hexdigest()))
    if not os.path.exists(path):
        raise ConfigError(
            f"model: the file of {name} is not on this machine ({path})",
            hint=f"where there is a network, TIKTOKEN_CACHE_DIR={folder} python -c "
            f"\"import tiktoken; tiktoken.get_encoding('{name}')\" fetches it; or give the path of a .tiktoken file",
        )
    if (sha256 := model_bytes(path)[1]) != public.sha256:
        raise ConfigError(
            f"model: what is kept of {name} in {path} has SHA-256 {sha256}, tiktoken expects {public.sha256}",
            hint="remove that file and fetch it again",
        )
    return path


def _tiktoken() -> Any:
    try:
        import tiktoken
    except ImportError as e:
        raise ConfigError("tokenize.tiktoken needs tiktoken", hint="pip install 'corpusflow[tokenizers]'") from e
    return tiktoken


@lru_cache(maxsize=4)
def _parse(sha256: str, data: bytes, path: str) -> dict[bytes, int]:
    """Ranks of a .tiktoken file: a line per token, base64 and rank."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line:
            continue
        fields = line.split()
        try:
            ranks[base64.b64decode(fields[0], validate=True)] = int(fields[1])
        except (binascii.Error, ValueError, IndexError) as e:
            raise ConfigError(
                f"{path} line {number} is not a token and a rank", hint="it is a file like cl100k_base.tiktoken"
            ) from e
    if not ranks:
        raise ConfigError(f"{path} holds no tokens", hint="it is a file like cl100k_base.tiktoken")
    return ranks


def _members(tiktoken: Any, expression: str) -> Iterator[tuple[int, int]]:
    """Ranges of code points that a class matches in tiktoken's engine.

    The engine gives no match positions, but it merges within a match only: with a vocabulary of all bytes and all bytes
    followed by NUL (which is of no class), a character and the NUL behind it merge if and only if it is of the class.
    """
    single = {bytes([b]): b for b in range(256)}
    merged = {bytes([b, 0]): 256 + b for b in range(256)}
    encoding = tiktoken.Encoding(
        name="members", pat_str=f"{expression}\\x00|[\\s\\S]", mergeable_ranks=single | merged, special_tokens={}
    )
    for run in characters():
        ids = np.array(encoding.encode_ordinary("\0".join(run) + "\0"), np.int64)
        ends = np.flatnonzero((ids == 0) | (ids >= 256))  # NUL alone, or in one with the last byte of the character
        if run[0] == "\0":
            ends = ends[1:]  # the character NUL itself
        inside = np.concatenate([[False], ids[ends] >= 256, [False]])
        edges = np.flatnonzero(inside[1:] != inside[:-1])
        yield from ((ord(run[0]) + int(a), ord(run[0]) + int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))


STAGE = Tiktoken
