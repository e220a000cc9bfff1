"""language.identify: codes, scripts, scores, and that they depend on the document alone."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from corpusflow import ConfigError, Rule, check_stage
from corpusflow.build import build_stage
from corpusflow.rules import evaluate
from stages.language._codes import code_of
from stages.language._known import refuse_never, refuse_unknown
from stages.language._sample import take_samples
from stages.language._train import codes_of
from stages.language.identify import Identify, LanguageFilter, LanguageScore

SCORE = LanguageScore()


def measure(*texts: str | None, stage: LanguageScore = SCORE) -> list[dict[str, object]]:
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.large_string())], names=["text"])
    rows: list[dict[str, object]] = stage.score(batch).to_pylist()
    return rows


def test_contract() -> None:
    check_stage(Identify())
    check_stage(
        Identify(keep=("en", "zh"), keep_scripts=("Latn", "Hans"), min_score={"zh": 0.4, "*": 0.65}, gate=False)
    )


@pytest.mark.parametrize(
    ("text", "code", "script"),
    [
        ("The river rose in the night and the lower road was under water.", "en", "Latn"),
        ("Der Fluss stieg in der Nacht, und die Straße stand unter Wasser.", "de", "Latn"),
        ("Cette nuit, la rivière est montée et la route a été inondée.", "fr", "Latn"),
        ("Река поднялась ночью, и нижняя дорога оказалась под водой.", "ru", "Cyrl"),
        ("昨夜河水上涨，清晨时低处的道路已被淹没。", "zh", "Hans"),
        ("昨夜河水上漲，清晨時低處的道路已被淹沒。", "zh", "Hant"),
        ("川の水が夜のうちに増え、朝には低い道が水に沈んでいた。", "ja", "Jpan"),
        ("밤사이 강물이 불어나 아침에는 낮은 길이 물에 잠겼다.", "ko", "Kore"),
        ("ارتفع النهر في الليل وغمرت المياه الطريق المنخفض.", "ar", "Arab"),
        ("แม่น้ำเอ่อขึ้นในเวลากลางคืนและถนนสายล่างจมน้ำ", "th", "Thai"),
        ("नदी का पानी रात में बढ़ गया और निचली सड़क डूब गई।", "hi", "Deva"),
        ("Το ποτάμι φούσκωσε τη νύχτα και ο δρόμος πλημμύρισε.", "el", "Grek"),
        ("", "und", "Zyyy"),
        ("ok", "und", "Latn"),
        ("😀😀😀 12345 67890 !!!", "und", "Zyyy"),
        ("人生", "und", "Hani"),
        (None, "und", "Zyyy"),
    ],
)
def test_table(text: str | None, code: str, script: str) -> None:
    (row,) = measure(text)
    assert (row["language.code"], row["language.script"]) == (code, script)
    if code == "und":
        assert row["language.score"] == 0
        assert row["language.second"] is None
    else:
        assert 0.5 < row["language.score"] <= 1  # type: ignore[operator]


def test_code_numbers_and_addresses_are_not_language() -> None:
    german = "Die Datei wird mit dem folgenden Befehl in das Verzeichnis kopiert und danach gelesen."
    noise = (
        "cp -r /usr/share/doc/*.html $HOME/tmp && std::vector<int> fooBar = baz.qux(); 0xdeadbeef 12:30 x@y.example\n"
        * 5
    )
    (plain, noisy) = measure(german, noise + german + "\n" + noise)
    assert (plain["language.code"], noisy["language.code"]) == ("de", "de")
    assert noisy["language.score"] == pytest.approx(plain["language.score"], abs=0.05)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ត្រឡប់បរិបទលំនាំដើមរបស់រោងចក្រសេវាប្រតិបត្តិការ។ This function returns the default component context to be used.", "en"),
        ("ត្រឡប់បរិបទលំនាំដើមរបស់រោងចក្រសេវាប្រតិបត្តិការ ប្រសិនបើមាន ផ្សេងពីនោះត្រឡប់សេចក្ដីយោងគ្មានសោះ។ This function returns it.", "km"),
        ("使用 print 函数和 format 方法 把结果 written to the output 写到文件里，然后再读取文件的内容并检查。", "zh"),
        ("Функция print выводит the value на экран, а функция format делает из него строку.", "ru"),
    ],
)  # fmt: skip
def test_text_in_two_scripts_is_judged_by_the_one_it_has_more_of(text: str, code: str) -> None:
    (row,) = measure(text)
    assert row["language.code"] == code
    assert row["language.score"] > 0.7  # type: ignore[operator]


def test_other_scripts_are_taken_out_of_the_sample_whole() -> None:
    texts = ["Пример example 例 из text слов", "使用java的 方法 かな", "abc ខ្មែរ def", "😀 абвг 😀 xyz", "ខ", ""]
    data, offsets, _ = take_samples(pa.array(texts, pa.large_string()), 500, lower=True)
    taken = [bytes(data[a:b]).decode().strip() for a, b in itertools.pairwise(offsets)]
    assert taken == ["пример из слов", "使用 的 方法 かな", "abc def", "😀 абвг 😀", "ខ", ""]


def test_long_documents_are_judged_by_beginning_middle_and_end() -> None:
    english = "The river rose in the night and the lower road was under water by morning. "
    german = "Der Fluss stieg in der Nacht und die untere Straße stand am Morgen unter Wasser. "
    (row,) = measure(german * 8 + english * 2000 + english * 8)
    assert row["language.code"] == "en"
    assert measure(english * 40)[0]["language.code"] == "en"


def test_windows_never_cut_a_character() -> None:
    for shift in range(12):
        (row,) = measure("a" * shift + "河水上涨，清晨时低处的道路已被淹没。" * 400)
        assert (row["language.code"], row["language.script"]) == ("zh", "Hans")


def test_hostile_documents_pass() -> None:
    rows = measure(
        "x" * 10_000_000, "\n" * 100_000, "__label__en __label__de", "a", "👩\u200d🔬" * 50_000, "é" * 999_999
    )
    assert len(rows) == 6


def test_filter_says_why() -> None:
    rules = LanguageFilter(keep=("en", "zh"), keep_scripts=("Latn", "Hans"), min_score={"zh": 0.4, "*": 0.65}).rules()
    columns = {
        "language.code": pa.array(["en", "de", "zh", "zh", "en", "zh"]),
        "language.script": pa.array(["Latn", "Latn", "Hant", "Hans", "Latn", "Hans"]),
        "language.score": pa.array([0.9, 0.9, 0.9, 0.5, 0.5, 0.3], pa.float32()),
    }
    first = evaluate(rules, columns, 6).first
    reasons = [rules[i].reason if i >= 0 else None for i in first]
    assert reasons == [
        None, "language_not_kept", "language_script_not_kept", None, "language_low_score", "language_low_score",
    ]  # fmt: skip


WISHES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a name": ({"keep": ["english"]}, "keep: 'english' is not among the", "did you mean en."),
    "a misspelt name": ({"keep": ["en", "norwegan"]}, "keep: 'norwegan'", "did you mean nb."),
    "three letters": ({"keep": ["eng"]}, "keep: 'eng'", "did you mean en."),
    "a replaced code": ({"keep": ["iw"]}, "keep: 'iw'", "did you mean he."),
    "a macrolanguage": ({"keep": ["no"]}, "keep: 'no'", "did you mean nb."),
    "capitals and a country": ({"keep": ["EN_us"]}, "keep: 'EN_us'", "did you mean en."),
    "a script": ({"keep": ["zh-Hans"]}, "keep: 'zh-Hans'", "did you mean zh..*keep_scripts: .Hans."),
    "a country": ({"keep": ["cn"]}, "keep: 'cn'", "did you mean zh."),
    "no language": ({"keep": ["xx"]}, "keep: 'xx'", "codes are those of BCP 47"),
    "of another model": ({"keep": ["ha"], "second_model": ""}, "keep: 'ha'", "codes are"),
    "nothing": ({"keep": []}, "keep: an empty list keeps nothing", "leave keep out to keep all"),
    "no script": ({"keep_scripts": []}, "keep_scripts: an empty list", "leave keep_scripts out"),
    "a name of a script": ({"keep_scripts": ["latin"]}, "keep_scripts: 'latin'", "did you mean Latn."),
    "an unknown script": ({"keep_scripts": ["Hira"]}, "keep_scripts: 'Hira'", "they are Adlm, Arab"),
    "a score for a name": ({"min_score": {"english": 0.5, "*": 0.6}}, "min_score: 'english'", "did you mean en."),
    "a score for one": (
        {"min_score": {"en": 0.5}}, "min_score: a table for en without an entry", 'add "[*]": 0.65, .* or "[*]": 0 to',
    ),
}  # fmt: skip


def identify(**given: Any) -> Identify:
    """The stage as a config makes it."""
    stage = build_stage("language.identify", Identify, given)
    assert isinstance(stage, Identify)
    return stage


@pytest.mark.parametrize(("wish", "says", "hint"), WISHES.values(), ids=WISHES)
def test_languages_that_no_document_is_in(wish: dict[str, Any], says: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s)language.identify.{says}.*hint: .*{hint}"):
        identify(**wish).expand()


def test_languages_that_documents_are_in() -> None:
    kept = [("en", None), (["en", "yue", "und"], None), (["ha"], "Latn"), (None, ["Hans", "Hani", "Jpan", "Zyyy"])]
    for codes, scripts in kept:
        rules = identify(keep=codes, keep_scripts=scripts).expand()[1].rules()  # type: ignore[attr-defined]
        given = [value for value in (codes, scripts) if value is not None]
        assert [rule.value for rule in rules[:-1]] == [(v,) if isinstance(v, str) else tuple(v) for v in given]
    absent = Identify(keep=("xx",), model="removed.ftz")
    assert absent.expand(), "what has run is looked at without its models"


def test_every_label_of_the_built_in_models_is_a_known_code() -> None:
    for model in ("lid.176.ftz", "corpusflow.ftz"):
        codes = sorted(codes_of(model))
        refuse_unknown("x", codes, (model,))
        refuse_never("x", codes)
    for code in ("english", "eng", "xx", "no", "EN", "zh-Hans"):
        with pytest.raises(ConfigError, match="is not among the codes of languages"):
            refuse_never("x", [code])
    refuse_never("x", ["ceb", "tlh", "und"])  # three letters: another model may give it


def test_filter_without_wishes_has_only_the_score() -> None:
    assert LanguageFilter().rules() == (Rule("language_low_score", "language.score", ">=", 0.65),)
    assert LanguageFilter(min_score=0).rules() == ()
    assert LanguageFilter().gate


def test_bad_models_are_refused(tmp_path: object) -> None:
    path = f"{tmp_path}/not_a_model.ftz"
    with open(path, "wb") as f:
        f.write(b"nothing of the kind")
    with pytest.raises(ConfigError, match="not a fastText model"):
        measure("text", stage=LanguageScore(model=path))
    with pytest.raises(ConfigError, match="window"):
        LanguageScore(window=10)


def test_kinds_of_chinese() -> None:
    texts = {
        "zh-Hans": "昨天晚上下了很大的雨，今天早上我们发现低处的路已经被水淹了，孩子们都很高兴，因为学校停课了。",
        "zh-Hant": "昨天晚上下了很大的雨，今天早上我們發現低處的路已經被水淹了，孩子們都很高興，因為學校停課了。",
        "yue-Hant": "琴晚落咗好大雨，今朝我哋發現低啲嘅路已經畀水浸咗，細路仔好開心，因為唔使返學。",
        "lzh-Hant": "昔者莊周夢為胡蝶，栩栩然胡蝶也，自喻適志與，不知周也。俄然覺，則蘧蘧然周也。"
        "不知周之夢為胡蝶與，胡蝶之夢為周與？",
    }
    rows = measure(*texts.values())
    assert [row["language.tag"] for row in rows] == list(texts)
    assert [row["language.code"] for row in rows] == ["zh", "zh", "yue", "zh"]


def test_tags_name_the_script_where_there_are_several() -> None:
    cyrillic, latin, english = measure(
        "Река је нарасла током ноћи и доњи пут је ујутру био под водом, а школа је остала затворена.",
        "Reka je narasla tokom noći i donji put je ujutru bio pod vodom, a škola je ostala zatvorena.",
        "The river rose in the night and the school stayed closed.",
    )
    assert cyrillic["language.tag"] == "sr-Cyrl"
    assert latin["language.code"] in ("sr", "bs", "hr")
    assert english["language.tag"] == "en"


@pytest.mark.parametrize(
    ("label", "code"),
    [("en", "en"), ("eng_Latn", "en"), ("cmn_Hani", "zh"), ("zho_Hans", "zh"), ("arb_Arab", "ar"), ("yue_Hant", "yue"),
     ("als", "gsw"), ("als_Latn", "sq"), ("nob_Latn", "nb"), ("no", "nb"), ("ceb", "ceb"), ("zsm_Latn", "ms")],
)  # fmt: skip
def test_labels_of_other_models(label: str, code: str) -> None:
    assert code_of(label) == code


def test_one_model_alone() -> None:
    for stage in (LanguageScore(second_model=""), LanguageScore(model="corpusflow.ftz", second_model="")):
        check_stage(stage)
        (row,) = measure("The river rose in the night and the lower road was under water.", stage=stage)
        assert row["language.code"] == "en"


def test_train_and_evaluate(tmp_path: Path) -> None:
    lines = []
    for lang, text in (
        ("en", "the river rose in the night and the lower road was under water by morning"),
        ("de_DE", "der fluss stieg in der nacht und die untere straße stand am morgen unter wasser"),
    ):
        words = text.split()
        lines += [
            json.dumps({"lang": lang, "kind": "sentences", "text": " ".join(words[i:] + words[:i])}) for i in range(12)
        ]
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(lines * 5), encoding="utf-8")
    out = str(tmp_path / "own.ftz")
    made = Identify.train(data=[str(data)], out=out, beside="", features=500, epochs=10)
    assert made["labels"] == 2
    found = Identify.evaluate(data=[str(data)], model=out, second_model="")
    assert found["accuracy"] == 1.0
    assert set(found["by_language"]) == {"en", "de"}
    assert sum(row["documents"] for row in found["calibration"]) == 120
    data.write_text('{"lang": "en"}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"data\.jsonl:1"):
        Identify.evaluate(data=[str(data)])


def _held_out(name: str) -> list[dict[str, str]]:
    path = Path(os.environ["CORPUSFLOW_TEST_DATA"]) / "text" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="needs CORPUSFLOW_TEST_DATA")
@pytest.mark.parametrize(("kind", "least", "alone"), [("sentences", 0.96, 0.81), ("word-pairs", 0.82, 0.62)])
def test_shipped_models_on_labelled_sentences(kind: str, least: float, alone: float) -> None:
    """75 languages that the second model was trained on, other texts of them."""
    path = str(Path(os.environ["CORPUSFLOW_TEST_DATA"]) / "langid" / "lingua_dev.jsonl.gz")
    both = Identify.evaluate(data=[path], kind=kind)
    assert len(both["by_language"]) == 75
    assert both["macro_accuracy"] >= least
    assert Identify.evaluate(data=[path], kind=kind, second_model="")["macro_accuracy"] <= alone


@pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="needs CORPUSFLOW_TEST_DATA")
@pytest.mark.parametrize(
    ("name", "least"),
    [("tldr_pages", 0.99), ("eltec_novels", 1), ("ja_aozora", 1), ("zh_classical-modern", 1), ("zh_poetry", 0.99)],
)
def test_shipped_models_on_documents(name: str, least: float) -> None:
    rows = [r for r in _held_out(name) if name in ("tldr_pages", "zh_poetry") or len(r["text"]) >= 200]
    text = pa.array([r["text"] for r in rows], pa.large_string())
    found = LanguageScore().score(pa.RecordBatch.from_arrays([text], names=["text"]))["language.code"].to_pylist()
    codes = {"lzh": "zh", "no": "nb"}
    wanted = [codes.get(c, c) for c in (r["lang"].partition("_")[0] for r in rows)]
    assert sum(a == b for a, b in zip(found, wanted, strict=True)) >= least * len(rows)
