"""The dclm dialect against a clean restatement of DCLM's filters: the same decision, and why, on any text."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import Filter, Score, Transform
from corpusflow.rules import evaluate
from stages.kernels.buffers import text_buffers
from stages.kernels.words import UNICODE, word_table
from stages.quality.dclm import Dclm
from stages.quality.gopher import Gopher
from stages.quality.gopher_repetition import GopherRepetition
from stages.quality.signals_dclm import DclmSignals

STOP = {"the", "be", "to", "of", "and", "that", "have", "with"}


def batch_of(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"text": pa.array(texts, pa.large_string()), "language.code": pa.array(["en"] * len(texts))}
    )


def uniseg_words(text: str) -> list[str]:
    """Words of UAX #29 that begin with a letter or number (the splitter has its own tests)."""
    buffers = text_buffers(pa.array([text], pa.large_string()))
    _, words = word_table(buffers, np.full(1, UNICODE, np.uint8))
    found = [bytes(buffers.data[a:b]).decode() for a, b in zip(words.start, words.end, strict=True)]
    return [w for w in found if w[0].isalnum()]


def segments(text: str, end: str) -> list[str]:
    return [s for piece in text.split(end) if (s := piece.strip())]


def quality_reason(text: str) -> str | None:
    """The first of DCLM's quality filters that fails, under our names."""
    split, lines = text.split(), segments(text, "\n")
    words = [w for w in split if w[0].isalnum()]
    if not 50 <= len(words) <= 100_000:
        return "gopher_few_words" if len(words) < 50 else "gopher_many_words"
    mean = sum(map(len, split)) / len(split)
    if not 3 <= mean <= 10:
        return "gopher_short_words" if mean < 3 else "gopher_long_words"
    if sum(text.count(s) for s in ("#", "...", ". . .", "…")) / len(split) > 0.1:
        return "gopher_symbols"
    if sum(line.startswith(("●", "•", "*", "-")) for line in lines) > 0.9 * len(lines):
        return "gopher_bullet_lines"
    if sum(line.endswith(("...", ". . .", "…")) for line in lines) > 0.3 * len(lines):
        return "gopher_ellipsis_lines"
    if sum(not any(c.isalpha() for c in w) for w in split) / len(split) > 0.2:
        return "gopher_few_alpha_words"
    if sum(w.lower() in STOP for w in split) < 2:
        return "gopher_few_stop_words"
    return None


def repetition_reason(text: str) -> str | None:
    for limit, chars in ((0.3, False), (0.2, True)):
        for name, end in (("line", "\n"), ("paragraph", "\n\n")):
            pieces = segments(text, end)
            count = Counter(pieces)
            if len(pieces) < 2:
                continue
            if chars:
                share = sum(len(s) * n for s, n in count.items() if n > 1) / sum(map(len, pieces))
            else:
                share = sum(n for n in count.values() if n > 1) / len(pieces)
            if share > limit:
                return f"repetition_dup_{name}{'_chars' if chars else 's'}"
    words = uniseg_words(text)
    limits = {2: 0.2, 3: 0.18, 4: 0.16, 5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.1}
    for n, limit in limits.items():
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        grams_count = Counter(grams)
        most = max(grams_count.values(), default=0)
        if most < 2:
            continue
        if n <= 4:
            chars_in = most * max(sum(map(len, g)) for g, k in grams_count.items() if k == most)
        else:
            covered = {k for i, g in enumerate(grams) if grams_count[g] > 1 for k in range(i, i + n)}
            chars_in = sum(len(words[k]) for k in covered)
        if chars_in / sum(map(len, words)) > limit:
            return f"repetition_{'top' if n <= 4 else 'dup'}_{n}gram_chars"
    return None


def reasons(texts: list[str], stage: Gopher | GopherRepetition) -> list[str | None]:
    batch = batch_of(texts)
    out = DclmSignals().score(batch)
    columns = {**{n: out.column(n) for n in out.schema.names}, "language.code": batch.column("language.code")}
    rules = stage.rules()
    return [None if f < 0 else rules[f].reason for f in evaluate(rules, columns, len(texts)).first]


SENTENCES = [
    "The river rose in the night and the lower road was under water.", "Nobody had expected it so soon...", "* one", "- two",
    "We have seen worse, said the miller with a shrug. . .", "12 34 56", "# heading", "Read more…", "THE END",
    "Of all the bridges that have been built here, to this day two remain.", "it's 3.5 km", "你好 世界", "\n", "\n\n", "• a b c",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=25).flatmap(
    lambda s: st.sampled_from(["\n", " ", "\n\n", " \n"]).map(lambda end: end.join(s))
)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_same_decision_and_reason(texts: list[str]) -> None:
    assert reasons(texts, Gopher(dialect="dclm")) == [quality_reason(t) for t in texts]
    assert reasons(texts, GopherRepetition(dialect="dclm")) == [repetition_reason(t) for t in texts]


DATA = Path(os.environ.get("CORPUSFLOW_TEST_DATA", "nowhere")) / "parity" / "text.parquet"


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_file(), reason="set CORPUSFLOW_TEST_DATA to the folder with parity/")
def test_same_decision_and_reason_on_real_texts() -> None:
    table = pq.read_table(DATA, columns=["text", "text_resiliparse"])
    texts = [t for name in table.schema.names for t in table.column(name).to_pylist() if t][::5]
    assert len(texts) >= 5_000
    for stage, restated in (
        (Gopher(dialect="dclm"), quality_reason), (GopherRepetition(dialect="dclm"), repetition_reason)
    ):  # fmt: skip
        different = Counter(
            p for t, r in zip(texts, reasons(texts, stage), strict=True) if (p := (restated(t), r))[0] != r
        )
        print(f"\n{type(stage).__name__}: {len(texts)} texts, different: {different}")
        assert not different


