"""Rebuild every binary file of sample_data/ from the texts and templates that lie beside this script.

    python sample_data/make.py            write web/, jsonl/, parquet/, text/, tokenizer/ and pages.jsonl
    python sample_data/make.py --check    write nothing; exit 1 if what is on disk differs

A text is a Markdown file with a small header. The header says at which URL a page with this text was "crawled"
and how the server delivered it; the site decides the template; everything else (comments, links, dates, which
WARC file) is drawn from a hash of the URL, so that adding a text moves no other page.
"""

from __future__ import annotations

import argparse
import base64
import datetime as dt
import hashlib
import html
import io
import itertools
import json
import re
import string
import struct
import sys
import tomllib
import unicodedata
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import sentencepiece as spm
import zstandard
from fastwarc.warc import ArchiveIterator

HERE = Path(__file__).resolve().parent
WARCS = ("web-00.warc.gz", "web-01.warc.gz", "web-02.warc.gz", "web-03.warc.gz")
EPOCH = dt.datetime(2024, 3, 18, 4, 0, 0, tzinfo=dt.UTC)
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "corpusflow/sample_data")
LANGUAGES = {"zh-Hans": ("zh", "Hans"), "zh-Hant": ("zh", "Hant"), "ja": ("ja", "Jpan"), "ru": ("ru", "Cyrl")}
HTML_LANG = {"zh-Hans": "zh-CN", "zh-Hant": "zh-TW"}
T = TypeVar("T")
CHECKED = ("web", "jsonl", "parquet", "text", "tokenizer", "pages.jsonl")


