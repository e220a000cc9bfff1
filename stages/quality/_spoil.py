"""Bad text made from good: what a quality model must not take for text, by construction.

Each way is how real pages are bad: menus and link lists, keyword spam, wrongly decoded bytes, a page that is all boilerplate.
Not among them are text said again and again and words in the wrong order: a bag of n-grams cannot see them (tried: a fifth
and a half of them were found, at the price of good texts); the repetition rules can. `spoil` picks a way by seed and text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Final

import xxhash

_CHINESE: Final = re.compile(r"[\u4e00-\u9fff]")
_PIECE: Final = re.compile(r"[^\s,.;:!?，。；：！？、“”\"()（）]+")
_BOILERPLATE: Final = (
    "Home", "About us", "Contact", "Log in", "Sign up", "Privacy policy", "Terms of use", "Subscribe to our newsletter",
    "All rights reserved", "Next page", "Previous page", "Share on social media", "Leave a reply", "No comments yet",
    "We use cookies to improve your experience.", "Click here", "Read more...", "Add to cart", "Back to top", "Search",
    "首页", "关于我们", "联系我们", "登录", "注册", "上一页", "下一页", "版权所有", "返回顶部", "首頁", "關於我們",
    "聯絡我們", "登入",
)  # fmt: skip


def _pieces(text: str, rng: random.Random) -> list[str]:
    """Short phrases out of the text, in any order."""
    found = _PIECE.findall(text)
    if _CHINESE.search(text):
        found = [p[:k] for p in found if (k := rng.randint(2, 6)) <= len(p)] or found
    rng.shuffle(found)
    return found or ["…"]


def menu(text: str, rng: random.Random) -> str:
    """Short phrases of the text, one a line or between bars, among what stands in menus."""
    pieces = _pieces(text, rng)
    size = rng.randint(1, 3)
    items = [" ".join(pieces[i : i + size]).capitalize() for i in range(0, min(len(pieces), 90), size)]
    items += rng.choices(_BOILERPLATE, k=rng.randint(2, 12))
    rng.shuffle(items)
    return rng.choice(["\n", " | ", "\n- ", " » ", "\n\n"]).join(items)


def keywords(text: str, rng: random.Random) -> str:
    """A few phrases combined over and over."""
    few = [p for p in _pieces(text, rng) if len(p) > 2][: rng.randint(5, 20)] or ["…"]
    between = rng.choice([", ", " ", "，", " - ", "、", "_"])
    groups = [" ".join(rng.choices(few, k=rng.randint(1, 3))) for _ in range(rng.randint(30, 150))]
    return between.join(groups) + rng.choice(["", ".", "!", "。"])


def mojibake(text: str, rng: random.Random) -> str:
    """Bytes read in a charset they are not in."""
    if _CHINESE.search(text):
        how = rng.choice([("utf-8", "gb18030"), ("gb18030", "big5"), ("utf-8", "latin-1")])
        return text.encode(how[0], "ignore").decode(how[1], "replace")
    accented = re.sub(r"[aeiou]", lambda m: rng.choice(["é", "ü", m[0], m[0], "ñ"]), text)
    return accented.encode().decode("cp1252", "replace")


def boilerplate(text: str, rng: random.Random) -> str:
    """A teaser among notices."""
    lines = rng.choices(_BOILERPLATE, k=rng.randint(12, 40))
    lines.insert(rng.randint(0, len(lines)), text[: rng.randint(20, 120)] + "...")
    return "\n".join(lines)


WAYS: Final[Mapping[str, Callable[[str, random.Random], str]]] = {
    "menu": menu, "keywords": keywords, "mojibake": mojibake, "boilerplate": boilerplate,
}  # fmt: skip


def spoil(text: str, seed: int) -> tuple[str, str]:
    """(way, spoiled text); the same for the same text and seed anywhere."""
    rng = random.Random(xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace"), seed))
    way = rng.choice(list(WAYS))
    return way, WAYS[way](text, rng)
