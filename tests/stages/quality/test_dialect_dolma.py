"""The dolma dialect: Dolma's Gopher attributes restated in Python, on any text; the same numbers to the last bit.

With Dolma's own tagger, outside this repository, 12,920 attribute sets of 6,460 web pages came out identical (gopher_v1 and
gopher_v2, dolma 1.2.1).
"""

from __future__ import annotations

import re
from collections import Counter
from statistics import median

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow.rules import evaluate
from stages.quality.gopher import Gopher
from stages.quality.gopher_repetition import GopherRepetition
from stages.quality.signals_dolma import DolmaSignals

STOP = {"the", "be", "to", "of", "and", "that", "have", "with"}
PIECES = [
    "the",
    "The",
    "be",
    "of",
    "ab",
    "a",
    "b",
    "12",
    " ",
    " ",
    " ",
    "\n",
    "\n\n",
    "…",
    "#",
    "* ",
    "- ",
    "你好",
    "é",
]
# Without what this Python does not know yet: `isalpha` is of its Unicode version, the kernels' tables of a fixed one.
CHARACTERS = st.characters(exclude_categories=("Cs", "Cn"))
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.text(CHARACTERS, max_size=40))


def counts_of(texts: list[str]) -> list[dict[str, float]]:
    batch = pa.RecordBatch.from_pydict(
        {"text": pa.array(texts, pa.large_string()), "language.code": pa.array(["en"] * len(texts))}
    )
    rows = DolmaSignals().score(batch).to_pylist()
    return [{k.removeprefix("quality.dolma_"): v for k, v in row.items()} for row in rows]


def attributes(text: str, skip_empty: bool) -> dict[str, float]:
    """Dolma's attributes by their definitions."""
    words = text.split()
    total = sum(map(len, words))
    lines = re.split(r"\n+", text) if skip_empty else text.split("\n")
    copies = {line: n for line, n in Counter(lines).items() if n > 1}
    found = {
        "word_count": len(words),
        "median_word_length": float(median(map(len, words))) if words else 0.0,
        "symbol_to_word_ratio": sum("#" in w or "…" in w for w in words) / max(len(words), 1),
        "alpha": sum(any(c.isalpha() for c in w) for w in words) / max(len(words), 1),
        "required": sum(w in STOP for w in words),
        "bullets": sum(line.startswith(("*", "-")) for line in lines) / len(lines),
        "ellipses": sum(line.endswith("…") for line in lines) / len(lines),
        "dup_lines": sum(copies.values()) / len(lines),
        "dup_line_chars": sum(len(line) * n for line, n in copies.items()) / max(total, 1),
    }
    for n in range(2, 11):
        grams = Counter(zip(*(words[i:] for i in range(n)), strict=False))
        if not grams:
            continue
        if n <= 4:
            best, times = grams.most_common(1)[0]
            found[f"top_{n}"] = times * sum(map(len, best)) / max(total, 1)
        else:
            chars = {g: k * sum(map(len, g)) for g, k in grams.items()}
            found[f"dup_{n}"] = sum(chars[g] for g, k in grams.items() if k > 1) / max(sum(chars.values()), 1)
    return found


def from_counts(c: dict[str, float], version: str) -> dict[str, float]:
    words, total, lines = max(c["words"], 1), max(c["word_chars"], 1), max(c[version + "lines"], 1)
    found = {
        "word_count": c["words"],
        "median_word_length": c["median_word_length"],
        "symbol_to_word_ratio": c["symbol_words"] / words,
        "alpha": c["alpha_words"] / words,
        "required": c["stop_words"],
        "bullets": c[version + "bullet_lines"] / lines,
        "ellipses": c[version + "ellipsis_lines"] / lines,
        "dup_lines": c[version + "dup_lines"] / lines,
        "dup_line_chars": c[version + "dup_line_chars"] / total,
    }
    for n in range(2, 11):
        if c["words"] < n:
            continue
        if n <= 4:
            found[f"top_{n}"] = c[f"top_{n}gram_chars"] / total
        else:
            found[f"dup_{n}"] = c[f"dup_{n}gram_chars"] / max(c[f"all_{n}gram_chars"], 1)
    return found


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=3))
def test_attributes_are_dolmas(texts: list[str]) -> None:
    for text, counts in zip(texts, counts_of(texts), strict=True):
        assert from_counts(counts, "") == attributes(text, skip_empty=False)
        assert from_counts(counts, "v2_") == attributes(text, skip_empty=True)


def test_ten_lines_with_two_that_come_twice_are_dropped_by_dolma_and_kept_by_the_paper() -> None:
    lines = [f"line number {i} of the river report" for i in range(8)]
    text = "\n".join([*lines, lines[0], lines[1]])
    (counts,) = counts_of([text])
    assert (counts["dup_lines"], counts["lines"]) == (4, 10)
    batch = pa.RecordBatch.from_pydict({"text": pa.array([text], pa.large_string()), "language.code": pa.array(["en"])})
    out = DolmaSignals().score(batch)
    columns = {**{n: out.column(n) for n in out.schema.names}, "language.code": batch.column("language.code")}
    rules = GopherRepetition(dialect="dolma").rules()
    assert rules[evaluate(rules, columns, 1).first[0]].reason == "repetition_dup_lines"


def test_median_not_mean() -> None:
    text = "a " * 30 + "extraordinarily " * 29
    (counts,) = counts_of([text])
    assert counts["median_word_length"] == 1.0
    rules = [r for r in Gopher(dialect="dolma").rules() if r.reason == "gopher_short_words"]
    assert rules[0].column == "quality.dolma_median_word_length"