def number(seed: str, below: int) -> int:
    """A number in [0, below) that depends on `seed` alone."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % below


def pick(seed: str, items: Sequence[T], count: int) -> list[T]:
    """`count` different items in an order that depends on `seed` alone."""
    order = sorted(range(len(items)), key=lambda i: hashlib.sha256(f"{seed}/{i}".encode()).digest())
    return [items[i] for i in order[:count]]


# --- texts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    kind: str  # p, h2, h3, ul, ol, code, table, quote, post
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    name: str
    lang: str
    head: dict[str, list[str]]
    blocks: tuple[Block, ...]

    def one(self, key: str, default: str = "") -> str:
        return self.head.get(key, [default])[0]

    @property
    def kind(self) -> str:
        return self.one("kind", "good")

    @property
    def plain(self) -> str:
        return "\n\n".join(filter(None, (plain_block(block) for block in self.blocks)))


def parse_blocks(source: str) -> tuple[Block, ...]:
    blocks: list[Block] = []
    parts = re.split(r"(^```.*?^```$)", source, flags=re.M | re.S)
    for part in parts:
        if part.startswith("```"):
            blocks.append(Block("code", tuple(part.split("\n")[1:-1])))
            continue
        for chunk in re.split(r"\n[ \t]*\n", part.strip("\n")):
            lines = tuple(line for line in chunk.split("\n") if line.strip())
            if not lines:
                continue
            first = lines[0]
            if first.startswith("## "):
                blocks.append(Block("h2", (first[3:],)))
            elif first.startswith("### "):
                blocks.append(Block("h3", (first[4:],)))
            elif first.startswith("@@ "):
                blocks.append(Block("post", (first[3:],)))
            elif all(line.startswith("- ") for line in lines):
                blocks.append(Block("ul", tuple(line[2:] for line in lines)))
            elif all(re.match(r"\d+\. ", line) for line in lines):
                blocks.append(Block("ol", tuple(line.split(". ", 1)[1] for line in lines)))
            elif all(line.startswith("|") for line in lines):
                blocks.append(Block("table", tuple(line for line in lines if not re.fullmatch(r"[|\-\s]+", line))))
            elif first.startswith("> "):
                blocks.append(Block("quote", tuple(line[2:] for line in lines)))
            else:
                blocks.append(Block("p", lines))
    return tuple(blocks)


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def unmark(line: str) -> str:
    line = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", line)
    line = re.sub(r"\*\*(.+?)\*\*", r"\1", line)
    line = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*", r"\1", line)
    return re.sub(r"`([^`]+)`", r"\1", line)


def plain_block(block: Block) -> str:
    if block.kind == "post":
        return ""
    if block.kind == "code":
        return "\n".join(block.lines)
    if block.kind == "table":
        return "\n".join(" | ".join(unmark(cell) for cell in cells(row)) for row in block.lines)
    return "\n".join(unmark(line) for line in block.lines)


def inline(line: str) -> str:
    line = html.escape(line, quote=False)
    line = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', line)
    line = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", line)
    line = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*", r"<em>\1</em>", line)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", line)


def html_block(block: Block) -> str:
    match block.kind:
        case "h2" | "h3":
            return f"<{block.kind}>{inline(block.lines[0])}</{block.kind}>"
        case "ul" | "ol":
            items = "".join(f"<li>{inline(line)}</li>\n" for line in block.lines)
            return f"<{block.kind}>\n{items}</{block.kind}>"
        case "code":
            return '<div class="highlight"><pre>' + html.escape("\n".join(block.lines), quote=False) + "</pre></div>"
        case "table":
            head, *rows = block.lines
            top = "".join(f"<th>{inline(cell)}</th>" for cell in cells(head))
            body = "".join("<tr>" + "".join(f"<td>{inline(c)}</td>" for c in cells(row)) + "</tr>\n" for row in rows)
            return f"<table><thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table>"
        case "quote":
            return "<blockquote><p>" + "<br />".join(inline(line) for line in block.lines) + "</p></blockquote>"
        case "post":
            return f"<h3>{inline(block.lines[0])}</h3>"
        case _:
            return "<p>" + "<br />\n".join(inline(line) for line in block.lines) + "</p>"


def split_header(source: str) -> tuple[dict[str, list[str]], str]:
    _, header, body = source.split("---\n", 2)
    head: dict[str, list[str]] = {}
    for line in header.splitlines():
        key, _, value = line.partition(":")
        head.setdefault(key.strip(), []).append(value.strip())
    return head, body.strip("\n")


def edited(base: str, edits: str, name: str) -> str:
    """The near duplicate: `- old` / `+ new` pairs replace, `++ text` appends a paragraph, `^^ text` puts one first."""
    old = ""
    for line in filter(None, edits.splitlines()):
        mark, _, rest = line.partition(" ")
        if mark == "-":
            old = rest
        elif mark == "+":
            if base.count(old) != 1:
                raise ValueError(f"{name}: {old!r} occurs {base.count(old)} times in the base text")
            base = base.replace(old, rest)
        elif mark == "++":
            base += "\n\n" + rest
        elif mark == "^^":
            base = rest + "\n\n" + base
        else:
            raise ValueError(f"{name}: not an edit: {line!r}")
    return base


def repeated(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    return blocks * times


def on_one_line(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    return tuple(Block(b.kind, (" ".join([" ".join(b.lines)] * times),)) for b in blocks)


def shouted(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    return tuple(Block(b.kind, tuple(line.upper() for line in b.lines)) for b in blocks)


def decomposed(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    return tuple(Block(b.kind, tuple(unicodedata.normalize("NFD", line) for line in b.lines)) for b in blocks)


def digits(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    row = "{:>6} {:>8}.{:03} {:>5} # {:04x} % {:>3} // {:>7} ;"
    draw = [[number(f"digits/{i}/{j}", 10**5) for j in range(7)] for i in range(times)]
    lines = [row.format(a, b, c % 1000, d, e % 65536, f % 100, g) for a, b, c, d, e, f, g in draw]
    return tuple(Block("p", (line,)) for line in lines)


def huge(blocks: tuple[Block, ...], times: int) -> tuple[Block, ...]:
    """Paragraphs shuffled out of the sentences of a few texts, about 1.5 MB in all."""
    sentences = [s for b in blocks if b.kind == "p" for s in re.split(r"(?<=[.?!]) ", " ".join(b.lines))]
    return tuple(Block("p", (" ".join(pick(f"huge/{i}", sentences, 6)),)) for i in range(times))


RESHAPE: dict[str, Callable[[tuple[Block, ...], int], tuple[Block, ...]]] = {
    "repeat": repeated,
    "one_line": on_one_line,
    "upper": shouted,
    "nfd": decomposed,
    "digits": digits,
    "huge": huge,
}


def load_texts() -> dict[str, Text]:
    root = HERE / "texts"
    sources = {p.relative_to(root).with_suffix("").as_posix(): p.read_text("utf-8") for p in sorted(root.rglob("*.md"))}
    texts: dict[str, Text] = {}
    for name, source in sources.items():
        head, body = split_header(source)
        lang = head.get("lang", [name.split("/")[0]])[0]
        if "base" in head:
            base_name = head["base"][0]
            base_head, base_body = split_header(sources[base_name])
            lang = base_head.get("lang", [base_name.split("/")[0]])[0]
            head = {"title": base_head["title"], "date": base_head["date"]} | head
            body = edited(base_body, body, name)
        if "sentences_of" in head:
            body = "\n\n".join(split_header(sources[other])[1] for other in head["sentences_of"])
        blocks = parse_blocks(body)
        for key, reshape in RESHAPE.items():
            if key in head:
                blocks = reshape(blocks, int(head[key][0]))
        texts[name] = Text(name, lang, head, blocks)
    return texts


# --- pages -----------------------------------------------------------------------------------------------------------


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
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def doc_id(self) -> str:
        name = self.text.name if self.text else self.url
        return name if self.copy == 1 else f"{name}@{self.copy}"


def load_toml(name: str) -> dict[str, dict[str, object]]:
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
    "mojibake": "text decoded wrongly before it was served",
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


def load_pages(texts: dict[str, Text], sites: dict[str, dict[str, object]]) -> list[Page]:
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


# --- HTML ------------------------------------------------------------------------------------------------------------


class Renderer:
    def __init__(self, pages: list[Page], sites: dict[str, dict[str, object]], chrome: dict[str, dict[str, object]]):
        self.sites, self.chrome = sites, chrome
        self.templates = {p.stem: string.Template(p.read_text("utf-8")) for p in (HERE / "templates").glob("*.html")}
        self.by_host: dict[str, list[Page]] = {}
        for page in pages:
            if page.text and page.visit == 1:
                self.by_host.setdefault(urlsplit(page.url).netloc, []).append(page)

    def html(self, page: Page) -> str:
        text = page.text
        assert text is not None
        host, path = urlsplit(page.url).netloc, urlsplit(page.url).path
        site, words = self.sites[host], self.chrome[page.lang]
        title = html.escape(text.one("title"), quote=True)
        authors = [str(a) for a in list_of(site["authors"])]
        author = text.one("author") or pick(page.url, authors, 1)[0]
        rendered = [html_block(block) for block in text.blocks]
        summary = re.sub(r"\s+", " ", text.plain)[:150]
        others = [p for p in self.by_host[host] if p.url != page.url and p.text]
        links = [f'<li><a href="{p.url}">{html.escape(p.text.one("title"))}</a></li>' for p in others if p.text]
        nav = [str(n) for n in list_of(site["nav"])]
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
            "footer_links": "".join(
                f'<li><a href="/legal/{i}">{n}</a></li>' for i, n in enumerate(list_of(words["links"]))
            ),
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
    def comments(page: Page, words: dict[str, object]) -> str:
        count = number("comments/" + page.url, 4)
        said = pick("said/" + page.url, [str(s) for s in list_of(words["said"])], count)
        people = pick("people/" + page.url, [str(s) for s in list_of(words["people"])], count)
        items = "".join(
            f'<li class="comment" id="c{i}"><cite>{html.escape(who)}</cite> <a href="#c{i}">#{i + 1}</a>'
            f'<div class="comment-body"><p>{html.escape(what)}</p></div></li>\n'
            for i, (who, what) in enumerate(zip(people, said, strict=True))
        )
        form = f'<form action="/comment"><label>{words["leave"]}<textarea name="t"></textarea></label></form>'
        return f'<div class="comments-area"><h2>{words["comments"]} ({count})</h2>\n<ol>{items}</ol>{form}</div>'


def list_of(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


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
    odd = itertools.cycle([b" ", b" ", b" ", b" ", b" ", b"\x0b ", b" \x07", b"\xc2\x85 ", b" \x1f", b"\xe2\x80\xa8"])
    data = re.sub(rb"(?<=[a-z,]) (?=[a-z])", lambda m: next(odd), data)
    head, _, tail = data.partition(b"<body")
    return head.replace(b"\n", b"\r\n") + b"<body" + tail.replace(b"\n", b"\r", 40).replace(b"\n", b"\r\n")


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
    source = renderer.html(page)
    if page.charset == "utf-16":
        return b"\xff\xfe" + source.encode("utf-16-le")
    data = source.encode(page.charset, "xmlcharrefreplace")
    damage = page.text.one("damage")
    return DAMAGE[damage](data) if damage else data


# --- WARC ------------------------------------------------------------------------------------------------------------


def gzip_member(data: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    return b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)


def digest(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()


def record_id(*parts: object) -> str:
    return f"<urn:uuid:{uuid.uuid5(NAMESPACE, '|'.join(map(str, parts)))}>"


def record(kind: str, block: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = ["WARC/1.1", f"WARC-Type: {kind}", *(f"{k}: {v}" for k, v in headers), f"Content-Length: {len(block)}"]
    return gzip_member("\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n")


def chunked(data: bytes, seed: str) -> bytes:
    out, at = [], 0
    while at < len(data):
        size = 1024 + number(f"chunk/{seed}/{at}", 7168)
        piece = data[at : at + size]
        out.append(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        at += size
    return b"".join(out) + b"0\r\n\r\n"


REASON = {200: "OK", 301: "Moved Permanently", 302: "Found", 404: "Not Found", 410: "Gone", 503: "Service Unavailable"}
SERVERS = ("nginx", "Apache/2.4.57 (Unix)", "nginx/1.24.0", "caddy", "openresty")


def http_response(page: Page, body: bytes, when: dt.datetime) -> tuple[bytes, bytes]:
    """The head and the body as they went over the wire, or, in web-00, as a crawler stores them decoded."""
    host = urlsplit(page.url).netloc
    kind = page.content_type
    if page.declare in ("both", "header") and kind.startswith(("text/html", "application/xhtml")):
        kind += f"; charset={page.charset}"
    elif page.declare not in ("both", "header", "meta", "none"):
        kind += f"; charset={page.declare}"
    fields = [
        ("Date", when.strftime("%a, %d %b %Y %H:%M:%S GMT")),
        ("Server", SERVERS[number("server/" + host, len(SERVERS))]),
        ("Content-Type", kind),
        *page.headers,
    ]
    as_sent = body
    if page.content_encoding == "gzip":
        as_sent = gzip_member(body)
    elif page.content_encoding == "deflate":
        as_sent = zlib.compress(body, 9)
    if page.content_encoding:
        fields += [("Content-Encoding", page.content_encoding), ("Vary", "Accept-Encoding")]
    if page.transfer == "chunked":
        fields.append(("Transfer-Encoding", "chunked"))
        as_sent = chunked(as_sent, page.url)
    else:
        lie = page.text.one("lying_length") if page.text else ""
        fields.append(("Content-Length", lie or str(len(as_sent))))
    if page.warc == 0 and page.status == 200 and number("crawl/" + page.url, 2):
        fields.append(("X-Crawl-Content-Encoding", "gzip"))
    if number("cookie/" + host, 3) == 0:
        fields.append(("Set-Cookie", f"sid={number(page.url, 1 << 40):010x}; path=/; HttpOnly"))
    head = f"HTTP/1.1 {page.status} {REASON[page.status]}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields) + "\r\n"
    return head.encode(), as_sent


STYLES = (
    ("like a public crawl: request, response and metadata for each page, bodies stored decoded", "hungry-snail/2.4"),
    ("responses only, some of them gzip-encoded as received", "pagelift 0.9"),
    ("like wget: request and response, bodies stored exactly as received (chunked, gzip, both)", "wget-alike/1.21"),
    (
        "like an archive's crawler: response, request, metadata with outlinks, a DNS record, a revisit; cut short",
        "archivist/3.6",
    ),
)


class WarcFile:
    def __init__(self, index: int):
        self.index = index
        self.when = EPOCH + dt.timedelta(days=index, hours=index)
        self.members: list[bytes] = []
        about, software = STYLES[index]
        lines = f"software: {software}\r\nformat: WARC File Format 1.1\r\ndescription: {about}\r\nrobots: classic\r\n"
        self.warcinfo = record_id(WARCS[index], "warcinfo")
        head = [
            *self.stamp(self.warcinfo),
            ("WARC-Filename", WARCS[index]),
            ("Content-Type", "application/warc-fields"),
        ]
        self.members.append(record("warcinfo", lines.encode(), head))

    def stamp(self, identity: str) -> list[tuple[str, str]]:
        return [("WARC-Record-ID", identity), ("WARC-Date", self.when.strftime("%Y-%m-%dT%H:%M:%SZ"))]

    def add(self, page: Page, body: bytes) -> str:
        self.when += dt.timedelta(seconds=1 + number(f"pause/{page.url}/{page.visit}", 20))
        host = urlsplit(page.url).netloc
        identity = record_id(WARCS[self.index], page.url, page.visit, "response")
        address = f"203.0.113.{number('ip/' + host, 250) + 2}"
        common = [("WARC-Target-URI", page.url), ("WARC-IP-Address", address), ("WARC-Warcinfo-ID", self.warcinfo)]
        head, sent = http_response(page, body, self.when)
        path = urlsplit(page.url).path or "/"
        ask = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {STYLES[self.index][1]}\r\nAccept: */*\r\n"
        ask += "Accept-Encoding: gzip, deflate\r\n\r\n"
        request = record(
            "request",
            ask.encode(),
            [
                *self.stamp(record_id(identity, "request")),
                *common,
                ("WARC-Concurrent-To", identity),
                ("Content-Type", "application/http; msgtype=request"),
            ],
        )
        response_head = [*self.stamp(identity), *common, ("Content-Type", "application/http; msgtype=response")]
        response_head += [("WARC-Block-Digest", digest(head + sent)), ("WARC-Payload-Digest", digest(sent))]
        if self.index == 0:
            response_head.append(("WARC-Identified-Payload-Type", page.content_type))
        response = record("response", head + sent, response_head)
        notes = {"fetchTimeMs": str(number("ms/" + page.url, 900) + 40), "charset-detected": page.charset}
        if self.index == 3:
            notes = {"via": f"https://{host}/", "hopsFromSeed": "L", "outlink": f"https://{host}/legal/0 L a/@href"}
        metadata = record(
            "metadata",
            "".join(f"{k}: {v}\r\n" for k, v in notes.items()).encode(),
            [
                *self.stamp(record_id(identity, "metadata")),
                *common,
                ("WARC-Concurrent-To", identity),
                ("Content-Type", "application/warc-fields"),
            ],
        )
        order = ([request, response, metadata], [response], [request, response], [response, request, metadata])
        self.members.extend(order[self.index])
        return identity

    def revisit(self, url: str, refers_to: str, payload: bytes) -> str:
        self.when += dt.timedelta(hours=3)
        identity = record_id(WARCS[self.index], url, "revisit")
        head = b"HTTP/1.1 304 Not Modified\r\nServer: nginx\r\n\r\n"
        self.members.append(
            record(
                "revisit",
                head,
                [
                    *self.stamp(identity),
                    ("WARC-Target-URI", url),
                    ("WARC-Warcinfo-ID", self.warcinfo),
                    ("WARC-Refers-To", refers_to),
                    ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
                    ("WARC-Payload-Digest", digest(payload)),
                    ("WARC-Truncated", "length"),
                    ("Content-Type", "application/http; msgtype=response"),
                ],
            )
        )
        return identity

    def dns(self, host: str) -> None:
        block = f"20240321070000\r\n{host}.\t3600\tIN\tA\t203.0.113.{number('ip/' + host, 250) + 2}\r\n".encode()
        identity = record_id(WARCS[self.index], host, "dns")
        head = [*self.stamp(identity), ("WARC-Target-URI", "dns:" + host), ("Content-Type", "text/dns")]
        self.members.append(record("response", block, head))

    def log(self) -> None:
        lines = "".join(f"{self.when:%Y-%m-%d %H:%M:%S} OK\n" for _ in range(3)).encode()
        uri = "metadata://wget-alike/wget-alike.log"
        head = [
            *self.stamp(record_id(WARCS[self.index], "log")),
            ("WARC-Target-URI", uri),
            ("Content-Type", "text/plain"),
        ]
        self.members.append(record("resource", lines, head))


def build_warcs(pages: list[Page], renderer: Renderer) -> tuple[dict[str, bytes], list[dict[str, object]]]:
    files: dict[str, bytes] = {}
    truth: list[dict[str, object]] = []
    last = [p for p in pages if p.text and p.text.one("last")]
    for index, name in enumerate(WARCS):
        warc = WarcFile(index)
        mine = [p for p in pages if p.warc == index and p not in last]
        mine.sort(key=lambda p: hashlib.sha256(f"order/{p.url}/{p.visit}".encode()).digest())
        if index == 3:
            warc.dns("mossandtrowel.example")
        bodies: dict[str, tuple[Page, str, bytes]] = {}
        for page in mine:
            body = body_bytes(page, renderer)
            identity = warc.add(page, body)
            bodies[page.url] = (page, identity, body)
            truth.append(truth_line(page, name, identity, body))
        if index == 1:
            page, identity, body = next(entry for url, entry in sorted(bodies.items()) if entry[0].keep)
            again = warc.revisit(page.url, identity, http_response(page, body, warc.when)[1])
            entry = replace(page, kind="revisit", keep=False, why="revisit, no body", visit=2)
            truth.append(truth_line(entry, name, again, b""))
        if index == 2:
            warc.log()
        data = b"".join(warc.members)
        if index == 3:
            for page in last:
                body = body_bytes(page, renderer)
                before = len(warc.members)
                identity = warc.add(page, body)
                member = warc.members[before]
                data += member[: len(member) * 6 // 10]
                truth.append(truth_line(replace(page, keep=False, why="truncated record"), name, identity, body))
        files["web/" + name] = data
    return files, truth


def truth_line(page: Page, warc: str, identity: str, body: bytes) -> dict[str, object]:
    lang, script = LANGUAGES.get(page.lang, (page.lang, "Latn" if page.lang else ""))
    line: dict[str, object] = {
        "url": page.url,
        "warc": warc,
        "record_id": identity.strip("<>"),
        "status": page.status,
        "content_type": page.content_type,
        "kind": page.kind,
        "lang": lang,
        "script": script,
        "encoding": page.charset if page.text else "",
        "declared": {"both": page.charset, "header": page.charset, "meta": page.charset, "none": ""}.get(
            page.declare, page.declare
        )
        if page.text
        else "",
        "declared_in": (page.declare if page.declare in ("both", "header", "meta", "none") else "header")
        if page.text
        else "",
        "content_encoding": page.content_encoding,
        "transfer_encoding": page.transfer,
        "template": page.template,
        "text_name": page.text.name if page.text else "",
        "html_bytes": len(body),
        "duplicate_group": page.duplicate_group,
        "near_group": page.near_group,
        "expect": "keep" if page.keep else "drop",
        "why": page.why,
    }
    if page.text and "pii" in page.text.head:
        line["pii"] = [dict(zip(("type", "value"), item.split(" ", 1), strict=True)) for item in page.text.head["pii"]]
    if page.text and "robots" in page.text.head:
        line["robots"] = page.text.one("robots")
    if page.text and "license" in page.text.head:
        line["license"] = page.text.one("license")
    return line


# --- the other formats -----------------------------------------------------------------------------------------------


def documents(pages: list[Page]) -> list[dict[str, object]]:
    rows = []
    for page in pages:
        if page.text is None or page.kind in ("huge", "revisit"):
            continue
        lang, script = LANGUAGES.get(page.lang, (page.lang, "Latn"))
        meta = {"title": page.text.one("title"), "kind": page.kind, "date": page.text.one("date"), "script": script}
        rows.append({"id": page.doc_id, "text": page.text.plain, "url": page.url, "lang": lang, "meta": meta})
    return sorted(rows, key=lambda row: hashlib.sha256(f"jsonl/{row['id']}".encode()).digest())


BAD_LINES = (
    '{"id": "bad/cut", "text": "This line was cut in the mid',
    '{"id": "bad/null", "text": null, "url": "https://bad.example/null", "lang": "en", "meta": {}}',
    '{"id": "bad/surrogate", "text": "A lone half \\ud83d of an emoji.", "url": "https://bad.example/s", "lang": "en"}',
    '{"id": "bad/missing", "body": "There is no text field here.", "url": "https://bad.example/m", "lang": "en"}',
    "",
    '["not", "an", "object"]',
    '{"id": "bad/number", "text": 42, "url": "https://bad.example/n", "lang": "en", "meta": {}}',
)


def build_jsonl(rows: list[dict[str, object]]) -> dict[str, bytes]:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    half = len(lines) // 2
    first, second = lines[:half], lines[half:]
    for i, bad in enumerate(BAD_LINES):
        second.insert(5 + 9 * i, bad)
    squeeze = zstandard.ZstdCompressor(level=19, write_content_size=False)
    cut = len(second) // 2
    frames = ["\n".join(part) + "\n" for part in (second[:cut], second[cut:])]
    return {
        "jsonl/docs-00.jsonl.zst": squeeze.compress(("\n".join(first) + "\n").encode()),
        "jsonl/docs-01.jsonl.zst": b"".join(squeeze.compress(frame.encode()) for frame in frames),
    }


def build_parquet(rows: list[dict[str, object]]) -> dict[str, bytes]:
    body = pa.struct([("content", pa.string()), ("title", pa.string())])
    schema = pa.schema([("doc_id", pa.string()), ("body", body), ("url", pa.string()), ("crawl_date", pa.date32())])
    files: dict[str, bytes] = {}
    half = (len(rows) + 1) // 2
    for index, part in enumerate((rows[:half], rows[half:])):
        records = []
        for row in part:
            meta = row["meta"]
            assert isinstance(meta, dict)
            date = dt.date.fromisoformat(meta["date"])
            content = {"content": row["text"], "title": meta["title"]}
            records.append({"doc_id": row["id"], "body": content, "url": row["url"], "crawl_date": date})
        if index == 1:
            nothing = {"content": None, "title": "A row without text"}
            records.append({"doc_id": "bad/null-content", "body": nothing, "url": None, "crawl_date": None})
            records.append({"doc_id": "bad/null-body", "body": None, "url": None, "crawl_date": None})
        sink = io.BytesIO()
        table = pa.Table.from_pylist(records, schema)
        pq.write_table(table, sink, compression="zstd", compression_level=19, row_group_size=48, use_dictionary=False)
        files[f"parquet/part-{index:05}.parquet"] = sink.getvalue()
    return files


def build_text(texts: dict[str, Text]) -> dict[str, bytes]:
    plain = sorted(name for name in texts if "plain_text" in texts[name].head)
    files = {"text/english.txt": "", "text/chinese.txt": "", "text/paragraphs.txt": ""}
    for name in plain:
        files["text/" + texts[name].one("plain_text")] += texts[name].plain + "\n\n"
    return {name: text.strip("\n").encode() + b"\n" for name, text in files.items()}


def build_tokenizer(texts: dict[str, Text]) -> bytes:
    model = io.BytesIO()
    sentences = [
        line
        for text in texts.values()
        if text.kind == "good" and "base" not in text.head
        for line in text.plain.split("\n")
        if line
    ]
    spm.set_random_generator_seed(0)
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="bpe",
        vocab_size=8000,
        character_coverage=0.9995,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        max_sentence_length=100000,
        num_threads=1,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        minloglevel=2,
    )
    return model.getvalue()


def build() -> dict[str, bytes]:
    """Every generated file, by its path below this folder."""
    texts = load_texts()
    sites, chrome = load_toml("sites.toml"), load_toml("chrome.toml")
    pages = load_pages(texts, sites) + other_answers()
    warcs, truth = build_warcs(pages, Renderer(pages, sites, chrome))
    rows = documents(pages)
    lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in truth)
    return {
        **warcs,
        **build_jsonl(rows),
        **build_parquet(rows),
        **build_text(texts),
        "tokenizer/web.model": build_tokenizer(texts),
        "pages.jsonl": lines.encode(),
    }


# --- check -----------------------------------------------------------------------------------------------------------


def gunzip_members(data: bytes) -> Iterator[bytes]:
    while data:
        inflate = zlib.decompressobj(31)
        yield inflate.decompress(data)
        data = inflate.unused_data


def same(name: str, ours: bytes, theirs: bytes) -> bool:
    """Equal bytes, or equal contents where another version of a compressor may write other bytes."""
    if ours == theirs:
        return True
    if name.endswith(".warc.gz"):
        return list(gunzip_members(ours))[:-1] == list(gunzip_members(theirs))[:-1]
    if name.endswith(".zst"):
        readers = [zstandard.ZstdDecompressor().stream_reader(d, read_across_frames=True) for d in (ours, theirs)]
        return readers[0].read() == readers[1].read()
    if name.endswith(".parquet"):
        return bool(pq.read_table(io.BytesIO(ours)).equals(pq.read_table(io.BytesIO(theirs))))
    return False


def report(files: dict[str, bytes]) -> None:
    truth = [json.loads(line) for line in files["pages.jsonl"].splitlines()]
    for key in ("kind", "lang", "template", "encoding", "expect"):
        print(f"{key:9}", dict(Counter(line[key] for line in truth).most_common()))
    for name, data in files.items():
        what = f"{len(data):9,} bytes  {hashlib.sha256(data).hexdigest()[:16]}  {name}"
        if name.endswith(".warc.gz"):
            records = Counter(r.headers["WARC-Type"] for r in ArchiveIterator(io.BytesIO(data), parse_http=False))
            what += "  " + ", ".join(f"{kind} {n}" for kind, n in sorted(records.items()))
        print(what)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if what is on disk differs")
    arguments = parser.parse_args()
    files = build()
    if arguments.check:
        on_disk = {
            p.relative_to(HERE).as_posix()
            for top in CHECKED
            for p in [HERE / top, *(HERE / top).rglob("*")]
            if p.is_file()
        }
        wrong = sorted(on_disk ^ files.keys())
        wrong += [name for name in files if name in on_disk and not same(name, files[name], (HERE / name).read_bytes())]
        for name in wrong:
            print(f"differs: {name}", file=sys.stderr)
        return 1 if wrong else 0
    for name, data in files.items():
        path = HERE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    report(files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
