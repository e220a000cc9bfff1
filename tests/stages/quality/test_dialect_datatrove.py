"""The datatrove dialects against datatrove 0.10.1's verdicts on 25,023 real texts, and against its definitions restated.

The verdicts lie in $CORPUSFLOW_TEST_DATA/parity; without that folder the differential tests are skipped.
"""

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
from stages import quality
from stages.kernels.affix_tables import affix_tables
from stages.kernels.affix_words import make_chunk, split_affixes
from stages.kernels.datatrove import _clear
from stages.kernels.ngrams import make_scratch
from stages.kernels.words import make_words
from stages.quality.c4 import C4
from stages.quality.fineweb import FineWeb
from stages.quality.gopher import Gopher
from stages.quality.gopher_repetition import GopherRepetition
from stages.quality.signals_datatrove import DatatroveSignals

DATA = os.path.join(os.environ.get("CORPUSFLOW_TEST_DATA", ""), "parity")
needs_verdicts = pytest.mark.skipif(
    not os.path.isfile(os.path.join(DATA, "text.parquet")), reason="set CORPUSFLOW_TEST_DATA to the folder with parity/"
)

#: datatrove's reason -> ours.
GOPHER = {
    "gopher_short_doc": "gopher_few_words", "gopher_long_doc": "gopher_many_words",
    "gopher_below_avg_threshold": "gopher_short_words", "gopher_above_avg_threshold": "gopher_long_words",
    "gopher_too_many_hashes": "gopher_hashes", "gopher_too_many_ellipsis": "gopher_ellipses",
    "gopher_too_many_bullets": "gopher_bullet_lines", "gopher_too_many_end_ellipsis": "gopher_ellipsis_lines",
    "gopher_below_alpha_threshold": "gopher_few_alpha_words", "gopher_enough_stop_words": "gopher_few_stop_words",
}  # fmt: skip
REPETITION = {
    "dup_line_frac": "repetition_dup_lines", "dup_line_char_frac": "repetition_dup_line_chars",
    "dup_para_frac": "repetition_dup_paragraphs", "dup_para_char_frac": "repetition_dup_paragraph_chars",
    **{f"top_{n}_gram": f"repetition_top_{n}gram_chars" for n in (2, 3, 4)},
    **{f"duplicated_{n}_n_grams": f"repetition_dup_{n}gram_chars" for n in (5, 6, 7, 8, 9, 10)},
}  # fmt: skip
FINEWEB = {
    "empty": "fineweb_empty", "line_punct_ratio": "fineweb_few_terminal_lines", "short_line_ratio": "fineweb_short_lines",
    "char_dup_ratio": "fineweb_dup_line_chars", "list_ratio": "fineweb_list",
}  # fmt: skip
C4_REASONS = {
    "lorem_ipsum": "c4_lorem_ipsum", "curly_bracket": "c4_curly_bracket", "too_few_sentences": "c4_few_sentences"
}  # fmt: skip


def batch_of(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"text": pa.array(texts, pa.large_string()), "language.code": pa.array(["en"] * len(texts))}
    )


def reasons(batch: pa.RecordBatch, scores: list[Score], decides: Filter) -> list[str | None]:
    columns: dict[str, pa.Array] = {name: batch.column(name) for name in batch.schema.names}
    for score in scores:
        out = score.score(batch)
        columns |= {name: out.column(name) for name in out.schema.names}
    rules = decides.rules()
    first = evaluate(rules, columns, batch.num_rows).first
    return [None if f < 0 else rules[f].reason for f in first]


@pytest.fixture(scope="module")
def texts() -> dict[tuple[str, str], str]:
    found = {}
    for row in pq.read_table(os.path.join(DATA, "text.parquet")).to_pylist():
        for source, column in (("trafilatura", "text"), ("resiliparse", "text_resiliparse")):
            if row[column]:
                found[source, row["url"]] = row[column]
    return found


def verdicts(name: str, rules: str, names: dict[str, str]) -> dict[tuple[str, str], str | None]:
    """(source, url) -> datatrove's reason under our name, None where it kept the text."""
    rows = pq.read_table(os.path.join(DATA, f"datatrove_{name}.parquet")).to_pylist()
    return {(r["text_source"], r["id"]): names.get(r["reason"], r["reason"]) for r in rows if r["rules"] == rules}


