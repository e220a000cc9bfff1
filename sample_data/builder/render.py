"""HTML around a text, and the ways in which its bytes can be spoiled."""

from __future__ import annotations

import html
import itertools
import re
import string
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from .common import HERE, number, pick
from .pages import Page
from .texts import Text, html_block, inline

HTML_LANG = {"zh-Hans": "zh-CN", "zh-Hant": "zh-TW"}


class Renderer:
    def __init__(self, pages: list[Page], sites: dict[str, dict[str, Any]], chrome: dict[str, dict[str, Any]]):
        self.sites, self.chrome = sites, chrome
        self.templates = {p.stem: string.Template(p.read_text("utf-8")) for p in (HERE / "templates").glob("*.html")}
        self.by_host: dict[str, list[Page]] = {}
        for page in pages:
            if page.text and page.visit == 1:
                self.by_host.setdefault(urlsplit(page.url).netloc, []).append(page)

    def html(self, page: Page, text: Text) -> str:
        host, path = urlsplit(page.url).netloc, urlsplit(page.url).path
        site, words = self.sites[host], self.chrome[page.lang]
        title = html.escape(text.one("title"), quote=True)
        authors = [str(a) for a in site["authors"]]
        author = text.one("author") or pick(page.url, authors, 1)[0]
        rendered = [html_block(block) for block in text.blocks]
        summary = re.sub(r"\s+", " ", text.plain)[:150]
        others = [p for p in self.by_host[host] if p.url != page.url and p.text]
        links = [f'<li><a href="{p.url}">{html.escape(p.text.one("title"))}</a></li>' for p in others if p.text]
        nav = [str(n) for n in site["nav"]]
        ad = f'<div class="ad ad-inline" data-slot="mid"><span>{words["ad"]}</span></div>'
        near = pick("next/" + page.url, links, 2)
        heads = [b.lines[0] for b in text.blocks if b.kind in ("h2", "h3")]
        tags = pick("tags/" + page.url, nav, 2)
        values = {f"t_{key}": str(value) for key, value in words.items()} | {
            "lang": HTML_LANG.get(page.lang, page.lang),
            "url": page.url,
            "host": host,
            "path": path,
            "site": html.escape(str(site["name"])),
            "site_json": str(site["name"]),
            "tagline": html.escape(str(site["tagline"])),
            "section": html.escape(pick("section/" + page.url, nav, 1)[0]),
            "slug": path.rstrip("/").rsplit("/", 1)[-1].split(".")[0] or "index",
            "title": title,
            "title_json": text.one("title").replace('"', '\\"'),
            "author": author,
            "author_json": author,
            "author_id": f"u{number('author/' + author, 900) + 100}",
            "date": text.one("date"),
            "year": text.one("date")[:4],
            "number": str(number("number/" + page.url, 90000) + 10000),
            "price": f"{number('price/' + page.url, 90) + 9}.{number('cents/' + page.url, 10)}0",
            "description": html.escape(summary, quote=True),
            "charset": page.charset,
            "charset_meta": self.charset_meta(page),
            "head_extra": self.head_extra(text),
            "nav": "".join(f'<li><a href="/{i}/">{html.escape(n)}</a></li>' for i, n in enumerate(nav)),
            "body": "\n".join(rendered),
            "body_with_ad": "\n".join([*rendered[:2], ad, *rendered[2:]]),
            "body_first": self.infobox(text) + "\n".join(rendered[:1]),
            "body_rest": "\n".join(rendered[1:]),
            "posts": self.posts(text, page),
            "post_count": str(max(1, sum(b.kind == "post" for b in text.blocks))),
            "comments": self.comments(page, words),
            "related": "\n".join(pick("related/" + page.url, links, 5)),
            "popular": "\n".join(pick("popular/" + host, links, 4)),
            "prev_next": " ".join(link.replace("<li>", "<span>").replace("</li>", "</span>") for link in near),
            "footer_links": "".join(f'<li><a href="/legal/{i}">{n}</a></li>' for i, n in enumerate(words["links"])),
            "tags": " ".join(f'<a rel="tag" href="/tag/{i}">{html.escape(t)}</a>' for i, t in enumerate(tags)),
            "toc": "".join(f'<li><a href="#s{i}">{inline(h)}</a></li>' for i, h in enumerate(heads)),
        }
        return self.templates[page.template].substitute(values)

    @staticmethod
    def charset_meta(page: Page) -> str:
        if page.declare not in ("both", "meta"):
            return ""
        if page.template in ("plain", "portal"):
            return f'<meta http-equiv="Content-Type" content="text/html; charset={page.charset}">'
        return f'<meta charset="{page.charset}">'

    @staticmethod
    def head_extra(text: Text) -> str:
        lines = [f'<meta name="robots" content="{value}">' for value in text.head.get("robots", [])]
        lines += [f'<link rel="license" href="{value}">' for value in text.head.get("license", [])]
        return "\n".join(lines)

    @staticmethod
    def infobox(text: Text) -> str:
        rows = [value.split("=", 1) for value in text.head.get("infobox", [])]
        if not rows:
            return ""
        body = "".join(f"<tr><th>{html.escape(k.strip())}</th><td>{html.escape(v.strip())}</td></tr>" for k, v in rows)
        return (
            f'<table class="infobox"><caption>{html.escape(text.one("title"))}</caption><tbody>{body}</tbody></table>\n'
        )

    @staticmethod
    def posts(text: Text, page: Page) -> str:
        out: list[str] = []
        for i, block in enumerate(text.blocks):
            if block.kind == "post" or not out:
                who = block.lines[0] if block.kind == "post" else "admin"
                when = f"{text.one('date')} {8 + i % 12:02}:{number(f'{page.url}/{i}', 60):02}"
                if out:
                    out.append("</div></div></div>")
                out.append(
                    f'<div id="p{1000 + i}" class="post"><dl class="postprofile"><dt>{html.escape(who)}</dt>'
                    f"<dd>#{i + 1}</dd></dl>"
                    f'<div class="postbody"><p class="author">{html.escape(who)} &raquo; {when}</p>'
                    '<div class="content">'
                )
            if block.kind != "post":
                out.append(html_block(block))
        return "\n".join(out) + "\n</div></div></div>"

    @staticmethod
    def comments(page: Page, words: dict[str, Any]) -> str:
        count = number("comments/" + page.url, 4)
        said = pick("said/" + page.url, [str(s) for s in words["said"]], count)
        people = pick("people/" + page.url, [str(s) for s in words["people"]], count)
        items = "".join(
            f'<li class="comment" id="c{i}"><cite>{html.escape(who)}</cite> <a href="#c{i}">#{i + 1}</a>'
            f'<div class="comment-body"><p>{html.escape(what)}</p></div></li>\n'
            for i, (who, what) in enumerate(zip(people, said, strict=True))
        )
        form = f'<form action="/comment"><label>{words["leave"]}<textarea name="t"></textarea></label></form>'
        return f'<div class="comments-area"><h2>{words["comments"]} ({count})</h2>\n<ol>{items}</ol>{form}</div>'


