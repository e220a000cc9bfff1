"""quality.signals against golden vectors worked out by hand and a plain restatement of every definition in Python."""

from __future__ import annotations

import math
import time
import unicodedata
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import Score, Transform
from stages.kernels.lines import is_bullet
from stages.kernels.unicode_classes import CLOSING, GARBAGE, HAN, HANGUL, KANA, TERMINAL, UNSPACED, unicode_tables
from stages.quality._stop_words import LISTS
from stages.quality.c4 import C4
from stages.quality.dclm import Dclm
from stages.quality.signals import ENTROPY, SIGNALS, Signals
from stages.quality.signals_datatrove import DatatroveSignals
from stages.quality.signals_dclm import DclmSignals
from stages.quality.signals_dolma import DolmaSignals
from stages.quality.signals_redpajama import RedPajamaSignals


def signals_of(texts: list[str | None], language: str | None = "en") -> list[dict[str, int | float | None]]:
    batch = pa.RecordBatch.from_pydict(
        {
            "text": pa.array(texts, pa.large_string()),
            "language.code": pa.array([language] * len(texts), pa.string()),
        }
    )
    rows = Signals().score(batch).to_pylist()
    return [{k.removeprefix("quality."): v for k, v in row.items()} for row in rows]


def has(char: str, bit: int) -> bool:
    tables = unicode_tables()
    return bool(tables.flags[tables.classes[ord(char)]] & bit)


def reference(text: str, language: str = "en") -> dict[str, int | float | None]:
    """Every signal of a document in a language that separates words by white space, said plainly."""
    category = [unicodedata.category(c) for c in text]
    out: dict[str, int | float | None] = {
        "chars": len(text),
        "spaces": sum(c.isspace() for c in text),
        "newlines": text.count("\n"),
        "letters": sum(c.isalpha() for c in text),
        "upper_chars": sum(c.isupper() for c in text),
        "digits": sum(c.isdecimal() for c in text),
        "punctuation": sum(k[0] == "P" for k in category),
        "symbols": sum(k[0] == "S" for k in category),
        "han_chars": sum(has(c, HAN) for c in text),
        "kana_chars": sum(has(c, KANA) for c in text),
        "hangul_chars": sum(has(c, HANGUL) for c in text),
        "unspaced_chars": sum(has(c, UNSPACED) for c in text),
        "garbage_chars": sum(has(c, GARBAGE) for c in text),
        "hashes": text.count("#"),
        "ellipses": text.count("…") + text.count("..."),
        "curly_brackets": text.count("{"),
    }
    lines = [line.strip() for line in text.split("\n")]
    paragraphs: list[tuple[str, ...]] = []
    group: list[str] = []
    for line in [*lines, ""]:
        if line:
            group.append(line)
        elif group:
            paragraphs.append(tuple(group))
            group = []
    lines = [line for line in lines if line]
    repeated = [line for i, line in enumerate(lines) if line in lines[:i]]
    repeated_paragraphs = [p for i, p in enumerate(paragraphs) if p in paragraphs[:i]]
    out |= {
        "lines": len(lines),
        "line_chars": sum(map(len, lines)),
        "longest_line": max(map(len, lines), default=0),
        "short_lines": sum(len(line) <= 30 for line in lines),
        "bullet_lines": sum(map(is_bullet_line, lines)),
        "ellipsis_lines": sum(line.endswith(("...", "…")) for line in lines),
        "terminal_lines": sum(has(without_closing(line)[-1:] or " ", TERMINAL) for line in lines),
        "dup_lines": len(repeated),
        "dup_line_chars": sum(map(len, repeated)),
        "paragraphs": len(paragraphs),
        "dup_paragraphs": len(repeated_paragraphs),
        "dup_paragraph_chars": sum(len(line) for p in repeated_paragraphs for line in p),
        "javascript_lines": sum("javascript" in ascii_lower(line) for line in lines),
        "policy_lines": sum(any(p in ascii_lower(line) for p in POLICIES) for line in lines),
        "lorem_ipsum_lines": sum("lorem ipsum" in ascii_lower(line) for line in lines),
    }
    out["code_lines"] = sum(line[-1] in ";{}" or line.startswith(("//", "/*")) for line in lines)
    out["sentences"], out["cut_sentences"] = sentences(text)
    words = text.split()
    count = Counter(words)
    stop = set(LISTS[language].split())
    hits = [w.lower() for w in words if w in {f(s) for s in stop for f in (str.lower, str.title, str.upper)}]
    out |= {
        "words": len(words),
        "word_chars": sum(map(len, words)),
        "alpha_words": sum(any(c.isalpha() for c in w) for w in words),
        "upper_words": sum(
            len(w) > 1 and any(c.isupper() for c in w) and not any(c.islower() for c in w) for w in words
        ),
        "unique_words": len(count),
        "stop_words": len(set(hits)),
        "stop_word_hits": len(hits),
        ENTROPY: -sum(n / len(words) * math.log2(n / len(words)) for n in count.values()) if words else 0.0,
    }
    for n in range(2, 11):
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        if n <= 4:
            out[f"top_{n}gram_chars"] = covered(words, n, most_frequent(grams))
        else:
            seen: set[tuple[str, ...]] = set()
            starts = []
            for i, gram in enumerate(grams):
                if gram in seen:
                    starts.append(i)
                seen.add(gram)
            out[f"dup_{n}gram_chars"] = covered(words, n, starts)
    return out


