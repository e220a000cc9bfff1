"""Word lists from a folder, and the tables the kernel finds their terms with.

A folder holds one file a language, named by its code (``en``, ``zh.txt``), in the form that ``lists/README.md`` describes; a
file of bare terms, as LDNOOBW publishes them, is one such.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from corpusflow import ConfigError, storage_for
from stages.kernels.script import SCRIPTS, script_table
from stages.kernels.wordlist import (
    ALTERNATE_SHIFT,
    BLANK,
    CATEGORIES,
    CONTEXT,
    GAP,
    HARD,
    LEGAL,
    MEDICAL,
    ODD,
    PAIRS,
    PASSED,
    SOFT,
    SPACE_SYMBOL,
    SPACED,
    SYMBOL_MASK,
    SYMBOL_SHIFT,
    TABLE_SIZE,
    UNSPACED,
)  # fmt: skip

_DEFAULT_WEIGHT: Final = 2
_DEFAULT_CATEGORY: Final = "profanity"
_CONTEXTS: Final = {"m": MEDICAL, "l": LEGAL}
_MAX_LISTS: Final = 64
_MAX_TERM: Final = 64  # characters
#: Scripts whose words are not divided by spaces.
_UNSPACED: Final = ("Hani", "Kana", "Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Bopo", "Yiii", "Java")
_SOFT: Final = ".-_'’·/\\•‧・"
_ODD: Final = "*~|^+=#@$%&`´¨°¤§†‡※"
#: Characters that stand for letters, by shape.
_LOOK_ALIKES: Final = {
    "0": "o", "1": "il", "!": "il", "|": "li", "3": "e", "4": "a", "@": "a", "5": "s", "$": "s", "7": "t", "+": "t",
    "8": "b", "9": "g", "6": "gb", "€": "e", "£": "l", "¢": "c", "¥": "y", "ß": "b", "(": "c", "а": "a", "е": "e",
    "о": "o", "р": "p", "с": "c", "у": "y", "х": "x", "к": "k", "м": "m", "н": "h", "в": "b", "т": "t", "і": "i",
    "ѕ": "s", "ј": "j", "һ": "h", "ԁ": "d", "ԛ": "q", "ԝ": "w", "п": "n", "и": "un", "г": "r", "α": "a", "β": "b",
    "ε": "e", "η": "n", "ι": "i", "κ": "k", "μ": "u", "ν": "v", "ο": "o", "ρ": "p", "σ": "o", "τ": "t", "υ": "u",
    "χ": "x", "γ": "y", "ω": "w", "ƒ": "f", "ı": "i", "ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ŧ": "t",
}  # fmt: skip


class Entry(NamedTuple):
    """One line of a list."""

    term: str
    weight: int
    category: int
    contexts: int
    language: int


@dataclass(frozen=True)
class Lexicon:
    """All lists of a folder, compiled: `languages` gives each list's code; the arrays are those of the kernel."""

    languages: tuple[str, ...]
    table: np.ndarray
    alternates: np.ndarray
    starts: np.ndarray
    trie: np.ndarray
    entries: np.ndarray
    entry_languages: np.ndarray


def load_lexicon(folder: str) -> Lexicon:
    """Read and compile a folder of lists.

    Raises:
        ConfigError: no list in it, or a line that is not one; the message names file and line.
    """
    storage = storage_for(folder)
    entries: list[Entry] = []
    languages: list[str] = []
    for info in sorted(storage.walk(folder), key=lambda i: i.path):
        name = os.path.basename(info.path)
        stem, extension = os.path.splitext(name)
        if extension not in ("", ".txt", ".tsv") or not stem.islower() or name.startswith((".", "_")):
            continue
        entries += read_list(info.path, storage.get(info.path).decode("utf-8-sig"), len(languages))
        languages.append(stem)
    if not entries:
        raise ConfigError(f"no word list in {folder}", hint="one file a language, named en.txt or en, one term a line")
    if len(languages) > _MAX_LISTS:
        raise ConfigError(f"{len(languages)} word lists in {folder}, at most {_MAX_LISTS} can be used at once")
    return _compile(languages, entries)


def read_list(path: str, text: str, language: int) -> list[Entry]:
    """Entries of one file.

    Raises:
        ConfigError: a line with a weight, category or context that is none, or a term that is too long.
    """
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        term, *rest = (part.strip() for part in line.split("\t"))
        weight, category, contexts = (*rest, "", "", "")[:3]
        try:
            if len(_fold_term(term)) > _MAX_TERM:
                raise ValueError(f"longer than {_MAX_TERM} characters")
            entries.append(
                Entry(
                    term,
                    int(weight) if weight else _DEFAULT_WEIGHT,
                    (*CATEGORIES, "context").index(category or _DEFAULT_CATEGORY),
                    sum(_CONTEXTS[c] for c in set(contexts)),
                    language,
                )
            )
        except (ValueError, KeyError) as e:
            raise ConfigError(
                f"{path}:{number}: {line.strip()!r} is not an entry of a word list ({e})",
                hint=f"term, weight, category ({', '.join(CATEGORIES)}, context), contexts (m, l), divided by tabs",
            ) from e
    return entries


@cache
def fold(char: str) -> str:
    """A character without case, width, accent or style; more than one character for some ligatures."""
    plain = unicodedata.normalize("NFKD", char)
    return "".join(c for c in plain.lower() if not unicodedata.combining(c)) or char


def _fold_term(term: str) -> str:
    return " ".join("".join(fold(c) for c in term).replace("-", " ").split())


