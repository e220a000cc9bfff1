"""Which encoding a page is in, and its text.

Reads bytes and what is declared about them, returns text. The order, and why:

1. A byte order mark: nobody writes one by mistake.
2. Valid UTF-8 with characters beyond ASCII: text of a legacy encoding is not valid UTF-8 except by a rare accident of a few
   bytes, so a declaration of anything else is wrong (a server's default, a template's leftover). Short texts whose
   declared multi-byte encoding fits too keep it.
3. Declarations (HTTP header, then <meta> or the XML declaration), if they make text of the bytes. Encodings are read as
   browsers do, as their largest superset: gb2312 is gb18030, big5 is big5-hkscs, iso-8859-1 is windows-1252.
4. UTF-8 with few bad bytes: pages glued together from several sources.
5. The reading that looks most like a language written in its encoding (`charset_model`). It also overrules a declaration
   whose reading looks like none.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from functools import cache
from typing import Final

from stages.kernels.charset_model import LANGUAGES, likeness

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Labels to Python codecs: the superset that the WHATWG Encoding Standard reads a label as.
_CODECS: Final = {
    "utf-8": "utf8 utf-8 unicode-1-1-utf-8 x-unicode20utf8",
    "cp1252": "iso-8859-1 iso8859-1 latin1 latin-1 l1 ascii us-ascii ansi_x3.4-1968 windows-1252 cp1252 cp-1252 x-cp1252",
    "gb18030": "gb2312 gb_2312 gb_2312-80 gbk x-gbk gb18030 chinese csgb2312 cp936 ms936 windows-936 euc-cn x-euc-cn gb2312-80",
    "big5hkscs": "big5 big5-hkscs big5hkscs cn-big5 csbig5 x-x-big5 cp950 windows-950 big-5",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji csshiftjis windows-31j cp932 ms932 shiftjis",
    "euc_jp": "euc-jp eucjp x-euc-jp cseucpkdfmtjapanese",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp949": "euc-kr euckr cseuckr ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949 cp949 korean",
    "hz": "hz-gb-2312",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251 win-1251 windows1251",
    "cp1253": "windows-1253 cp1253",
    "cp1254": "windows-1254 cp1254 iso-8859-9 latin5",
    "cp1255": "windows-1255 cp1255",
    "cp1256": "windows-1256 cp1256",
    "cp1257": "windows-1257 cp1257",
    "cp1258": "windows-1258 cp1258",
    "cp874": "windows-874 tis-620 tis620 iso-8859-11 dos-874",
    "iso8859_2": "iso-8859-2 iso8859-2 latin2",
    "iso8859_3": "iso-8859-3",
    "iso8859_4": "iso-8859-4",
    "iso8859_5": "iso-8859-5 cyrillic",
    "iso8859_6": "iso-8859-6 arabic",
    "iso8859_7": "iso-8859-7 greek",
    "iso8859_8": "iso-8859-8 iso-8859-8-i logical hebrew",
    "iso8859_10": "iso-8859-10",
    "iso8859_13": "iso-8859-13",
    "iso8859_14": "iso-8859-14",
    "iso8859_15": "iso-8859-15 latin9 latin-9",
    "iso8859_16": "iso-8859-16",
    "koi8_r": "koi8-r koi8 koi8r koi",
    "koi8_u": "koi8-u koi8-ru",
    "cp866": "ibm866 cp866 866",
    "mac_roman": "macintosh mac x-mac-roman",
    "mac_cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "utf-16-le": "utf-16 utf-16le unicode csunicode ucs-2 iso-10646-ucs-2",
    "utf-16-be": "utf-16be unicodefffe",
}
_BY_LABEL: Final = {label: codec for codec, labels in _CODECS.items() for label in labels.split()}
#: A declared reading that comes this near to a language (log frequency of its pairs against the usual) is believed at once;
#: one that falls short of it still is, unless the evidence for another is greater by _BELIEF.
_LIKE_TEXT: Final = -1.0
_BELIEF: Final = 6.0
_MOST_EVIDENCE: Final = 200
#: What the less common encodings must make up for; 1 for those not named.
_RARITY: Final = {
    "cp1252": 0.0,
    **dict.fromkeys(("iso8859_15", "iso8859_2", "cp1250", "cp1254", "cp1257", "cp874"), 2.0),
    **dict.fromkeys(
        ("iso8859_4", "iso8859_6", "iso8859_13", "iso8859_16", "koi8_u", "cp866", "mac_roman", "mac_cyrillic"), 5.0
    ),
}
#: Readings are compared on this many bytes: 27 of them on a whole page of 59 kB took 60 ms.
_SAMPLE_BYTES: Final = 1_500
_BORDERS: Final = re.compile(rb"[<>\r\n]+")
_BEYOND: Final = bytes(range(128, 256))
_WIDE: Final = frozenset({"gb18030", "big5hkscs", "cp932", "euc_jp", "cp949"})
_ESCAPED: Final = frozenset({"iso2022_jp", "hz"})

_META: Final = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.\-]{2,40})", re.IGNORECASE)
_XML: Final = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([a-zA-Z0-9_:.\-]{2,40})")
_PARAMETER: Final = re.compile(r"charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.\-]{2,40})", re.IGNORECASE)
#: Valid UTF-8 with fewer bytes beyond one a character may be so by accident.
_ACCIDENT: Final = 16
_HEAD_BYTES: Final = 16 << 10


@cache
def codec_of(label: str) -> str | None:
    """Python codec for a label of the web; None for labels nobody should follow."""
    return _BY_LABEL.get(label.strip().strip("\"'").lower())


def declared(body: bytes, content_type: str | None) -> list[str]:
    """Codecs that a page claims, the most authoritative first: HTTP header, then <meta> or the XML declaration."""
    labels = []
    if content_type and (m := _PARAMETER.search(content_type)):
        labels.append(m[1])
    head = body[:_HEAD_BYTES]
    if (found := _XML.match(head)) or (found := _META.search(head)):
        labels.append(found[1].decode("ascii"))
    return list(dict.fromkeys(c for label in labels if (c := codec_of(label))))


def decode(body: bytes, content_type: str | None = None) -> tuple[str, str]:
    """(text, codec it was read as). Bytes that do not fit become U+FFFD."""
    for bom, codec in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(codec, "replace"), codec
    if body.isascii():
        return _seven_bit(body, content_type)
    if b"\0" in body[:2048] and (wide := _wide_zeros(body)):
        return body.decode(wide, "replace"), wide
    claims = declared(body, content_type)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as e:
        if e.start >= len(body) - 3 and e.reason == "unexpected end of data":  # a page cut inside a character
            return body.decode("utf-8", "replace"), "utf-8"
        return _legacy(body, claims)
    if claims and claims[0] in _WIDE and _by_accident(body, text) and _fits(body, claims[0]):
        claimed = body.decode(claims[0])
        if likeness(claimed, claims[0]) > _LIKE_TEXT:
            return claimed, claims[0]
    return text, "utf-8"


def to_utf8(body: bytes, content_type: str | None = None) -> tuple[bytes, str]:
    """As `decode`, but the text as UTF-8: most pages are that already, and are returned as they are."""
    if body.isascii():
        if b"\0" not in body and b"\x1b$" not in body and b"~{" not in body:
            return body, "ascii"
    elif body[0] < 0xEF and b"\0" not in body[:2048]:
        with contextlib.suppress(UnicodeDecodeError):
            if len(body) - len(body.decode("utf-8")) >= _ACCIDENT:
                return body, "utf-8"
    text, codec = decode(body, content_type)
    return text.encode("utf-8", "replace"), codec


def _seven_bit(body: bytes, content_type: str | None) -> tuple[str, str]:
    if b"\0" in body[:2048] and (codec := _wide_zeros(body)):
        return body.decode(codec, "replace"), codec
    if b"\x1b$" in body or b"~{" in body:
        claims = declared(body, content_type)
        wanted = [c for c in claims if c in _ESCAPED] or (["iso2022_jp"] if b"\x1b$B" in body else [])
        if wanted:
            return body.decode(wanted[0], "replace"), wanted[0]
    return body.decode("ascii"), "ascii"


def _wide_zeros(body: bytes) -> str | None:
    """UTF-16 without a mark: markup has a zero in every other byte, always on the same side."""
    head = body[:8192]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    least = 0.02 * len(head)
    # Chinese text has zeros on the other side too: 一 is U+4E00.
    if odd > least and even < 0.3 * odd:
        return "utf-16-le"
    if even > least and odd < 0.3 * even:
        return "utf-16-be"
    return None


def _by_accident(body: bytes, text: str) -> bool:
    """Whether a legacy text could be valid UTF-8 by chance: few characters, all of two bytes."""
    beyond = [c for c in text if c > "\x7f"] if len(body) - len(text) < _ACCIDENT else []
    return 0 < len(beyond) < 8 and all(c < "\u0800" for c in beyond)


def _fits(body: bytes, codec: str) -> bool:
    try:
        body.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def _legacy(body: bytes, claims: list[str]) -> tuple[str, str]:
    """Bytes that are not valid UTF-8."""
    mixed = body.decode("utf-8", "replace")
    bad = mixed.count("\ufffd")
    good = len(mixed) - len(mixed.encode("ascii", "ignore")) - bad
    if bad <= 0.05 * good:
        return mixed, "utf-8"
    named = [c for c in claims if c not in ("utf-8", "utf-16-le", "utf-16-be")]
    claim = named[0] if named else None
    sample = _sample(body)
    if claim is not None:
        if claim not in LANGUAGES:  # an encoding whose languages are not known here is believed if the bytes fit it
            claimed = body.decode(claim, "replace")
            if claimed.count("\ufffd") <= 0.01 * (bad + good):
                return claimed, claim
        elif likeness(sample.decode(claim, "replace"), claim) > _LIKE_TEXT:
            return body.decode(claim, "replace"), claim
    # What speaks for a reading is how near it comes to a language, times how much of it there is.
    evidence = min(len(sample) - len(sample.translate(None, _BEYOND)), _MOST_EVIDENCE)
    scores = {c: likeness(sample.decode(c, "replace"), c) * evidence - _RARITY.get(c, 1.0) for c in LANGUAGES}
    best = max(scores, key=lambda c: scores[c])
    if claim is not None and scores.get(claim, -1e9) >= scores[best] - _BELIEF:
        best = claim
    return body.decode(best, "replace"), best


def _sample(body: bytes) -> bytes:
    """The first lines and runs between tags that have bytes beyond ASCII: markup is the same in every reading.

    No encoding here has `<`, `>` or a line end inside a character.
    """
    pieces: list[bytes] = []
    size = 0
    for piece in _BORDERS.split(body):
        if not piece.isascii():
            pieces.append(piece[: _SAMPLE_BYTES - size])
            size += len(pieces[-1])
            if size >= _SAMPLE_BYTES:
                break
    return b"\n".join(pieces)
