"""Redaction of a column: findings replaced, again until nothing is found, and where they stand in the text made."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.clean._pii_find import Span, look
from stages.clean._pii_patterns import PROVINCES
from stages.kernels.buffers import text_buffers
from stages.kernels.pii import PRIVATE_KEY, find_candidates

_MAX_ROUNDS: Final = 4


class Edit(NamedTuple):
    """A finding: where it, or what replaces it, stands in the text made (characters), and what stood there before."""

    kind: str
    start: int
    length: int
    old_start: int
    old_length: int


@dataclass(frozen=True)
class Redactor:
    """What becomes of findings.

    Args:
        actions: by kind.
        default: the action for other kinds.
        key: of pseudonyms.
    """

    actions: Mapping[str, str]
    default: str
    key: bytes

    def column(self, text: pa.Array) -> tuple[pa.Array, dict[int, list[Edit]]]:
        """(large_string array with the findings replaced, row -> its findings)."""
        places: dict[int, list[Edit]] = {}
        replaced: dict[int, str] = {}
        for row, (document, candidates) in suspects(text).items():
            found = look(document, candidates)
            if found:
                clean, places[row] = self._redact(document, found)
                if any(self._replaces(s.kind) for s in found):
                    replaced[row] = clean
        if replaced:
            self._settle(replaced, places)
            mask = np.zeros(len(text), np.bool_)
            mask[list(replaced)] = True
            text = pc.replace_with_mask(text, pa.array(mask), pa.array(list(replaced.values()), pa.large_string()))
        return text, places

    def _replaces(self, kind: str) -> bool:
        return self._action(kind) in ("replace", "pseudonym")

    def _action(self, kind: str) -> str:
        return self.actions.get(kind, self.default)

    def _redact(self, document: bytes, found: list[Span]) -> tuple[str, list[Edit]]:
        """(text with the findings replaced, where they stand in it)."""
        pieces: list[str] = []
        edits: list[Edit] = []
        done = 0
        length = 0
        before = 0
        for span in found:
            piece = document[done : span.start].decode()
            value = document[span.start : span.end].decode()
            shown = self._stand_in(span.kind, value)
            pieces += [piece, shown]
            length += len(piece)
            before += len(piece)
            edits.append(Edit(span.kind, length, len(shown), before, len(value)))
            length += len(shown)
            before += len(value)
            done = span.end
        pieces.append(document[done:].decode())
        return "".join(pieces), edits

    def _stand_in(self, kind: str, value: str) -> str:
        if not self._replaces(kind):
            return value
        if self._action(kind) == "replace":
            return f"[{kind.upper()}]"
        plain = "".join(c for c in value.casefold() if c.isalnum() or c in "@.")
        digest = hashlib.blake2b(plain.encode(), key=self.key, digest_size=8).hexdigest()
        # Letters only: digits could be taken for a number the next time.
        return f"[{kind.upper()}:{digest.translate(_LETTERS)}]"

    def _settle(self, texts: dict[int, str], places: dict[int, list[Edit]]) -> None:
        """Redact again until nothing is found, in texts and places of rows."""
        waiting = list(texts)
        for _ in range(_MAX_ROUNDS):
            again = []
            for k, (document, candidates) in suspects(pa.array([texts[r] for r in waiting], pa.large_string())).items():
                row = waiting[k]
                found = [s for s in look(document, _near_stand_ins(document, candidates)) if self._replaces(s.kind)]
                if found:
                    texts[row], edits = self._redact(document, found)
                    places[row] = _moved(places[row], edits)
                    again.append(row)
            waiting = again
            if not waiting:
                break


def _moved(earlier: list[Edit], edits: list[Edit]) -> list[Edit]:
    """Places of an earlier round in the text of a later one, with those of the later one."""
    kept = []
    for place in earlier:
        shift = sum(e.length - e.old_length for e in edits if e.old_start < place.start)
        if all(e.old_start + e.old_length <= place.start or e.old_start >= place.start + place.length for e in edits):
            kept.append(place._replace(start=place.start + shift))
    return sorted([*kept, *edits], key=lambda e: e.start)


def _near_stand_ins(document: bytes, candidates: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Candidates with a stand-in around them: what is beside others is as it was, and they were looked at."""
    marks = [match.start() for match in _STAND_IN.finditer(document)]
    return [
        c
        for c in candidates
        if c[2] == PRIVATE_KEY or bisect_left(marks, c[0] - _AROUND) < bisect_right(marks, c[1] + _AROUND)
    ]


_STAND_IN: Final = re.compile(rb"\[[A-Z_]+[:\]]")
_AROUND: Final = 512  # bytes: more than any window, cue and stand-in together
_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")


def suspects(text: pa.Array) -> dict[int, tuple[bytes, list[tuple[int, int, int]]]]:
    """Row -> (document, candidates) of the documents that have any, ascending."""
    offsets, data, valid = text_buffers(text)
    found = np.empty((4096 + len(data) // 256, 4), np.int64)
    while True:
        count = find_candidates(data, offsets, valid, _kinds(), _provinces(), found)
        if count <= len(found):
            break
        found = np.empty((count, 4), np.int64)
    out: dict[int, tuple[bytes, list[tuple[int, int, int]]]] = {}
    for row, start, end, kind in found[:count].tolist():
        if row not in out:
            out[row] = (data[offsets[row] : offsets[row + 1]].tobytes(), [])
        first = int(offsets[row])
        out[row][1].append((start - first, end - first, kind))
    return out


@cache
def _kinds() -> np.ndarray:
    """The kernel's table of ASCII characters."""
    table = np.zeros(128, np.uint8)
    for code in range(128):
        char = chr(code)
        table[code] = (
            1 * char.isdigit() + 2 * char.isupper() + 4 * char.islower() + 8 * (char == "_")
            + 16 * (char in "0123456789abcdefABCDEF") + 32 * (char in " -.()/+,") + 64 * (char in "-+/=.")
            + 128 * (char in " \t\n,;!?\"')")
        )  # fmt: skip
    return table


@cache
def _provinces() -> np.ndarray:
    table = np.zeros(0x10000, np.uint8)
    table[[ord(c) for c in PROVINCES]] = 1
    return table
