"""Documents of many kinds and languages, fixed for ever: golden digests are taken of what stages make of them."""

from __future__ import annotations

from typing import Final

from corpusflow.checks import SAMPLE_TEXTS

_MILL = (
    "The old mill by the bridge has been closed for eleven years, and in that time the river has taken two of its walls. "
    "Last spring the council asked what it would cost to mend them. The answer, which filled forty pages, was that nobody "
    "could say before the foundations had been dug up. So the mill stands as it stood, with a fence around it."
)
_RIVER = (
    "去年秋天，我在江边的小镇住了三个月。每天早上六点，渡船的汽笛把我叫醒，卖豆腐的老人从楼下走过，他的扁担吱呀作响。"
    "镇上的人不多，年轻人都去了城里，留下来的是老人和孩子。他们在桥头下棋，一盘棋可以下到天黑。"
)
_RIVER_TRADITIONAL = (
    "去年秋天，我在江邊的小鎮住了三個月。每天早上六點，渡船的汽笛把我叫醒，賣豆腐的老人從樓下走過，他的扁擔吱呀作響。"
    "鎮上的人不多，年輕人都去了城裡，留下來的是老人和孩子。他們在橋頭下棋，一盤棋可以下到天黑。"
)
_LIST = "\n".join(f"- item {i}: see page {i * 7}…" for i in range(40))
_MENU = "Home\nAbout us\nContact\nLog in\nSign up\nCookie policy\nPrivacy\nTerms of use\n© 2019 All rights reserved\n"
_SPAM = "CHEAP WATCHES!!! buy now, best price, buy now, best price, click here >>> http://spam.example/w?x=1 <<< " * 9
_CODE = (
    'def add(a, b):\n    """Sum."""\n    return a + b  # {curly} lorem ipsum\n\nprint(add(1, 2))\njavascript required\n'
)
_PERSONAL = (
    "Write to jane.roe@example.org or call +1 (212) 555-0147 before Friday. The office at 10 Rue de l'Exemple, 75001 Paris, is "
    "closed on Mondays; the server is at 203.0.113.7. Card 4111 1111 1111 1111, IBAN GB82 WEST 1234 5698 7654 32."
)
_MOJIBAKE = (
    "Itâ€™s a cafÃ© in MÃ¼nchen â€“ open until 22:00. \u201cQuoted\u201d and ﬁne ligatures, full width ＡＢＣ１２３."
)
_GERMAN = (
    "Als der Zug im Bahnhof hielt, stieg niemand aus. Der Schaffner sah auf die Uhr, schüttelte den Kopf und pfiff; dann fuhren "
    "wir weiter, an Feldern vorbei, auf denen noch Schnee lag. Nach einer Stunde war es dunkel."
)
_JAPANESE = "駅前の喫茶店は今月で閉まる。店主は四十年間、毎朝同じ時間に豆を挽いてきた。常連客は最後の日に花を持って集まるという。"
_REPEATED = "The same line again and again.\n" * 25 + "And one that is not.\n" + "The same line again and again.\n" * 10
_TERSE = " ".join(f"{w}" for w in ("the", "of", "and") * 30)

TEXTS: Final[tuple[str | None, ...]] = (
    *SAMPLE_TEXTS,
    _MILL,
    _MILL.upper(),
    f"{_MILL}\n\n{_MILL}\n{_GERMAN}",
    _MILL.replace("eleven", "twelve") + " Children climb over it.",
    _RIVER,
    _RIVER_TRADITIONAL,
    f"{_RIVER}\n{_MILL}",
    _RIVER * 4,
    _LIST,
    _MENU,
    f"{_MENU}\n{_MILL}\n\n{_MENU}",
    _SPAM,
    _CODE,
    _PERSONAL,
    _MOJIBAKE,
    _GERMAN,
    _JAPANESE,
    _REPEATED,
    _TERSE,
)
_SAMPLE_LANGUAGES = ("en", None, "und", "und", "en", "zh", "zh", "de", "ja", "ru", "ar", "th", *["en"] * 8)
LANGUAGES: Final[tuple[str | None, ...]] = (
    *_SAMPLE_LANGUAGES,
    *("en", "en", "en", "en", "zh", "zh", "zh", "zh", "en", "en", "en", "en", "en", "en", "en", "de", "ja", "en", "en"),
)
assert len(TEXTS) == len(LANGUAGES)
