"""RedPajama-V2's document signals against their definitions restated in Python, on any text."""

from __future__ import annotations

import itertools
import math
import re
import string
import unicodedata
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.quality.gopher import Gopher
from stages.quality.gopher_repetition import GopherRepetition
from stages.quality.signals_redpajama import RedPajamaSignals

PIECES = [
    "the",
    "The",
    "NASA",
    "a",
    "b1",
    "_x",
    "12",
    " ",
    " ",
    " ",
    "\n",
    "\n\n",
    ".",
    "...",
    "…",
    "!",
    "#",
    "{",
    "}",
    "• ",
]
WORDS = ["– ", "“q”", "é", "e\u0301", "lorem ipsum", "Lorem, Ipsum", "привет", "한", "-", "'s", "का", "\u00a0"]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES + WORDS), max_size=50).map("".join),
    st.text(st.characters(exclude_categories=("Cs", "Cn", "Co"), max_codepoint=0xFFFF), max_size=30),
)


def expected_words(text: str) -> list[str]:
    plain = text.translate(str.maketrans("", "", string.punctuation)).lower()
    return unicodedata.normalize("NFD", re.sub(r"\s+", " ", plain.strip())).split()


def expected(text: str) -> dict[str, int]:
    words, raw = expected_words(text), re.findall(r"\w+|[^\w\s]+", text)
    lines = [m[0] for m in re.finditer(r"([^\n]*\n|[^\n]+$)", text)]
    bullets = tuple("•‣▶◀◦■□▪▫–")
    found = {
        "chars": len(text),
        "curly_brackets": text.count("{") + text.count("}"),
        "symbols": text.count("#") + text.count("...") + text.count("…"),
        "sentences": len(re.findall(r"\b[^.!?]+[.!?]*", text)),
        "lorem_ipsum": sum(a == "lorem" and b == "ipsum" for a, b in itertools.pairwise(words)),
        "lines": len(lines),
        "ellipsis_lines": sum(line.rstrip().endswith(("...", "…")) for line in lines),
        "terminal_lines": sum(line.rstrip().endswith((".", "!", "?", "”")) for line in lines),
        "bullet_lines": sum(line.lstrip().startswith(bullets) for line in lines),
        "raw_words": len(raw),
        "alpha_raw_words": sum(bool(re.search("[a-zA-Z]", w)) for w in raw),
        "caps_raw_words": sum(w.isupper() for w in raw),
        "words": len(words),
        "word_chars": sum(map(len, words)),
        "unique_words": len(set(words)),
    }
    for n in range(2, 11):
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        count = Counter(grams)
        if n <= 4:
            best, times = count.most_common(1)[0] if count else ((), 0)
            found[f"top_{n}gram_chars"] = sum(map(len, best)) * times if times > 1 else 0
        else:
            covered = {k for i, g in enumerate(grams) if count[g] > 1 for k in range(i, i + n)}
            found[f"dup_{n}gram_chars"] = sum(len(words[k]) for k in covered)
    return found


def counts_of(text: str) -> dict[str, int]:
    batch = pa.RecordBatch.from_pydict({"text": pa.array([text], pa.large_string()), "language.code": pa.array(["en"])})
    row = RedPajamaSignals().score(batch).to_pylist()[0]
    return {k.removeprefix("quality.rp_"): v for k, v in row.items()}


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_signals_are_their_definitions(text: str) -> None:
    # Words are compared as they are written: composed and decomposed forms of one word are one to RedPajama only.
    text = unicodedata.normalize("NFC", text)
    found = counts_of(text)
    entropy = found.pop("unigram_entropy")
    assert found == expected(text)
    words = expected_words(text)
    shares = [k / len(words) for k in Counter(words).values()]
    assert entropy == pytest.approx(-sum(p * math.log(p) for p in shares), abs=1e-5)


def test_golden_vector() -> None:
    assert {k: counts_of("NASA, the “NASA”…\n• e.g. café #1!")[k] for k in ("raw_words", "alpha_raw_words", "caps_raw_words",
            "words", "word_chars", "sentences", "symbols", "lines", "ellipsis_lines", "bullet_lines")} == {
        "raw_words": 15, "alpha_raw_words": 6, "caps_raw_words": 2, "words": 7, "word_chars": 23, "sentences": 3,
        "symbols": 2, "lines": 2, "ellipsis_lines": 1, "bullet_lines": 1,
    }  # fmt: skip


def test_rule_sets_speak_it() -> None:
    columns = {
        c for stage in (Gopher(dialect="redpajama"), GopherRepetition(dialect="redpajama")) for c in stage.inputs()
    }
    assert columns - {"language.code"} <= set(RedPajamaSignals().outputs())
