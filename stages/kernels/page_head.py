"""What a page says about itself in its head: language, author, date, canonical address, licence; what it tells robots.

Reads UTF-8 HTML, gives strings as they stand there, references resolved, one line, bounded. Only the head is looked at, and
of the body the first link to a licence. What is said to robots several times is joined by commas.
"""

from __future__ import annotations

import html
import re
from typing import Final

_HEAD_BYTES: Final = 64 << 10
_VALUE_CHARACTERS: Final = 300
_TAG: Final = re.compile(rb"<(html|meta|link)\s([^<>]{1,2000})>", re.IGNORECASE)
#: In every tag that is of interest here.
_TELLING: Final = re.compile(rb"<html|canonical|author|creator|byl|date|pub|robots|tdm-res", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(rb"([a-zA-Z:\-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_LICENCE: Final = re.compile(
    rb"(?:https?:)?//(?:www\.)?creativecommons\.org/(?:licenses|publicdomain)/[a-z0-9./+\-]{2,60}", re.IGNORECASE
)
#: What stands in front of `license` where it is one of the values of rel.
_REL: Final = re.compile(rb"\srel\s*=\s*(?:[\"']\s*(?:[\w\-]{1,30}\s+){0,4})?\Z", re.IGNORECASE)
_REL_BYTES: Final = 140
_ENDS_VALUE: Final = (b'"', b"'", b" ", b">", b"\t", b"\n", b"\r", b"/")
#: Mentions of a licence that are looked at: the text of one has hundreds.
_MENTIONS: Final = 200
_HREF: Final = re.compile(rb"href\s*=\s*[\"']?([^\"'\s<>]{1,300})", re.IGNORECASE)

#: Column -> names of <meta>, the most telling first.
_META: Final = {
    "author": ("author", "article:author", "dc.creator", "byl", "parsely-author", "citation_author"),
    "published": (
        "article:published_time",
        "datepublished",
        "dc.date",
        "dc.date.issued",
        "date",
        "pubdate",
        "publishdate",
        "parsely-pub-date",
        "citation_publication_date",
    ),
}
_RANK: Final = {name: (column, i) for column, names in _META.items() for i, name in enumerate(names)}
FIELDS: Final = ("language", "author", "published", "canonical", "licence")
#: Names of <meta> that are orders rather than facts; `consent` reads their values.
ROBOTS: Final = "robots"
RESERVATION: Final = "tdm-reservation"


def about(page: bytes) -> dict[str, str]:
    """The fields that the page fills, of FIELDS, ROBOTS and RESERVATION."""
    end = page.find(b"<body", 0, _HEAD_BYTES)
    head = page[: end if end >= 0 else _HEAD_BYTES]
    found: dict[str, str] = {}
    ranks: dict[str, int] = {}
    for tag in _TAG.finditer(head):
        if _TELLING.search(tag[0]) is None:
            continue
        values = {a[1].lower(): a[2] or a[3] or a[4] or b"" for a in _ATTRIBUTE.finditer(tag[2])}
        kind = tag[1].lower()
        if kind == b"html":
            _put(found, "language", values.get(b"lang") or values.get(b"xml:lang"))
        elif kind == b"link":
            if values.get(b"rel", b"").lower() == b"canonical":
                _put(found, "canonical", values.get(b"href"))
        else:
            name = values.get(b"name") or values.get(b"property") or values.get(b"itemprop") or b""
            meta = name.decode("utf-8", "replace").lower()
            if meta in (ROBOTS, RESERVATION):
                _join(found, meta, values.get(b"content"))
                continue
            column, rank = _RANK.get(meta, ("", 0))
            if column and rank < ranks.get(column, 99) and _put(found, column, values.get(b"content")):
                ranks[column] = rank
    _put(found, "licence", _licence(page))
    return found


def _licence(page: bytes) -> bytes | None:
    """Address of the first link that says it leads to the page's licence, or of a Creative Commons licence."""
    at = page.find(b"icense")
    for _ in range(_MENTIONS):
        if at < 0:
            break
        if page[at + 6 : at + 7] in _ENDS_VALUE and _REL.search(page, max(0, at - _REL_BYTES), at - 1):
            start, end = page.rfind(b"<", max(0, at - 500), at), page.find(b">", at, at + 500)
            if start >= 0 and end >= 0 and (link := _HREF.search(page, start, end)):
                return link[1]
        at = page.find(b"icense", at + 6)
    at = page.find(b"creativecommons.org/")
    common = _LICENCE.search(page, max(0, at - 12)) if at >= 0 else None
    return common[0] if common else None


def _put(found: dict[str, str], column: str, value: bytes | None) -> bool:
    text = " ".join(html.unescape(value.decode("utf-8", "replace")).split()) if value else ""
    if text:
        found[column] = text[:_VALUE_CHARACTERS]
    return bool(text)


def _join(found: dict[str, str], column: str, value: bytes | None) -> None:
    before = found.get(column)
    if _put(found, column, value) and before is not None:
        found[column] = f"{before},{found[column]}"[:_VALUE_CHARACTERS]