#: (filter, rules) -> {(datatrove's reason, ours): (texts, cause)}: every class in which the dialect and datatrove decide
#: otherwise on the texts of data/parity. Any other class, or another number, fails the tests.
DISAGREEMENTS: dict[tuple[str, str], dict[tuple[str | None, str | None], tuple[int, str]]] = {
    ("gopher_quality", "en"): {},
    ("gopher_repetition", "en"): {},
    ("fineweb", "en"): {},
    ("c4", "en"): {},
    ("c4", "en-no-terminal-punct"): {},
}


def compare(
    name: str, rules: str, texts: dict[tuple[str, str], str], ours: list[str | None], names: dict[str, str]
) -> None:
    """The two decide otherwise in the classes of the table only, and as often as it says; 99 % and more agree."""
    theirs = verdicts(name, rules, names)
    pairs = [(theirs[key], mine) for key, mine in zip(texts, ours, strict=True) if key in theirs]
    different = Counter(p for p in pairs if p[0] != p[1])
    print(f"\n{name} ({rules}): {len(pairs)} texts, {different.total()} decided otherwise: {different}")
    assert dict(different) == {k: n for k, (n, _) in DISAGREEMENTS[name, rules].items()}
    assert len(pairs) >= 5_000
    assert different.total() <= 0.01 * len(pairs)


@needs_verdicts
@pytest.mark.parametrize(
    ("name", "stage", "names"),
    [
        ("gopher_quality", Gopher(dialect="datatrove"), GOPHER),
        ("gopher_repetition", GopherRepetition(dialect="datatrove"), REPETITION),
        ("fineweb", FineWeb(dialect="datatrove"), FINEWEB),
    ],
    ids=["gopher_quality", "gopher_repetition", "fineweb"],
)
def test_same_verdict_and_reason(
    texts: dict[tuple[str, str], str], name: str, stage: Filter, names: dict[str, str]
) -> None:
    compare(name, "en", texts, reasons(batch_of(list(texts.values())), [DatatroveSignals()], stage), names)


@needs_verdicts
@pytest.mark.parametrize(("rules", "require_terminal"), [("en", True), ("en-no-terminal-punct", False)])
def test_c4_same_verdict_reason_and_text(texts: dict[tuple[str, str], str], rules: str, require_terminal: bool) -> None:
    import hashlib

    score, pages, lines = C4(dialect="datatrove", require_terminal=require_terminal).expand()
    assert isinstance(score, Score)
    assert isinstance(pages, Filter)
    assert isinstance(lines, Transform)
    batch = batch_of(list(texts.values()))
    ours = reasons(batch, [score], pages)
    compare("c4", rules, texts, ours, C4_REASONS)
    after = dict(zip(texts, lines.transform(batch).column("text").to_pylist(), strict=True))
    mine = dict(zip(texts, ours, strict=True))
    kept = differs = 0
    for row in pq.read_table(os.path.join(DATA, "datatrove_c4.parquet")).to_pylist():
        key = row["text_source"], row["id"]
        if row["rules"] == rules and row["keep"] and key in mine and mine[key] is None:
            kept += 1
            differs += hashlib.sha1(after[key].encode()).hexdigest() != row["sha1_after"]
    print(f"texts kept by both {kept}, text differs {differs}")
    assert kept > 5_000
    assert differs == 0


def test_the_page_says_how_many() -> None:
    page = (Path(quality.__file__).parent / "parity.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| ([\d,]+) \| (\d+) \| test_dialect_datatrove\.py \|", page)
    found = [sum(n for n, _ in classes.values()) for classes in DISAGREEMENTS.values()]
    assert [int(n) for _, n in rows] == found


# ---- the definitions restated, on any text ----


def spacy_like(text: str) -> list[str]:
    data = np.frombuffer(text.encode(), np.uint8)
    data.flags.writeable = False
    words = make_words(len(data) + 1)
    n = split_affixes(data, affix_tables(), make_chunk(len(data) + 1), words)
    return [bytes(data[a:b]).decode() for a, b in zip(words.start[:n], words.end[:n], strict=True)]


