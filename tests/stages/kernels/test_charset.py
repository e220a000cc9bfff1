"""Which encoding a page is in: declared right, wrong, or not at all; marks; accidents; broken pages; real sentences."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections import defaultdict
from pathlib import Path

import pytest

from stages.kernels.charset import codec_of, declared, decode, to_utf8

DATA = os.environ.get("CORPUSFLOW_TEST_DATA", "")

TEXTS = {
    "en": "Nobody had expected the river to rise so soon — “not in May”, said the miller’s wife, "
    "over a cup of café au lait.",
    "de": "Über Nacht stieg der Fluß, und früh am Morgen standen die Straßen unter Wasser. Die "
    "Schüler freuten sich natürlich.",
    "fr": "La rivière a débordé pendant la nuit ; à l’aube, la route était sous l’eau et l’école "
    "resta fermée. Ça n’étonna personne.",
    "es": "El río creció durante la noche y por la mañana el camino estaba bajo el agua. ¿Quién lo "
    "habría dicho? Los niños, también.",
    "pl": "W nocy rzeka wezbrała, a rano dolna droga była już pod wodą. Szkołę zamknięto, więc "
    "dzieci cieszyły się ogromnie. Źle? Skądże!",
    "cs": "V noci se řeka zvedla a ráno už dolní cesta ležela pod vodou. Škola zůstala zavřená, což "
    "děti velmi potěšilo. Žádný div.",
    "hu": "Éjjel megáradt a folyó, reggelre az alsó út már víz alatt állt. Az iskola zárva maradt, "
    "aminek a gyerekek nagyon örültek.",
    "tr": "Gece ırmak yükseldi, sabahleyin aşağı yol sular altındaydı. Okul kapalı kaldı; çocuklar "
    "buna çok sevindi, değil mi?",
    "lt": "Naktį upė patvino, o rytą žemutinis kelias jau buvo po vandeniu. Mokykla liko uždaryta, "
    "vaikai labai džiaugėsi.",
    "ru": "Ночью река поднялась, и к утру нижняя дорога оказалась под водой. Школу закрыли, чему "
    "дети очень обрадовались.",
    "uk": "Уночі річка піднялася, і на ранок нижня дорога була вже під водою. Школу зачинили, чому "
    "діти дуже зраділи. Її ще чекають.",
    "bg": "През нощта реката се покачи и на сутринта долният път беше под вода. Училището остана "
    "затворено, а децата се зарадваха.",
    "el": "Τη νύχτα το ποτάμι φούσκωσε και το πρωί ο κάτω δρόμος ήταν κάτω από το νερό. Το σχολείο "
    "έμεινε κλειστό και τα παιδιά χάρηκαν.",
    "he": "בלילה עלה הנהר, ועם בוקר הייתה הדרך התחתונה מתחת למים. בית הספר נשאר סגור והילדים שמחו מאוד.",
    "ar": "ارتفع النهر في الليل وغمرت المياه الطريق المنخفض في الصباح. بقيت المدرسة مغلقة وفرح الأطفال بذلك كثيرا.",
    "th": "แม่น้ำเอ่อขึ้นในเวลากลางคืน และถนนสายล่างจมอยู่ใต้น้ำในตอนเช้า โรงเรียนจึงปิดและเด็กๆ ดีใจมาก",
    "zh": "昨夜河水上涨，清晨时低处的道路已被淹没。村民们把羊群赶到山坡上，学校停课一天，孩子们都很高兴。",
    "zh-Hant": "昨夜河水上漲，清晨時低處的道路已被淹沒。村民們把羊群趕到山坡上，學校停課一天，孩子們都很高興。",
    "ja": "川の水が夜のうちに増え、朝には低い道が水に沈んでいた。学校は休みになり、子どもたちはとても喜んだ。",
    "ko": "밤사이 강물이 불어나 아침에는 아랫길이 물에 잠겼다. 학교는 문을 닫았고 아이들은 무척 기뻐하였다.",
}
#: (codec, label on the web, languages, wrong labels that occur)
ENCODINGS = [
    ("cp1252", "windows-1252", "en de fr es", "utf-8 iso-8859-2 gbk"),
    ("cp1252", "iso-8859-1", "en de fr es", "utf-8 windows-1250"),
    ("cp1250", "windows-1250", "pl cs hu", "utf-8 iso-8859-1"),
    ("iso8859_2", "iso-8859-2", "pl cs hu", "utf-8 iso-8859-1 windows-1250"),
    ("cp1254", "iso-8859-9", "tr", "utf-8 iso-8859-1"),
    ("cp1257", "windows-1257", "lt", "utf-8 iso-8859-1"),
    ("cp1251", "windows-1251", "ru uk bg", "utf-8 iso-8859-1 koi8-r"),
    ("koi8_r", "koi8-r", "ru", "utf-8 iso-8859-1 windows-1251"),
    ("koi8_u", "koi8-u", "uk", "utf-8 windows-1251"),
    ("iso8859_5", "iso-8859-5", "ru bg", "utf-8 windows-1251"),
    ("cp866", "ibm866", "ru", "utf-8 windows-1251"),
    ("cp1253", "windows-1253", "el", "utf-8 iso-8859-1"),
    ("cp1255", "windows-1255", "he", "utf-8 iso-8859-1"),
    ("cp1256", "windows-1256", "ar", "utf-8 iso-8859-1"),
    ("cp874", "tis-620", "th", "utf-8 iso-8859-1"),
    ("gb18030", "gb2312", "zh", "utf-8 iso-8859-1 big5 euc-kr"),
    ("gb18030", "gb18030", "zh zh-Hant", "utf-8"),
    ("big5hkscs", "big5", "zh-Hant", "utf-8 iso-8859-1 gb2312"),
    ("cp932", "shift_jis", "ja", "utf-8 iso-8859-1 euc-jp"),
    ("euc_jp", "euc-jp", "ja", "utf-8 iso-8859-1 shift_jis gb2312"),
    ("cp949", "euc-kr", "ko", "utf-8 iso-8859-1 gbk shift_jis"),
    ("utf-8", "utf-8", " ".join(TEXTS), "iso-8859-1 gbk big5 shift_jis windows-1251 euc-kr utf-16"),
]


def page(text: str, meta: str = "") -> str:
    head = f"<!DOCTYPE html><html><head>{meta}<title>{text[:20]}</title><link rel=stylesheet href=/a.css></head>"
    return f'{head}<body class="home"><div><a href="/">Home</a></div><p>{text}</p></body></html>'


@pytest.mark.parametrize(("codec", "label", "languages", "wrong"), ENCODINGS)
def test_declared_right_wrong_or_not(codec: str, label: str, languages: str, wrong: str) -> None:
    for language in languages.split():
        text = TEXTS[language]
        for claim in [label, None, *wrong.split()]:
            html = page(text)
            content_type = f"text/html; charset={claim}" if claim else "text/html"
            assert decode(html.encode(codec), content_type)[0] == html, (language, claim, "in the header")
            html = page(text, f'<meta http-equiv="Content-Type" content="text/html; charset={claim}">' if claim else "")
            assert decode(html.encode(codec), None)[0] == html, (language, claim, "in the page")


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark(codec: str) -> None:
    for text in TEXTS.values():
        html = page(text)
        assert decode(html.encode(codec), "text/html; charset=utf-8") == (html, codec)


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_believed_over_all(codec: str) -> None:
    html = page(TEXTS["ru"], "<meta charset=windows-1251>")
    assert decode(html.encode(codec), "text/html; charset=koi8-r")[0] == html


def test_seven_bit_japanese() -> None:
    html = page(TEXTS["ja"], "<meta charset=iso-2022-jp>")
    assert decode(html.encode("iso2022_jp")) == (html, "iso2022_jp")
    assert decode(page(TEXTS["ja"]).encode("iso2022_jp"))[0] == page(TEXTS["ja"])
    plain = page("plain ~{ text")
    assert decode(plain.encode()) == (plain, "ascii")


def test_the_header_counts_more_than_the_page() -> None:
    html = page(TEXTS["pl"], "<meta charset=iso-8859-2>")
    assert declared(html.encode("cp1250"), "text/html;charset=windows-1250") == ["cp1250", "iso8859_2"]
    assert decode(html.encode("cp1250"), "text/html;charset=windows-1250")[1] == "cp1250"


def test_declarations_are_read_as_browsers_do() -> None:
    assert [
        codec_of(x) for x in ("GB2312", "latin1", " 'Big5' ", "x-sjis", "ks_c_5601-1987", "TIS-620", "unicode")
    ] == [
        "gb18030",
        "cp1252",
        "big5hkscs",
        "cp932",
        "cp949",
        "cp874",
        "utf-16-le",
    ]
    assert codec_of("utf-7") is None  # nobody should follow it
    assert codec_of("rot13") is None
    assert declared(b'<?xml version="1.0" encoding="EUC-JP"?><html>', None) == ["euc_jp"]
    assert declared(b"<meta name=x><META CHARSET='Shift_JIS'>", None) == ["cp932"]
    assert declared(b"<meta charset=nonsense>", "text/html; charset=nonsense") == []


def test_a_page_glued_together_keeps_its_utf_8() -> None:
    html = page(TEXTS["de"] * 5).encode() + "<p>f\xfcr</p>".encode("latin-1")
    text, codec = decode(html, "text/html; charset=utf-8")
    assert codec == "utf-8"
    assert text.startswith(page(TEXTS["de"] * 5))
    assert text.endswith("<p>f\ufffdr</p>")


def test_a_page_cut_inside_a_character() -> None:
    html = page(TEXTS["zh"]).encode()
    for cut in range(1, 40):
        text, codec = decode(html[: html.rindex("高兴".encode()) + cut], "text/html; charset=gbk")
        assert codec == "utf-8", cut
        assert text.rstrip("\ufffd") == page(TEXTS["zh"])[: len(text.rstrip("\ufffd"))]


def test_legacy_text_that_happens_to_be_utf_8() -> None:
    """The classic: 联通 in GBK is two valid UTF-8 characters."""
    html = "<p>联通</p>"
    assert decode(html.encode("gbk"), "text/html; charset=gbk") == (html, "gb18030")


def test_bytes_that_are_no_text_have_an_answer() -> None:
    rng = random.Random(1)
    for n in (1, 2, 3, 50, 5_000):
        for _ in range(20):
            text, codec = decode(rng.randbytes(n), rng.choice([None, "text/html; charset=big5"]))
            assert isinstance(text, str)
            text.encode("utf-8")
            assert codec


def test_to_utf8_is_decode() -> None:
    for text in TEXTS.values():
        for codec in ("utf-8", "utf-8-sig", "utf-16", "gb18030"):
            body = page(text).encode(codec)
            text_of, found = decode(body, "text/html")
            assert to_utf8(body, "text/html") == (text_of.encode(), found)
    body = page(TEXTS["zh"]).encode()
    assert to_utf8(body)[0] is body  # not copied


@pytest.mark.skipif(not DATA, reason="CORPUSFLOW_TEST_DATA is not set")
def test_real_sentences_are_decoded_exactly() -> None:
    """Sentences the tables were not made from: 99 % of documents exact, whatever is declared."""
    sentences: dict[str, list[str]] = defaultdict(list)
    with gzip.open(Path(DATA) / "langid" / "lingua_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record["kind"] == "sentences":
                sentences[record["lang"]].append(record["text"])
    rng = random.Random(1)
    right = total = 0
    for codec, label, languages, wrong in ENCODINGS:
        for language in languages.split():
            for _ in range(12 if language in sentences else 0):
                text = " ".join(rng.sample(sentences[language], rng.choice((3, 6, 12))))
                kept = text.encode(codec, "ignore").decode(codec)
                if kept.isascii() or len(kept) < 0.995 * len(text):
                    continue
                for claim in (label, None, rng.choice(wrong.split())):
                    html = page(kept)
                    got, _ = decode(html.encode(codec), f"text/html; charset={claim}" if claim else None)
                    right += got == html
                    total += 1
    assert total > 1_000
    assert right >= 0.99 * total
