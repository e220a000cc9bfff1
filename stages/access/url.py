"""access.url: the registered domain of each address, and block and allow lists of domains, addresses, words and TLDs.

Reads `url`; adds `url.domain` (the registered domain: the public suffix and one label; an IP address as it is; null where
there is none), `url.allowed` (bool, the allow lists name it), `url.list` (string, the first category whose domains, TLDs or
addresses name it, null for none), `url.words` (int32, listed words in it, each as often as it occurs), `url.word_list`
(string, the category most of them are from) and, on request, `url.normalised` (string, the address as dedup.url compares it).

What an allow list names is on no block list. A domain stands for all that lies below it, an address for all that begins with it
up to a `/` or `?`; words are runs of letters and digits; case does not count.

Reasons: url_blocked_<category> (`list` for `block_list`, `config` for `block`, `tld` for `block_tlds`), url_words_<category>,
url_not_allowed. Documents without an address pass, unless `only_allowed`.
Sources: https://publicsuffix.org/list/ (the algorithm); the folders of the UT1 collection; RefinedWeb's word counts in URLs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Composite, ConfigError, Filter, Rule, Score, Stage, param, storage_for
from stages.access._lists import Lists, categories, load, suffix_table
from stages.dedup.url import normalised
from stages.kernels.buffers import TextBuffers, text_buffers, text_column
from stages.kernels.urls import Table, domain_bytes, look_up, registered_domains

_LISTS_DOC: Final = (
    "Folder with a folder a category, each with files called domains, urls, words or tlds (or .gz): UT1's form."
)
_CATEGORIES_DOC: Final = (
    "Categories of `lists` to block; where several name an address, the first here is the reason. None: all."
)
_BLOCK_DOC: Final = "Domains and addresses to block."
_BLOCK_LIST_DOC: Final = (
    "File of domains and addresses to block, one a line; gzip, hosts and ad blocker lines are understood."
)
_TLDS_DOC: Final = "Top-level domains, or any ends of hosts, to block: xxx, co.zz."
_WORDS_DOC: Final = "Words to count in addresses, besides those of `lists`."
_ALLOW_DOC: Final = "Domains and addresses that no list blocks."
_ALLOW_LIST_DOC: Final = "File of domains and addresses that no list blocks, one a line."
_SUFFIXES_DOC: Final = "The public suffix list; the built-in one, or a path."
_NORMALISED_DOC: Final = (
    "Add the normalised address as a signal: without scheme, www., fragment, session and tracking parameters."
)
_PRIVATE_DOC: Final = (
    "Count suffixes run by companies (github.io, blogspot.com) too: each user's site is a domain then."
)
_SUFFIXES: Final = "public_suffix_list.dat.gz"


class _Opened(NamedTuple):
    lists: Lists
    suffixes: Table


@dataclass(frozen=True, kw_only=True)
class UrlScore(Score):
    """The registered domain of an address, and the lists that name it."""

    lists: str | None = param(None, model="", doc=_LISTS_DOC)
    categories: tuple[str, ...] = param((), doc=_CATEGORIES_DOC)
    block: tuple[str, ...] = param((), doc=_BLOCK_DOC)
    block_list: str | None = param(None, model="", doc=_BLOCK_LIST_DOC)
    block_tlds: tuple[str, ...] = param((), doc=_TLDS_DOC)
    words: tuple[str, ...] = param((), doc=_WORDS_DOC)
    allow: tuple[str, ...] = param((), doc=_ALLOW_DOC)
    allow_list: str | None = param(None, model="", doc=_ALLOW_LIST_DOC)
    suffixes: str = param(_SUFFIXES, model="models", doc=_SUFFIXES_DOC)
    private_suffixes: bool = param(False, doc=_PRIVATE_DOC)
    normalised: bool = param(False, doc=_NORMALISED_DOC)

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ("url",)
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        "url.domain": pa.string(),
        "url.allowed": pa.bool_(),
        "url.list": pa.string(),
        "url.words": pa.int32(),
        "url.word_list": pa.string(),
    }

    def outputs(self) -> Mapping[str, pa.DataType]:
        """`adds`, and the normalised address on request."""
        return {**self.adds, **({"url.normalised": pa.string()} if self.normalised else {})}

    def blocked(self) -> list[tuple[str, str, str]]:
        """(category, kind, file or text) of everything that is blocked, what decides first in front."""
        found: list[tuple[str, str, str]] = []
        if self.lists is not None:
            folders = categories(self.lists)
            for name in self.categories or folders:
                if name not in folders:
                    raise ConfigError(
                        f"access.url.categories: {self.lists} has no {name!r}", hint=f"it has {', '.join(folders)}"
                    )
                found += [(name, kind, path) for kind, path in sorted(folders[name].items())]
        elif self.categories:
            raise ConfigError("access.url.categories are folders of `lists`, which is not given")
        if self.block_list is not None:
            found.append(("list", "mixed", self.block_list))
        for name, kind, given in (
            ("config", "mixed", self.block),
            ("tld", "domains", self.block_tlds),
            ("config", "words", self.words),
        ):
            if given:
                found.append((name, kind, "\n" + "\n".join(given)))
        for name, _, _ in found:
            if name in ("list", "config", "tld") and self.lists is not None and name in categories(self.lists):
                raise ConfigError(f"{self.lists}: a category cannot be called {name} here", hint="rename its folder")
        return found

    def open(self) -> _Opened:
        """The lists, hashed."""
        allowed = [("", "mixed", self.allow_list)] if self.allow_list is not None else []
        if self.allow:
            allowed.append(("", "mixed", "\n" + "\n".join(self.allow)))
        path = self.suffixes
        if not storage_for(path).exists(path):
            path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", path)
        return _Opened(load(self.blocked(), allowed), suffix_table(path))

    def warm(self) -> None:
        """Compile the kernels."""
        self.score(pa.RecordBatch.from_arrays([pa.array(["https://www.example.org/"])], names=["url"]))

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`adds` for every row."""
        lists, suffixes = self.opened
        urls = text_buffers(pc.utf8_trim_whitespace(batch.column("url")))
        found = look_up(urls, lists.block, lists.allow, len(lists.names))
        names = pa.array([None, *lists.names], pa.string())
        columns = [
            self._domains(urls, suffixes),
            pa.array(found.allowed),
            names.take(pa.array(found.blocked)),
            pa.array(found.words),
            names.take(pa.array(found.word_list)),
        ]
        if self.normalised:
            columns.append(normalised(batch.column("url")).cast(pa.string()))
        return pa.RecordBatch.from_arrays(columns, names=list(self.outputs()))

    def _domains(self, urls: TextBuffers, suffixes: Table) -> pa.Array:
        starts, ends = registered_domains(urls, suffixes, private=self.private_suffixes)
        data, offsets = domain_bytes(urls, starts, ends)
        return pc.utf8_lower(text_column(data, offsets, starts >= 0)).cast(pa.string())


