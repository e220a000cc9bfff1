"""What the HTML block kernel knows about names: tags, words in class and id attributes, entities. Tables of numbers.

Names are packed five bits a letter, twelve letters at most, into one integer; tables are open addressing with a power of two
of slots. Built once per process in a few milliseconds.
"""

from __future__ import annotations

import html.entities
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

import numpy as np

# ---- tags ----

#: Properties of a tag.
BLOCK: Final = 1  # text before and after it stands apart
VOID: Final = 2  # has no content and no end tag
SKIP: Final = 4  # its content is not text of the page
RAW: Final = 8  # its content is not markup: the end tag is searched for
LINE: Final = 16  # a block that is one line among others
CELL: Final = 32  # a block that shares its line with its neighbours
CLOSES_P: Final = 64  # ends an open paragraph
SELF: Final = 128  # ends an open element of its own kind (li, td …) up to the list or table around it
SCOPE: Final = 256  # implied end tags do not reach out of it
HEADING: Final = 512


def _names(names: str) -> list[str]:
    return names.split()


_TAGS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("script", "style"), SKIP | RAW),
    **dict.fromkeys(("textarea", "noscript", "iframe", "noembed", "noframes", "xmp", "title"), SKIP | RAW),
    **dict.fromkeys(("svg", "template", "object", "canvas", "audio", "video", "datalist", "select", "button"), SKIP),
    **dict.fromkeys(
        ("area", "base", "col", "embed", "img", "input", "link", "meta", "param", "source", "track", "wbr", "frame"),
        VOID,
    ),
    "br": VOID,
    "hr": VOID | BLOCK | CLOSES_P,
    "p": BLOCK | CLOSES_P,
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), BLOCK | CLOSES_P | HEADING),
    **dict.fromkeys(
        _names(
            "div section article main header footer nav aside address blockquote center details dialog dir fieldset figure "
            "figcaption form hgroup menu pre listing summary ul ol dl search legend"
        ),
        BLOCK | CLOSES_P,
    ),
    **dict.fromkeys(("li", "dt", "dd"), BLOCK | LINE | CLOSES_P | SELF),
    "table": BLOCK | CLOSES_P | SCOPE,
    **dict.fromkeys(("thead", "tbody", "tfoot", "tr"), BLOCK | LINE | SELF),
    "caption": BLOCK,
    **dict.fromkeys(("td", "th"), BLOCK | CELL | SELF | SCOPE),
    **dict.fromkeys(("html", "body", "head", "frameset"), BLOCK),
    **dict.fromkeys(("option", "optgroup"), BLOCK | LINE | SELF),
    **dict.fromkeys(
        _names(
            "a span b i u s em strong font small big sub sup code tt kbd samp var cite q abbr acronym label mark time ins del "
            "strike bdo bdi ruby rb rt rp dfn nobr picture output data meter progress slot map math"
        ),
        0,
    ),
}
TAG_NAMES: Final = ("", *_TAGS)
TAG: Final = {name: i for i, name in enumerate(TAG_NAMES)}
TAG_PROPERTIES: Final = np.array([0, *_TAGS.values()], np.int32)

#: Families of elements that end one another, and which elements the search for an open one does not leave.
_FAMILY: Final = {"li": 1, "dt": 2, "dd": 2, "td": 3, "th": 3, "tr": 4, "thead": 5, "tbody": 5, "tfoot": 5, "option": 6}
_BOUNDS: Final = {
    **dict.fromkeys(("ul", "ol", "menu", "dir"), (1,)),
    "dl": (2,),
    "tr": (3,),
    "table": (1, 2, 3, 4, 5),
    **dict.fromkeys(("td", "th"), (1, 2)),
    "select": (6,),
}
TAG_FAMILY: Final = np.array([_FAMILY.get(n, 0) for n in TAG_NAMES], np.int32)
TAG_BOUNDS: Final = np.array([sum(1 << f for f in _BOUNDS.get(n, ())) for n in TAG_NAMES], np.int32)

# ---- groups of words in class and id, and of tags and roles that mean the same ----