POLICIES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


def ascii_lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


def is_bullet_line(line: str) -> bool:
    return is_bullet.py_func(ord(line[0])) or (line[0] in "-*+–" and line[1:2].isspace())  # type: ignore[attr-defined]


def without_closing(line: str) -> str:
    while line and has(line[-1], CLOSING):
        line = line[:-1]
    return line


def most_frequent(grams: list[tuple[str, ...]]) -> list[int]:
    """Where the most frequent n-gram occurs; of equals the longest, of those the first; nothing if none repeats."""
    count = Counter(grams)
    best = max(count, key=lambda g: (count[g], sum(map(len, g))), default=None)
    if best is None or count[best] < 2:
        return []
    return [i for i, g in enumerate(grams) if g == best]


def covered(words: list[str], n: int, starts: list[int]) -> int:
    return sum(len(words[i]) for i in {i for s in starts for i in range(s, s + n)})


def sentences(text: str) -> tuple[int, int]:
    def tells(piece: str) -> bool:
        return any(unicodedata.category(c)[0] in "LN" for c in piece)

    ended = cut = 0
    for line in text.split("\n"):
        begin = i = 0
        while i < len(line):
            if not has(line[i], TERMINAL):
                i += 1
                continue
            end = i
            while end < len(line) and (has(line[end], TERMINAL) or has(line[end], CLOSING)):
                end += 1
            marks = [c for c in line[i:end] if has(c, TERMINAL)]
            initial = i > 0 and tells(line[i - 1]) and not (i > 1 and tells(line[i - 2]))
            wide = any(not c.isascii() for c in marks)
            strong = any(c in "!?" for c in marks)
            weak = any(c == "." and not (k == 0 and initial) for k, c in enumerate(marks))
            after = line[end:]
            following = after.lstrip()[:1]
            if after == "" or wide:
                stops = True
            elif not after[0].isspace():
                stops = False
            else:
                stops = strong or (weak and not following.islower())
            if stops:
                ended += tells(line[begin:i])
                begin = end
            i = end
        cut += tells(line[begin:])
    return ended, cut


# Of the characters Python 3.11 knows, so that both sides mean the same Unicode.
KNOWN = st.characters(exclude_categories=("Cs", "Cn", "Co"), max_codepoint=0x2FFFF)
PIECES = st.sampled_from(
    ["the", "and", "The", "a", "b", "ab", " ", " ", " ", "\n", "\n\n", "\t", ".", "...", "…", "?", "!", '"', ")", "- ", "* ",
     "• ", "#", "{", "JavaScript", "lorem ipsum", "Privacy Policy", "we use cookies", "。", "你好", "かな", "한", "é", "e\u0301",
     "\u2028", "J.", ";", "// ", "e.g.", "3.5", "X", "\x00", "\ufffd", "\u00a0", "ไทย", "😀"]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES, max_size=60).map("".join),
    st.lists(st.sampled_from(["a", "b", "c", "dd"]), max_size=60).map(" ".join),
    st.text(KNOWN, max_size=60),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(TEXTS, max_size=4))
