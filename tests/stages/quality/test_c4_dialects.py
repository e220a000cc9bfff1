"""The line removal of quality.c4 against a plain restatement of the two published programs (c4_utils.py, datatrove)."""

from __future__ import annotations

import re
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpusflow import Transform
from stages.quality.c4 import C4

CITATION = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
PIECES = [
    "[1]", "[१]", "[]", "[edit]", "[citation needed]", "[12", "]", " ", "  ", "\u3000", "\n", "\r\n", "\u2028", "\x85", "\x1c",
    "a", "bb", "words here and", "the cat.", "é.", "?", "!", '"', "'", "...", "…", "。", "\0", "x" * 1001, "JavaScript",
    "Use Cookies",
]  # fmt: skip


def kept(text: str, dialect: str, require_terminal: bool) -> str:
    least, ends = {"code": (5, (".", "?", "!", '"')), "datatrove": (3, (".", "?", "!", '"', "'"))}[dialect]
    lines = []
    for line in map(str.strip, text.splitlines()):
        words = line.split()
        if any(len(w) > 1000 for w in words):
            continue
        line = CITATION.sub("", line)
        if require_terminal and (not line.endswith(ends) or line.endswith("...")):
            continue
        if len(line.split() if dialect == "code" else words) < least:
            continue
        if "javascript" in line.lower() or "use cookies" in line.lower():
            continue
        lines.append(line)
    return "\n".join(lines).strip()


@pytest.mark.parametrize("require_terminal", [True, False])
@pytest.mark.parametrize("dialect", ["code", "datatrove"])
def test_lines_that_stay(dialect: Literal["code", "datatrove"], require_terminal: bool) -> None:
    (lines,) = (p for p in C4(dialect=dialect, require_terminal=require_terminal).expand() if isinstance(p, Transform))

    @settings(max_examples=500, deadline=None)
    @example("Alpha beta gamma [1] [2].")  # three words, or five
    @example("[edit] Alpha beta gamma delta said so.")
    @given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
    def agree(text: str) -> None:
        batch = pa.RecordBatch.from_pydict({"text": pa.array([text], pa.large_string()), "language.code": ["en"]})
        assert lines.transform(batch).column("text").to_pylist() == [kept(text, dialect, require_terminal)]

    agree()
