"""A candidate and what stands around it, as the patterns of personal data see it."""

from __future__ import annotations

import re
from typing import Final

BEFORE: Final = 96  # bytes of context in front of a candidate: cue words
AFTER: Final = 64
AFTER_AT: Final = 264  # behind an at sign: a host name
CUE_REACH: Final = 72  # characters from the beginning of a cue to what it announces
_INVISIBLE: Final = re.compile("[\xad\u200b-\u200f\u2060\ufeff]")
_STRANGE: Final = re.compile("[\xad\u200b-\u200f\u2010-\u2015\u2060\ufeff\uff01-\uff5e]")


class Window:
    """A piece of a document as the patterns see it: full-width characters as ASCII, invisible ones left out.

    Attributes:
        text: the piece.
        low, high: the candidate in it, in characters.
    """

    __slots__ = ("_ascii", "_at", "_piece", "_start", "high", "low", "text")

    def __init__(self, document: bytes, start: int, end: int, after: int = AFTER) -> None:
        a = max(0, start - BEFORE)
        b = min(len(document), end + after)
        while a < start and document[a] & 0xC0 == 0x80:
            a += 1
        while b < len(document) and document[b] & 0xC0 == 0x80:
            b += 1
        piece = document[a:b]
        self._start = a
        self._piece = piece.decode()
        self._at: list[int] | None = None
        self._ascii = piece.isascii()
        self.text = self._piece
        self.low, self.high = start - a, end - a
        if not self._ascii:
            self.low, self.high = len(piece[: self.low].decode()), len(piece[: self.high].decode())
            if _STRANGE.search(self._piece):
                self._at = self._places()
                self.low, self.high = (sum(p < place for p in self._at) for place in (start, end))

    def _places(self) -> list[int]:
        """Fold the text; byte of each of its characters, and of its end."""
        chars: list[str] = []
        at: list[int] = []
        place = self._start
        for char in self._piece:
            if not _INVISIBLE.match(char):
                code = ord(char)
                chars.append(
                    chr(code - 0xFEE0) if 0xFF01 <= code <= 0xFF5E else "-" if 0x2010 <= code <= 0x2015 else char
                )
                at.append(place)
            place += len(char.encode())
        self.text = "".join(chars)
        return [*at, place]

    def byte(self, i: int) -> int:
        """Place of character i in the document."""
        if self._ascii:
            return self._start + i
        if self._at is not None:
            return self._at[i]
        return self._start + len(self.text[:i].encode())


def said(cue: re.Pattern[str], text: str, at: int) -> bool:
    """Whether the words in front of `at` are such a cue."""
    return cue.search(text, max(0, at - CUE_REACH), at) is not None
