"""A text that the kernel does not doubt is in NFC."""

from __future__ import annotations

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.kernels.buffers import text_buffers
from stages.kernels.nfc import flag_doubtful, inert_characters


def doubted(texts: list[str | None]) -> list[bool]:
    offsets, data, valid = text_buffers(pa.array(texts, pa.large_string()))
    flags = np.ones(len(texts), np.bool_)
    count = flag_doubtful(inert_characters(), offsets, data, valid, flags)
    assert count == flags.sum()
    return [bool(f) for f in flags]


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("The river rose.", False),
        ("昨夜河水上涨，清晨。Straße été 川の水 한국어 Река", False),
        ("e\u0301", True),
        ("\u212a", True),
        ("\u1100\u1161", True),
        ("\u0958", True),
        ("\U0001f642", False),
        ("\u0378", True),  # unassigned
        (None, False),
        ("", False),
    ],
)
def test_what_is_doubted(text: str | None, flag: bool) -> None:
    assert doubted([text, text]) == [flag, flag]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(), max_size=10))
def test_undoubted_texts_are_in_nfc(texts: list[str]) -> None:
    for text, flag in zip(texts, doubted(list(texts)), strict=True):
        assert flag or unicodedata.is_normalized("NFC", text)


def test_every_pair_of_composing_characters_is_doubted() -> None:
    pairs = []
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code))
        if parts and not parts.startswith("<"):
            pairs.append("".join(chr(int(p, 16)) for p in parts.split()))
    assert len(pairs) > 2_000
    assert all(doubted([p for p in pairs if not unicodedata.is_normalized("NFC", p)]))
