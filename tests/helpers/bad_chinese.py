"""Bad Chinese pages from a seed: menus, link lists, keyword spam, machine-repeated text, mojibake, in either script.

Everything is made up here; `pages(seed, n)` gives the same pages on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable

#: (simplified, traditional)
MENU = [
    ("首页", "首頁"), ("新闻中心", "新聞中心"), ("产品展示", "產品展示"), ("联系我们", "聯絡我們"), ("关于我们", "關於我們"),
    ("在线留言", "線上留言"), ("招贤纳士", "人才招募"), ("下载中心", "下載中心"), ("会员登录", "會員登入"), ("注册", "註冊"),
    ("购物车", "購物車"), ("我的订单", "我的訂單"), ("帮助", "說明"), ("返回顶部", "回到頂端"), ("上一页", "上一頁"),
    ("下一页", "下一頁"), ("友情链接", "友情連結"), ("网站地图", "網站地圖"), ("版权所有", "版權所有"), ("体育", "體育"),
    ("财经", "財經"), ("娱乐", "娛樂"), ("科技", "科技"), ("汽车", "汽車"), ("房产", "房產"), ("教育", "教育"),
]  # fmt: skip
TITLES = [
    ("市政府召开春季绿化工作会议", "市政府召開春季綠化工作會議"), ("本周末气温回升注意防火", "本週末氣溫回升注意防火"),
    ("老城区三条道路完成改造", "老城區三條道路完成改造"), ("图书馆延长开放时间通知", "圖書館延長開放時間通知"),
    ("青年足球赛决赛周日开踢", "青年足球賽決賽週日開踢"), ("新款电动车上市价格公布", "新款電動車上市價格公布"),
    ("专家谈如何挑选新鲜水果", "專家談如何挑選新鮮水果"), ("地铁五号线客流创新高", "捷運五號線客流創新高"),
]  # fmt: skip
KEYWORDS = [
    ("手机报价", "手機報價"), ("二手房", "中古屋"), ("减肥方法", "減肥方法"), ("贷款中介", "貸款仲介"),
    ("装修公司", "裝潢公司"), ("免费小说", "免費小說"), ("在线观看", "線上觀看"), ("游戏充值", "遊戲儲值"),
    ("考试答案", "考試答案"), ("代开发票", "代開發票"), ("彩票预测", "彩券預測"), ("壁纸下载", "桌布下載"),
    ("股票推荐", "股票推薦"), ("机票打折", "機票打折"), ("丰胸产品", "豐胸產品"),
]  # fmt: skip
SENTENCES = [
    ("这款产品质量好、价格低，欢迎新老客户来电咨询。", "這款產品品質好、價格低，歡迎新舊客戶來電洽詢。"),
    ("我们的服务宗旨是客户第一、质量第一。", "我們的服務宗旨是客戶第一、品質第一。"),
    ("点击下面的按钮就可以立刻得到优惠。", "點擊下面的按鈕就可以立刻得到優惠。"),
    ("本站所有内容均来自网络，如有侵权请联系删除。", "本站所有內容均來自網路，如有侵權請聯絡刪除。"),
]
PROSE = (
    "河水在夜里涨了起来，天亮的时候，低处的路已经淹在水下。村里的人把羊赶到山坡上去，学校也停了课。"
    "老磨坊主站在门口说，比这更大的水他也见过，只是那时候桥还在。中午雨停了，大家走到岸边，看那座旧桥还剩下什么。"
    "孩子们捡起冲上来的木板，说要自己再搭一座；大人们笑了笑，没有说话。"
)


def menu(rng: random.Random, script: int) -> str:
    separator = rng.choice([" | ", "\n", " > ", "  ", " · "])
    return separator.join(rng.choice(MENU)[script] for _ in range(rng.randint(20, 120)))


def link_list(rng: random.Random, script: int) -> str:
    lines = []
    for _ in range(rng.randint(15, 60)):
        date = f"{rng.randint(2009, 2024)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        title = rng.choice(TITLES)[script] + rng.choice(["", f"（{rng.randint(1, 99)}）", rng.choice(TITLES)[script]])
        lines.append(
            rng.choice([f"{title} {date}", f"· {title}", f"{rng.randint(1, 60)}. {title}", f"[{date}] {title}"])
        )
    return "\n".join(lines)


def keyword_spam(rng: random.Random, script: int) -> str:
    separator = rng.choice(["，", ",", "、", "_", " ", "|"])
    places = ["北京", "上海", "台北", "广州", "高雄"] if script == 0 else ["北京", "上海", "臺北", "廣州", "高雄"]
    words = [rng.choice(["", rng.choice(places)]) + rng.choice(KEYWORDS)[script] for _ in range(rng.randint(40, 200))]
    lines, at = [], 0
    while at < len(words):
        take = rng.randint(8, 40)
        lines.append(separator.join(words[at : at + take]) + rng.choice(["", "。", "！", "..."]))
        at += take
    return "\n".join(lines)


def repeated(rng: random.Random, script: int) -> str:
    """A few sentences said again and again, with or without a number in between."""
    chosen = rng.sample(SENTENCES, rng.randint(1, 3))
    pieces = [rng.choice(chosen)[script] for _ in range(rng.randint(12, 60))]
    if rng.random() < 0.3:
        pieces = [f"{i}、{p}" for i, p in enumerate(pieces)]
    return rng.choice(["", "\n"]).join(pieces)


def mojibake(rng: random.Random, script: int) -> str:
    """Prose decoded with a charset it was not written in, or gone through one that cannot hold it."""
    sentences = PROSE.split("。")[:-1]
    text = "。".join(rng.sample(sentences, len(sentences))) + "。"
    if script == 1:
        return text.encode("gb18030").decode("big5", "replace")
    how = rng.randrange(3)
    if how == 0:
        return text.encode().decode("gb18030", "replace")
    if how == 1:
        return "".join("锟斤拷" if rng.random() < 0.5 else c for c in text)
    return "".join("\ufffd" if rng.random() < 0.2 else c for c in text)


KINDS: dict[str, Callable[[random.Random, int], str]] = {
    "menu": menu, "link_list": link_list, "keyword_spam": keyword_spam, "repeated": repeated, "mojibake": mojibake,
}  # fmt: skip


def pages(seed: int, each: int) -> list[tuple[str, str, str]]:
    """(kind, script, text), `each` of every kind and script."""
    rng = random.Random(seed)
    return [
        (kind, ("Hans", "Hant")[script], make(rng, script))
        for kind, make in KINDS.items()
        for script in (0, 1)
        for _ in range(each)
    ]
