"""Token ids by a Hugging Face tokenizer.json (https://github.com/huggingface/tokenizers), any model it can describe.

Reads `text`, adds `tokenize.tokens`. Promises the ids of the library's `encode(text, add_special_tokens=False)` with special
tokens in the text read as text. Byte-level BPE with a known pattern runs on kernels of our own that give the same ids; all
else runs on the library. Nothing is downloaded.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

from corpusflow import ConfigError, param

from ._byte_exact import UNREACHED, byte_encoder, pairs_of_merges
from ._guard import Guarded
from ._patterns import _GPT2, ONIGURUMA, Shape, characters, pattern
from ._score import Encoder, Library, Opened, TokenScore, Vocabulary, model_bytes
from ._spm_exact import KernelEncoder, disagreement

_LOG = logging.getLogger(__name__)

#: Names under which begin and end tokens go, tried in this order.
_BEGIN: Final = ("<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>", "<｜begin▁of▁sentence｜>", "[CLS]")
_END: Final = ("<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>", "<|im_end|>", "<｜end▁of▁sentence｜>", "[SEP]")


@dataclass(frozen=True, kw_only=True)
class HuggingFace(TokenScore):
    """Token ids by a Hugging Face tokenizer.json.

    Adds: `tokenize.tokens`, list of uint16 (largest id, added tokens included, below 65,500) or uint32.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("tokenizers",)

    bos: str | None = param(
        None, doc="Token that begins a document, if add_bos; the usual names are tried if not given."
    )
    eos: str | None = param(None, doc="Token that ends a document, if add_eos; the usual names are tried if not given.")
    add_bos: bool = param(False, doc="Begin each document with `bos`.")

    def vocabulary(self) -> Vocabulary:
        description, sha256 = self._description()
        ids = dict(_model_ids(description))
        added = {t["content"]: t["id"] for t in description.get("added_tokens") or ()}
        ids |= added
        if not ids:
            raise ConfigError(f"{self.model} has no vocabulary")

        def named(given: str | None, usual: tuple[str, ...]) -> int | None:
            if given is not None:
                if given not in ids:
                    raise ConfigError(
                        f"{self.model} has no token {given!r}", hint=f"it adds {', '.join(added) or 'no tokens'}"
                    )
                return int(ids[given])
            return next((int(added[name]) for name in usual if name in added), None)

        return Vocabulary(
            largest_id=max(ids.values()),
            bos=named(self.bos, _BEGIN),
            eos=named(self.eos, _END),
            unk=None,
            pad=None,
            sha256=sha256,
        )

    def facts(self) -> Mapping[str, Any]:
        why = refusal(self._description()[0])
        return {
            **super().facts(),
            "kind": "huggingface",
            "encoder": "kernels" if why is None else f"library: {why}",
        }

    def open(self) -> Opened:
        tokenizers = _tokenizers()
        data, _ = model_bytes(self.model)
        try:
            tokenizer = tokenizers.Tokenizer.from_str(data.decode())
        except Exception as e:  # the binding raises bare Exception
            raise ConfigError(f"{self.model} cannot be loaded by tokenizers: {e}") from e
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        library = Library(lambda texts: [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)])
        return Opened(self._encoder(tokenizers, tokenizer, library), lambda ids: _decode(tokenizer, ids))

    def _encoder(self, tokenizers: Any, tokenizer: Any, library: Library) -> Encoder:
        description, _ = self._description()
        why = refusal(description)
        if why is None:
            inner = _kernels(tokenizers, description)
            why = UNREACHED
            if inner is not None:
                found = _found_in_text(description)
                normalize = tokenizer.normalizer.normalize_str if "NFC" in _normalizers(description) else None
                guarded = found or normalize
                kernels: Encoder = Guarded(inner, library, normalize, found) if guarded else inner
                probe = disagreement(kernels, library)
                if probe is None:
                    return kernels
                why = f"the installed library gives other ids for {probe[:40]!r}"
        _LOG.warning("tokenize.huggingface: %s runs on the library: %s", self.model, why)
        return library

    def _description(self) -> tuple[dict[str, Any], str]:
        data, sha256 = model_bytes(self.model)
        return _parse(sha256, data, self.model), sha256


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as e:
        raise ConfigError("tokenize.huggingface needs tokenizers", hint="pip install 'corpusflow[tokenizers]'") from e
    return tokenizers


@lru_cache(maxsize=4)
def _parse(sha256: str, data: bytes, path: str) -> dict[str, Any]:
    try:
        description = json.loads(data)
        if not isinstance(description["model"], dict):
            raise TypeError("model is not an object")
    except (ValueError, KeyError, TypeError) as e:
        raise ConfigError(f"{path} is not a tokenizer.json: {e}", hint="save one with tokenizer.save(…)") from e
    out: dict[str, Any] = description
    return out


