"""ingest.extract: from the bytes of a page to its text.

Reads `raw` with its declared type and codings, writes `text`, `title`, and as signals the outcome, the charset, and what the
page says of itself (language, author, date, canonical address, licence). `extract.noai`, `extract.noimageai` and `extract.tdm`
(int8) say who objects to training: 1 the page's head, 2 the response's headers (from `meta`), 3 both, 0 nobody; null where
neither was there to look at. Pages whose owners object are dropped, as `consent` names them, and their text is stored nowhere.
Signals are stored before a later stage could redact them, so personal data in what a page says of itself (an address beside the
author's name) is replaced here, as clean.pii would do it.

Rows without `raw` (from JSONL, Parquet, text) pass untouched, so that one chain serves all inputs. Promises that no row
vanishes: a page that gives no text has an outcome saying why, and is dropped by a rule; one that kills or outlasts the parser
process is quarantined, its neighbours unharmed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Composite, ConfigError, Filter, Rule, Sandbox, Stage, Transform, param
from stages.clean._pii_fields import redacted_fields
from stages.clean._pii_redact import Redactor
from stages.ingest._main_text import Reader
from stages.ingest._page import Engine
from stages.kernels.consent import PAGE, RESERVATION_HEADER, RESERVATIONS, RESPONSE, ROBOTS_HEADER, of_headers
from stages.kernels.page_head import FIELDS

#: Outcome of a page without text -> what it means.
OUTCOMES: Final[Mapping[str, str]] = {
    "not_html": "neither HTML nor XHTML nor plain text",
    "unsupported_type": "a declared type that holds no page: image, script, style sheet, JSON …",
    "binary": "declared as text, but the bytes are none",
    "too_large": "more bytes than max_bytes, or a compression bomb",
    "too_deep": "nested deeper than a parser can take",
    "too_many_attributes": "tags with more attributes than a parser can take",
    "too_many_options": "more <option> elements than a parser can take",
    "bad_coding": "the body does not decode from its declared chunked, gzip, deflate, br or zstd",
    "empty": "no text in it",
}


Reservation = Literal["noai", "noimageai", "tdm"]

_ENGINE_DOC: Final = (
    "What finds the main text: `blocks` (ours), `resiliparse`, or `trafilatura` (slow, must be installed)."
)
#: Address space of the parser process: mostly mappings of the compiler that loads kernels.
_MEMORY_BYTES: Final = 2 << 30
_REDACTOR: Final = Redactor({}, "replace", b"")


@dataclass(frozen=True, kw_only=True)
class ExtractText(Transform):
    """Main text of a page: decoded, parsed in a killable process, boilerplate left out."""

    version: ClassVar[int] = 4
    reads: ClassVar[tuple[str, ...]] = ("raw", "content_type", "content_encoding", "text", "meta")
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        "text": pa.large_string(),
        "title": pa.string(),
        "extract.outcome": pa.string(),
        "extract.charset": pa.string(),
        **{f"extract.{name}": pa.string() for name in FIELDS},
        **{f"extract.{name}": pa.int8() for name in RESERVATIONS},
    }
    removes: ClassVar[tuple[str, ...]] = ("raw", "content_type", "content_encoding")
    libraries: ClassVar[tuple[str, ...]] = ("resiliparse",)

    max_bytes: int = param(8 << 20, doc="Pages with more bytes than this, codings undone, are refused.")
    deadline_seconds: float = param(10.0, doc="Wall clock a page may take; six times that on a second try.")
    engine: Engine = param("blocks", doc=_ENGINE_DOC)

    def __post_init__(self) -> None:
        if self.engine == "trafilatura":  # of other engines, it would be a change of version that changes nothing
            object.__setattr__(self, "libraries", (*self.libraries, "trafilatura"))

    def open(self) -> Sandbox:
        if self.engine == "trafilatura" and importlib.util.find_spec("trafilatura") is None:
            raise ConfigError("ingest.extract.engine: trafilatura is not installed", hint="pip install trafilatura")
        params = {"max_bytes": self.max_bytes, "engine": self.engine}
        return Sandbox(
            "stages.ingest._page:make", params, deadline_seconds=self.deadline_seconds, memory_bytes=_MEMORY_BYTES
        )

    def warm(self) -> None:
        redacted_fields(_REDACTOR, pa.array(["a@b.cd"], pa.string()))
        if self.engine == "blocks":
            Reader().read(b"<title>a</title><p>b c</p>")

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = np.flatnonzero(batch.column("raw").is_valid().to_numpy(zero_copy_only=False))
        n = batch.num_rows
        texts: list[bytes | None] = [None] * n
        titles: list[bytes | None] = [None] * n
        outcomes: list[str | None] = [None] * n
        charsets: list[str | None] = [None] * n
        troubles: list[str | None] = [None] * n
        about: dict[str, list[str | None]] = {name: [None] * n for name in FIELDS}
        reserved = _from_headers(batch.column("meta"))
        results = self.opened.map(_items(batch, rows)) if len(rows) else ()
        for i, result in zip(rows.tolist(), results, strict=True):
            if result.failure is not None:
                clock = " (by the clock)" if result.nondeterministic else ""
                troubles[i] = f"extract: {result.failure}{clock}: {result.detail}"
                continue
            outcomes[i] = result.header["outcome"]
            charsets[i] = result.header.get("charset")
            for name, value in result.header.get("about", {}).items():
                about[name][i] = value
            for name, values in reserved.items():
                values[i] = (values[i] or 0) | (PAGE if name in result.header.get("reserved", ()) else 0)
            if result.parts:
                texts[i], titles[i] = result.parts[0], result.parts[1] or None
        extracted = pa.array(texts, pa.large_binary()).cast(pa.large_string())
        if len(rows) < n:
            extracted = _fill(extracted, batch.column("text"), rows)
        return pa.RecordBatch.from_arrays(
            [
                extracted,
                pa.array(titles, pa.binary()).cast(pa.string()),
                pa.array(outcomes, pa.string()),
                pa.array(charsets, pa.string()),
                *(_said(name, pa.array(values, pa.string())) for name, values in about.items()),
                *(pa.array(marks, pa.int8()) for marks in reserved.values()),
                pa.array(troubles, pa.string()),
            ],
            names=[*self.adds, "quarantine"],
        )


def _said(name: str, values: pa.Array) -> pa.Array:
    """A field of FIELDS without personal data; addresses of pages stay whole."""
    return values if name in ("canonical", "licence") else redacted_fields(_REDACTOR, values)[0]


def _from_headers(meta: pa.Array) -> dict[str, list[int | None]]:
    """Reservation -> for each row RESPONSE where its headers make it, 0 where they make another, null where there are none."""
    found: dict[str, list[int | None]] = {name: [None] * len(meta) for name in RESERVATIONS}
    telling = pc.match_substring_regex(meta, f"{ROBOTS_HEADER}|{RESERVATION_HEADER}").fill_null(False)
    for i in np.flatnonzero(telling.to_numpy(zero_copy_only=False)).tolist():
        made = of_headers(meta[i].as_py())
        for name, values in found.items():
            values[i] = RESPONSE if name in made else 0
    return found


def _items(batch: pa.RecordBatch, rows: np.ndarray) -> Iterator[tuple[dict[str, Any], memoryview]]:
    raw = batch.column("raw")
    types = batch.column("content_type").to_pylist()
    codings = batch.column("content_encoding").to_pylist()
    for i in rows.tolist():
        yield {"type": types[i], "coding": codings[i]}, memoryview(raw[i].as_buffer())


def _fill(extracted: pa.Array, text: pa.Array, rows: np.ndarray) -> pa.Array:
    """`extracted` where there was something to extract, `text` as it was elsewhere."""
    n = len(text)
    index = np.arange(n, 2 * n)
    index[rows] = rows
    return pa.concat_arrays([extracted, text.cast(pa.large_string())]).take(pa.array(index))


@dataclass(frozen=True, kw_only=True)
class ExtractFilter(Filter):
    """Drops what gave no text, by outcome, and pages whose owners object to their use.

    A gate, so that what they keep back is stored nowhere.
    """

    version: ClassVar[int] = 2

    gate: bool = param(True, semantic=False, doc="Measure and store nothing more of what this drops.")
    consent: tuple[Reservation, ...] = param((), doc="Objections that are heeded.")

    def rules(self) -> tuple[Rule, ...]:
        return (
            *(Rule(f"page_{name}", "extract.outcome", "not in", (name,)) for name in OUTCOMES),
            *(Rule(f"consent_{name}", f"extract.{name}", "==", 0) for name in self.consent),
        )


@dataclass(frozen=True, kw_only=True)
class Extract(Composite):
    """From the bytes of a page to its main text; pages without any, or not to be trained on, are dropped with the reason."""

    version: ClassVar[int] = 2

    max_bytes: int = param(8 << 20, doc="Pages with more bytes than this, codings undone, are refused.")
    deadline_seconds: float = param(10.0, doc="Wall clock a page may take; six times that on a second try.")
    engine: Engine = param("blocks", doc=_ENGINE_DOC)
    consent: tuple[Reservation, ...] = param(
        ("noai", "noimageai", "tdm"),
        doc="Objections to training that drop a page, in robots' meta tags, X-Robots-Tag or TDM-Reservation; [] for none.",
    )
    keep: bool = param(False, semantic=False, doc="Store the text as extracted, besides the step's last one.")

    def expand(self) -> tuple[Stage, ...]:
        text = ExtractText(
            max_bytes=self.max_bytes, deadline_seconds=self.deadline_seconds, engine=self.engine, keep=self.keep
        )
        return (text, ExtractFilter(consent=self.consent))


STAGE = Extract
