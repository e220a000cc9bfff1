"""Dictionary words: datatrove's verdicts on real Chinese pages (jieba's words), small texts by hand, FineWeb2's rules on them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusflow import ConfigError, Filter
from corpusflow.rules import evaluate
from stages.quality._dictionary import chinese_cutter
from stages.quality.fineweb import FineWeb
from stages.quality.fineweb2 import FineWeb2
from stages.quality.gopher import Gopher
from stages.quality.gopher_repetition import GopherRepetition
from stages.quality.signals import Signals
from stages.quality.signals_dictionary import DictionarySignals

DATA = os.path.join(os.environ.get("CORPUSFLOW_TEST_DATA", ""), "parity")
needs_verdicts = pytest.mark.skipif(
    not os.path.isfile(os.path.join(DATA, "text.parquet")), reason="set CORPUSFLOW_TEST_DATA to the folder with parity/"
)
needs_dictionary = pytest.mark.skipif(importlib.util.find_spec("rjieba") is None, reason="rjieba is not installed")
#: datatrove's reason -> ours; its English stop words, which no Chinese text has, are the last rule and left out.
REASONS = {
    "gopher_short_doc": "gopher_few_words", "gopher_below_avg_threshold": "gopher_short_words",
    "gopher_above_avg_threshold": "gopher_long_words", "gopher_too_many_hashes": "gopher_hashes",
    "gopher_below_alpha_threshold": "gopher_few_alpha_words", "gopher_enough_stop_words": None,
    "dup_line_frac": "repetition_dup_lines", "dup_line_char_frac": "repetition_dup_line_chars",
    "dup_para_frac": "repetition_dup_paragraphs", "dup_para_char_frac": "repetition_dup_paragraph_chars",
    **{f"top_{n}_gram": f"repetition_top_{n}gram_chars" for n in (2, 3, 4)},
    **{f"duplicated_{n}_n_grams": f"repetition_dup_{n}gram_chars" for n in (5, 6, 7, 8, 9, 10)},
    "line_punct_ratio": "fineweb_few_terminal_lines", "short_line_ratio": "fineweb_short_lines",
    "char_dup_ratio": "fineweb_dup_line_chars", "list_ratio": "fineweb_list", None: None,
}  # fmt: skip
#: filter -> {(datatrove's reason, ours): (texts, cause)}, as DISAGREEMENTS in test_dialect_datatrove.py.
DISAGREEMENTS: dict[str, dict[tuple[str | None, str | None], tuple[int, str]]] = {
    "gopher_quality": {}, "gopher_repetition": {}, "fineweb": {},
}  # fmt: skip


def batch_of(texts: list[str | None], language: str = "zh") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"text": pa.array(texts, pa.large_string()), "language.code": pa.array([language] * len(texts))}
    )


def counts_of(text: str, language: str = "zh") -> dict[str, Any]:
    (row,) = DictionarySignals().score(batch_of([text], language)).to_pylist()
    return {k.removeprefix("quality.dict_"): v for k, v in row.items()}


@pytest.fixture(scope="module")
def pages() -> dict[tuple[str, str], str]:
    languages = pq.read_table(os.path.join(DATA, "datatrove_lid.parquet")).to_pylist()
    chinese = {(r["text_source"], r["id"]) for r in languages if r["language"] == "zh"}
    found = {}
    for row in pq.read_table(os.path.join(DATA, "text.parquet")).to_pylist():
        for source, column in (("trafilatura", "text"), ("resiliparse", "text_resiliparse")):
            if row[column] and (source, row["url"]) in chinese:
                found[source, row["url"]] = row[column]
    return found


@needs_verdicts
@needs_dictionary
@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("gopher_quality", Gopher(dialect="datatrove", min_stop_words=None)),
        ("gopher_repetition", GopherRepetition(dialect="datatrove")),
        ("fineweb", FineWeb(dialect="datatrove")),
    ],
    ids=["gopher_quality", "gopher_repetition", "fineweb"],
)
def test_same_verdict_and_reason_as_datatrove_with_jieba(
    pages: dict[tuple[str, str], str], name: str, stage: Filter
) -> None:
    out = DictionarySignals().score(batch_of(list(pages.values())))
    columns = {n.replace("dict_", "dt_", 1): out.column(n) for n in out.schema.names}
    columns["language.code"] = pa.array(["en"] * len(pages))
    rules = stage.rules()
    ours = [None if f < 0 else rules[f].reason for f in evaluate(rules, columns, len(pages)).first]
    rows = pq.read_table(os.path.join(DATA, f"datatrove_{name}.parquet")).to_pylist()
    theirs = {(r["text_source"], r["id"]): REASONS[r["reason"]] for r in rows if r["rules"] == "cmn"}
    pairs = [(theirs[key], mine) for key, mine in zip(pages, ours, strict=True) if key in theirs]
    different = Counter(p for p in pairs if p[0] != p[1])
    print(f"\n{name} (cmn): {len(pairs)} texts, decided otherwise: {different}")
    assert len(pairs) > 1_400
    assert dict(different) == {k: n for k, (n, _) in DISAGREEMENTS[name].items()}


# Cut by hand with jieba's dictionary, spaces and line ends left out:
#     我们 去 了 图书馆 。 我们 也 去 了 公园 ， x - y 和 3.11% 。 我们 去 了 图书馆 。        22 words
# chars       8 (我们去了图书馆。) + 8 (我们也去了公园，) + 12 (x-y 和 3.11%。) + the line feed + 8                  = 37
# text_words all but 。 ， - 。 。 (the dash is punctuation to datatrove): 22 - 5                              = 17
# text_word_chars 2+1+1+3 (我们去了图书馆) + 2+1+1+1+2 (我们也去了公园) + 1+1+1+5 (x y 和 3.11%) + 7              = 29
# alpha_words the 17 but 3.11%                                                                               = 16
# stop_words  distinct: 了 也 和                                                                               = 3
# top 2-gram  去 了 occurs three times, no other as often: (1 + 1 + one space) * 3                              = 9
# top 3-gram  我们 去 了 twice: (2 + 1 + 1 + 2 spaces) * 2; earlier of those that occur twice                  = 12
# top 4-gram  我们 去 了 图书馆 twice: (2 + 1 + 1 + 3 + 3 spaces) * 2                                           = 20
# dup 5-gram  我们 去 了 图书馆 。 seen before, once: 2 + 1 + 1 + 3 + 1                                         = 8
# dup 6-gram  。 我们 去 了 图书馆 。 was not seen before (the first begins the text)                            = 0
VECTOR = "我们去了图书馆。我们也去了公园，x-y 和 3.11%。\n我们去了图书馆。"
EXPECTED = {
    "chars": 37, "newlines": 1, "words": 22, "text_words": 17, "text_word_chars": 29, "alpha_words": 16, "stop_words": 3,
    "top_2gram_chars": 9, "top_3gram_chars": 12, "top_4gram_chars": 20, "dup_5gram_chars": 8, "dup_6gram_chars": 0,
    "lines": 2, "terminal_lines": 2, "short_lines": 2, "hashes": 0,
}  # fmt: skip


@needs_dictionary
def test_golden_vector() -> None:
    found = counts_of(VECTOR)
    assert {k: found[k] for k in EXPECTED} == EXPECTED


@needs_dictionary
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("河水在夜里涨了起来", "河水 在 夜里 涨 了 起来"),
        ("e.g. U.S.A. <a.b@c.org> x_y", "e . g . U . S . A . < a . b @ c . org > x _ y"),
        ("C++和c#语言 AT&T 4S店", "C++ 和 c# 语言 AT&T 4S店"),
        ("\r\n\u3000你好 \n", "你好"),
        ("", ""),
    ],
    ids=["prose", "marks", "of the dictionary", "white space", "empty"],
)
def test_words_as_jieba_cuts_them(text: str, words: str) -> None:
    lengths, at, found = chinese_cutter()(text), 0, []
    for n in lengths:
        found.append(text[at : at + n].strip())
        at += n
    assert at == len(text)
    assert [w for w in found if w] == words.split()
    assert counts_of(text)["words"] == len(words.split())


@needs_dictionary
def test_other_languages_and_nulls_have_no_dictionary_words() -> None:
    for language in ("en", "ja", "th", "und"):
        assert set(counts_of("我们去了。 ไป", language).values()) == {None}
    (row,) = DictionarySignals().score(batch_of([None])).to_pylist()
    assert set(row.values()) == {None}


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(ConfigError, match="words of Chinese need a dictionary") as raised:
        DictionarySignals().open()
    assert "pip install rjieba" in str(raised.value.hint)


PROSE = (
    "河水在夜里涨了起来，天亮的时候，低处的路已经淹在水下。村里的人把羊赶到山坡上去，学校也停了课。老磨坊主站在门口说，"
    "比这更大的水他也见过，只是那时候桥还在。中午雨停了，大家走到岸边，看那座旧桥还剩下什么。"
)


def reasons(stage: FineWeb2, texts: list[str | None], language: str = "zh") -> list[str | None]:
    batch = batch_of(texts, language)
    columns: dict[str, pa.Array] = {"language.code": batch.column("language.code")}
    for score in (Signals(), DictionarySignals()):
        out = score.score(batch)
        columns |= {n: out.column(n) for n in out.schema.names}
    rules = stage.rules()
    return [None if f < 0 else rules[f].reason for f in evaluate(rules, columns, len(texts)).first]


@needs_dictionary
def test_fineweb2s_rules_on_words_hold_for_chinese_on_request() -> None:
    texts: list[str | None] = [PROSE, "买手机。" * 40, "2023 1.5 " * 40 + PROSE + "。"]
    assert reasons(FineWeb2(), texts) == [None] * 3
    assert reasons(FineWeb2(dictionary=True), texts) == [
        None, "fineweb2_dict_top_2gram_chars", "fineweb2_dict_top_2gram_chars",
    ]  # fmt: skip
    assert reasons(FineWeb2(dictionary=True, min_words=100), [PROSE]) == ["fineweb2_dict_few_words"]
    assert reasons(FineWeb2(dictionary=True, min_words={"zh": 100, "*": 50}), [PROSE]) == ["fineweb2_dict_few_words"]
    assert reasons(FineWeb2(dictionary=True, min_words={"de": 100, "*": None}), [PROSE]) == [None]
    assert reasons(FineWeb2(dictionary=True, max_word_length=1.2), [PROSE]) == ["fineweb2_dict_long_words"]


def test_without_a_dictionary_no_rule_changes() -> None:
    german = {r.reason: r for r in FineWeb2(dictionary=True).rules() if "dict" not in r.reason}
    assert list(german) == [r.reason for r in FineWeb2().rules()]
    for rule in FineWeb2().rules():
        assert german[rule.reason].value["de"] == rule.value["de"]  # type: ignore[index]
    assert not any("dict" in c for r in FineWeb2().rules() for c in r.columns())