GROUPS: Final[Mapping[str, str]] = {
    "nav": "nav navbar navigation menu menus submenu breadcrumb breadcrumbs crumb crumbs topnav toolbar tabs tablist pagination "
    "pager paging sitemap skip dropdown megamenu subnav globalnav topmenu mainmenu offcanvas hamburger daohang",
    "footer": "footer foot bottom colophon copyright pagefooter sitefooter",
    "header": "header masthead top topbar banner siteheader logo branding",
    "side": "sidebar side aside rail sidecol rightcol leftcol right left secondary rightbar rightrail leftbar sticky",
    "related": "related recommended recommend recommends recommendation similar trending popular mostread latest recent also "
    "next previous prev teaser teasers more readmore morefrom onward suggestions tuijian xiangguan",
    "comment": "comment comments commentlist disqus reply replies respond discussion feedback livefyre coral pinglun",
    "social": "share sharing shares social facebook twitter follow tweet whatsapp pinterest linkedin addthis sharebar email "
    "print fenxiang weixin weibo",
    "ad": "ad ads adv advert adverts advertisement advertising adsense adslot sponsor sponsored promo promos promoted promotion "
    "dfp outbrain taboola marketing banner guanggao",
    "subscribe": "subscribe subscription newsletter signup signin login register registration paywall premium donate donation "
    "denglu zhuce",
    "consent": "cookie cookies consent gdpr modal popup overlay dialog lightbox notification alert",
    "meta": "meta byline author authors date time timestamp dateline published posted info tags tag taglist category categories "
    "credits bio postmeta entrymeta contributor avatar",
    "caption": "caption figcaption credit image img photo gallery media video player slideshow figure thumbnail thumb pic",
    "article": "article story post entry blogpost news hentry wenzhang",
    "content": "content contents body main maincontent text bodytext storybody articlebody entrycontent postcontent articletext "
    "zhengwen neirong",
    "prose": "paragraph para copy richtext wysiwyg prose rte markdown mw",
    "title": "title headline heading subtitle lede lead intro summary dek standfirst excerpt description subhead biaoti",
    "widget": "widget module box card cards list listing grid carousel slider tile tiles item items feed",
    "form": "form search input button btn field",
    "hidden": "hidden hide invisible sr screenreader visuallyhidden offscreen collapse noprint",
    "quote": "quote blockquote pullquote pull",
    "note": "footnote footnotes reference references reflist citation bibliography",
    "legal": "disclaimer legal terms privacy policy notice correction",
    "toc": "toc contentstable tableofcontents index",
    "code": "code highlight source syntax",
}
GROUP_BIT: Final = {name: i for i, name in enumerate(GROUPS)}
#: Marks beyond words: attributes and elements.
MARKS: Final = (
    "article_body",  # itemprop=articleBody
    "role_main",
    "role_other",  # navigation, banner, contentinfo, complementary, search
    "hidden_attribute",  # hidden, aria-hidden=true, display:none
    "tag_article",
    "tag_main",
    "tag_nav",
    "tag_header",
    "tag_footer",
    "tag_aside",
    "tag_form",
    "tag_figure",
    "tag_list",
    "tag_table",
    "tag_quote",
    "tag_pre",
)
MARK_BIT: Final = {name: len(GROUPS) + i for i, name in enumerate(MARKS)}
MASK_NAMES: Final = (*GROUPS, *MARKS)
_TAG_MARKS: Final = {
    "article": "tag_article",
    "main": "tag_main",
    "nav": "tag_nav",
    "menu": "tag_nav",
    "header": "tag_header",
    "footer": "tag_footer",
    "aside": "tag_aside",
    "form": "tag_form",
    "fieldset": "tag_form",
    "figure": "tag_figure",
    "figcaption": "tag_figure",
    "ul": "tag_list",
    "ol": "tag_list",
    "dl": "tag_list",
    "table": "tag_table",
    "blockquote": "tag_quote",
    "pre": "tag_pre",
    "listing": "tag_pre",
}
TAG_MASKS: Final = np.array([1 << MARK_BIT[_TAG_MARKS[n]] if n in _TAG_MARKS else 0 for n in TAG_NAMES], np.int64)
_ROLES: Final = {
    "main": "role_main",
    **dict.fromkeys(("navigation", "banner", "contentinfo", "complementary", "search", "menu", "dialog"), "role_other"),
}

#: Attributes that are looked into, by number.
ATTRIBUTES: Final = ("class", "id", "role", "itemprop", "style", "hidden", "ariahidden", "href")


