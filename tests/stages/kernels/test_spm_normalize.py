"""The normaliser against a plain restatement on any bytes, and against sentencepiece's own on text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from stages.kernels.spm_normalize import DUMMY_PREFIX, REMOVE_EXTRA, SUFFIX, Rules, normalize, read_rules
from stages.tokenize._spm_model import _fields

#: Runs long enough for words of eight and sixteen bytes, and what breaks them: U+2581, letters of two and four bytes, characters
#: cut short, surrogates, overlong forms, bytes that start nothing.
PIECES = [
    *(
        b"plain ascii text",
        b"abcdefg",
        b" ",
        b"  ",
        b"\t",
        b"\x00",
        "昨夜河水上涨".encode(),
        "，。".encode(),
        "“”".encode(),
    ),
    *(
        "▁".encode(),
        "▁▁a▁".encode(),
        "अनु".encode(),
        "힣한".encode(),
        "é".encode(),
        "\U0001f642".encode(),
        "\ufeff".encode(),
    ),
    *(
        "昨".encode()[:2],
        "昨".encode()[1:],
        b"\xed\xa0\x80",
        b"\xe0\x80\x80",
        b"\xe2\x96",
        b"\x81",
        b"\xff",
        b"\xf0\x9f\x99",
    ),
    *(b"\xed\xa0\x80\xe6\x98\xa8\xe6\x98", b"\xe6\x98\xa8\xe0\x80\x80\xe6\x98", b"abcdefghijklmnoe", "\u0301".encode()),
    *(b"\xe6\x98\xa8" * 5, b"\xe2\x96\x81\xe6\x98\xa8", b"\xe6\x98\xa8\xe2\x96\x81", b"\xe6\x98\xa8\xe6\x98"),
]
#: Each piece with each, and more text behind it: what a word of eight bytes takes in at once.
PAIRS = [a + b + b"\xe6\x98\xa8" * 3 for a in PIECES for b in PIECES]
some = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=30).map(b"".join)


def normalized(rules: Rules, data: bytes) -> bytes:
    """In the middle of a larger buffer, as documents are."""
    around = np.frombuffer(b"\x81\xa8" + data + b"\x98\xa8abc", np.uint8)
    out = np.full(3 * len(data) + 40, 7, np.uint8)
    size = normalize(rules, around, 2, 2 + len(data), out)
    assert size >= 0
    return out[:size].tobytes()


def restated(data: bytes) -> bytes:
    """Characters as they are, U+2581 as a space, a byte that belongs to none as U+FFFD."""
    out, p = b"", 0
    while p < len(data):
        for size in (1, 2, 3, 4):
            try:
                character = data[p : p + size].decode()
            except UnicodeDecodeError:
                continue
            out += b" " if character == "▁" else character.encode()
            p += size
            break
        else:
            out += "\ufffd".encode()
            p += 1
    return out


@given(some)
def test_any_bytes(data: bytes) -> None:
    assert normalized(read_rules(b"", [], 0), data) == restated(data)


def test_any_two_pieces() -> None:
    rules = read_rules(b"", [], 0)
    for data in PAIRS:
        assert normalized(rules, data) == restated(data)


@given(some)
def test_a_space_in_front_or_behind(data: bytes) -> None:
    expected = restated(data)
    assert normalized(read_rules(b"", [], DUMMY_PREFIX), data) == (b" " + expected if data else b"")
    assert normalized(read_rules(b"", [], DUMMY_PREFIX | SUFFIX), data) == (expected + b" " if data else b"")


@pytest.mark.parametrize("rule", ["identity", "nfkc", "nmt_nfkc", "nfkc_cf"])
@pytest.mark.parametrize("extra", [False, True])
def test_as_the_library(rule: str, extra: bool) -> None:
    library = sentencepiece.SentencePieceNormalizer(
        rule_name=rule, add_dummy_prefix=True, escape_whitespaces=True, remove_extra_whitespaces=extra
    )
    spec: Any = dict(_fields(library.serialized_model_proto()))[3]
    charsmap: Any = dict(_fields(spec)).get(2, b"")
    rules = read_rules(charsmap, [], DUMMY_PREFIX | REMOVE_EXTRA * extra)

    @given(some.map(lambda data: data.decode("utf-8", "ignore")) | st.text())
    def check(text: str) -> None:
        assert normalized(rules, text.encode()).decode() == library.normalize(text).replace("▁", " ")

    check()
    for data in PAIRS:
        text = data.decode("utf-8", "ignore")
        assert normalized(rules, text.encode()).decode() == library.normalize(text).replace("▁", " ")


def test_too_little_room_is_said() -> None:
    rules = read_rules(b"", [], DUMMY_PREFIX)
    data = np.frombuffer("昨夜河水上涨 plain ascii text".encode() * 9, np.uint8)
    whole = normalized(rules, data.tobytes())
    for room in range(len(whole) + 20):
        out = np.full(room, 7, np.uint8)
        size = normalize(rules, data, 0, len(data), out[:room])
        assert size == -1 or out[:size].tobytes() == whole
    assert size == len(whole)
