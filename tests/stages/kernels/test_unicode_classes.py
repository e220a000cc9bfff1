"""Character classes against the interpreter's own Unicode data, where both know the character."""

from __future__ import annotations

import unicodedata

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.kernels import unicode_classes as uc
from stages.kernels.jit import kernel

ASSIGNED = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]


def flags_of(code_points: list[int]) -> np.ndarray:
    tables = uc.unicode_tables()
    return tables.flags[tables.classes[code_points]]


def test_properties_agree_with_the_standard_library() -> None:
    flags = flags_of(ASSIGNED)
    chars = [chr(c) for c in ASSIGNED]
    expected = {
        uc.SPACE: [c.isspace() for c in chars],
        uc.ALPHA: [c.isalpha() for c in chars],
        uc.UPPER: [c.isupper() for c in chars],
        uc.LOWER: [c.islower() for c in chars],
        uc.DIGIT: [c.isdecimal() for c in chars],
        uc.NUMBER: [unicodedata.category(c)[0] == "N" for c in chars],
        uc.PUNCTUATION: [unicodedata.category(c)[0] == "P" for c in chars],
        uc.SYMBOL: [unicodedata.category(c)[0] == "S" for c in chars],
        uc.MARK: [unicodedata.category(c)[0] == "M" for c in chars],
        uc.HAN: [unicodedata.name(c, "").startswith(("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH")) for c in chars],
    }
    for bit, values in expected.items():
        found = (flags & bit) != 0
        wrong = [hex(ASSIGNED[i]) for i in np.flatnonzero(found != np.array(values))]
        if bit == uc.HAN:  # numerals and radicals are Han as well
            wrong = [
                w for w in wrong if not any(lo <= int(w, 16) <= hi for lo, hi in ((0x2E80, 0x303B), (0x16FE2, 0x16FFF)))
            ]
        # A handful changed category between the Unicode versions of Python 3.11 to 3.14 and ours: U+0295 was Ll, is Lo.
        assert len(wrong) <= 10, (bit, wrong)


def test_marks_that_end_sentences() -> None:
    assert all(flags_of([ord(c) for c in ".?!。！？؟।።｡"]) & uc.TERMINAL)
    assert not any(flags_of([ord(c) for c in ",;:…，、；：\"'"]) & uc.TERMINAL)


def test_garbage_is_what_broken_decoding_leaves() -> None:
    assert all(flags_of([0, 0x1B, 0x7F, 0x80, 0x9D, 0xE000, 0xFFFD, 0xFFFF, 0x378]) & uc.GARBAGE)
    assert not any(flags_of([9, 10, 13, 0x20, 0xA0, ord("a"), ord("中"), 0x200B]) & uc.GARBAGE)


def test_lower_table_is_simple_lower_case() -> None:
    table = uc.lower_table()
    for c in range(len(table)):
        lower = chr(c).lower()
        if unicodedata.category(chr(c)) in ("Lu", "Lt") and len(lower) == 1:
            assert table[c] == ord(lower)
    assert table[0x130] == 0x130


@kernel
def _decode_all(text: np.ndarray, out: np.ndarray) -> int:
    i = n = 0
    while i < text.shape[0]:
        cp, i = uc.decode(text, i, text.shape[0])
        out[n] = cp
        n += 1
    return n


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_decode_never_leaves_the_text_and_is_right_on_utf8(raw: bytes) -> None:
    text = np.frombuffer(raw, np.uint8)
    out = np.zeros(len(raw) + 1, np.int64)
    found = out[: _decode_all(text, out)].tolist()
    assert all(0 <= c < 0x110000 for c in found)
    try:
        assert found == [ord(c) for c in raw.decode()]
    except UnicodeDecodeError:
        assert raw == b"" or len(found) <= len(raw)


@kernel
def _starts_backwards(text: np.ndarray, out: np.ndarray) -> int:
    i, n = text.shape[0], 0
    while i > 0:
        i = uc.previous(text, 0, i)
        out[n] = i
        n += 1
    return n


@settings(deadline=None)
@given(st.text(max_size=30), st.binary(max_size=10))
def test_previous_walks_back_over_what_decode_walked(text: str, junk: bytes) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    out = np.zeros(len(data) + len(junk) + 1, np.int64)
    starts = sorted(out[: _starts_backwards(data, out)].tolist())
    assert [len(text[:k].encode()) for k in range(len(text))] == starts
    broken = np.frombuffer(junk, np.uint8)
    n = _starts_backwards(broken, out)
    assert all(0 <= i < len(junk) for i in out[:n])