def pack(name: str) -> int:
    """Up to twelve letters as one integer; digits and signs count as nothing, except in h1 to h6."""
    key = 0
    for c in name.lower()[:12]:
        key = key << 5 | ((ord(c) & 31) if c.isalpha() else 27 + (ord(c) - 49) % 5 if c.isdigit() else 31)
    return key


MULTIPLIER: Final = np.int64(-7046029254386353131)  # 2**64 divided by the golden ratio, odd


def slot_of(key: int, slots: int) -> int:
    """Where the search for a key starts."""
    return (key * int(MULTIPLIER) & (1 << 64) - 1) >> (64 - slots.bit_length() + 1)


def table(items: Iterable[tuple[int, int]], slots: int, merge: bool = False) -> np.ndarray:
    """int64 (2 * slots,): the keys of (key, value) pairs, then the values.

    A key is at the slot of its hash or the next free one; key 0 is a free slot. Of a repeated key the last value counts, or
    with `merge` the bits of all.
    """
    keys = np.zeros(slots, np.int64)
    values = np.zeros(slots, np.int64)
    for key, value in items:
        i = slot_of(key, slots)
        while keys[i] not in (0, key):
            i = (i + 1) % slots
        keys[i] = key
        values[i] = values[i] | value if merge else value
    return np.concatenate((keys, values))


def _tag_table() -> np.ndarray:
    """Packed tag name -> tag number."""
    return table(((pack(name), i) for name, i in TAG.items() if name), 512)


def _word_table() -> np.ndarray:
    """Packed word of a class or id -> mask of groups."""
    words = ((pack(w), 1 << bit) for name, bit in GROUP_BIT.items() for w in GROUPS[name].split())
    return table(words, 2048, merge=True)


def _attribute_table() -> np.ndarray:
    """Packed attribute name -> 1 + its number in ATTRIBUTES."""
    return table(((pack(name), i + 1) for i, name in enumerate(ATTRIBUTES)), 64)


def _value_table() -> np.ndarray:
    """Packed value of role and itemprop -> mask."""
    roles = [(pack(role), 1 << MARK_BIT[mark]) for role, mark in _ROLES.items()]
    return table([*roles, (pack("articlebody"), 1 << MARK_BIT["article_body"])], 64)


def entity_hash(name: bytes) -> int:
    """FNV-1a, 63 bits."""
    h = 0xCBF29CE484222325
    for b in name:
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h >> 1 or 1


def _entity_table() -> np.ndarray:
    """Hash of an entity's name -> its character, with bit 30 set where it may stand without a semicolon.

    The 93 names for two characters give the first.
    """
    names = html.entities.html5
    items = []
    for name, text in names.items():
        bare = name.rstrip(";")
        if name.endswith(";"):
            items.append((entity_hash(bare.encode()), ord(text[0]) | (1 << 30 if bare in names else 0)))
    return table(items, 8192)


#: Where each table begins in `name_tables`, and 64 minus the logarithm of its slots.
TAGS_AT: Final = 0
TAG_SHIFT: Final = 55
WORDS_AT: Final = TAGS_AT + 2 * 512
WORD_SHIFT: Final = 53
ATTRIBUTES_AT: Final = WORDS_AT + 2 * 2048
VALUES_AT: Final = ATTRIBUTES_AT + 2 * 64
SMALL_SHIFT: Final = 58
ENTITIES_AT: Final = VALUES_AT + 2 * 64
ENTITY_SHIFT: Final = 51
_N_TAGS: Final = 160
PROPERTIES_AT: Final = ENTITIES_AT + 2 * 8192
FAMILY_AT: Final = PROPERTIES_AT + _N_TAGS
BOUNDS_AT: Final = FAMILY_AT + _N_TAGS
MASKS_AT: Final = BOUNDS_AT + _N_TAGS


@cache
def name_tables() -> np.ndarray:
    """int64: all that `blocks.scan` looks up, one after another; the kernel is handed one array, not fourteen."""
    by_tag = (np.resize(a, _N_TAGS).astype(np.int64) for a in (TAG_PROPERTIES, TAG_FAMILY, TAG_BOUNDS, TAG_MASKS))
    return np.concatenate((_tag_table(), _word_table(), _attribute_table(), _value_table(), _entity_table(), *by_tag))
