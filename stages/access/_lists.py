"""Lists of addresses and words from files, and the public suffix list, as tables that kernels look things up in.

A folder of lists has one folder a category, as the UT1 collection has it: `domains` (hosts; what lies below them is meant
too), `urls` (host and path; what begins so is meant), and by the same rule `words` and `tlds`; each may be gzipped. A plain
list mixes domains and addresses, one a line; lines of hosts files (``0.0.0.0 example.org``) and of ad blockers
(``||example.org^``) are understood. ``#`` and ``!`` begin comments. Case does not count.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import ConfigError, storage_for
from stages.kernels.buffers import text_buffers
from stages.kernels.urls import (
    EXCEPTION,
    PLAIN,
    PRIVATE,
    WILDCARD,
    Table,
    Tables,
    hash_entries,
    insert,
    new_table,
)

#: Files of a category that are read; UT1's `expressions` (regular expressions) and `usage` are not.
KINDS: Final = ("domains", "urls", "words", "tlds")
_CHUNK_BYTES: Final = 1 << 20
_HOSTS_LINE: Final = r"^(?:0\.0\.0\.0|127\.0\.0\.1|::1?)\s+"
_AROUND: Final = r"^\|\||\^.*$|\s.*$"
_SCHEME: Final = r"^(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//"
_BEFORE_HOST: Final = r"^(?:\*\.|\.)"
_WWW: Final = r"^[wW]{3}\.([^/?]+[/?])"
_AFTER_HOST: Final = r"\.?(?::(?:80|443))?(/|$)"
_WORD: Final = re.compile(r"[0-9a-z\x80-\U0010ffff]+")
#: Category names stand in columns and in drop reasons.
_NAME: Final = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")


@dataclass(frozen=True)
class Lists:
    """What addresses are held against; `names[v - 1]` is the category of value v."""

    block: Tables
    allow: Tables
    names: tuple[str, ...]


def categories(folder: str) -> dict[str, dict[str, str]]:
    """Category -> kind -> file, by name.

    Raises:
        ConfigError: no category in it, or two whose names become equal.
    """
    found: dict[str, dict[str, str]] = {}
    folders: dict[str, str] = {}
    for info in storage_for(folder).walk(folder):
        category, _, file = os.path.relpath(info.path, folder).partition("/")
        kind = file.removesuffix(".gz")
        if kind not in KINDS:
            continue
        name = category_name(category)
        if folders.setdefault(name, category) != category:
            raise ConfigError(f"{folder}: {category} and {folders[name]} would both be called {name}")
        if kind in found.setdefault(name, {}):
            raise ConfigError(f"{folder}/{category} holds {kind} and {kind}.gz", hint="delete one of them")
        found[name][kind] = info.path
    if not found:
        raise ConfigError(
            f"{folder} holds no lists",
            hint="expected one folder a category, with a file called domains or urls in each",
        )
    return dict(sorted(found.items()))


def category_name(folder: str) -> str:
    """A folder's name as it stands in reasons: small letters, digits and single underscores.

    Raises:
        ConfigError: nothing of it is left.
    """
    name = re.sub(r"[^a-z0-9]+", "_", folder.lower()).strip("_")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"a list folder called {folder!r} has no name for drop reasons", hint="use letters and digits"
        )
    return name


class _Hashes:
    """Hashes of entries on their way into tables, in the order that decides between categories."""

    def __init__(self) -> None:
        self.hosts: list[tuple[np.ndarray, int]] = []
        self.addresses: list[tuple[np.ndarray, int]] = []
        self.words: list[tuple[np.ndarray, int]] = []

    def tables(self) -> Tables:
        """Of all that came."""
        made = []
        for pieces in (self.hosts, self.addresses, self.words):
            table = new_table(sum(len(h) for h, _ in pieces))
            for hashes, value in pieces:
                insert(table, hashes, value)
            made.append(table)
        return Tables(*made)


def _hashed(entries: pa.Array, value: int, *, hosts: bool = False) -> tuple[np.ndarray, int]:
    return hash_entries(text_buffers(entries), hosts=hosts), value


def load(blocked: Sequence[tuple[str, str, str]], allowed: Sequence[tuple[str, str, str]]) -> Lists:
    """Tables of (category, kind, file or text) triples.

    Args:
        blocked: kinds are those of KINDS, or `mixed` for a plain list; a text starts with a newline, anything else is a
            file. Where an entry is in several categories, the first counts.
        allowed: the same, whose categories do not matter.

    Raises:
        ConfigError: a line is no entry, with file and line.
    """
    names = tuple(dict.fromkeys(name for name, _, _ in blocked))
    block = _Hashes()
    for name, kind, where in blocked:
        _read(block, kind, where, names.index(name) + 1)
    allow = _Hashes()
    for _, kind, where in allowed:
        _read(allow, kind, where, 1)
    return Lists(block.tables(), allow.tables(), names)


def _read(into: _Hashes, kind: str, where: str, value: int) -> None:
    if kind == "words":
        into.words.append(_hashed(pa.array(list(_words(where)), pa.large_string()), value))
        return
    for lines in _chunks(where):
        hosts, addresses = _entries(lines)
        if kind != "urls":
            into.hosts.append(_hashed(hosts, value, hosts=True))
        else:  # a bare host among addresses: what begins with it, not what lies below it
            into.addresses.append(_hashed(hosts, value))
        if kind in ("urls", "mixed"):
            into.addresses.append(_hashed(addresses, value))


def _words(where: str) -> Iterator[str]:
    line = 0
    for lines in _chunks(where):
        for text in lines:
            line += 1
            word = text.partition("#")[0].strip().lower()
            if word and not _WORD.fullmatch(word):
                raise ConfigError(
                    f"{'words' if where.startswith(chr(10)) else where}:{line}: {word!r} is not one word",
                    hint="words are runs of letters and digits, one a line",
                )
            if word:
                yield word


def _chunks(where: str) -> Iterator[list[str]]:
    """Lines of a file (gzipped or not) or of a text, about 1 MiB at a time."""
    if where.startswith("\n"):
        yield where[1:].split("\n")
        return
    rest = b""
    for data in _blocks(where):
        whole, newline, rest = (rest + data).rpartition(b"\n")
        if newline:
            yield whole.decode("utf-8", "replace").splitlines()
    if rest:
        yield rest.decode("utf-8", "replace").splitlines()


def _blocks(path: str) -> Iterator[bytes]:
    with storage_for(path).open(path) as file:
        head = file.read(2)
        if head != b"\x1f\x8b":
            yield head
            while data := file.read(_CHUNK_BYTES):
                yield data
            return
        inflater = zlib.decompressobj(31)
        data = head
        whole = False
        try:
            while data:
                out = inflater.decompress(data, _CHUNK_BYTES)
                if out:
                    yield out
                whole = inflater.eof
                if not whole:
                    data = inflater.unconsumed_tail or file.read(_CHUNK_BYTES)
                    continue
                data, inflater = inflater.unused_data.lstrip(b"\0"), zlib.decompressobj(31)
                while not data and (block := file.read(_CHUNK_BYTES)):
                    data = block.lstrip(b"\0")
        except zlib.error as e:
            raise ConfigError(f"{path}: not a gzip file that can be read: {e}") from e
        if not whole:  # a list cut short blocks less than it says
            raise ConfigError(f"{path}: the gzip file is cut off", hint="download it again")


def _entries(lines: Iterable[str]) -> tuple[pa.Array, pa.Array]:
    """(hosts, addresses with a path and without `www.`) of some lines, as the kernels compare them."""
    text = pc.utf8_trim_whitespace(pa.array(list(lines), pa.large_string()))
    text = text.filter(pc.invert(pc.match_substring_regex(text, r"^(?:[#!]|$)")))
    for pattern in (_HOSTS_LINE, _AROUND, _SCHEME, _BEFORE_HOST):
        text = pc.replace_substring_regex(text, pattern, "")
    text = pc.replace_substring_regex(text, _AFTER_HOST, r"\1", max_replacements=1)
    text = pc.utf8_rtrim(text, "/")
    text = text.filter(pc.not_equal(text, ""))
    if not pc.all(pc.string_is_ascii(text)).as_py():
        text = pa.array([e for t in text.to_pylist() for e in _forms(t)], pa.large_string())
    whole = pc.match_substring_regex(text, r"[/?]")
    return text.filter(pc.invert(whole)), pc.replace_substring_regex(text.filter(whole), _WWW, r"\1")


def _forms(entry: str) -> tuple[str, ...]:
    """An entry as written and, where its host is not ASCII, as DNS writes it."""
    if entry.isascii():
        return (entry,)
    host, slash, path = entry.lower().partition("/")
    try:
        return entry.lower(), punycode(host) + slash + path
    except UnicodeError:
        return (entry.lower(),)


def punycode(host: str) -> str:
    """A host of small letters, label by label, as DNS writes it."""
    labels = (x if x.isascii() else "xn--" + x.encode("punycode").decode() for x in host.split("."))
    return ".".join(labels)


def suffix_table(path: str) -> Table:
    """The public suffix list (https://publicsuffix.org/list/) as rules by the hash of their labels.

    Raises:
        ConfigError: the file holds no rule.
    """
    rules: dict[int, list[str]] = {}
    private = False
    for lines in _chunks(path):
        for line in lines:
            if "===BEGIN PRIVATE DOMAINS===" in line:
                private = True
            rule = line.split()[0] if line.strip() and not line.startswith("//") else ""
            if not rule:
                continue
            bit = EXCEPTION if rule.startswith("!") else WILDCARD if rule.startswith("*.") else PLAIN
            name = rule.removeprefix("!").removeprefix("*.").lower()
            forms = rules.setdefault(bit << PRIVATE if private else bit, [])
            forms += [name] if name.isascii() else [name, punycode(name)]
    if not rules:
        raise ConfigError(f"{path} holds no public suffix", hint="expected the file of https://publicsuffix.org/list/")
    table = new_table(sum(len(names) for names in rules.values()))
    for bit, names in rules.items():
        insert(table, _hashed(pa.array(names, pa.large_string()), bit, hosts=True)[0], bit, merge=True)
    return table
