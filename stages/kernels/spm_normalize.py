"""sentencepiece's normaliser as a kernel: the same bytes that its `Normalizer::Normalize` gives, but for one thing.

The meta symbol U+2581, which stands for a space, is written as the space itself (0x20), so that text in ASCII stays one byte
per character. No space can be in a normalised text otherwise, so nothing is lost.
Source: sentencepiece 0.2, src/normalizer.cc; the rules are a Darts-clone double array followed by NUL-ended strings.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stages.kernels.jit import inlined, kernel
from stages.kernels.loads import load64, store64
from stages.kernels.token_tables import Int, Trie, byte_trie, longest_number

SPACE: Final = 0x20
#: UTF-8 of U+2581.
META: Final = b"\xe2\x96\x81"

DUMMY_PREFIX: Final = 1
REMOVE_EXTRA: Final = 2
SUFFIX: Final = 4

_LABEL: Final = np.uint32(0x8000_00FF)
_NONE: Final = np.uint64(0)
_BYTE: Final = np.uint64(0xFF)
_S24: Final = np.uint64(24)
_HIGH: Final = np.uint64(0x8080_8080_8080_8080)
#: What marks two characters of three bytes each in a word, and how.
_THREES: Final = np.uint64(0xC0C0_F0C0_C0F0)
_TWO_OF_THREE: Final = np.uint64(0x8080_E080_80E0)
_THREE_BYTES: Final = np.uint64(0xFF_FFFF)
_META: Final = np.uint64(int.from_bytes(META, "little"))
_E0: Final = np.uint64(0xE0)
_ED: Final = np.uint64(0xED)


class Rules(NamedTuple):
    """A model's normaliser.

    Attributes:
        units: uint32, the double array; empty where there are no rules.
        strings: uint8, NUL-ended replacements.
        plain: bool (256,), bytes below 128 that become themselves when another byte below 128 (or nothing) follows.
        quiet: bool (256,), first bytes of characters of three bytes that become themselves, whatever follows; among those of
            0xE2, U+2581 is not one of them.
        all_plain: whether all bytes below 128 are plain.
        symbols: user-defined symbols, which no rule touches.
        flags: DUMMY_PREFIX | REMOVE_EXTRA | SUFFIX.
    """

    units: np.ndarray
    strings: np.ndarray
    plain: np.ndarray
    quiet: np.ndarray
    all_plain: bool
    symbols: Trie
    flags: int


def read_rules(charsmap: bytes, symbols: list[bytes], flags: int) -> Rules:
    """Rules of a `precompiled_charsmap` (may be empty).

    Raises:
        ValueError: the blob is damaged, or a replacement holds U+2581.
    """
    units = np.zeros(0, np.uint32)
    strings = np.zeros(0, np.uint8)
    if charsmap:
        size = int.from_bytes(charsmap[:4], "little")
        if size % 4 or 4 + size >= len(charsmap) or charsmap[-1] != 0:
            raise ValueError("precompiled_charsmap is damaged")
        units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.uint32)
        blob = charsmap[4 + size :]
        if META in blob:
            raise ValueError("a rule writes U+2581")
        strings = np.frombuffer(blob, np.uint8)
    plain = np.zeros(256, np.bool_)
    trie = byte_trie(symbols, range(len(symbols)))
    for byte in range(128):
        kept = byte != SPACE or not flags & REMOVE_EXTRA
        plain[byte] = kept and not trie.starts[byte] and not _touched(units, byte)
    quiet = np.zeros(256, np.bool_)
    for byte in range(0xE0, 0xF0):
        quiet[byte] = not trie.starts[byte] and not _starts(units, byte)
    for array in (units, strings, plain, quiet):
        array.flags.writeable = False
    return Rules(units, strings, plain, quiet, bool(plain[:128].all()), trie, flags)


def _starts(units: np.ndarray, byte: int) -> bool:
    """Whether any rule starts with a byte."""
    return bool(len(units)) and int(units[_offset(int(units[0])) ^ byte]) & int(_LABEL) == byte


def _touched(units: np.ndarray, byte: int) -> bool:
    """Whether a rule starts with an ASCII byte and is over, or goes on with another ASCII byte."""
    if not _starts(units, byte):
        return False
    node = _offset(int(units[0])) ^ byte
    unit = int(units[node])
    below = (_offset(unit) ^ node) ^ np.arange(128)
    return bool(unit >> 8 & 1 or (units[below] & _LABEL == np.arange(128)).any())


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 1 << 9) >> 6)


@inlined
def _rule(units: np.ndarray, strings: np.ndarray, data: np.ndarray, start: Int, end: Int) -> Int:
    """length << 32 | value of the longest rule at data[start:end], or 0 (Darts-clone's commonPrefixSearch)."""
    best = np.int64(0)
    if units.shape[0] == 0:
        return best
    unit = units[0]
    node = np.int64((unit >> np.uint32(10)) << ((unit & np.uint32(1 << 9)) >> np.uint32(6)))
    for p in range(start, end):
        node ^= np.int64(data[p])
        if node >= units.shape[0]:
            break
        unit = units[node]
        if unit & _LABEL != np.uint32(data[p]):
            break
        node ^= np.int64((unit >> np.uint32(10)) << ((unit & np.uint32(1 << 9)) >> np.uint32(6)))
        if (unit >> np.uint32(8)) & np.uint32(1) and node < units.shape[0]:
            value = np.int64(units[node] & np.uint32(0x7FFF_FFFF))
            best = np.int64(p + 1 - start) << 32 | value if value < strings.shape[0] else np.int64(0)
    return best


@inlined
def character_length(data: np.ndarray, p: Int, end: Int) -> Int:
    """Bytes of the valid UTF-8 character at p, or 0."""
    b = np.int64(data[p])
    left = end - p
    if b < 0x80:
        return 1
    if b < 0xC2 or b > 0xF4 or left < 2:
        return 0
    c = np.int64(data[p + 1])
    if c & 0xC0 != 0x80:
        return 0
    if b < 0xE0:
        return 2
    if left < 3 or np.int64(data[p + 2]) & 0xC0 != 0x80:
        return 0
    if b < 0xF0:
        # no overlong forms, no surrogates
        return 0 if (b == 0xE0 and c < 0xA0) or (b == 0xED and c > 0x9F) else 3
    if left < 4 or np.int64(data[p + 3]) & 0xC0 != 0x80:
        return 0
    return 0 if (b == 0xF0 and c < 0x90) or (b == 0xF4 and c > 0x8F) else 4


@inlined
def _calm(rules: Rules, word: Int) -> Any:
    """Whether the character in the lowest three bytes of a word, which has the form of one of three bytes, becomes itself.
    Those of 0xE0 and 0xED, some of which are not valid, do not count."""
    b = word & _BYTE
    return rules.quiet[np.int64(b)] and b != _E0 and b != _ED and word & _THREE_BYTES != _META


@inlined
def _is_meta(data: np.ndarray, p: Int) -> Any:
    return data[p] == 0xE2 and data[p + 1] == 0x96 and data[p + 2] == 0x81


@inlined
def _emit(data: np.ndarray, start: Int, end: Int, out: np.ndarray, at: Int) -> Int:
    """Copy bytes, U+2581 as a space; where the copy ends."""
    p = start
    while p < end:
        if p + 2 < end and _is_meta(data, p):
            out[at] = SPACE
            p += 3
        else:
            out[at] = data[p]
            p += 1
        at += 1
    return at


@kernel
def normalize(rules: Rules, data: np.ndarray, start: Int, end: Int, out: np.ndarray) -> Int:
    """Normalise data[start:end] into `out`; its length, or -1 if `out` is too small (make it larger and call again)."""
    p = start
    at = np.int64(0)
    room = out.shape[0] - 8
    extra = rules.flags & REMOVE_EXTRA != 0
    previous_space = extra
    if extra:
        p = _skip_spaces(rules, data, p, end)
    if p == end:
        return 0
    if room < 0:
        return -1
    if rules.flags & DUMMY_PREFIX and not rules.flags & SUFFIX:
        out[at] = SPACE
        at += 1
    while p < end:
        # sixteen at a time without a branch: where one is not plain, or may be composed with what follows, they do not count
        while p + 16 < end and at + 16 < room and data[p + 16] < 128:
            first, second = load64(data, p), load64(data, p + 8)
            if (first | second) & _HIGH != _NONE:
                break
            store64(out, at, first)
            store64(out, at + 8, second)
            if not rules.all_plain:
                every = True
                for k in range(16):
                    every = every & rules.plain[data[p + k]]
                if not every:
                    break
            p += 16
            at += 16
            previous_space = False
        q = p
        while q < end and rules.plain[data[q]]:
            q += 1
        if q > p and q < end and data[q] >= 128:
            q -= 1  # a rule may compose it with what follows
        if q > p:
            if at + q - p >= room:
                return -1
            for k in range(q - p):
                out[at + k] = data[p + k]
            at += q - p
            p = q
            previous_space = False
            continue
        # and three, which is what most of the world's letters take; two of them at a time
        while p + 8 <= end and at + 8 < room:
            word = load64(data, p)
            if word & _THREES != _TWO_OF_THREE or not (_calm(rules, word) and _calm(rules, word >> _S24)):
                break
            store64(out, at, word)
            p += 6
            at += 6
            previous_space = False
        while p + 2 < end and rules.quiet[data[p]] and at + 3 < room:
            if character_length(data, p, end) != 3 or _is_meta(data, p):
                break
            out[at] = data[p]
            out[at + 1] = data[p + 1]
            out[at + 2] = data[p + 2]
            p += 3
            at += 3
            previous_space = False
        if p == end:
            break
        b = data[p]
        if rules.symbols.starts[b]:
            size = longest_number(rules.symbols, data, p, end) >> 32
            if size:
                if at + size >= room:
                    return -1
                first = p
                while previous_space and first < p + size and data[first] == SPACE:
                    first += 1
                if first < p + size:
                    at = _emit(data, first, p + size, out, at)
                    previous_space = extra and data[p + size - 1] == SPACE
                p += size
                continue
        found = _rule(rules.units, rules.strings, data, p, end)
        if found:
            q = found & 0xFFFF_FFFF
            first = q
            while q < rules.strings.shape[0] and rules.strings[q] != 0:
                q += 1
            while previous_space and first < q and rules.strings[first] == SPACE:
                first += 1
            if at + q - first >= room:
                return -1
            if first < q:
                at = _emit(rules.strings, first, q, out, at)
                previous_space = extra and rules.strings[q - 1] == SPACE
            p += found >> 32
            continue
        if at + 4 >= room:
            return -1
        size = character_length(data, p, end)
        if size == 0:  # not UTF-8: one byte becomes U+FFFD
            out[at] = 0xEF
            out[at + 1] = 0xBF
            out[at + 2] = 0xBD
            at += 3
            p += 1
            previous_space = False
        elif b == SPACE:
            if not previous_space:
                out[at] = SPACE
                at += 1
            previous_space = extra
            p += 1
        else:
            at = _emit(data, p, p + size, out, at)
            previous_space = False
            p += size
    if extra:
        while at > 0 and out[at - 1] == SPACE:
            at -= 1
    if rules.flags & DUMMY_PREFIX and rules.flags & SUFFIX:
        out[at] = SPACE
        at += 1
    return at


@inlined
def _skip_spaces(rules: Rules, data: np.ndarray, p: Int, end: Int) -> Int:
    """Where text starts after leading characters that normalise to exactly one space."""
    while p < end:
        if rules.symbols.starts[data[p]]:
            size = longest_number(rules.symbols, data, p, end) >> 32
            if size:
                if size == 1 and data[p] == SPACE:
                    p += 1
                    continue
                return p
        found = _rule(rules.units, rules.strings, data, p, end)
        if found:
            q = found & 0xFFFF_FFFF
            if rules.strings[q] != SPACE or rules.strings[q + 1] != 0:
                return p
            p += found >> 32
        elif data[p] == SPACE:
            p += 1
        else:
            return p
    return p
