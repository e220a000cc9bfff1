"""quality.chinese: keeps good Chinese in both scripts, drops menus, links, spam, repetition and mojibake."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_chinese import PROSE, pages
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import Filter, Score
from corpusflow.rules import evaluate
from stages import quality
from stages.quality.chinese import Chinese, ChineseSignals
from stages.quality.gopher import Gopher
from stages.quality.signals import Signals

DATA = Path(os.environ.get("CORPUSFLOW_TEST_DATA", "nowhere"))
SAMPLE = Path(__file__).parents[3] / "sample_data" / "texts"
needs_data = pytest.mark.skipif(
    not (DATA / "text").is_dir(), reason="set CORPUSFLOW_TEST_DATA to the folder with text/"
)


def reasons(texts: list[str | None], language: str = "zh", stage: Chinese | None = None) -> list[str | None]:
    score, rules = (stage or Chinese()).expand()
    assert isinstance(score, Score)
    assert isinstance(rules, Filter)
    batch = pa.RecordBatch.from_pydict(
        {"text": pa.array(texts, pa.large_string()), "language.code": pa.array([language] * len(texts))}
    )
    columns: dict[str, pa.Array] = {n: batch.column(n) for n in batch.schema.names}
    for part in (Signals(), score):
        out = part.score(batch)
        columns |= {n: out.column(n) for n in out.schema.names}
    first = evaluate(rules.rules(), columns, len(texts)).first
    return [None if f < 0 else rules.rules()[f].reason for f in first]


def kept(texts: list[str]) -> float:
    found = reasons(list(texts))
    print(f"\n{len(texts)} texts: {Counter(found).most_common()}")
    return found.count(None) / len(found)


TRADITIONAL = (
    "河水在夜裡漲了起來，天亮的時候，低處的路已經淹在水下。村裡的人把羊趕到山坡上去，學校也停了課。"
    "老磨坊主站在門口說，比這更大的水他也見過，只是那時候橋還在。"
)
CLASSICAL = "凡與敵戰，三軍必要得其地利，則可以寡敵眾，以弱勝強。所謂知敵之可擊，知吾卒之可以擊，而不知地利，勝之半也。"
TABLE: dict[str, tuple[str | None, str | None]] = {
    "prose": (PROSE, None),
    "traditional": (TRADITIONAL, None),
    "classical": (CLASSICAL, None),
    "with some English": (PROSE + "他用 Python 3.11 写了一个程序，放在 GitHub 上。", None),
    "null": (None, None),
    "empty": ("", "chinese_few_chars"),
    "short": ("今天天气很好。", "chinese_few_chars"),
    "mostly English": ("The lower road was under water, " * 10 + PROSE[:40], "chinese_few_han"),
    "mojibake": (PROSE.encode().decode("gb18030", "replace"), "chinese_mojibake"),
    "replacement characters": (PROSE.replace("的", "\ufffd"), "chinese_garbage"),
    "menu": (" | ".join(["首页", "新闻", "体育", "财经", "科技", "教育", "汽车", "房产", "关于我们", "联系我们", "网站地图"] * 2),
             "chinese_no_running_text"),
    "short lines": ("\n".join(["我的首页。", "他的新闻。", "你的体育。", "她的财经。", "这里的书。", "帮助。"] * 2),
                    "chinese_short_lines"),
    "keywords": ("手机报价，二手房，减肥方法，贷款中介，装修公司，免费小说，游戏充值，考试答案，机票打折，壁纸下载。" * 3,
                 "chinese_few_stop_words"),
    "one endless sentence": (
        "我们的工厂生产各种规格的钢管和阀门以及与之配套的法兰还有弯头三通等管件也可以按照客户的图纸加工" * 7
        + "。",
                             "chinese_few_sentences"),
    "digits": ("订单号是这些，请你核对。20231105882301 8823。河水在夜里涨了起来，天亮的时候，低处的路已经淹在水下，77777777777。",
               "chinese_digits"),
    "repeated lines": ("\n".join(["我们的服务宗旨是客户第一。", "这款产品质量好，欢迎来电。"] * 4), "chinese_dup_lines"),
    "repeated in one line": ("我们的服务宗旨是把客户和质量都放在前面，欢迎新老朋友来电。" * 12,
                             "chinese_dup_10gram_chars"),
    "ellipses": ("河水在夜里涨了起来，低处的路。还有的人把羊赶到山坡上去……\n老磨坊主说。他也见过更大的水，那时候桥还在……\n"
                 "孩子们捡起木板，说要再搭一座。大人们笑了笑……", "chinese_ellipsis_lines"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), TABLE.values(), ids=TABLE)
def test_table(text: str | None, reason: str | None) -> None:
    assert reasons([text]) == [reason]


def test_other_languages_are_not_its_business() -> None:
    for language in ("en", "ja", "ko", "und"):
        assert reasons(["menu | menu | menu", "", PROSE], language) == [None] * 3


def test_a_threshold_of_ones_own_and_none_at_all() -> None:
    assert reasons(["今天天气很好，我们的羊在山上。"], stage=Chinese(min_han_chars=5)) == [None]
    assert reasons(["我和我的羊都在这座山上。"], stage=Chinese(min_han_chars=None)) == [None]
    assert reasons(["今天天气很好。"], stage=Chinese(min_han_chars={"*": 5, "zh": 100})) == ["chinese_few_chars"]


def test_english_rules_do_not_apply_to_chinese() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"text": pa.array([PROSE], pa.large_string()), "language.code": pa.array(["zh"])}
    )
    out = Signals().score(batch)
    columns = {**{n: out.column(n) for n in out.schema.names}, "language.code": batch.column("language.code")}
    verdict = evaluate(Gopher().rules(), columns, 1)
    assert verdict.kept.all()
    assert verdict.inapplicable.sum() == len(Gopher().rules())


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=60), st.text(alphabet="的頁页龘a。|\n \u0301\u3000𠀀\ufffd", max_size=60)))
def test_shares_lie_between_0_and_1_on_any_text(text: str) -> None:
    batch = pa.RecordBatch.from_pydict({"text": pa.array([text], pa.large_string()), "language.code": pa.array(["zh"])})
    (own,), (common,) = ChineseSignals().score(batch).to_pylist(), Signals().score(batch).to_pylist()
    for name in ("rare_chars", "simplified_chars", "traditional_chars", "sentence_chars"):
        assert 0 <= own[f"quality.zh_{name}"] <= common["quality.han_chars"]
    assert own["quality.zh_simplified_chars"] + own["quality.zh_traditional_chars"] <= common["quality.han_chars"]
    assert 0 <= own["quality.zh_separators"] <= common["quality.chars"]


def test_bad_pages_of_every_kind_are_dropped() -> None:
    made = pages(seed=20, each=60)
    found = reasons([text for _, _, text in made])
    total, dropped = Counter((k, s) for k, s, _ in made), Counter()
    for (kind, script, _), reason in zip(made, found, strict=True):
        dropped[kind, script] += reason is not None
    shares = {key: dropped[key] / n for key, n in total.items()}
    assert min(shares.values()) >= 0.95, shares


@pytest.mark.parametrize("script", ["zh-Hans", "zh-Hant"])
def test_good_sample_texts_are_kept(script: str) -> None:
    files = sorted((SAMPLE / script).glob("*.md"))
    texts = [re.sub(r"\A---.*?---\n", "", f.read_text(encoding="utf-8"), flags=re.DOTALL) for f in files]
    assert len(texts) >= 10
    assert reasons(list(texts)).count(None) == len(texts)


@needs_data
def test_modern_chapters_are_kept() -> None:
    with gzip.open(DATA / "text" / "zh_classical-modern.jsonl.gz", "rt", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    assert kept([r["text"] for r in rows if r["lang"] == "zh"]) >= 0.97
    assert kept([r["text"] for r in rows if r["lang"] == "lzh"]) >= 0.90


def chinese_web_text(text: str) -> bool:
    """ChineseWebText's rules: more than 200 characters, mean line of 10, 30 % Chinese, little repetition of 13 characters."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(text) <= 200 or not lines or sum(map(len, lines)) / len(lines) < 10:
        return False
    if len(re.findall(r"[\u4e00-\u9fff]", text)) / len(text) < 0.3:
        return False
    grams = Counter(text[i : i + 13] for i in range(len(text) - 12))
    return sum(n for n in grams.values() if n > 1) / max(sum(grams.values()), 1) <= 0.5


