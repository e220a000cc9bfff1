"""The dolma dialect: Dolma's Gopher attributes restated in Python, on any text; the same numbers to the last bit.

And Dolma's own taggers (1.2.1, gopher_v1 and gopher_v2) on 6,256 real texts, where CORPUSFLOW_DOLMA_PYTHON names the Python of
an environment that has dolma and CORPUSFLOW_TEST_DATA the folder with parity/.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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


def test_a_word_of_nine_million_characters() -> None:
    (counts,) = counts_of(["x" * 9_000_001])
    assert counts["median_word_length"] == 9_000_001.0


DATA = Path(os.environ.get("CORPUSFLOW_TEST_DATA", "nowhere")) / "parity" / "text.parquet"
PEER = os.environ.get("CORPUSFLOW_DOLMA_PYTHON")
#: Dolma's attribute -> ours.
NAMES = {
    **{f"fraction_of_characters_in_most_common_{n}grams": f"top_{n}" for n in (2, 3, 4)},
    **{f"fraction_of_characters_in_duplicate_{n}grams": f"dup_{n}" for n in range(5, 11)},
    "word_count": "word_count", "median_word_length": "median_word_length",
    "symbol_to_word_ratio": "symbol_to_word_ratio", "fraction_of_words_with_alpha_character": "alpha",
    "required_word_count": "required", "fraction_of_lines_starting_with_bullet_point": "bullets",
    "fraction_of_lines_ending_with_ellipsis": "ellipses", "fraction_of_duplicate_lines": "dup_lines",
    "fraction_of_characters_in_duplicate_lines": "dup_line_chars",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not PEER or not DATA.is_file(), reason="set CORPUSFLOW_DOLMA_PYTHON and CORPUSFLOW_TEST_DATA")
def test_dolmas_own_attributes_on_real_texts(tmp_path: Path) -> None:
    table = pq.read_table(DATA, columns=["text", "text_resiliparse"])
    texts = [t for name in table.schema.names for t in table.column(name).to_pylist() if t][::4]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
    script = Path(__file__).parents[2] / "helpers" / "dolma_attributes.py"
    out = subprocess.run([str(PEER), str(script), str(path)], capture_output=True, text=True, check=True, cwd=tmp_path)
    lines = [line for line in out.stdout.splitlines() if line.startswith("[[")]
    assert len(lines) == len(texts) >= 5_000
    different: Counter[str] = Counter()
    for text, counts, line in zip(texts, counts_of(texts), lines, strict=True):
        for version, spans in zip(("", "v2_"), json.loads(line), strict=True):
            theirs = {NAMES[k]: v for k, v in spans if k in NAMES}
            theirs_chars = dict(spans)["character_count"]
            assert theirs_chars == len(text)
            ours = from_counts(counts, version)
            different.update(k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k))
    print(f"\n{2 * len(texts)} sets of attributes, different: {different}")
    assert not different