@dataclass(frozen=True, kw_only=True)
class UrlFilter(Filter):
    """Drops what a list names."""

    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of what this drops.")
    names: tuple[str, ...] = param((), doc="Categories of domains, TLDs and addresses.")
    word_names: tuple[str, ...] = param((), doc="Categories of words.")
    max_words: int = param(0, doc="Listed words an address may have.")
    only_allowed: bool = param(False, doc="Drop whatever the allow lists do not name.")

    def rules(self) -> tuple[Rule, ...]:
        """url_not_allowed, then a rule per category."""
        rules = [Rule("url_not_allowed", "url.allowed", "==", True)] if self.only_allowed else []
        rules += [Rule(f"url_blocked_{name}", "url.list", "not in", (name,)) for name in self.names]
        rules += [
            Rule(f"url_words_{name}", "url.words", "<=", {name: self.max_words}, by="url.word_list")
            for name in self.word_names
        ]
        return tuple(rules)


@dataclass(frozen=True, kw_only=True)
class Url(Composite):
    """Block and allow lists for addresses, with the category as the drop reason; the registered domain as a signal."""

    lists: str | None = param(None, model="", doc=_LISTS_DOC)
    categories: tuple[str, ...] = param((), doc=_CATEGORIES_DOC)
    block: tuple[str, ...] = param((), doc=_BLOCK_DOC)
    block_list: str | None = param(None, model="", doc=_BLOCK_LIST_DOC)
    block_tlds: tuple[str, ...] = param((), doc=_TLDS_DOC)
    words: tuple[str, ...] = param((), doc=_WORDS_DOC)
    max_words: int = param(0, doc="Listed words an address may have.")
    allow: tuple[str, ...] = param((), doc=_ALLOW_DOC)
    allow_list: str | None = param(None, model="", doc=_ALLOW_LIST_DOC)
    only_allowed: bool = param(False, doc="Drop whatever the allow lists do not name.")
    suffixes: str = param(_SUFFIXES, model="models", doc=_SUFFIXES_DOC)
    private_suffixes: bool = param(False, doc=_PRIVATE_DOC)
    normalised: bool = param(False, doc=_NORMALISED_DOC)
    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of what is dropped.")

    def __post_init__(self) -> None:
        if self.only_allowed and not self.allow and self.allow_list is None:
            raise ConfigError("access.url: only_allowed without a list of what is", hint="give allow or allow_list")

    def expand(self) -> tuple[Stage, ...]:
        """The Score and the Filter, whose rules the lists' categories name."""
        score = UrlScore(
            lists=self.lists, categories=self.categories, block=self.block, block_list=self.block_list,
            block_tlds=self.block_tlds, words=self.words, allow=self.allow, allow_list=self.allow_list,
            suffixes=self.suffixes, private_suffixes=self.private_suffixes, normalised=self.normalised,
        )  # fmt: skip
        blocked = score.blocked()
        return (
            score,
            UrlFilter(
                gate=self.gate,
                names=tuple(dict.fromkeys(name for name, kind, _ in blocked if kind != "words")),
                word_names=tuple(dict.fromkeys(name for name, kind, _ in blocked if kind == "words")),
                max_words=self.max_words,
                only_allowed=self.only_allowed,
            ),
        )


STAGE = Url