def mojibake(data: bytes) -> bytes:
    """UTF-8 read as windows-1252 and stored as UTF-8 once more."""
    return "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in data).encode("utf-8")


def broken_utf8(data: bytes) -> bytes:
    """Every fifth multi-byte character loses its last byte, and two bytes that UTF-8 never has come in."""
    seen = itertools.count(1)
    data = re.sub(rb"[\xc2-\xef][\x80-\xbf]+", lambda m: m[0][:-1] if next(seen) % 5 == 0 else m[0], data)
    return data.replace(b"</p>", b"\xff\xfe</p>", 2)


def control_characters(data: bytes) -> bytes:
    """CRLF and CR line ends, and control characters between words."""
    stray = (b"\x0b ", b" \x07", b"\xc2\x85 ", b" \x1f", b"\xe2\x80\xa8")
    odd = itertools.cycle([space for mark in stray for space in (*[b" "] * 9, mark)])

    def between_words(paragraph: re.Match[bytes]) -> bytes:
        return re.sub(rb"(?<=[a-z,]) (?=[a-z])", lambda _: next(odd), paragraph[0])

    head, mark, tail = data.partition(b"<!-- begin text -->")
    tail = re.sub(rb"<p>.*?</p>", between_words, tail)
    return head.replace(b"\n", b"\r\n") + mark + tail.replace(b"\n", b"\r", 12).replace(b"\n", b"\r\n")


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "mojibake": mojibake,
    "broken_utf8": broken_utf8,
    "control": control_characters,
}


def body_bytes(page: Page, renderer: Renderer) -> bytes:
    if page.text is None:
        return page.body
    if page.text.one("template") == "nothing":
        return b""
    source = renderer.html(page, page.text)
    if page.charset == "utf-16":
        return b"\xff\xfe" + source.encode("utf-16-le")
    data = source.encode(page.charset, "xmlcharrefreplace")
    damage = page.text.one("damage")
    return DAMAGE[damage](data) if damage else data
