"""Documents fetched from the same address: keeps one of each.

Addresses are the same if they are equal once the scheme, user information, a leading `www.`, ports 80 and 443, the
fragment, session ids, tracking parameters and slashes at the end of the path are gone and the host is in lower case. Path
and the other parameters, their order included, count as they are. Documents without an address equal none: they pass
untouched.

Adds:
    dedup.url.hash    fixed_size_binary(16), xxh3-128 of the normalised address, null where there is none
    dedup.url.content int64, hash of the text: decides between documents that `keep` holds equal
    dedup.url.length  int32, bytes of the text in UTF-8; only if `keep` names `length`
    dedup.url.twin    id of the document kept in this one's place, null where it is kept
    dedup.url.copies  int32, documents with this address, itself included
Reasons: url_duplicate.
Source: the normalisation of C4 (tensorflow_datasets, c4_utils.py) and more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Composite, ConfigError, Filter, Rule, Score, Stage, param
from stages.dedup._index import check_against
from stages.dedup._keyed import KeyedDuplicates, hash_column
from stages.dedup._order import content_hashes, parse_keep, text_lengths
from stages.kernels.buffers import text_buffers

PREFIX: Final = "dedup.url"
#: Parameters that say how a visitor came, not what the page is.
TRACKING: Final = (
    "utm_*", "fbclid", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "twclid", "igshid", "mc_cid",
    "mc_eid", "_ga", "_gl", "_hsenc", "_hsmi", "mkt_tok", "spm", "scm", "vero_id", "oly_anon_id", "oly_enc_id", "wickedid",
    "PHPSESSID", "JSESSIONID", "sessionid", "sid",
)  # fmt: skip
_PARTS: Final = (
    r"(?is)^(?:[a-z][a-z0-9+.\-]*:)?//(?:[^/?@]*@)?(?:www\.)?(?P<host>[^/?]*?)\.?(?::(?:80|443))?"
    r"(?P<path>/[^?]*)?(?:\?(?P<query>.*))?$"
)


def normalised(urls: pa.Array, ignore: Sequence[str] = TRACKING) -> pa.Array:
    """Addresses in the form in which they are compared.

    Args:
        urls: string array of n addresses.
        ignore: names of query parameters to leave out, in any case; `*` at the end stands for any rest.

    Returns:
        string array (n,): null where there is no address, the trimmed value where it is not one with a host.
    """
    trimmed = pc.replace_substring_regex(pc.utf8_trim_whitespace(urls), r"(?s)#.*$", "")
    parts = pc.extract_regex(trimmed, _PARTS)
    host, path, query = (pc.struct_field(parts, name) for name in ("host", "path", "query"))
    path = pc.utf8_rtrim(pc.replace_substring_regex(path, r"(?i);jsessionid=[^/;?]*", ""), "/")
    if ignore:
        names = "|".join(re.escape(n[:-1]) + "[^=&]*" if n.endswith("*") else re.escape(n) for n in ignore)
        # every parameter between two marks of its own, so that neighbours can both be removed
        marked = pc.binary_join_element_wise("&", pc.replace_substring(query, "&", "&&"), "&", "")
        query = pc.replace_substring_regex(marked, f"(?i)&(?:{names})(?:=[^&]*)?&", "")
        query = pc.replace_substring(pc.utf8_trim(query, "&"), "&&", "&")
    question = pc.if_else(pc.equal(query, ""), "", "?")
    whole = pc.binary_join_element_wise(pc.utf8_lower(host), path, question, query, "")
    return pc.if_else(pc.is_valid(whole), whole, trimmed)


def hosts(urls: pa.Array) -> pa.Array:
    """The host of each address as it is compared: string array (n,), null where there is no address."""
    return pc.replace_substring_regex(normalised(urls, ()), r"(?s)[/?:].*$", "")


@dataclass(frozen=True, kw_only=True)
class UrlHash(Score):
    """Hashes the normalised address."""

    ignore_parameters: tuple[str, ...] = param(
        TRACKING, doc="Query parameters left out; `*` at the end of a name is a wildcard."
    )
    length: bool = param(False, doc="Measure the text too, for a keep policy that asks for them.")

    version: ClassVar[int] = 2

    reads: ClassVar[tuple[str, ...]] = ("url", "text")

    def outputs(self) -> Mapping[str, pa.DataType]:
        columns = {f"{PREFIX}.hash": pa.binary(16), f"{PREFIX}.content": pa.int64()}
        return columns | ({f"{PREFIX}.length": pa.int32()} if self.length else {})

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        urls = normalised(batch.column("url"), self.ignore_parameters)
        offsets, data, valid = text_buffers(urls)
        columns = [hash_column(data, offsets, valid & (np.diff(offsets) > 0)), content_hashes(batch.column("text"))]
        if self.length:
            columns.append(text_lengths(batch.column("text")))
        return pa.RecordBatch.from_arrays(columns, names=list(self.outputs()))

    def facts(self) -> Mapping[str, Any]:
        return {"ignore_parameters": list(self.ignore_parameters)}


@dataclass(frozen=True, kw_only=True)
class UrlFilter(Filter):
    """Drops what another document of the same address stands for."""

    def rules(self) -> tuple[Rule, ...]:
        return (Rule("url_duplicate", f"{PREFIX}.twin", "is null"),)


@dataclass(frozen=True, kw_only=True)
class Url(Composite):
    """Keeps one document of each address."""

    keep: tuple[str, ...] = param(
        ("date desc", "id"),
        doc="Which one stays: columns, 'asc' or 'desc', best first; `length`, `source_rank` and `id` are known.",
    )
    sources: tuple[str, ...] = param((), doc="Values of `source`, best first, for source_rank in `keep`.")
    within: str | None = param(None, doc="Compare only documents with the same value of this column; none: all.")
    against: tuple[str, ...] = param((), doc="Folders of dedup indexes of earlier runs, whose documents win.")
    ignore_parameters: tuple[str, ...] = param(
        TRACKING, doc="Query parameters left out; `*` at the end of a name is a wildcard."
    )

    def __post_init__(self) -> None:
        parse_keep(PREFIX, self.keep, self.sources)
        if self.against and self.within is not None:
            raise ConfigError(f"{PREFIX}: `against` and `within` do not go together: an index knows no scopes")
        for name in self.ignore_parameters:
            if "*" in name[:-1] or not name.strip("*"):
                raise ConfigError(f"{PREFIX}.ignore_parameters: {name!r}", hint="`*` may only end a name")

    def expand(self) -> tuple[Stage, ...]:
        length = "length" in {k.column for k in parse_keep(PREFIX, self.keep, self.sources)}
        score = UrlHash(ignore_parameters=self.ignore_parameters, length=length)
        return (
            score,
            KeyedDuplicates(
                prefix=PREFIX,
                keep=self.keep,
                sources=self.sources,
                within=self.within,
                against=self.against,
                against_digests=check_against(PREFIX, self.against, "url", score.facts()),
            ),
            UrlFilter(),
        )


STAGE = Url
