"""Finding the terms of word lists in text, however they are dressed up: a trie walked over folded characters.

Characters are folded by table (case, width, accents, styled letters); marks and invisible characters are passed over. In
scripts with spaces a walk starts only where a word starts and must end where a word ends; in Chinese, Japanese and Thai it
starts at every character. Starts being anchored, a plain trie does what an Aho-Corasick automaton's failure links would do,
and most walks end at their first or second character. Longest match first, matches do not overlap.

A walk forgives: digits, symbols and look-alike letters of other scripts in place of letters, letters repeated, and separators
put between letters. It never forgives so much that ordinary text becomes a match: see `_forgiven`.

Linear time: a walk is at most `_MAX_WALK` characters long.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined, inner, kernel
from stages.kernels.utf8 import code_point

# What a character is: bits 0-1 its class, 2-3 what it is as a gap, 4-17 its symbol, 18-31 a row of `alternates`.
GAP, SPACED, UNSPACED, PASSED = 0, 1, 2, 3
BLANK, SOFT, ODD, HARD = 0, 1, 2, 3  # spaces; . - _ and the like; * ~ | and the like; what ends a phrase
SYMBOL_SHIFT: Final = 4
SYMBOL_MASK: Final = 0x3FFF
ALTERNATE_SHIFT: Final = 18
TABLE_SIZE: Final = 0x20000

SPACE_SYMBOL: Final = 1
PAIRS: Final = 64  # symbols below this, all of ASCII's, are looked at in threes
CATEGORIES: Final = ("sexual", "hate", "violence", "profanity", "gambling", "spam")
CONTEXT: Final = len(CATEGORIES)
MEDICAL, LEGAL = 1, 2
_CONTEXT_WORDS: Final = 3  # so many make a text medical or legal

# Columns of `facts`.
HITS, OBFUSCATED, UNITS = 0, 1, 2

_MAX_GAP: Final = 3
_MAX_WALK: Final = 400  # characters: the longest term with a gap after every letter, or a very long run of one letter


@inlined
def _child(trie: Any, node: Any, symbol: Any) -> Any:
    """Child of a node by a symbol, or -1. trie: int32 rows of (first child, children, symbol, terminal)."""
    low = np.int64(trie[node, 0])
    high = low + trie[node, 1]
    while low < high:
        mid = (low + high) >> 1
        found = trie[mid, 2]
        if found == symbol:
            return mid
        if found < symbol:
            low = mid + 1
        else:
            high = mid
    return np.int64(-1)


@inner
def _step(trie: Any, node: Any, info: Any, alternates: Any) -> Any:
    """Twice the child that a character leads to, plus one if only its look-alike does; -1 if none. A space may be left out."""
    symbol = np.int32((info >> SYMBOL_SHIFT) & SYMBOL_MASK)
    row = np.int32(info >> ALTERNATE_SHIFT)
    for _ in range(2):
        if symbol:
            child = _child(trie, node, symbol)
            if child >= 0:
                return np.int64(2 * child)
        if row:
            for k in range(alternates.shape[1]):
                if alternates[row, k]:
                    child = _child(trie, node, alternates[row, k])
                    if child >= 0:
                        return np.int64(2 * child + 1)
        if (info & 3) == GAP or node == 0 or trie[node, 1] == 0 or trie[trie[node, 0], 2] != SPACE_SYMBOL:
            break
        node = np.int64(trie[node, 0])  # symbols ascend and the space has the lowest
    return -1


@inlined
def _forgiven(
    letters: Any, likes: Any, repeats: Any, gaps: Any, spaces: Any, blanks: Any, odd: Any, unspaced: Any, open_side: Any
) -> Any:
    """Whether a match that needed forgiving is still one: enough is written plainly, or spelled out on purpose.

    Half of the letters must be themselves (the A55 is a road). Blanks must stand between all of at least four letters; two
    Chinese characters may be parted if the text is open on one side (角色 情节 is innocent, 写着色 情。 is not). A single hyphen,
    dot or apostrophe is ordinary typography; a single ``*`` is not.
    """
    if 2 * likes > letters or (letters < 4 and repeats and not unspaced):
        return False
    if gaps == 0:
        return True
    if unspaced:
        return (odd > 0 and not blanks) or (gaps == letters - 1 and (letters > 2 or open_side))
    if blanks:
        return gaps + spaces == letters - 1 and letters >= 4
    return letters >= 3 and (odd > 0 or gaps >= 2)


@kernel
def _walk(chars: Any, start: Any, end: Any, trie: Any, alternates: Any, second: Any, sums: Any) -> Any:
    """Longest match that starts at `start`.

    Args:
        second: 1 for the second reading: a letter that repeats the one before is that one even where a term goes on with it
            (cummmslut), and a star hides a vowel even where a term goes on without (b*aner).
        sums: row 4 gets its end, its node, and whether it needed forgiving.

    Returns:
        0 for none, 1 for a match, 2 for none where the second reading may find one.
    """
    node: Any = 0
    found = 0
    letters = 0
    likes = 0
    repeats = 0
    gaps = 0
    spaces = 0
    blanks = 0
    odd = 0
    last = -1
    unspaced = False
    before_open = start == 0 or (chars[start - 1] & 3) != UNSPACED
    j = start
    end = min(end, start + _MAX_WALK)
    while j < end:
        info = chars[j]
        kind = info & 3
        symbol = np.int32((info >> SYMBOL_SHIFT) & SYMBOL_MASK)
        again = kind == SPACED and symbol == last and (chars[j - 1] & 3) == SPACED
        step = -1
        if not (again and second):
            step = _step(trie, node, info, alternates)
            star = step >= 0 and kind == GAP and not step & 1 and j + 1 < end and (chars[j + 1] & 3) != GAP
            if star and not second and _step(trie, node, chars[j + 1], alternates) >= 0:
                step = -1  # a star that parts letters, not one that hides a vowel
                found |= 2
        if again and step >= 0:
            found |= 2
        if step >= 0:
            node = step >> 1
            letters += 1
            likes += step & 1
            last = trie[node, 2]
            unspaced = kind == UNSPACED
            j += 1
        elif again:
            repeats += 1
            j += 1
        elif kind == GAP and letters > 0:
            stop = j
            blank = 0
            special = 0
            while stop < end and stop - j < _MAX_GAP and (chars[stop] & 3) == GAP and ((chars[stop] >> 2) & 3) != HARD:
                blank |= ((chars[stop] >> 2) & 3) == BLANK
                special |= ((chars[stop] >> 2) & 3) == ODD
                stop += 1
            if stop == j:
                break
            j = stop
            if trie[node, 1] and trie[trie[node, 0], 2] == SPACE_SYMBOL:
                node = np.int64(trie[node, 0])
                last = -1
                spaces += 1
            else:
                gaps += 1
                blanks += blank
                odd += special
            continue
        else:
            break
        if trie[node, 3] >= 0 and (unspaced or j == end or (chars[j] & 3) != SPACED):
            forgiving = likes + repeats + gaps > 0
            open_side = before_open or j == end or (chars[j] & 3) != UNSPACED
            if not forgiving or _forgiven(letters, likes, repeats, gaps, spaces, blanks, odd, unspaced, open_side):
                sums[4, 0] = j
                sums[4, 1] = node
                sums[4, 2] = forgiving
                found |= 1
    return 1 if found & 1 else found


@inlined
def _decode(data: Any, start: Any, end: Any, table: Any, chars: Any) -> Any:
    """Infos of the characters of a document into `chars`: (how many, words and unspaced characters among them)."""
    n = 0
    units = 0
    before: Any = GAP
    i = start
    while i < end:
        code, size = code_point(data, i)
        i += size
        info = table[code] if code < TABLE_SIZE else np.uint32(UNSPACED)
        kind = info & 3
        if kind == PASSED:
            continue
        if kind == UNSPACED or (kind == SPACED and before != SPACED):
            units += 1
        before = kind
        chars[n] = info
        n += 1
    return n, units


@inlined
def _may_start(chars: Any, i: Any, n: Any, starts: Any) -> Any:
    """Whether a walk from here is worth it, by the first three characters."""
    info = chars[i]
    if info >> ALTERNATE_SHIFT:
        return True
    symbol = (info >> SYMBOL_SHIFT) & SYMBOL_MASK
    if not starts[symbol, 0]:
        return False
    if i + 1 == n:
        return True
    second = chars[i + 1]
    next_symbol = (second >> SYMBOL_SHIFT) & SYMBOL_MASK
    if (second & 3) == GAP or second >> ALTERNATE_SHIFT or next_symbol >= PAIRS or next_symbol == symbol:
        return True
    thirds = starts[symbol, next_symbol]
    if i + 2 == n or thirds == 0:
        return thirds != 0
    third = chars[i + 2]
    third_symbol = (third >> SYMBOL_SHIFT) & SYMBOL_MASK
    if (third & 3) == GAP or third >> ALTERNATE_SHIFT or third_symbol >= PAIRS or third_symbol == next_symbol:
        return True
    return (thirds >> np.uint64(third_symbol)) & np.uint64(1) != 0


@kernel
def find_terms(
    data: Any, offsets: Any, valid: Any, active: Any, table: Any, alternates: Any, starts: Any, trie: Any, entries: Any,
    languages: Any, chars: Any, sums: Any, weights: Any, facts: Any,
) -> None:  # fmt: skip
    """Sum the weights of the terms in n documents.

    Args:
        data, offsets, valid: uint8 (bytes,), int64 (n + 1,), bool (n,).
        active: uint64 (n,): bit k set where list k applies.
        table, alternates: uint32 (TABLE_SIZE,), int32 (rows, k): see the head of the module.
        starts: uint64 (symbols, PAIRS): of the first symbol and, below PAIRS, the second, a bit for each third one below PAIRS
            that a term goes on with, all of them where a term may end or a space be left out there; column 0 is not 0 where any
            term starts with the first.
        trie: int32 (nodes, 4); terminal is the first of the node's entries or -1.
        entries: int32 (m, 4): weight, category, contexts, and 1 where the node has another entry after it.
        languages: uint64 (m,): bit of the list an entry is from.
        chars: uint32 scratch, as long as the longest document has bytes.
        sums: int64 scratch (5, categories + 2): by contexts, and a row to spare.
        weights, facts: int32 (n, categories), int32 (n, 3): the result.
    """
    categories = weights.shape[1]
    for d in range(offsets.shape[0] - 1):
        for contexts in range(4):
            for k in range(categories + 2):
                sums[contexts, k] = 0
        medical = 0
        legal = 0
        n = 0
        units = 0
        if valid[d] and active[d]:
            n, units = _decode(data, offsets[d], offsets[d + 1], table, chars)
        before = GAP
        i = 0
        while i < n:
            info = chars[i]
            kind = info & 3
            inside = before == SPACED and kind != UNSPACED
            before = kind
            if inside or not _may_start(chars, i, n, starts):
                i += 1
                continue
            found = 2
            reading = 0
            while found == 2 and reading < 2:
                found = _walk(chars, i, n, trie, alternates, reading, sums)
                reading += 1
            if found != 1:
                i += 1
                continue
            end, node, odd = sums[4, 0], sums[4, 1], sums[4, 2]
            best = -1
            e = trie[node, 3]
            while True:
                if languages[e] & active[d] and (best < 0 or entries[e, 0] > entries[best, 0]):
                    best = e
                if entries[e, 3] == 0:
                    break
                e += 1
            if best < 0:
                i += 1
                continue
            category = entries[best, 1]
            contexts = entries[best, 2]
            if category == categories:
                medical += (contexts & MEDICAL) != 0
                legal += (contexts & LEGAL) != 0
            elif entries[best, 0] > 0:
                sums[contexts, category] += entries[best, 0]
                sums[contexts, categories] += 1
                sums[contexts, categories + 1] += odd
            before = chars[end - 1] & 3
            i = end
        quiet = (MEDICAL if medical >= _CONTEXT_WORDS else 0) | (LEGAL if legal >= _CONTEXT_WORDS else 0)
        facts[d, HITS] = 0
        facts[d, OBFUSCATED] = 0
        facts[d, UNITS] = units
        for k in range(categories):
            weights[d, k] = 0
        for contexts in range(4):
            if contexts & quiet:
                continue
            for k in range(categories):
                weights[d, k] += sums[contexts, k]
            facts[d, HITS] += sums[contexts, categories]
            facts[d, OBFUSCATED] += sums[contexts, categories + 1]
