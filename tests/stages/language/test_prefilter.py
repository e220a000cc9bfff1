"""language.prefilter: certain pages go, doubtful ones stay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from corpusflow import ConfigError, check_stage
from corpusflow.rules import evaluate
from stages.language.prefilter import GuessFilter, GuessScore, Prefilter

SCORE = GuessScore()
GERMAN = (
    "Der Fluss stieg in der Nacht und die untere Straße stand am Morgen unter Wasser. Die Schule blieb geschlossen. "
)
ENGLISH = "The river rose in the night and the lower road was under water by morning. The school stayed closed. "
JAPANESE = "川の水が夜のうちに増え、朝には低い道が水に沈んでいた。学校は休みになった。村の人々は丘に羊を移した。"


def page(*parts: str, charset: str = "utf-8") -> bytes:
    head = f"<html><head><meta charset={charset}><script>var english = 'the and of';</script><style>p {{}}</style></head><body>"
    return (head + "".join(f"<p class='english words here'>{part}</p>" for part in parts)).encode(charset)


def guess(*pages: bytes | None) -> list[dict[str, object]]:
    n = len(pages)
    columns = [pa.array(pages, pa.large_binary()), pa.array(["text/html"] * n), pa.nulls(n, pa.string())]
    rows: list[dict[str, object]] = SCORE.score(
        pa.RecordBatch.from_arrays(columns, names=list(SCORE.reads))
    ).to_pylist()
    return rows


def test_contract() -> None:
    check_stage(Prefilter(keep=("en", "zh")))
    check_stage(Prefilter())


def test_the_visible_text_decides() -> None:
    german, english, japanese = guess(
        page(*[GERMAN] * 6), page(*[ENGLISH] * 6), page(*[JAPANESE] * 6, charset="shift_jis")
    )
    assert (german["language.guess"], english["language.guess"], japanese["language.guess"]) == ("de", "en", "ja")
    for row in (german, english, japanese):
        assert row["language.guess_score"] > 0.8  # type: ignore[operator]


def test_mixed_pages_are_not_certain() -> None:
    rows = guess(
        page(*[JAPANESE] * 3, *[ENGLISH] * 6), page(*[ENGLISH] * 2, *[GERMAN] * 4, *[ENGLISH] * 2), page("ok"), page()
    )
    assert [row["language.guess_score"] for row in rows] == [0, 0, 0, 0]
    assert [row["language.guess"] for row in rows[2:]] == ["und", "und"]


def test_rows_without_raw_are_not_applicable() -> None:
    assert guess(None) == [{"language.guess": None, "language.guess_score": None}]


def test_only_the_certainly_unwanted_go() -> None:
    rules = GuessFilter(keep=("en", "zh"), certainty=0.8).rules()
    columns = {
        "language.guess": pa.array(["en", "de", "de", "und", None, "zh"]),
        "language.guess_score": pa.array([0.99, 0.9, 0.7, 0.0, None, 0.3], pa.float32()),
    }
    assert evaluate(rules, columns, 6).kept.tolist() == [True, False, True, True, True, True]
    assert GuessFilter().rules() == ()
    assert GuessFilter(keep=("en",)).gate


def test_languages_that_no_page_is_in() -> None:
    with pytest.raises(ConfigError, match=r"language.prefilter.keep: 'german' is not among .*\nhint: did you mean de"):
        Prefilter(keep=("en", "german")).expand()
    assert Prefilter(keep=("en", "ha")).expand(), "language.identify tells Hausa, though this model does not"
