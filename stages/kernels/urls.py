"""Addresses held against lists of domains, of path prefixes and of words, and against public suffixes; all by hashing.

A `Table` holds 64-bit hashes of entries and a small number for each; at most 3/4 full, so 1 M entries take 20 MB. A host is
read once from its end: the hash of every domain it lies in falls out on the way. Hashes are FNV-1a with a finaliser: of
1 M entries, one lookup in 10^13 finds something that is not there.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.buffers import TextBuffers
from stages.kernels.jit import inlined, inner, kernel

#: Bits of a public suffix rule: plain, below a wildcard, exception; shifted by PRIVATE for the list's private part.
PLAIN: Final = 1
WILDCARD: Final = 2
EXCEPTION: Final = 4
PRIVATE: Final = 3

_SEED: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x100000001B3)
_DOT: Final = 46
_SLASH: Final = 47
_AT: Final = 64
_HASH: Final = 35
_COLON: Final = 58
_QUESTION: Final = 63


class Table(NamedTuple):
    """Open addressing. `keys`: uint64, 0 where free, a power of two of them; `values`: uint16."""

    keys: np.ndarray
    values: np.ndarray


class Tables(NamedTuple):
    """Of small tables lookups are cheap: what there is none of costs nothing though there be a million of another."""

    hosts: Table
    addresses: Table
    words: Table


def new_table(entries: int) -> Table:
    """An empty table with room for so many entries."""
    slots = 16 if entries else 1
    while slots * 3 < entries * 4:
        slots *= 2
    return Table(np.zeros(slots, np.uint64), np.zeros(slots, np.uint16))


@inlined
def _finish(h: Any) -> Any:
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    return h | np.uint64(1)  # 0 stands for a free slot


@inlined
def _step(h: Any, c: Any) -> Any:
    if 65 <= c <= 90:
        c += 32
    return (h ^ np.uint64(c)) * _PRIME


@inlined
def _find(keys: Any, values: Any, key: Any) -> Any:
    """The value of a key, 0 if it is not in the table."""
    mask = np.int64(keys.shape[0] - 1)
    at = np.int64(key >> np.uint64(1)) & mask
    while keys[at] != 0:
        if keys[at] == key:
            return np.int64(values[at])
        at = (at + 1) & mask
    return np.int64(0)


@kernel
def _hash(data: Any, offsets: Any, backwards: Any, hashes: Any) -> None:
    for d in range(offsets.shape[0] - 1):
        h = _SEED
        length = offsets[d + 1] - offsets[d]
        for k in range(length):
            h = _step(h, data[offsets[d + 1] - 1 - k] if backwards else data[offsets[d] + k])
        hashes[d] = _finish(h)


@kernel
def _insert(keys: Any, values: Any, hashes: Any, value: Any, merge: Any) -> None:
    mask = np.int64(keys.shape[0] - 1)
    for d in range(hashes.shape[0]):
        at = np.int64(hashes[d] >> np.uint64(1)) & mask
        while keys[at] != 0 and keys[at] != hashes[d]:
            at = (at + 1) & mask
        if keys[at] == 0:
            keys[at] = hashes[d]
            values[at] = value
        elif merge:
            values[at] |= value


def hash_entries(entries: TextBuffers, *, hosts: bool) -> np.ndarray:
    """uint64 (n,): hashes as the kernels below compute them; ASCII capitals count as small.

    Args:
        entries: addresses or words, no nulls.
        hosts: they are hosts, which are hashed from their end.
    """
    hashes = np.zeros(len(entries.offsets) - 1, np.uint64)
    _hash(entries.data, entries.offsets, hosts, hashes)
    return hashes


def insert(table: Table, hashes: np.ndarray, value: int, *, merge: bool = False) -> None:
    """Put entries into a table that has room for them; one that is there keeps its value, or with `merge` gets more bits."""
    _insert(table.keys, table.values, hashes, np.uint16(value), merge)


@inner
def _host(data: Any, start: Any, end: Any) -> Any:
    """(start, end) of the host in an address: behind the scheme and user information, before port, path, query, fragment."""
    i = start
    while i < end and data[i] != _COLON and data[i] != _SLASH and data[i] != _QUESTION and data[i] != _HASH:
        i += 1
    if i + 2 < end and data[i] == _COLON and data[i + 1] == _SLASH and data[i + 2] == _SLASH:
        start = i + 3
    elif start + 1 < end and data[start] == _SLASH and data[start + 1] == _SLASH:
        start += 2
    i = start
    while i < end and data[i] != _SLASH and data[i] != _QUESTION and data[i] != _HASH:
        if data[i] == _AT:
            start = i + 1
        i += 1
    last = i
    i = start
    if i < last and data[i] == 91:  # [::1]
        while i < last and data[i] != 93:
            i += 1
    while i < last and data[i] != _COLON:
        i += 1
    while i > start and data[i - 1] == _DOT:
        i -= 1
    return start, i


@inner
def _rest(data: Any, host_end: Any, end: Any) -> Any:
    """(start, end) of what is behind the host and counts: a port unless it is 80 or 443, path and query."""
    i = host_end
    while i < end and data[i] == _DOT:
        i += 1
    if i + 2 < end and data[i] == _COLON and data[i + 1] == 56 and data[i + 2] == 48 and not _digit(data, i + 3, end):
        i += 3
    elif (
        i + 3 < end and data[i] == _COLON and data[i + 1] == 52 and data[i + 2] == 52 and data[i + 3] == 51
        and not _digit(data, i + 4, end)
    ):  # fmt: skip
        i += 4
    start = i
    while i < end and data[i] != _HASH:
        i += 1
    return start, i


@inlined
def _digit(data: Any, i: Any, end: Any) -> Any:
    return i < end and 48 <= data[i] <= 57


@inner
def _domain(data: Any, start: Any, end: Any, keys: Any, values: Any) -> Any:
    """The lowest value above 0 among the domains that a host lies in, itself included."""
    best = np.int64(0)
    if keys.shape[0] == 1:
        return best
    h = _SEED
    i = end
    while i > start:
        i -= 1
        h = _step(h, data[i])
        if i == start or data[i - 1] == _DOT:
            found = _find(keys, values, _finish(h))
            if found > 0 and (best == 0 or found < best):
                best = found
    return best


@inlined
def _is_w(data: Any, i: Any) -> Any:
    return (data[i] | 32) == 119


@inner
def _address(data: Any, host: Any, host_end: Any, rest: Any, end: Any, keys: Any, values: Any) -> Any:
    """The lowest value above 0 among the prefixes of an address that end where a part of its path or query does."""
    best = np.int64(0)
    if keys.shape[0] == 1:
        return best
    h = _SEED
    if (
        host_end - host > 4
        and data[host + 3] == _DOT
        and _is_w(data, host)
        and _is_w(data, host + 1)
        and _is_w(data, host + 2)
    ):
        host += 4
    for i in range(host, host_end):
        h = _step(h, data[i])
    i = rest
    while True:
        if i >= end or data[i] == _SLASH or data[i] == _QUESTION:
            found = _find(keys, values, _finish(h))
            if found > 0 and (best == 0 or found < best):
                best = found
        if i >= end:
            return best
        h = _step(h, data[i])
        i += 1


@inner
def _words(data: Any, start: Any, end: Any, keys: Any, values: Any, counts: Any) -> Any:
    """Count the words of an address that are in the table by their values; returns how many."""
    total = np.int64(0)
    if keys.shape[0] == 1:
        return total
    h = _SEED
    length = 0
    for i in range(start, end + 1):
        c = np.int64(data[i]) if i < end else np.int64(_SLASH)
        if 48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 or c >= 128:
            h = _step(h, c)
            length += 1
            continue
        if length:
            found = _find(keys, values, _finish(h))
            if found > 0:
                counts[found] += 1
                total += 1
        h = _SEED
        length = 0
    return total


@inner
def _named(data: Any, start: Any, host_end: Any, rest: Any, end: Any, hosts: Any, addresses: Any) -> Any:
    """The lowest value above 0 that the domains or the prefixes of an address have."""
    first = _domain(data, start, host_end, hosts.keys, hosts.values)
    second = _address(data, start, host_end, rest, end, addresses.keys, addresses.values)
    return second if first == 0 or (0 < second < first) else first


@kernel
def _look_up(data: Any, offsets: Any, valid: Any, block: Any, allow: Any, counts: Any, out: Any) -> None:
    for d in range(offsets.shape[0] - 1):
        start, end = offsets[d], offsets[d + 1]
        if not valid[d] or start == end:
            continue
        host, host_end = _host(data, start, end)
        rest, last = _rest(data, host_end, end)
        if _named(data, host, host_end, rest, last, allow.hosts, allow.addresses) > 0:
            out.allowed[d] = True
            continue
        out.blocked[d] = _named(data, host, host_end, rest, last, block.hosts, block.addresses)
        total = _words(data, host, last, block.words.keys, block.words.values, counts)
        out.words[d] = total
        if total:
            most = np.int64(0)
            for k in range(counts.shape[0]):
                if counts[k] > most:
                    most = counts[k]
                    out.word_list[d] = k
                counts[k] = 0


class Found(NamedTuple):
    """What lists say of n addresses.

    Attributes:
        allowed: bool (n,): an allowed domain or address; the rest is 0 there.
        blocked: int32 (n,): lowest value of the blocked domains and addresses it lies in, 0 for none.
        words: int32 (n,): words of the address that are listed, each as often as it occurs.
        word_list: int32 (n,): the value most of them have, the lowest of several; 0 for none.
    """

    allowed: np.ndarray
    blocked: np.ndarray
    words: np.ndarray
    word_list: np.ndarray


def look_up(urls: TextBuffers, block: Tables, allow: Tables, lists: int) -> Found:
    """Hold addresses, trimmed, against tables whose values are at most `lists`."""
    n = len(urls.offsets) - 1
    found = Found(np.zeros(n, np.bool_), *(np.zeros(n, np.int32) for _ in range(3)))
    _look_up(urls.data, urls.offsets, urls.valid, block, allow, np.zeros(lists + 1, np.int64), found)
    return found


@inner
def _is_number(data: Any, start: Any, end: Any) -> Any:
    """Whether a host is an IP address: digits and dots, or in brackets."""
    if start < end and data[start] == 91:
        return True
    i = start
    while i < end and (48 <= data[i] <= 57 or data[i] == _DOT):
        i += 1
    return i == end


@inner
def _registered(data: Any, start: Any, end: Any, keys: Any, values: Any, private: Any) -> Any:
    """Where the registered domain of a host starts; -1 if it has none.

    The algorithm of https://publicsuffix.org/list/: the longest rule prevails, an exception over all, and without a rule
    the last label is the suffix.
    """
    found = np.int64(-1)
    behind_suffix = False  # whether the label to the right begins the longest suffix so far
    below_wildcard = True  # the rule "*", which prevails if no other does
    h = _SEED
    i = np.int64(end)
    while i > start:
        i -= 1
        h = _step(h, data[i])
        if i != start and data[i - 1] != _DOT:
            continue
        bits = _find(keys, values, _finish(h))
        if private:
            bits |= bits >> PRIVATE
        if bits & EXCEPTION:
            return i
        if below_wildcard or bits & PLAIN:
            found = np.int64(-1)
            behind_suffix = True
        elif behind_suffix:
            found = i
            behind_suffix = False
        below_wildcard = (bits & WILDCARD) != 0
    return found


@kernel
def _all_registered(
    data: Any, offsets: Any, valid: Any, keys: Any, values: Any, private: Any, starts: Any, ends: Any
) -> None:
    for d in range(offsets.shape[0] - 1):
        starts[d] = -1
        if not valid[d]:
            continue
        start = offsets[d]
        start, ends[d] = _host(data, start, offsets[d + 1])
        if ends[d] == start:
            continue
        starts[d] = (
            start if _is_number(data, start, ends[d]) else _registered(data, start, ends[d], keys, values, private)
        )


def registered_domains(urls: TextBuffers, suffixes: Table, *, private: bool) -> tuple[np.ndarray, np.ndarray]:
    """(starts, ends) in the data, int64 (n,), of the registered domain of each address; start -1 for none.

    Args:
        suffixes: rules by the hash of their host, with the bits above.
        private: whether the private part of the list counts.
    """
    n = len(urls.offsets) - 1
    starts, ends = np.zeros(n, np.int64), np.zeros(n, np.int64)
    _all_registered(urls.data, urls.offsets, urls.valid, suffixes.keys, suffixes.values, private, starts, ends)
    return starts, ends


@kernel
def _copy(data: Any, starts: Any, ends: Any, offsets: Any, out: Any) -> None:
    for d in range(starts.shape[0]):
        for k in range(offsets[d + 1] - offsets[d]):
            out[offsets[d] + k] = data[starts[d] + k]


def domain_bytes(urls: TextBuffers, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(bytes, int64 offsets (n + 1,)) of the pieces that `registered_domains` found, one after the other."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(np.where(starts >= 0, ends - starts, 0), out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    _copy(urls.data, starts, ends, offsets, out)
    return out, offsets
