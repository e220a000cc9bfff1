"""language.mixed: letters by the language of paragraphs."""

from __future__ import annotations

import pyarrow as pa

from corpusflow import check_stage
from corpusflow.rules import evaluate
from stages.language.mixed import Mixed, MixedFilter, MixedScore

SCORE = MixedScore()
ENGLISH = "The river rose in the night and the lower road was under water by morning. The school stayed closed all day."
GERMAN = (
    "Der Fluss stieg in der Nacht und die untere Straße stand am Morgen unter Wasser. Die Schule blieb geschlossen."
)
CHINESE = "昨夜河水上涨，清晨时低处的道路已被淹没。村民们把羊群赶到山坡上，学校停课一天，大家都在家里等消息。"


def measure(*texts: str | None, stage: MixedScore = SCORE) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = stage.score(
        pa.RecordBatch.from_arrays([pa.array(texts, pa.large_string())], names=["text"])
    ).to_pylist()
    return rows


def test_contract() -> None:
    check_stage(Mixed())
    check_stage(Mixed(max_other=0.3, gate=True, max_paragraphs=2))


def test_shares() -> None:
    one, two, none, null = measure(
        "\n\n".join([ENGLISH] * 3), "\n\n".join([ENGLISH + " " + ENGLISH, CHINESE * 2]), "ok", None
    )
    assert (one["language.count"], one["language.other_letters"]) == (1, 0)
    assert two["language.count"] == 2
    assert {s["code"] for s in two["language.shares"]} == {"en", "zh"}  # type: ignore[attr-defined]
    assert two["language.other_letters"] == min(s["letters"] for s in two["language.shares"])  # type: ignore[attr-defined]
    assert (none["language.letters"], none["language.shares"]) == (0, [])
    assert set(null.values()) == {None}


def test_lines_are_gathered_and_long_ones_stand_alone() -> None:
    verse = "\n".join(word for word in (GERMAN + " ").split() * 3)
    (row,) = measure(verse + "\n\n" + ENGLISH * 9)
    assert {s["code"] for s in row["language.shares"]} == {"de", "en"}  # type: ignore[attr-defined]


def test_of_many_paragraphs_some_are_taken_evenly() -> None:
    text = "\n\n".join([ENGLISH * 2] * 30 + [GERMAN * 2] * 10)
    (all_of_them,) = measure(text)
    (few,) = measure(text, stage=MixedScore(max_paragraphs=8))
    assert all_of_them["language.letters"] > 4 * few["language.letters"]  # type: ignore[operator]
    assert (
        0.2 < few["language.other_letters"] / few["language.letters"] < 0.3  # type: ignore[operator]
    )


def test_blank_and_hostile_documents() -> None:
    rows = measure("\n" * 10_000, " \n \n", "a\n" * 50_000, "x" * 1_000_000, "\n\n" + ENGLISH * 2 + "\n\n\n")
    assert rows[0]["language.letters"] == 0
    assert rows[-1]["language.count"] == 1


def test_rule() -> None:
    rules = MixedFilter(max_other=0.3).rules()
    columns = {
        "language.letters": pa.array([100, 100, 0, None], pa.int32()),
        "language.other_letters": pa.array([30, 31, 0, None], pa.int32()),
    }
    assert evaluate(rules, columns, 4).kept.tolist() == [True, False, True, True]
    assert MixedFilter().rules() == ()
