"""toxicity.wordlist: what it finds, in which disguise, what it leaves alone, and how it reads lists."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from corpusflow import ConfigError, check_stage
from corpusflow.rules import evaluate
from stages.toxicity._lists import load_lexicon
from stages.toxicity.wordlist import Wordlist, WordlistFilter, WordlistScore

SCORE = WordlistScore()
CURATED = Path(__file__).parents[3] / "stages" / "toxicity" / "lists" / "curated"


def measure(*texts: str | None, code: str = "en", script: str = "Latn", stage: WordlistScore = SCORE) -> pa.RecordBatch:
    n = len(texts)
    columns = [pa.array(texts, pa.large_string()), pa.array([code] * n), pa.array([script] * n)]
    return stage.score(pa.RecordBatch.from_arrays(columns, names=list(stage.reads)))


def hits(*texts: str, code: str = "en", script: str = "Latn") -> list[int]:
    found: list[int] = measure(*texts, code=code, script=script)["toxicity.hits"].to_pylist()
    return found


def test_contract() -> None:
    check_stage(Wordlist())
    check_stage(Wordlist(max_density=10.0, max_category_density={"gambling": 5.0, "spam": 8.0}, gate=True))


@pytest.mark.parametrize(
    "text",
    [
        "what the fuck", "WHAT THE FUCK!", "fück", "ＦＵＣＫ", "f.u.c.k", "f-u-c-k", "f u c k", "fuuuuck", "f*ck", "ƒuck",
        "fu\u200bck", "𝐟𝐮𝐜𝐤", "fuсk", "@sshole", "a$$hole", "b1tch", "free-porn", "freeporn", "free\tporn", "f_u_c_k",
        "f u c k y o u", "cuuuunt", "(fuck)", "“fuck”",
    ],
)  # fmt: skip
def test_english_disguises_are_found(text: str) -> None:
    assert hits(text) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "Scunthorpe, Penistone and Essex", "the A55 road", "assess the classic cockpit", "Moby Dick by Herman Melville",
        "magna cum laude", "a chink in the armour", "great tits and blue tits", "same-sex couples", "pussy willow",
        "Matsushita analysed the peacock", "as-sess", "co-ck", "ssh-keygen", "the 1st of 717 pages",
    ],
)  # fmt: skip
def test_innocent_english_is_left_alone(text: str) -> None:
    assert hits(text) == [0]


@pytest.mark.parametrize(
    "text", ["免费色情网站", "色*情", "色.情，", "约-炮", "傻 逼 一个", "av女优大全", "写着淫 荡。", "网上赌场"]
)
def test_chinese_terms_are_found_as_substrings(text: str) -> None:
    assert hits(text, code="zh", script="Hans") == [1]


@pytest.mark.parametrize("text", ["做爱心早餐", "角色 情节", "妈妈的味道", "十字路口交通", "一本道德经", "中国射击队"])
def test_chinese_words_that_only_touch_are_left_alone(text: str) -> None:
    assert hits(text, code="zh", script="Hans") == [0]


def test_lists_apply_by_language_and_script() -> None:
    assert measure("slut på filmen", code="sv")["toxicity.hits"].to_pylist() == [
        None
    ]  # no Swedish list: not applicable
    assert measure("fuck 你好", code="zh", script="Hans")["toxicity.hits"].to_pylist() == [1]  # English beside Chinese
    assert measure("傻逼", code="en")["toxicity.hits"].to_pylist() == [0]
    assert measure("fuck", code="und", script="Zyyy")["toxicity.hits"].to_pylist() == [1]
    assert measure(None)["toxicity.hits"].to_pylist() == [None]


def test_categories_weights_and_units() -> None:
    row = measure("Play at our online casino, fuck yes: online casino bonus codes for you").to_pylist()[0]
    assert row["toxicity.gambling"] == 8
    assert row["toxicity.profanity"] == 2
    assert row["toxicity.weight"] == 10
    assert (row["toxicity.units"], row["toxicity.base"]) == (13, 200)
    assert measure("河水上涨" * 100, code="zh", script="Hans").to_pylist()[0]["toxicity.base"] == 400


def test_medical_and_legal_text_is_not_charged_for_its_terms() -> None:
    plain = "The penis and the vagina, anal sex and rape, again and again. "
    assert hits(plain)[0] > 3
    assert hits(plain + "The patient has symptoms of an infection; the clinical diagnosis was cancer.")[0] <= 1
    assert hits(plain + "The court heard the defendant, whom the police charged with a crime.")[0] <= 1


def test_rules_are_thresholds_by_language() -> None:
    with pytest.raises(ConfigError, match=r'max_density: a table for zh without .*\nhint: add "[*]": 30'):
        WordlistFilter(max_density={"zh": 10.0})
    rules = WordlistFilter(max_density={"zh": 10.0, "*": 30.0}, max_category_density={"gambling": 8.0}).rules()
    columns = {
        "toxicity.weight": pa.array([5, 5, 7, 0, None], pa.int32()),
        "toxicity.gambling": pa.array([0, 0, 0, 2, None], pa.int32()),
        "toxicity.base": pa.array([200, 200, 200, 200, None], pa.int32()),
        "language.code": pa.array(["en", "zh", "en", "en", "sv"]),
    }
    verdict = evaluate(rules, columns, 5)
    assert [rules[i].reason if i >= 0 else None for i in verdict.first] == [
        None, "toxicity_density", "toxicity_density", "toxicity_gambling", None,
    ]  # fmt: skip


def test_ldnoobw_folders_work_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "sv").write_text("fan\nfitta\n", encoding="utf-8")
    (tmp_path / "LICENSE").write_text("not a list", encoding="utf-8")
    stage = WordlistScore(lists=str(tmp_path))
    check_stage(stage)
    row = measure("Fan vad kallt, fantastisk dag", code="sv", stage=stage).to_pylist()[0]
    assert (row["toxicity.hits"], row["toxicity.weight"], row["toxicity.profanity"]) == (1, 2, 2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bad\tmany", "en.txt:2"),
        ("bad\t2\trude", "en.txt:2"),
        ("bad\t2\thate\tq", "en.txt:2"),
        ("so " * 30 + "bad", "en.txt:2.*longer than 64 characters"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "en.txt").write_text(f"# head\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_lexicon(str(tmp_path))


def test_a_folder_without_lists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no word list"):
        load_lexicon(str(tmp_path))


def test_hostile_documents_take_linear_time() -> None:
    texts = [
        "f" * 2_000_000,
        "f " * 1_000_000,
        "f." * 1_000_000,
        "色 " * 500_000,
        "*" * 2_000_000,
        "mother " * 300_000,
        "😀" * 99_999,
    ]
    assert len(measure(*texts, code="zh", script="Hans")) == len(texts)


def test_evaluate_counts_and_shows_mistakes(tmp_path: Path) -> None:
    rows = [
        {"text": "you fucking cunt, you fucking whore, you motherfucker", "toxic": True, "lang": "en"},
        {"text": "nobody likes your kind", "toxic": True, "lang": "en"},
        {"text": "what the fuck, said the captain, and the ship went down", "lang": "en"},
        {"text": "昨夜河水上涨，清晨时低处的道路已被淹没。"},
        {"text": "免费色情网站，网上赌场", "toxic": True},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report = Wordlist.evaluate(data=[str(path)])
    names = ("texts", "toxic_with_a_term", "toxic_dropped", "toxic", "other_with_a_term", "other_dropped", "other")
    assert tuple(report[name] for name in names) == (5, 2, 2, 3, 1, 0, 2)
    assert [report["by_language"][code]["texts"] for code in ("en", "zh")] == [3, 2]
    assert report["by_category"]["gambling"] == 1
    assert [e["text"] for e in report["densest_of_the_ordinary"]] == [rows[2]["text"]]
    assert report["least_dense_of_the_toxic"][0] == {"per_1000": 0.0, "text": "nobody likes your kind"}


def _obfuscations() -> ModuleType:
    path = Path(__file__).with_name("obfuscations.py")
    spec = importlib.util.spec_from_file_location("toxicity_obfuscations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _strong_terms() -> tuple[list[str], set[str]]:
    """(terms of weight 3 and more that are long enough to disguise, those of the Chinese list)."""
    terms, chinese = [], set()
    for language in ("en", "zh"):
        for line in (CURATED / f"{language}.txt").read_text(encoding="utf-8").splitlines():
            term, weight, category = (*line.split("\t"), "", "")[:3]
            han = any("\u4e00" <= c <= "\u9fff" for c in term)
            if weight.isdigit() and int(weight) >= 3 and category != "context" and len(term) >= (2 if han else 4):
                terms.append(term)
                if language == "zh":
                    chinese.add(term)
    return terms, chinese


@pytest.mark.parametrize(("code", "script"), [("en", "Latn"), ("zh", "Hans")])
def test_every_term_is_found_as_it_is_listed(code: str, script: str) -> None:
    terms = []
    for line in (CURATED / f"{code}.txt").read_text(encoding="utf-8").splitlines():
        term, weight, category = (*line.split("\t"), "", "")[:3]
        if line and not line.startswith("#") and weight != "0" and category != "context":
            terms.append(term)
    assert len(terms) > 500
    found = hits(*(f"， {term} ！" for term in terms), code=code, script=script)
    assert [term for term, n in zip(terms, found, strict=True) if n != 1] == []


@pytest.mark.parametrize(("group", "seed"), [("DEVELOPMENT", 1), ("HELD_OUT", 2)])
def test_obfuscated_spellings_are_found(group: str, seed: int) -> None:
    module = _obfuscations()
    terms, chinese = _strong_terms()
    drawn = module.spellings(terms, getattr(module, group), 1000, seed)
    columns = [
        pa.array([document for _, _, document in drawn], pa.large_string()),
        pa.array(["zh" if term in chinese else "en" for _, term, _ in drawn]),
        pa.array(["Hans" if term in chinese else "Latn" for _, term, _ in drawn]),
    ]
    found = np.array(SCORE.score(pa.RecordBatch.from_arrays(columns, names=list(SCORE.reads)))["toxicity.hits"]) > 0
    assert found.mean() >= 0.9


@pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="needs CORPUSFLOW_TEST_DATA")
@pytest.mark.parametrize(
    ("name", "code", "script"),
    [("en_100novels", "en", "Latn"), ("zh_classical-modern", "zh", "Hans"), ("zh_poetry", "zh", "Hant")],
)
def test_ordinary_text_is_kept(name: str, code: str, script: str) -> None:
    with gzip.open(Path(os.environ["CORPUSFLOW_TEST_DATA"]) / "text" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as f:
        texts = [json.loads(line)["text"] for line in f]
    batch = measure(*texts, code=code, script=script)
    columns = {name: batch[name] for name in batch.schema.names} | {"language.code": pa.array([code] * len(texts))}
    dropped = len(texts) - evaluate(WordlistFilter().rules(), columns, len(texts)).kept.sum()
    assert dropped <= len(texts) / 1000


@pytest.mark.skipif("CORPUSFLOW_TEST_DATA" not in os.environ, reason="needs CORPUSFLOW_TEST_DATA")
def test_ldnoobw_itself() -> None:
    stage = WordlistScore(lists=str(Path(os.environ["CORPUSFLOW_TEST_DATA"]) / "toxicity" / "ldnoobw"))
    assert len(stage.opened.languages) >= 27
    assert measure("das ist Scheiße hier", code="de", stage=stage)["toxicity.hits"].to_pylist() == [1]