def test_every_signal_is_its_definition(texts: list[str]) -> None:
    for text, found in zip(texts, signals_of(list(texts)), strict=True):
        expected = reference(text)
        assert found.pop(ENTROPY) == pytest.approx(expected.pop(ENTROPY), abs=1e-5)
        assert found == expected


def test_signals_worked_out_by_hand() -> None:
    text = "The cat sat.\nThe cat sat.\n\n• one #two\nTo be, and to be… \n"
    (found,) = signals_of([text])
    expected = {
        "chars": 57, "spaces": 16, "newlines": 5, "letters": 35, "punctuation": 6, "symbols": 0, "hashes": 1, "ellipses": 1,
        "lines": 4, "line_chars": 51, "longest_line": 17, "short_lines": 4, "bullet_lines": 1, "ellipsis_lines": 1,
        "terminal_lines": 2, "dup_lines": 1, "dup_line_chars": 12, "paragraphs": 2, "dup_paragraphs": 0, "sentences": 2,
        "cut_sentences": 2, "words": 14, "word_chars": 41, "alpha_words": 13, "unique_words": 11,
        "stop_words": 3, "stop_word_hits": 5,  # the, to, and; "be," and "be…" are other words
        "top_2gram_chars": 14, "top_3gram_chars": 20, "top_4gram_chars": 0, "dup_5gram_chars": 0,
    }  # fmt: skip
    assert {k: found[k] for k in expected} == expected


def test_top_and_repeated_ngrams_count_overlaps_once() -> None:
    (found,) = signals_of(["ha ha ha ha ha ha ha"])
    assert found["word_chars"] == 14
    assert found["top_2gram_chars"] == 14  # every word, though the pair occurs six times
    assert found["dup_5gram_chars"] == 12  # the second and third 5-gram cover all but the first word
    (found,) = signals_of(["a b c d e f a b c d e g"])
    assert found["dup_5gram_chars"] == 5
    assert found["dup_6gram_chars"] == 0
    assert found["top_4gram_chars"] == 8


def test_chinese_words_are_characters() -> None:
    (found,) = signals_of(["我们都在这里。我们都在这里。"], "zh")
    assert (found["words"], found["word_chars"], found["unique_words"]) == (12, 12, 6)
    assert found["dup_6gram_chars"] == 6
    assert (found["sentences"], found["han_chars"], found["terminal_lines"]) == (2, 12, 1)
    assert found["stop_words"] == 5  # 我 们 都 在 这


def test_what_is_null_where() -> None:
    words = [k for k in SIGNALS if "word" in k or "gram" in k]
    und, unknown, none = signals_of(["text"], "und")[0], signals_of(["text"], None)[0], signals_of([None])[0]
    assert all(und[k] is None and unknown[k] is None for k in [*words, ENTROPY])
    assert all(und[k] is not None and unknown[k] is not None for k in SIGNALS if k not in words)
    (thai,) = signals_of(["ที่ดี"], "th")
    assert (thai["words"], thai["stop_words"]) == (2, None)
    assert all(v is None for v in none.values())
    (welsh,) = signals_of(["mae hi'n braf"], "cy")  # no stop-word list
    assert welsh["words"] == 3
    assert welsh["stop_words"] is None


def test_a_document_does_not_depend_on_its_neighbours_or_the_cut_of_the_batch() -> None:
    texts = ["one two two", "x " * 500, "", "two one two", "你好", None, "one two two"]
    whole = signals_of(texts)
    assert whole == [signals_of([t])[0] for t in texts]
    assert signals_of([*texts, "unrelated " * 1000])[:-1] == whole
    assert whole[0] == whole[6]


