"""clean.pii: personal data found, counted, and put out of the text, the title and what else people wrote.

Reads and writes `text` and, where they are there, the columns that `columns` names; a column of JSON (`meta`) is redacted field
by field and stays JSON. Adds `pii.<kind>` (int32 counts over all of these of email, phone, ip, iban, card, national_id, ssn,
passport, crypto, plate, mac, location, secret) and `pii.spans` (a list of kind, start and length of what stands in the place of
a finding, in characters of `text` as it leaves; never the value). Null text stays null and has no counts.

`url`, `id` and `record_id` stay as they are: they are the document's address, by which takedowns, deduplication and everyone who
asks where a text comes from find it. The plan says so.

Kinds with a checksum (card, iban, national_id, crypto) must pass it; addresses must be public; a bare number is a telephone
only in a layout or beside a word that says so. Every other character stays as it was. Idempotent: redaction is repeated
until it finds nothing, so that a cue that moves nearer to a number by it cannot count the next time only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from corpusflow import Composite, ConfigError, Filter, Rule, Stage, Transform, param
from stages.clean._pii_fields import redacted_fields
from stages.clean._pii_find import KINDS
from stages.clean._pii_redact import Redactor, suspects
from stages.kernels.buffers import number_column

ACTIONS: Final = ("replace", "pseudonym", "label", "drop")
_SPANS: Final = pa.list_(pa.struct([("kind", pa.string()), ("start", pa.int32()), ("length", pa.int32())]))
_DOC_ACTIONS: Final = (
    "What to do by kind: replace (by the kind's name in brackets), pseudonym (the same with a keyed hash, equal for equal "
    "values), label (count only) or drop (the document)."
)
_DOC_DEFAULT: Final = "The action for kinds that `actions` does not name."
_DOC_COLUMNS: Final = "Columns besides `text` to redact, where there are any; `url`, `id` and `record_id` cannot be."
_COLUMNS: Final = ("title", "author", "description", "meta")
_ADDRESSES: Final = ("text", "id", "record_id", "url", "source", "date")
_DOC_KEY: Final = (
    "Environment variable that holds the key of pseudonyms, of any length; it never enters the run folder."
)


@dataclass(frozen=True, kw_only=True)
class Redact(Transform):
    """Finds personal data and replaces it."""

    actions: Mapping[str, str] = param(factory=dict, doc=_DOC_ACTIONS)
    default: str = param("replace", doc=_DOC_DEFAULT)
    key_env: str = param("CORPUSFLOW_PII_KEY", doc=_DOC_KEY)
    columns: tuple[str, ...] = param(_COLUMNS, doc=_DOC_COLUMNS)

    version: ClassVar[int] = 6
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
        if wrong := [c for c in self.columns if c in _ADDRESSES or "." in c]:
            raise ConfigError(
                f"clean.pii does not rewrite the column {wrong[0]!r}",
                hint="`text` always is; addresses and signals stay as they are",
            )

    def inputs(self) -> tuple[str, ...]:
        return ("text", *(f"{name}?" for name in self.columns))

    def outputs(self) -> Mapping[str, pa.DataType]:
        return {**self.adds, **{f"{name}?": pa.string() for name in self.columns}}

    def open(self) -> bytes:
        """The key of pseudonyms."""
        if "pseudonym" not in (self.default, *self.actions.values()):
            return b""
        key = os.environ.get(self.key_env, "")
        if not key:
            raise ConfigError(
                f"clean.pii makes pseudonyms but {self.key_env} is not set", hint=f"export {self.key_env}=…"
            )
        whole = key.encode("utf-8", "surrogateescape")
        # blake2b takes keys of at most 64 bytes; of a longer one all must count, not its beginning.
        return whole if len(whole) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(whole).digest()

    def warm(self) -> None:
        """Compile the kernel."""
        self.transform(pa.RecordBatch.from_arrays([pa.array(["a@b.cd 1"], pa.large_string())], names=["text"]))

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`outputs()` for every row, without the columns that are not there."""
        redactor = Redactor(self.actions, self.default, self.opened)
        text = batch.column("text")
        valid = text.is_valid().to_numpy(zero_copy_only=False)
        counts = np.zeros((len(text), len(KINDS)), np.int32)
        text, places = redactor.column(text)
        for row, edits in places.items():
            for edit in edits:
                counts[row, KINDS.index(edit.kind)] += 1
        others = {}
        for name in (n for n in self.columns if n in batch.schema.names):
            others[name], found = redacted_fields(redactor, batch.column(name))
            for row, kind in found:
                counts[row, KINDS.index(kind)] += 1
        spans = [
            [{"kind": e.kind, "start": e.start, "length": e.length} for e in places.get(row, ())] if there else None
            for row, there in enumerate(valid)
        ]
        arrays = [text, *(number_column(counts[:, k], valid) for k in range(len(KINDS))), pa.array(spans, _SPANS)]
        return pa.RecordBatch.from_arrays([*arrays, *others.values()], names=[*self.adds, *others])


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
    columns: tuple[str, ...] = param(_COLUMNS, doc=_DOC_COLUMNS)
    keep: bool = param(
        False, semantic=False, doc="Store the text as this stage leaves it, besides the step's last one."
    )
    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of the documents that are dropped.")

    def expand(self) -> tuple[Stage, ...]:
        """The Transform, and a Filter if a kind's action is to drop the document."""
        redact = Redact(
            actions=self.actions, default=self.default, key_env=self.key_env, columns=self.columns, keep=self.keep
        )
        dropped = tuple(k for k in KINDS if self.actions.get(k, self.default) == "drop")
        return (redact, PiiFilter(kinds=dropped, gate=self.gate)) if dropped else (redact,)

    @staticmethod
    def evaluate(*, data: Sequence[str]) -> Mapping[str, Any]:
        """Measure what is found in texts where personal data is labelled, or in texts that hold none.

        The examples it prints are taken from the data, values included.

        Args:
            data: JSONL files (.gz too) with `text` and `spans`, each with `kind`, `start` and `end` in characters; `"spans": []`
                where there is nothing to find.
        """
        from stages.clean import _pii_eval

        rows = list(_pii_eval.read_texts(data))
        return _pii_eval.report(rows, suspects(_pii_eval.column(rows)))


STAGE = Pii