def _compile(languages: Sequence[str], entries: Sequence[Entry]) -> Lexicon:
    terms: dict[str, list[Entry]] = {}
    for entry in entries:
        for spelling in _spellings(_fold_term(entry.term), entry):
            terms.setdefault(spelling, []).append(entry)
    terms.pop("", None)
    symbols = {" ": SPACE_SYMBOL}
    for char in sorted({c for term in terms for c in term if c != " "}):
        symbols[char] = len(symbols) + 1
    if len(symbols) >= SYMBOL_MASK:
        raise ConfigError(
            f"word lists use {len(symbols)} different characters, at most {SYMBOL_MASK - 1} are supported"
        )
    table, alternates = _character_table(symbols)
    trie, rows, bits = _trie(terms, symbols)
    return Lexicon(tuple(languages), table, alternates, _starts(trie, len(symbols) + 1), trie, rows, bits)


def _spellings(term: str, entry: Entry) -> Iterable[str]:
    """The term, and with each inner vowel masked by a star (f*ck), where that leaves it recognisable."""
    yield term
    if entry.weight >= 2 and entry.category < CONTEXT and term.isascii() and len(term) >= 4:
        for i in range(1, len(term)):
            if term[i] in "aeiou" and term[i - 1] != " ":
                yield f"{term[:i]}*{term[i + 1 :]}"


def _character_table(symbols: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """(table, alternates) of the kernel."""
    scripts = script_table()[:TABLE_SIZE]
    unspaced = np.array([name in _UNSPACED for name, _ in SCRIPTS])
    table = np.full(TABLE_SIZE, GAP | HARD << 2, np.uint32)
    alternates: list[tuple[int, ...]] = [(0, 0)]
    for code in _telling_codes():
        char = chr(code)
        folded = fold(char)
        category = unicodedata.category(char)
        if (category in ("Mn", "Me", "Cf") and code != 0xAD) or code == 0xAD:
            table[code] = PASSED
            continue
        if category[0] in "LN" or (len(folded) == 1 and folded.isalnum()):
            info = SPACED
        else:
            kind = (
                BLANK
                if category == "Zs"
                else SOFT
                if char in _SOFT
                else ODD
                if char in _ODD or category == "So"
                else HARD
            )
            info = GAP | kind << 2
        info |= symbols.get(folded, 0) << SYMBOL_SHIFT
        likes = tuple(symbols[c] for c in _LOOK_ALIKES.get(folded, "") if c in symbols)[:2]
        if likes:
            alternates.append((*likes, 0)[:2])
            info |= (len(alternates) - 1) << ALTERNATE_SHIFT
        table[code] = info
    table[ord("\t")] = GAP | BLANK << 2
    han = unspaced[scripts]
    table[han & (table & 3 != PASSED)] = UNSPACED
    for char, symbol in symbols.items():
        if ord(char) < TABLE_SIZE and han[ord(char)]:
            table[ord(char)] = UNSPACED | symbol << SYMBOL_SHIFT
    return table, np.array(alternates, np.int32)


def _telling_codes() -> Iterable[int]:
    """Code points whose class is not told by their script alone."""
    yield from range(0x20, 0x3041)
    yield from range(0x30FB, 0x3400)
    yield from range(0xA000, 0xAC00)
    yield from range(0xF900, 0x10000)
    yield from range(0x1D400, 0x1D800)
    yield from range(0x1F100, 0x1FB00)


def _trie(terms: dict[str, list[Entry]], symbols: dict[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(trie, entries, languages): nodes in breadth-first order, so that the children of a node lie side by side."""
    children: list[dict[int, int]] = [{}]
    ends: dict[int, str] = {}
    for term in sorted(terms):
        node = 0
        for char in term:
            node = children[node].setdefault(symbols[char], len(children))
            if node == len(children):
                children.append({})
        ends[node] = term
    order = [0]
    label = {0: 0}
    for node in order:
        for symbol in sorted(children[node]):
            child = children[node][symbol]
            label[child] = symbol
            order.append(child)
    trie = np.full((len(order), 4), -1, np.int32)
    rows: list[tuple[int, int, int, int]] = []
    bits: list[int] = []
    first = 1
    for place, node in enumerate(order):
        trie[place, :3] = first, len(children[node]), label[node]
        first += len(children[node])
        if node in ends:
            trie[place, 3] = len(rows)
            found = terms[ends[node]]
            rows += [(e.weight, e.category, e.contexts, int(e is not found[-1])) for e in found]
            bits += [1 << e.language for e in found]
    return trie, np.array(rows, np.int32).reshape(-1, 4), np.array(bits, np.uint64)


def _starts(trie: np.ndarray, symbols: int) -> np.ndarray:
    """Which triples of symbols terms start with; see `find_terms`."""
    starts = np.zeros((symbols, PAIRS), np.uint64)
    anything = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    for first, child in _children(trie, 0):
        starts[first, 0] = anything
        if trie[child, 3] >= 0:
            starts[first, :] = anything
        for second, grandchild in _children(trie, child):
            if second == SPACE_SYMBOL:
                starts[first, :] = anything
            elif second < PAIRS:
                thirds = [symbol for symbol, _ in _children(trie, grandchild)]
                if trie[grandchild, 3] >= 0 or SPACE_SYMBOL in thirds:
                    starts[first, second] = anything
                else:
                    # Bit 0, of what is in no term, stands for those that have no bit of their own.
                    starts[first, second] |= np.uint64(
                        sum({1 << (symbol if symbol < PAIRS else 0) for symbol in thirds})
                    )
    return starts


def _children(trie: np.ndarray, node: int) -> list[tuple[int, int]]:
    """(symbol, node) of each child."""
    first, count = int(trie[node, 0]), int(trie[node, 1])
    return [(int(trie[child, 2]), child) for child in range(first, first + count)]