# Worked out with spaCy 3.8's English tokenizer, white-space tokens left out.
WORDS = {
    "Hello, world!": "Hello , world !",
    "I can't, don’t and won't go.": "I ca n't , do n’t and wo n't go .",
    "We'll see; they're John's (cats').": "We 'll see ; they 're John 's ( cats ' ) .",
    "e.g. the U.S.A. and IBM. Dr. No.": "e.g. the U.S.A. and IBM . Dr. No .",
    "It costs $5.50 or 10km, 50% off": "It costs $ 5.50 or 10 km , 50 % off",
    "well-known key:value a/b x=y 3-4 a--b": "well - known key : value a / b x = y 3 - 4 a -- b",
    "wait... what… end..": "wait ... what … end ..",
    "see http://example.com/a-b?c=d and mail me@example.org.": "see http://example.com/a-b?c=d and mail me@example.org .",
    "end.Next one,two 1,000.5": "end . Next one , two 1,000.5",
    "\"'quoted'\" [x] {y} <z> #tag": "\" ' quoted ' \" [ x ] { y } < z > # tag",
    "10am cannot gonna ©2020 → x": "10 am can not gon na © 2020 → x",
    "(e.g.) =a.m.b >e.g.": "( e.g. ) = a.m.b > e.g.",
    "x©®y +° a…©b": "x © ® y + ° a … © b",
    "jar:http://a.org/b see=http://a.org/b": "jar : http://a.org / b see = http://a.org / b",
    "ក/ខ ស.ម. 編輯」-「列印 명령.": "ក/ខ ស.ម. 編輯」 - 「列印 명령 .",
}


@pytest.mark.parametrize(("text", "expected"), WORDS.items())
def test_words_as_spacy_cuts_them(text: str, expected: str) -> None:
    assert spacy_like(text) == expected.split(" ")


PIECES = [
    "the",
    "be",
    "ab",
    "a",
    "b",
    "c",
    " ",
    " ",
    "\n",
    "\n\n",
    ".",
    "...",
    "…",
    "#",
    "• ",
    "- ",
    "-",
    "\r\n",
    "x1",
    "x2",
    "x3",
    "你",
]


def repeats(pieces: list[str]) -> tuple[int, int]:
    seen: set[str] = set()
    number = chars = 0
    for piece in pieces:
        number += piece in seen
        chars += len(piece) if piece in seen else 0
        seen.add(piece)
    return number, chars


def expected_counts(text: str) -> dict[str, int]:
    words = spacy_like(text)
    split_lines = text.splitlines()
    paragraphs, lines = re.split(r"\n{2,}", text.strip()), re.split(r"\n+", text)
    text_lines = [line for line in text.split("\n") if line.strip()]
    found = {
        "dt_chars": len(text), "dt_newlines": text.count("\n"), "dt_chars_in_lines": len(text.replace("\n", "")),
        "dt_hashes": text.count("#"), "dt_ellipses": text.count("...") + text.count("…"),
        "dt_split_lines": len(split_lines),
        "dt_bullet_lines": sum(s.lstrip().startswith(("•", "-")) for s in split_lines),
        "dt_ellipsis_lines": sum(s.rstrip().endswith(("...", "…")) for s in split_lines),
        "dt_paragraphs": len(paragraphs), "dt_lines": len(lines),
        "dt_text_lines": len(text_lines), "dt_short_lines": sum(len(line) <= 30 for line in text_lines),
        "dt_terminal_lines": sum(line.endswith((".", "?", "!", "。")) for line in text_lines),
        "dt_dup_text_line_chars": repeats(text_lines)[1],
        "dt_words": len(words), "dt_alpha_words": sum(any(c.isalpha() for c in w) for w in words),
        "dt_stop_words": len({"the", "be", "to", "of", "and", "that", "have", "with"} & set(words)),
    }  # fmt: skip
    found["dt_dup_paragraphs"], found["dt_dup_paragraph_chars"] = repeats(paragraphs)
    found["dt_dup_lines"], found["dt_dup_line_chars"] = repeats(lines)
    for n in (2, 3, 4):
        grams = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
        best, times = Counter(grams).most_common(1)[0] if grams else ("", 0)
        found[f"dt_top_{n}gram_chars"] = len(best) * times
    for n in range(5, 11):
        seen: set[str] = set()
        chars = i = 0
        while i + n <= len(words):
            gram = "".join(words[i : i + n])
            chars += len(gram) if gram in seen else 0
            i += n if gram in seen else 1
            seen.add(gram)
        found[f"dt_dup_{n}gram_chars"] = chars
    return found


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_counts_are_datatroves_definitions(text: str) -> None:
    out = DatatroveSignals().score(batch_of([text])).to_pylist()[0]
    found = {k.removeprefix("quality."): v for k, v in out.items()}
    expected = expected_counts(text)
    assert {k: found[k] for k in expected} == expected


@pytest.mark.parametrize("room", [1, 7, 8, 9, 16, 64, 65, 1024])
def test_hash_sets_fit_into_their_scratch(room: int) -> None:
    table = make_scratch(room).keys
    mask = _clear.py_func(table, room)  # type: ignore[attr-defined]
    assert room < mask + 1 <= len(table)  # a text of line feeds alone has a line more than bytes
