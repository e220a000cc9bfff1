"""HTML before it is parsed: what kind of bytes these are, and whether a parser can be trusted with them.

Reads bytes or decoded text. Promises linear time. The limits are counts, so that what is refused does not depend on how
fast or how busy the machine is; each stands for a case measured with resiliparse 2.0 (lexbor): 20,000 attributes in one tag
take 0.9 s and grow with the square, as do 10,000 nested <div> (2 s) and 20,000 <option> (3 s).
"""

from __future__ import annotations

import re
from typing import Final, Literal

Kind = Literal["html", "text", "not_html", "unsupported_type", "binary"]
Hazard = Literal["too_deep", "too_many_attributes", "too_many_options"]

#: Sum over tags of the square of their number of attributes: one tag with 20,000.
MAX_ATTRIBUTE_WORK: Final = 400_000_000
#: Sum over tags of their depth: 10,000 nested elements, or 500,000 elements 100 deep.
MAX_DEPTH_WORK: Final = 50_000_000
MAX_OPTIONS: Final = 20_000
#: Below these no limit can be passed, and most pages need no scan.
_SAFE_CHARACTERS: Final = 40_000
_SAFE_TAGS: Final = 5_000

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml", "application/html", "text/xhtml"})
_XML_TYPES: Final = frozenset({"text/xml", "application/xml"})
_VAGUE_TYPES: Final = frozenset(
    {"", "application/octet-stream", "unknown/unknown", "application/unknown", "*/*", "text/*"}
)
_LOOKS_HTML: Final = re.compile(
    rb"<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>]|<title[\s>]|<meta\s|<h[1-6][\s>]|<p[\s>]|<div[\s>]|<table[\s>]|<a\s+href",
    re.IGNORECASE,
)
_BEGINS_HTML: Final = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html[\s>])", re.I | re.S
)
_XML_ROOT: Final = re.compile(rb"<html[\s>]|<!doctype\s+html", re.IGNORECASE)
_MAGIC: Final = (
    b"%PDF-",
    b"\x89PNG",
    b"GIF8",
    b"\xff\xd8\xff",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"BM",
    b"RIFF",
    b"OggS",
    b"\x00\x00\x01\x00",
    b"\x7fELF",
    b"MZ",
    b"Rar!",
    b"7z\xbc\xaf",
    b"wOF",
    b"ID3",
    b"\xd0\xcf\x11\xe0",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
)
_SNIFF_BYTES: Final = 2_048
#: Control characters that text has none of; ESC is left out for ISO-2022.
_CONTROLS: Final = bytes(b for b in range(32) if b not in b"\t\n\x0c\r\x1b")

_TAG: Final = re.compile(
    r"<(?:(?P<name>/?[a-zA-Z][^\s/>]{0,64})[^\"'>]*+(?:\"[^\"]*+\"?[^\"'>]*+|'[^']*+'?[^\"'>]*+)*+>?|!--.*?(?:-->|\Z))",
    re.DOTALL,
)
_NOT_NESTING: Final = frozenset(
    re.findall(
        r"\w+",
        "area base br col embed hr img input link meta param source track wbr p li dt dd tr td th option optgroup thead tbody "
        "tfoot colgroup caption rt rp a button nobr html head body path use circle rect line polygon polyline ellipse stop",
    )
)


def media_type(content_type: str | None) -> str:
    """``text/html`` of ``Text/HTML; charset=…``."""
    return (content_type or "").partition(";")[0].strip().lower()


def kind_of(body: bytes, content_type: str | None) -> Kind:
    """What a body is, by its declared type where that can be believed, else by its first bytes."""
    declared = media_type(content_type)
    if declared in _HTML_TYPES:
        return "binary" if is_binary(body) else "html"
    if declared in _XML_TYPES or declared.endswith("+xml"):
        # XHTML served as XML: sites do, and crawlers that guess by the <?xml prolog do too.
        return "html" if _XML_ROOT.search(body[:4096]) else "not_html"
    if declared == "text/plain":
        if is_binary(body):
            return "binary"
        return "html" if _BEGINS_HTML.match(body[:8192]) else "text"
    if declared in _VAGUE_TYPES or "/" not in declared:
        if is_binary(body):
            return "binary"
        return "html" if _LOOKS_HTML.search(body[:_SNIFF_BYTES]) else "not_html"
    if declared.startswith("text/") and _BEGINS_HTML.match(body[:8192]):
        return "html"
    return "unsupported_type"


def is_binary(body: bytes) -> bool:
    """Whether the bytes are no text in any encoding."""
    head = body[:_SNIFF_BYTES]
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return False
    if head.startswith(_MAGIC) and b"<" not in head[:64]:
        return True
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls <= 0.02 * len(head):
        return False
    # UTF-16 without a mark has a zero in every other byte, and nothing else below 32.
    zeros = max(head[0::2].count(0), head[1::2].count(0))
    return zeros < 0.6 * (len(head) // 2)


def hazard(text: str) -> Hazard | None:
    """Why a parser should not be given this page; None for nearly all."""
    if text.count("<") > _SAFE_TAGS and (found := _deep(text)) is not None:
        return found
    if len(text) > _SAFE_CHARACTERS and _attribute_work(text) > MAX_ATTRIBUTE_WORK:
        return "too_many_attributes"
    return None


def _attribute_work(text: str) -> int:
    work = 0
    for tag in _TAG.finditer(text):
        size = tag.end() - tag.start()
        if size > 1_000 and tag["name"]:
            work += count_attributes(tag[0]) ** 2
            if work > MAX_ATTRIBUTE_WORK:
                break
    return work


_QUOTED: Final = re.compile(r"=\s*(?:\"[^\"]*\"?|'[^']*'?)")


def count_attributes(tag: str) -> int:
    """Attributes of one tag; an upper bound where its syntax is broken."""
    return len(re.split(r"[\s/]+", _QUOTED.sub("= ", tag).strip("<>/ \t\r\n"))) - 1


def _deep(text: str) -> Hazard | None:
    depth = work = options = 0
    for tag in _TAG.finditer(text):
        name = tag["name"]
        if not name:
            continue
        name = name.lower()
        if name[0] == "/":
            if depth and name[1:] not in _NOT_NESTING:
                depth -= 1
            continue
        work += depth
        if name not in _NOT_NESTING:
            depth += 1
        elif name == "option":
            options += 1
            if options > MAX_OPTIONS:
                return "too_many_options"
        if work > MAX_DEPTH_WORK:
            return "too_deep"
    return None