RATIOS = [
    ("spaces", "chars"), ("letters", "chars"), ("han_chars", "chars"), ("garbage_chars", "chars"), ("digits", "chars"),
    ("short_lines", "lines"), ("bullet_lines", "lines"), ("terminal_lines", "lines"), ("dup_lines", "lines"),
    ("dup_line_chars", "line_chars"), ("dup_paragraphs", "paragraphs"), ("dup_paragraph_chars", "line_chars"),
    ("alpha_words", "words"), ("unique_words", "words"), ("stop_word_hits", "words"),
    *((f"top_{n}gram_chars", "word_chars") for n in (2, 3, 4)), *((f"dup_{n}gram_chars", "word_chars") for n in range(5, 11)),
]  # fmt: skip
ODD = ["", "x", "\n\n\n", "\u0301\u0302", "\u200d", " ", "\x00", "a" * 1000, "…" * 50, "\n".join("ab" * 20), "🇫" * 9]


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=80), st.sampled_from(ODD)), st.sampled_from(["en", "zh", "ja", "ru"]))
def test_shares_lie_between_0_and_1_on_any_text(text: str, language: str) -> None:
    (found,) = signals_of([text], language)
    for part, whole in RATIOS:
        assert 0 <= found[part] <= found[whole], (part, whole)  # type: ignore[operator]


def test_invalid_utf8_is_measured_not_trusted() -> None:
    raw = [b"\xff\xfe\xe4\xb8", b"ok \xf0\x9f", b"\xc0\xaf abc", b"\xed\xa0\x80", b"\xf7\xbf\xbf\xbf"]
    array = pa.array(raw, pa.large_binary())
    text = pa.Array.from_buffers(pa.large_string(), len(raw), array.buffers())
    batch = pa.RecordBatch.from_arrays([text, pa.array(["en"] * len(raw))], names=["text", "language.code"])
    out = Signals().score(batch)
    assert out.column("quality.garbage_chars").to_pylist()[:2] == [4, 2]
    assert all(v >= 0 for name in SIGNALS for v in out.column("quality." + name).to_pylist() if v is not None)


@pytest.mark.parametrize("piece", ["a", " ", "a ", "\n", ".\n", "a. ", "?-", ")", "中", "word ", "… ", "ab\n\n"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_time_is_linear_in_the_text(piece: str, language: str) -> None:
    def seconds(size: int) -> float:
        text = pa.array([piece * (size // len(piece.encode()))], pa.large_string())
        batch = pa.RecordBatch.from_arrays([text, pa.array([language])], names=["text", "language.code"])
        start = time.process_time()
        Signals().score(batch)
        return time.process_time() - start

    seconds(1000)
    small = min(seconds(250_000) for _ in range(3))
    assert seconds(2_000_000) < 10 * 8 * small + 0.2  # eight times the text; quadratic would be sixty-four


SCORES: list[Score | Transform] = [
    Signals(), DatatroveSignals(), DclmSignals(), DolmaSignals(), RedPajamaSignals(),
    *(p for stage in (C4(), C4(dialect="datatrove"), Dclm()) for p in stage.expand() if isinstance(p, (Score, Transform))),
]  # fmt: skip


@pytest.mark.parametrize("score", SCORES, ids=[f"{i}-{type(s).__name__}" for i, s in enumerate(SCORES)])
def test_ten_megabytes_without_a_space(score: Score | Transform) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"text": pa.array(["a" * 10_000_000, "b"], pa.large_string()), "language.code": pa.array(["en", "en"])}
    )
    out = score.score(batch) if isinstance(score, Score) else score.transform(batch)
    alone = score.score(batch.slice(1)) if isinstance(score, Score) else score.transform(batch.slice(1))
    assert out.slice(1).to_pylist() == alone.to_pylist()


def test_counts_match_numpy_types() -> None:
    out = Signals().score(
        pa.RecordBatch.from_pydict({"text": pa.array(["a"], pa.large_string()), "language.code": pa.array(["en"])})
    )
    assert {str(f.type) for f in out.schema} == {"int32", "float"}
    assert np.isfinite(out.column("quality." + ENTROPY).to_pylist()[0])
