"""Pages: which URL carries which text, in which WARC file, sent how, and what should become of it."""

from __future__ import annotations

import struct
import tomllib
import zlib
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from .common import HERE, LANGUAGES, number
from .texts import Text


@dataclass(frozen=True)
class Page:
    """One URL, as crawled: a text in a template, or some other answer of a server."""

    url: str
    text: Text | None
    kind: str
    lang: str
    template: str
    warc: int
    status: int = 200
    content_type: str = "text/html"
    charset: str = "utf-8"
    declare: str = "both"
    content_encoding: str = ""
    transfer: str = ""
    duplicate_group: str = ""
    near_group: str = ""
    keep: bool = True
    why: str = ""
    copy: int = 1
    visit: int = 1
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def doc_id(self) -> str:
        name = self.text.name if self.text else self.url
        return name if self.copy == 1 else f"{name}@{self.copy}"

    @property
    def declared_in(self) -> str:
        """Where the charset is declared: both (header and meta), header, meta or none."""
        if self.text is None:
            return ""
        return self.declare if self.declare in ("both", "header", "meta", "none") else "header"

    @property
    def declared(self) -> str:
        """The charset the page claims, which may be the wrong one."""
        if self.declared_in in ("", "none"):
            return ""
        return self.charset if self.declare == self.declared_in else self.declare


def load_toml(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((HERE / "templates" / name).read_text("utf-8"))


DROP_WHY = {
    "boilerplate": "boilerplate, no article",
    "links": "a list of links",
    "spam": "keyword spam",
    "toxic": "word list",
    "repetition": "repeats itself",
    "symbols": "digits and symbols, no words",
    "code": "code, no prose",
    "short": "too short",
    "empty": "no text",
    "huge": "repeats itself, 1.5 MB",
    "shouting": "all capitals",
    "bullets": "nearly every line is a bullet",
    "ellipsis": "nearly every line ends in an ellipsis",
    "lorem": "lorem ipsum",
    "mojibake": "mojibake; worth keeping only if it is repaired",
}


def deliver(url: str, warc: int, text: Text) -> tuple[str, str]:
    """Content-Encoding and Transfer-Encoding: what the header asks for, else by the crawler's habit."""
    if "content_encoding" in text.head or "transfer" in text.head:
        return text.one("content_encoding"), text.one("transfer")
    die = number("deliver/" + url, 8)
    if warc == 1:
        return ("gzip", "") if die < 2 else ("", "")
    if warc == 2:
        return ("gzip" if die < 2 else "", "chunked" if die < 4 else "")
    return "", ""


def load_pages(texts: dict[str, Text], sites: dict[str, dict[str, Any]]) -> list[Page]:
    pages: list[Page] = []
    near_bases = {text.one("base") for text in texts.values() if "base" in text.head}
    for text in texts.values():
        lang = LANGUAGES.get(text.lang, (text.lang, ""))[0]
        urls = [text.one("url"), *text.head.get("copy", [])]
        for copy, url in enumerate(urls, 1):
            host = urlsplit(url).netloc
            warc = number("warc/" + url, 4)
            if "warc" in text.head and copy == 1:
                warc = int(text.one("warc"))
            encoding, transfer = deliver(url, warc, text)
            why = DROP_WHY.get(text.kind, "")
            if not why and lang not in ("en", "zh"):
                why = "language " + lang
            if not why and copy > 1:
                why = "exact duplicate"
            if not why and "base" in text.head:
                why = "near duplicate"
            if text.one("warc") == "last":
                why = "truncated record"
            template = text.one("template", str(sites[host]["template"])) if copy == 1 else str(sites[host]["template"])
            page = Page(
                url=url,
                text=text,
                kind=text.kind,
                lang=text.lang,
                template=template,
                warc=warc,
                content_type=text.one("content_type", "text/html"),
                charset=text.one("charset", "utf-8"),
                declare=text.one("declare", "both"),
                content_encoding=encoding,
                transfer=transfer,
                duplicate_group=text.name if len(urls) > 1 or "again" in text.head else "",
                near_group=text.one("base") or (text.name if text.name in near_bases else ""),
                keep=not why,
                why=why,
                copy=copy,
            )
            pages.append(page)
            if "again" in text.head and copy == 1:
                again = replace(page, warc=int(text.one("again")), visit=2, copy=2, keep=False, why="same URL again")
                pages.append(again)
    return pages


def tiny_png() -> bytes:
    """A 16x16 grey gradient."""
    rows = b"".join(b"\0" + bytes((x * 8 + y * 8) % 256 for x in range(16)) for y in range(16))

    def chunk(tag: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))

    header = struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def other_answers() -> list[Page]:
    """What a crawl holds besides pages."""
    gone = (
        b"<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1><p>Nothing here.</p></body></html>\n"
    )
    moved = b"<html><head><title>301 Moved Permanently</title></head><body><a href='/'>moved</a></body></html>\n"
    robots = (
        b"User-agent: *\nDisallow: /search\nDisallow: /cart\nCrawl-delay: 5\n\nUser-agent: HungryBot\nDisallow: /\n"
    )
    css = b"body{font:16px/1.5 Georgia,serif;margin:0 auto;max-width:70rem}\nnav ul{display:flex;list-style:none}\n"
    feed = (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0"><channel><title>Slow Kettle</title>'
        b"<link>https://www.slowkettle.example/</link><item><title>Barley broth</title></item></channel></rss>\n"
    )

    def answer(url: str, kind: str, warc: int, status: int, content_type: str, body: bytes, **headers: str) -> Page:
        extra = tuple((key.title(), value) for key, value in headers.items())
        return Page(url, None, kind, "", "", warc, status, content_type, body=body, headers=extra, keep=False, why=kind)

    gazette, tideway = "https://www.harbour-gazette.example", "https://tidewayscience.example"
    return [
        answer(f"{gazette}/robots.txt", "robots", 0, 200, "text/plain", robots),
        answer(f"{gazette}/sport/2019/regatta-results", "not_found", 0, 404, "text/html", gone),
        answer("http://www.harbour-gazette.example/", "redirect", 0, 301, "text/html", moved, location=gazette + "/"),
        answer(f"{tideway}/img/share-1200.png", "image", 1, 200, "image/png", tiny_png()),
        answer(f"{tideway}/2021/old-podcast", "not_found", 1, 404, "text/html", gone),
        answer("https://www.jiangwan-news.example/robots.txt", "robots", 2, 200, "text/plain", robots),
        answer("https://www.jiangwan-news.example/static/css/main.7f3a91.css", "css", 2, 200, "text/css", css),
        answer(
            "https://blog.qingshuiwan.example/?p=88",
            "redirect",
            2,
            302,
            "text/html",
            b"",
            location="https://blog.qingshuiwan.example/2023/11/88.html",
        ),
        answer("https://www.slowkettle.example/feed.xml", "feed", 3, 200, "application/rss+xml", feed),
        answer("https://shop.fernhollow.example/p/discontinued", "not_found", 3, 410, "text/html", gone),
        answer("https://mossandtrowel.example/busy", "server_error", 3, 503, "text/html", b"", retry_after="120"),
    ]
