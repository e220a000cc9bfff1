"""clean.pii: personal data found, counted, and put out of the text.

Reads and writes `text`; adds `pii.<kind>` (int32 counts of email, phone, ip, iban, card, national_id, ssn, passport, crypto,
plate, mac, location, secret) and `pii.spans` (a list of kind, start and length of what stands in its place, in characters of
the text as it leaves; never the value). Null text stays null and has no counts.

Kinds with a checksum (card, iban, national_id, crypto) must pass it; addresses must be public; a bare number is a telephone
only in a layout or beside a word that says so. Every other character stays as it was. Idempotent: redaction is repeated
until it finds nothing, so that a cue that moves nearer to a number by it cannot count the next time only.
"""

from __future__ import annotations

import hashlib
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Composite, ConfigError, Filter, Rule, Stage, Transform, param
from stages.clean._pii_find import KINDS, Span, look
from stages.clean._pii_patterns import PROVINCES
from stages.kernels.buffers import number_column, text_buffers
from stages.kernels.pii import PRIVATE_KEY, find_candidates

ACTIONS: Final = ("replace", "pseudonym", "label", "drop")
_SPANS: Final = pa.list_(pa.struct([("kind", pa.string()), ("start", pa.int32()), ("length", pa.int32())]))
_MAX_ROUNDS: Final = 4
_DOC_ACTIONS: Final = (
    "What to do by kind: replace (by the kind's name in brackets), pseudonym (the same with a keyed hash, equal for equal "
    "values), label (count only) or drop (the document)."
)
_DOC_DEFAULT: Final = "The action for kinds that `actions` does not name."
_DOC_KEY: Final = "Environment variable that holds the key of pseudonyms; it never enters the run folder."


@dataclass(frozen=True, kw_only=True)
class Redact(Transform):
    """Finds personal data and replaces it."""

    actions: Mapping[str, str] = param(factory=dict, doc=_DOC_ACTIONS)
    default: str = param("replace", doc=_DOC_DEFAULT)
    key_env: str = param("CORPUSFLOW_PII_KEY", doc=_DOC_KEY)

    version: ClassVar[int] = 5
    reads: ClassVar[tuple[str, ...]] = ("text",)
    redacts: ClassVar[bool] = True
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        "text": pa.large_string(),
        **{f"pii.{kind}": pa.int32() for kind in KINDS},
        "pii.spans": _SPANS,
    }

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.actions) - set(KINDS)):
            raise ConfigError(f"unknown kind of personal data {unknown[0]!r}", hint=f"kinds are {', '.join(KINDS)}")
        for action in (self.default, *self.actions.values()):
            if action not in ACTIONS:
                raise ConfigError(f"clean.pii cannot {action!r}", hint=f"actions are {', '.join(ACTIONS)}")

    def open(self) -> bytes:
        """The key of pseudonyms."""
        if "pseudonym" not in (self.default, *self.actions.values()):
            return b""
        key = os.environ.get(self.key_env, "")
        if not key:
            raise ConfigError(
                f"clean.pii makes pseudonyms but {self.key_env} is not set", hint=f"export {self.key_env}=…"
            )
        return key.encode()[:64]

    def warm(self) -> None:
        """Compile the kernel."""
        self.transform(pa.RecordBatch.from_arrays([pa.array(["a@b.cd 1"], pa.large_string())], names=["text"]))

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`adds` for every row."""
        text = batch.column("text")
        valid = text.is_valid().to_numpy(zero_copy_only=False)
        counts = np.zeros((len(text), len(KINDS)), np.int32)
        places: dict[int, list[Edit]] = {}
        replaced: dict[int, str] = {}
        for row, (document, candidates) in _suspects(text).items():
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
        for row, edits in places.items():
            for edit in edits:
                counts[row, KINDS.index(edit.kind)] += 1
        spans = [
            [{"kind": e.kind, "start": e.start, "length": e.length} for e in places.get(row, ())] if there else None
            for row, there in enumerate(valid)
        ]
        arrays = [text, *(number_column(counts[:, k], valid) for k in range(len(KINDS))), pa.array(spans, _SPANS)]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.adds))

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
        digest = hashlib.blake2b(plain.encode(), key=self.opened, digest_size=8).hexdigest()
        # Letters only: digits could be taken for a number the next time.
        return f"[{kind.upper()}:{digest.translate(_LETTERS)}]"

    def _settle(self, texts: dict[int, str], places: dict[int, list[Edit]]) -> None:
        """Redact again until nothing is found, in texts and places of rows."""
        waiting = list(texts)
        for _ in range(_MAX_ROUNDS):
            again = []
            for k, (document, candidates) in _suspects(
                pa.array([texts[r] for r in waiting], pa.large_string())
            ).items():
                row = waiting[k]
                found = [s for s in look(document, _near_stand_ins(document, candidates)) if self._replaces(s.kind)]
                if found:
                    texts[row], edits = self._redact(document, found)
                    places[row] = _moved(places[row], edits)
                    again.append(row)
            waiting = again
            if not waiting:
                break


class Edit(NamedTuple):
    """A finding: where it, or what replaces it, stands in the text made (characters), and what stood there before."""

    kind: str
    start: int
    length: int
    old_start: int
    old_length: int


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


def _suspects(text: pa.Array) -> dict[int, tuple[bytes, list[tuple[int, int, int]]]]:
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


@dataclass(frozen=True, kw_only=True)
class PiiFilter(Filter):
    """Drops documents that hold kinds of personal data that must not even be redacted."""

    kinds: tuple[str, ...] = param(factory=tuple, doc="Kinds of which a document may hold none.")

    def rules(self) -> tuple[Rule, ...]:
        """pii_<kind> for each kind."""
        return tuple(Rule(f"pii_{kind}", f"pii.{kind}", "<=", 0) for kind in self.kinds)


@dataclass(frozen=True, kw_only=True)
class Pii(Composite):
    """Finds and redacts personal data; counts by kind."""

    actions: Mapping[str, str] = param(factory=dict, doc=_DOC_ACTIONS)
    default: str = param("replace", doc=_DOC_DEFAULT)
    key_env: str = param("CORPUSFLOW_PII_KEY", doc=_DOC_KEY)
    keep: bool = param(
        False, semantic=False, doc="Store the text as this stage leaves it, besides the step's last one."
    )
    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of the documents that are dropped.")

    def expand(self) -> tuple[Stage, ...]:
        """The Transform, and a Filter if a kind's action is to drop the document."""
        redact = Redact(actions=self.actions, default=self.default, key_env=self.key_env, keep=self.keep)
        dropped = tuple(k for k in KINDS if self.actions.get(k, self.default) == "drop")
        return (redact, PiiFilter(kinds=dropped, gate=self.gate)) if dropped else (redact,)

    @staticmethod
    def evaluate(*, data: Sequence[str]) -> Mapping[str, Any]:
        """Measure what is found in texts where personal data is labelled, or in texts that hold none.

        The examples it prints are taken from the data, values included.

        Args:
            data: JSONL files (.gz too) with `text` and `spans`, each with `kind`, `start` and `end` in characters.
        """
        from stages.clean import _pii_eval

        rows = list(_pii_eval.read_texts(data))
        return _pii_eval.report(rows, _suspects(_pii_eval.column(rows)))


STAGE = Pii
