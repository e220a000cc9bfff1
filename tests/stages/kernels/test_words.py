"""Words by unit: golden vectors, str.split() as the reference for white space, invariants on any text."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.kernels.buffers import text_buffers
from stages.kernels.words import NONE, UNICODE, WHITESPACE, case_fold, word_table, word_units


def words_of(texts: list[str | None], unit: int) -> list[list[str]]:
    buffers = text_buffers(pa.array(texts, pa.large_string()))
    first, words = word_table(buffers, np.full(len(texts), unit, np.uint8))
    found = [bytes(buffers.data[s:e]).decode() for s, e in zip(words.start, words.end, strict=True)]
    assert words.chars.tolist() == [len(w) for w in found]
    return [found[a:b] for a, b in itertools.pairwise(first)]


# Worked out by hand from UAX #29, revision 45; the rule that decides is named.
BOUNDARIES = {
    "The quick (“brown”) fox can’t jump 32.3 feet, right?": "The quick brown fox can’t jump 32.3 feet right",
    "can't stop. rock'n'roll 'quoted'": "can't stop rock'n'roll quoted",  # WB6, WB7
    "3,456.789 and 3.x": "3,456.789 and 3 x",  # WB11, WB12
    "a_b __init__ _": "a_b __init__",  # WB13a, WB13b; a word needs a letter or a number
    "A3 3A e.g. U.S.A.": "A3 3A e.g U.S.A",  # WB9, WB10, WB6
    "צה\"ל ד'ר ג'": "צה\"ל ד'ר ג'",  # WB7a, WB7b, WB7c
    "カタカナ ひら 漢字x": "カタカナ ひ ら 漢 字 x",  # WB13; ideographs and hiragana stand alone
    "한국어 문장입니다.": "한국어 문장입니다",
    "cafe\u0301s a\u00adb": "cafe\u0301s a\u00adb",  # WB4
    "don: b:c": "don b:c",
    "x\u200dy !! -- 👍🏽": "x\u200dy",
}


@pytest.mark.parametrize(("text", "expected"), BOUNDARIES.items())
def test_unicode_boundaries(text: str, expected: str) -> None:
    assert words_of([text], UNICODE) == [expected.split(" ")]


def test_chinese_characters_are_words_and_punctuation_is_none() -> None:
    assert words_of(["你好，世界！iPhone 15。"], UNICODE) == [["你", "好", "世", "界", "iPhone", "15"]]


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=60)), max_size=8))
def test_white_space_is_str_split(texts: list[str | None]) -> None:
    assert words_of(texts, WHITESPACE) == [(t or "").split() for t in texts]


@settings(deadline=None)
@given(st.lists(st.text(alphabet="ab'.,:_1٣אב\"カひ漢\u0301\u200d 👩🇫\r\n;가ก", max_size=20), max_size=6))
def test_unicode_words_are_ordered_pieces_of_the_text_and_do_not_depend_on_neighbours(texts: list[str]) -> None:
    together = words_of(texts, UNICODE)
    assert together == [words_of([t], UNICODE)[0] for t in texts]
    for text, words in zip(texts, together, strict=True):
        at = 0
        for word in words:
            at = text.index(word, at) + len(word)
        assert not any(w.isspace() or w == "" for w in words)


def test_scripts_without_spaces_give_letters_with_their_marks() -> None:
    assert words_of(["ที่ดี 12"], UNICODE) == [["ที่", "ดี", "12"]]
    assert words_of(["ភាសាខ្មែរ"], UNICODE)[0][0] == "ភា"


def test_unit_none_has_no_words() -> None:
    assert words_of(["one two"], NONE) == [[]]


def test_equal_words_have_equal_hashes_wherever_they_stand_and_case_folds_on_request() -> None:
    buffers = text_buffers(pa.array(["Straße tea TEA", "x tea ПРИВЕТ привет"], pa.large_string()))
    units = np.full(2, WHITESPACE, np.uint8)
    plain = word_table(buffers, units)[1].hash.tolist()
    folded = word_table(buffers, units, case_fold())[1].hash.tolist()
    assert plain[1] == plain[4] != plain[2]
    assert folded[1] == folded[2] == folded[4]
    assert folded[5] == folded[6]
    assert 0 not in plain + folded


def test_a_slice_of_a_batch_and_a_batch_that_outgrows_its_room() -> None:
    array = pa.array(["a b", None, "c", " ".join("xyz") * 50], pa.large_string())
    for start in range(4):
        for text in (array.slice(start), array.slice(start).cast(pa.string())):
            first, _ = word_table(text_buffers(text), np.full(4 - start, WHITESPACE, np.uint8))
            assert np.diff(first).tolist() == [len((t or "").split()) for t in array.to_pylist()[start:]]
    dense = pa.array(["a b c d e f g h"] * 300, pa.large_string())
    first, words = word_table(text_buffers(dense), np.full(300, WHITESPACE, np.uint8))
    assert first.tolist() == list(range(0, 2401, 8))
    assert words.hash[:8].tolist() == words.hash[-8:].tolist()


def test_units_by_language() -> None:
    codes = pa.array(["en", "zh", "th", None, "und", "no-such-code", "ja", "ru"])
    assert word_units(codes).tolist() == [WHITESPACE, UNICODE, UNICODE, NONE, NONE, NONE, UNICODE, WHITESPACE]
    assert word_units(codes, otherwise=UNICODE).tolist()[2:6] == [UNICODE] * 4
