r"""The regular expressions of byte-level tokenizers that `kernels.pretokens` follows, and what they say of each character.

A pattern is known by its exact text. Which characters are letters, numbers and spaces is asked of the engine that would run
the expression, since that depends on the Unicode version it was built with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from stages.kernels.pretokens import (
    ANY_CONTRACTIONS,
    LETTER,
    LOWER,
    LOWER_CONTRACTIONS,
    NO_CONTRACTIONS,
    NUMBER,
    SPACE,
    UPPER,
    Pattern,
)

#: Planes with characters in any Unicode version: no letter, number or space lies elsewhere.
_RANGES: Final = ((0, 0xD800), (0xE000, 0x40000), (0xE0000, 0xE1000))

_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_O200K_WORDS: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
)
_TIKTOKEN_CL100K: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_REST: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"


class Shape(NamedTuple):
    """The switches of `pretokens.Pattern`."""

    contractions: int
    any_prefix: bool
    most_digits: int
    line_ends: bool
    slashes: bool = False
    cased: bool = False
    tail: bool = False


def _cl100k(digits: str) -> str:
    return r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _REST


SHAPES: Final = {
    _GPT2: Shape(LOWER_CONTRACTIONS, False, 0, False),
    # the same language, as tiktoken writes it
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": Shape(
        LOWER_CONTRACTIONS, False, 0, False
    ),
    _cl100k(r"\p{N}{1,3}"): Shape(ANY_CONTRACTIONS, True, 3, True),
    _cl100k(r"\p{N}"): Shape(ANY_CONTRACTIONS, True, 1, True),
    _TIKTOKEN_CL100K: Shape(ANY_CONTRACTIONS, True, 3, True, tail=True),
    _O200K_WORDS + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _REST: Shape(
        ANY_CONTRACTIONS, True, 3, True, slashes=True, cased=True
    ),
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _REST: Shape(NO_CONTRACTIONS, True, 3, True),
}

#: The same in Oniguruma, Hugging Face's engine: to it `{1,3}+` is not possessive but `{1,3}` again and again, so that digits
#: have no end. transformers writes tiktoken's expression into a tokenizer.json as it is.
ONIGURUMA: Final = {**SHAPES, _TIKTOKEN_CL100K: SHAPES[_TIKTOKEN_CL100K]._replace(most_digits=1 << 40)}

#: tiktoken's names for the expressions of its public encodings.
NAMED: Final = {
    "gpt2": list(SHAPES)[1],
    "r50k_base": list(SHAPES)[1],
    "p50k_base": list(SHAPES)[1],
    "cl100k_base": list(SHAPES)[4],
    "o200k_base": list(SHAPES)[5],
}


class Public(NamedTuple):
    """A public encoding: where its file comes from (tiktoken names its own copy by that), the file's SHA-256, special tokens."""

    address: str
    sha256: str
    special: dict[str, int]


def _public(file: str, sha256: str, **special: int) -> Public:
    address = f"https://openaipublic.blob.core.windows.net/encodings/{file}.tiktoken"
    return Public(address, sha256, {f"<|{name}|>": number for name, number in special.items()})


_P50K: Final = "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
#: As tiktoken has them (tiktoken_ext/openai_public.py); gpt2 has the ids of r50k_base, and two files of another kind.
PUBLIC: Final = {
    "r50k_base": _public(
        "r50k_base", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930", endoftext=50_256
    ),
    "p50k_base": _public("p50k_base", _P50K, endoftext=50_256),
    "cl100k_base": _public(
        "cl100k_base",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        endoftext=100_257,
        fim_prefix=100_258,
        fim_middle=100_259,
        fim_suffix=100_260,
        endofprompt=100_276,
    ),
    "o200k_base": _public(
        "o200k_base",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        endoftext=199_999,
        endofprompt=200_018,
    ),
}

_CLASSES: Final = (
    (LETTER, r"\p{L}"),
    (NUMBER, r"\p{N}"),
    (SPACE, r"\s"),
    (UPPER, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"),
    (LOWER, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"),
)


def characters() -> Iterator[str]:
    """Every character that may be of a class, in runs."""
    for first, last in _RANGES:
        yield "".join(map(chr, range(first, last)))


def pattern(shape: Shape, members: Callable[[str], Iterator[tuple[int, int]]]) -> Pattern:
    """The kernel's pattern.

    Args:
        shape: its switches.
        members: ranges of code points [first, last) that a class expression matches, as the engine has it.
    """
    classes = np.zeros(0x110000, np.uint8)
    for flag, expression in _CLASSES:
        if flag in (UPPER, LOWER) and not shape.cased:
            continue
        for first, last in members(expression):
            classes[first:last] |= flag
    classes.flags.writeable = False
    return Pattern(classes, *shape)