def map_cc(text: str) -> bool:
    """MAP-CC's document rules, those that need no dictionary: 50-10,000 characters, sentences, digits, punctuation, entropy."""
    sentences = len(re.findall(r"[。！？!?]", text))
    digits = sum(c.isdigit() for c in text) / max(len(text), 1)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    ended = sum(line.endswith(tuple("。！？!?.”」：；")) for line in lines) / max(len(lines), 1)
    unique = len(set(text)) / max(len(text), 1)
    return (
        50 <= len(text) <= 10_000
        and sentences > 1
        and digits <= 0.3
        and ended >= 0.5
        and (unique > 0.1 or len(text) > 2000)
    )


@needs_data
def test_chinese_web_pages_that_two_published_criteria_accept_are_kept() -> None:
    languages = pq.read_table(DATA / "parity" / "datatrove_lid.parquet").to_pylist()
    urls = {r["id"] for r in languages if r["language"] == "zh" and r["text_source"] == "resiliparse"}
    rows = pq.read_table(DATA / "parity" / "text.parquet", columns=["url", "text_resiliparse"]).to_pylist()
    texts = [r["text_resiliparse"] for r in rows if r["url"] in urls]
    assert len(texts) == 777
    found = Counter(r for r in reasons(list(texts)) if r is not None)
    card = (Path(quality.__file__).parent / "chinese.md").read_text(encoding="utf-8")
    assert {r: int(n) for r, n in re.findall(r"^\| (chinese_\w+) \| (\d+) \|$", card, re.MULTILINE)} == found
    assert f"drops {found.total()} of them, {100 * found.total() / 777:.1f} %" in card
    accepted = [t for t in texts if chinese_web_text(t) and map_cc(t)]
    assert len(accepted) > 150
    assert kept(accepted) >= 0.97