def _model_ids(description: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    vocabulary = description["model"].get("vocab") or {}
    if isinstance(vocabulary, list):  # unigram: [piece, score]
        return ((piece, i) for i, (piece, _) in enumerate(vocabulary))
    return iter(vocabulary.items())


def refusal(description: Mapping[str, Any]) -> str | None:
    """Why the kernels cannot be proved to give this tokenizer's ids; None where they can."""
    model = description["model"]
    if model.get("type") != "BPE" or not isinstance(model.get("vocab"), dict):
        return f"its model is {model.get('type')}, not byte-level BPE"
    if _shape(description) is None:
        return "its pre-tokenizer is not one the kernels follow"
    if _normalizers(description) - {"NFC"}:
        return "it normalises text to other than NFC"
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            return f"its model has {key}"
    if any(c not in model["vocab"] for c in byte_letters()):
        return "its vocabulary lacks some bytes"
    try:
        pairs_of_merges(_merges(model), model["vocab"])
    except (KeyError, ValueError):
        return "a merge is of tokens it does not have"
    return None


def _normalizers(description: Mapping[str, Any]) -> set[str]:
    """Types of the normalisers in force."""
    stage = description.get("normalizer") or {"type": "Sequence", "normalizers": []}
    steps = stage.get("normalizers", []) if stage.get("type") == "Sequence" else [stage]
    return {str(step.get("type")) for step in steps}


def _found_in_text(description: Mapping[str, Any]) -> list[str]:
    """Added tokens that are not special: the library finds them in text."""
    return [t["content"] for t in description.get("added_tokens") or () if not t.get("special")]


def _merges(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Merges as pairs, from either form that tokenizer.json has had."""
    out = []
    for merge in model.get("merges") or ():
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        out.append((left, right))
    return out


def _shape(description: Mapping[str, Any]) -> Shape | None:
    """The pattern of the pre-tokenizer: ByteLevel with its own expression, or Split then ByteLevel without."""
    stage = description.get("pre_tokenizer") or {}
    steps = stage.get("pretokenizers", []) if stage.get("type") == "Sequence" else [stage]
    if not steps or steps[-1].get("type") != "ByteLevel" or steps[-1].get("add_prefix_space"):
        return None
    own = steps[-1].get("use_regex", True)
    if len(steps) == 1:
        return ONIGURUMA[_GPT2] if own else None
    split = steps[0]
    if (
        len(steps) != 2
        or own
        or split.get("type") != "Split"
        or split.get("invert")
        or split.get("behavior") != "Isolated"
    ):
        return None
    return ONIGURUMA.get((split.get("pattern") or {}).get("Regex", ""))


@lru_cache(maxsize=1)
def byte_letters() -> tuple[str, ...]:
    """The character that stands for each byte in byte-level vocabularies (GPT-2's table): printable Latin-1, then from 256."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}
    return tuple(letters[b] for b in range(256))


def _decode(tokenizer: Any, ids: list[int]) -> str:
    """The library's decoding; byte-level vocabularies without a decoder of their own are put together here."""
    if tokenizer.decoder is not None:
        return str(tokenizer.decode(ids, skip_special_tokens=False))
    to_byte = {c: b for b, c in enumerate(byte_letters())}
    letters = "".join(tokenizer.id_to_token(i) or "" for i in ids)
    return bytes(to_byte[c] for c in letters if c in to_byte).decode("utf-8", "replace")


def _kernels(tokenizers: Any, description: Mapping[str, Any]) -> KernelEncoder | None:
    model = description["model"]
    ids = model["vocab"]
    shape = _shape(description)
    if shape is None:
        raise ValueError("refused before")
    to_byte = {c: b for b, c in enumerate(byte_letters())}
    tokens = {bytes(to_byte[c] for c in token): i for token, i in ids.items() if all(c in to_byte for c in token)}
    return byte_encoder(
        pattern(shape, lambda expression: _members(tokenizers, expression)),
        pairs_of_merges(_merges(model), ids),
        tokens,
        by_whole=bool(model.get("ignore_merges")),
    )


def _members(tokenizers: Any, expression: str) -> Iterator[tuple[int, int]]:
    """Ranges of code points that a class matches in the library's engine."""
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(f"(?:{expression})+"), "isolated", invert=False)
    inside = tokenizers.pre_tokenizers.Split(tokenizers.Regex(f"(?:{expression})+"), "removed", invert=False)
    for run in characters():
        outside = {span for _, span in inside.pre_tokenize_str(run)}
        for _, (first, last) in split.pre_tokenize_str(run):
            if (first, last) not in outside:
                yield ord(run[0]) + first, ord(run[0]) + last


STAGE = HuggingFace