PROSE = (
    "The river rose in the night, and by morning the lower road was under water. Farmers moved their sheep to the hill; "
    "the school stayed closed. We have seen worse, said the miller, who had kept his boat tied to the gate since autumn. "
    "By noon the rain had stopped and people came down to look at what was left of the old bridge."
)
TABLE = {
    "prose": (PROSE, None, None),
    "short": ("The river rose. We have seen worse.", "gopher_few_words", None),
    "numbers": (PROSE + " 12 34" * 20, "gopher_few_alpha_words", "repetition_top_2gram_chars"),
    "symbols": (PROSE + " # # # # # # . . . …", "gopher_symbols", None),
    "list": (
        "\n".join(f"- bringing {w} of and to" for w in PROSE.split()),
        "gopher_bullet_lines",
        "repetition_dup_line_chars",
    ),
    "copies": ("\n".join([PROSE, "one line here", "one line here", "two", "two"]), None, "repetition_dup_lines"),
}


@pytest.mark.parametrize(("text", "quality", "repetition"), TABLE.values(), ids=TABLE)
def test_table(text: str, quality: str | None, repetition: str | None) -> None:
    assert reasons([text], Gopher(dialect="dclm")) == [quality]
    assert reasons([text], GopherRepetition(dialect="dclm")) == [repetition]


def test_golden_vector() -> None:
    out = (
        DclmSignals()
        .score(batch_of(["The cat. The cat.\n\n* x . . . y\n* x . . . y\n\nThe cat. The cat."]))
        .to_pylist()[0]
    )
    found = {k.removeprefix("quality.dclm_"): v for k, v in out.items()}
    expected = {
        "split_words": 20, "split_word_chars": 40, "alpha_words": 12, "stop_words": 4, "symbols": 2,
        "lines": 4, "line_chars": 56, "dup_lines": 4, "dup_line_chars": 56, "bullet_lines": 2, "ellipsis_lines": 0,
        "paragraphs": 3, "paragraph_chars": 57, "dup_paragraphs": 2, "dup_paragraph_chars": 34,
        "words": 12, "uniseg_word_chars": 28, "top_2gram_chars": 24, "top_3gram_chars": 18, "dup_5gram_chars": 0,
    }  # fmt: skip
    assert {k: found[k] for k in expected} == expected


# ---- line corrections ----

COUNTER = re.compile(
    r"^\W*\d(?:,|\.|\d)*(?:K|k|M|m|B|b)?\s+"
    r"(?:likes|shares|comments|retweets|reposts|quotes|bookmarks|upvotes|downvotes|downloads|views|followers)\W*$"
)


def corrected(text: str) -> str:
    """DCLM's line modifiers, one after the other."""
    lines = text.split("\n")
    lines = [x for x in lines if not x or sum(c.isupper() for c in x) / len(x) <= 0.5]
    lines = [x for x in lines if not x or sum(c.isdecimal() for c in x) / len(x) <= 0.999999]
    lines = [x for x in lines if not COUNTER.search(x.lower())]
    lines = [x for x in lines if not x or len(x.split()) >= 2]
    for pattern in (r"\s?(?:items in cart)", r"\s?(?:read more...)$", r"^(?:sign-in)\s?"):
        kept = []
        for line in lines:
            if len(line.split()) <= 10:
                shorter = re.sub(pattern, "", line, flags=re.IGNORECASE)
                if line and not shorter.strip():
                    continue
                line = shorter
            kept.append(line)
        lines = kept
    return "\n".join(lines).strip()


LINES = [
    "The river rose in the night.", "SHOUTING IS NOT TEXT", "12345", "3 likes", "1,234.5k followers!", "Home", "",
    "3 items in cart", "items in cart", "Read the news. Read more...", "read more!!!", "Sign-in to continue", "sign-in",
    "Sign-in here and items in cart there", "one two three four five six seven eight nine ten items in cart", "A b C D",
    "  spaces before", "é ü Read more abc", "10 views today",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=14).map("\n".join))
def test_line_corrections(text: str) -> None:
    counts, _, lines = Dclm().expand()
    assert isinstance(counts, Score)
    assert isinstance(lines, Transform)
    batch = batch_of([text])
    assert lines.transform(batch).column("text").to_pylist() == [corrected(text)]
    row = {k.removeprefix("quality.dclm_"): v for k, v in counts.score(batch).to_pylist()[0].items()}
    for key, value in (("words_before", text), ("words_after", corrected(text))):
        assert row[key] == sum(w[0].isalnum() for w in value.split())


def test_pages_that_lose_more_than_a_twentieth_go() -> None:
    texts = [PROSE, PROSE + "\n3 likes\nHome", "\n".join([PROSE, "HOME AND MORE CAPITALS " * 3]), "SHOUTING ONLY"]
    counts, pages, _ = Dclm().expand()
    assert isinstance(counts, Score)
    assert isinstance(pages, Filter)
    out = counts.score(batch_of(texts))
    columns = {**{n: out.column(n) for n in out.schema.names}, "language.code": pa.array(["en"] * len(texts))}
    assert evaluate(pages.rules(), columns, len(texts)).kept.tolist() == [True, True, False, False]
