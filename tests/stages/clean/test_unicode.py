"""clean.unicode: what it repairs, what it leaves alone, and that skipping ftfy never changes a result."""

from __future__ import annotations

import gzip
import json
import os
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError, check_stage
from stages.clean.unicode import Unicode, _repair_line

STAGE = Unicode()


def clean(*texts: str | None, stage: Unicode = STAGE) -> list[str | None]:
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.large_string())], names=["text"])
    out: list[str | None] = stage.transform(batch).column("text").to_pylist()
    return out


def test_contract() -> None:
    check_stage(STAGE)
    check_stage(Unicode(max_blank_lines=0))


def test_negative_blank_lines_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_blank_lines"):
        Unicode(max_blank_lines=-1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc\x85d\u2028e\u2029f\x0bg\x0ch", "a\nb\nc\nd\ne\nf\ng\nh"),
        ("one  \t\n two\u3000\n\n\n\n\nthree \n", "one\n two\n\n\nthree"),
        ("\n \n  first", "  first"),
        ("\ufeffBOM\x00 and \x07bell\x7f", "BOM and bell"),
        ("\x1b[31;1mred\x1b[0m \x1b[ not", "red [ not"),
        ("soft\xadhyphen zero\u200bwidth\u2060 \u202eright-to-left\u202c", "softhyphen zerowidth right-to-left"),
        ("می\u200cخواهم کتاب\u200c ها", "می\u200cخواهم کتاب ها"),  # kept between letters, not before a space
        ("क्\u200dष and न्\u200c\u200cह", "क्\u200dष and न्\u200cह"),
        ("ไทย\u200bคำ a\u200bb", "ไทย\u200bคำ ab"),
        ("👩\u200d🔬 👨🏽\u200d🚀 ❤️\u200d🔥 a\u200d🔬", "👩\u200d🔬 👨🏽\u200d🚀 ❤️\u200d🔥 a🔬"),
        ("🏴\U000e0067\U000e0062\U000e007f hi\U000e0068\U000e0069", "🏴\U000e0067\U000e0062\U000e007f hi"),
        ("e\u0301 \u1100\u1161 \uf900 \u212b", "é 가 豈 Å"),
        ("葛\U000e0100 a\U000e0100", "葛\U000e0100 a"),
        ("schÃ¶n â€œquotedâ€\x9d donâ€™t", "schön “quoted” don’t"),
        ("Ã\x85ngstrÃ¶m", "Ångström"),
        ("waits\x85 it\x92s", "waits… it’s"),
        ("ﬁne oﬀer", "fine offer"),
        ("Tom &amp; Jerry&nbsp;&hellip;", "Tom & Jerry\xa0…"),
        ("Tom &amp; <b>Jerry</b>", "Tom &amp; <b>Jerry</b>"),  # HTML on show: not ours to undo
        ("&am\u200bp;", "&"),  # an entity only once the invisible character is gone
        ("“中文，全角！” ＡＢＣ　１２３ ｶﾀｶﾅ’", "“中文，全角！” ＡＢＣ　１２３ ｶﾀｶﾅ’"),
        ("L’été, «œuvre» Œdipe — ça à ½ £5 ™ “Ünï” §3", "L’été, «œuvre» Œdipe — ça à ½ £5 ™ “Ünï” §3"),
        ("", ""),
        (None, None),
    ],
)
def test_table(text: str | None, expected: str | None) -> None:
    assert clean(text) == [expected]


def test_rows_keep_their_places() -> None:
    assert clean("a ", None, "schÃ¶n", "", "e\u0301", None) == ["a", None, "schön", "", "é", None]


def test_combining_marks_are_bounded() -> None:
    zalgo = "a" + "\u0301\u0323" * 100_000
    (out,) = clean(zalgo)
    assert out is not None
    assert len(out) <= 31
    assert out == unicodedata.normalize("NFC", "a" + "\u0301\u0323" * 15)


def test_deeply_escaped_entities_end() -> None:
    hostile = "&" + "amp;" * 200_000
    assert clean(hostile) == [hostile]
    assert clean("&amp;amp;amp;lt;") == ["<"]


# The characters that make mojibake, their neighbours in real text, and everything the edit looks at.
_ALPHABET = (
    "aZ 9.;&#<\n\t\r\x00\x1b[m\x80\x85\x92\xa0\xad¡¢£§¨©ª«¬®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÂÃÄÅÎÐÑÒÖ×ØÙÜÝÞßàáâãäçéêëìíîïñòóôõö÷øùúûüý"
    "āăĐđęěğİıĽŁłŃňŐœŒŘşŠšţŤůŰŸŹŽžƒˆˇ˘˛˜˝΄ΆΒΓΞΟαβγέБВГРСавгЂђ\u200b\u200c\u200d‐–—―‘’‚“”„†‡•…‰‹›⁄€₧№™∂∆∏∑√∞∩∫≈≠≤≥◊"
    "│┌═║╬▀▄█▌▐░▒▓\uf8ffﬁﬂ\ufe0f\ufeff\ufffd中文，。字かナ한ㅏ\u0301\u0323\u0327\u093c\u0915ا\u064bไ👩🔬\U000e0067"
)
_TEXTS = st.text(st.sampled_from(_ALPHABET), max_size=40)
_MOJIBAKE = st.tuples(
    st.text(max_size=12),
    st.sampled_from(["latin-1", "windows-1252", "windows-1251", "windows-1253", "cp437", "mac-roman"]),
).map(lambda pair: pair[0].encode("utf-8", "ignore").decode(pair[1], "replace"))
_ANY = st.lists(st.one_of(_TEXTS, _MOJIBAKE, st.text(max_size=20)), max_size=4).map("".join)


def slow(text: str) -> str:
    """The same promise without the fast path: every line through ftfy, all through NFC, until nothing changes."""
    for _ in range(10):
        edited = STAGE._edit(pa.array([text], pa.large_string())).text[0].as_py()
        lines = edited.split("\n")
        entities = True
        for i, line in enumerate(lines):
            entities = entities and "<" not in line
            lines[i] = _repair_line(line, i + 1 < len(lines), entities)
        fixed = unicodedata.normalize("NFC", "\n".join(lines))
        if fixed == edited:
            return fixed
        text = fixed
    return text


@given(st.lists(_ANY.map(lambda t: t.encode("utf-8", "ignore").decode()), min_size=1, max_size=5))
@settings(max_examples=400, deadline=None)
def test_equals_ftfy_everywhere_and_is_idempotent(texts: list[str]) -> None:
    once = clean(*texts)
    assert once == [slow(t) for t in texts]
    assert clean(*once) == once


@pytest.mark.slow
@given(st.lists(_ANY.map(lambda t: t.encode("utf-8", "ignore").decode()), min_size=1, max_size=20))
@settings(max_examples=20_000, deadline=None)
def test_equals_ftfy_everywhere_at_length(texts: list[str]) -> None:
    once = clean(*texts)
    assert once == [slow(t) for t in texts]
    assert clean(*once) == once


@pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="needs CORPUSFLOW_TEST_DATA")
@pytest.mark.parametrize("name", ["eltec_novels", "ja_aozora", "zh_poetry"])
def test_real_text_equals_ftfy(name: str) -> None:
    path = Path(os.environ["CORPUSFLOW_TEST_DATA"]) / "text" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as f:
        texts = [json.loads(line)["text"][:20_000] for line, _ in zip(f, range(60), strict=False)]
    assert clean(*texts) == [slow(t) for t in texts]
