"""The stage contract: what a stage is, and all that the engine will ever ask of it.

A stage is a frozen dataclass. Its fields are its parameters, its YAML keys, its docs table and its fingerprint. There is
a closed set of kinds, so that the planner knows what can run fused and what is a barrier:

    Source      lists splits, yields batches of documents
    Transform   batch -> new values of some columns, same rows; the text may change
    Score       batch -> new signal columns, same rows
    Filter      rules (thresholds on columns); never code over text
    Exchange    needs all shards: phases of tasks over committed files, then columns for the rows it read
    Sink        writes the final form: phases, then stable file names
    Composite   a name for several of the above, expanded by the planner

Stages never see a path, a worker, a retry or a neighbour: the engine alone counts, masks, stores, retries and resumes.
`corpusflow.check_stage` holds any stage against this contract.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Final, Protocol

import numpy as np
import pyarrow as pa

from corpusflow.errors import StageError
from corpusflow.fingerprint import fingerprint
from corpusflow.rules import Rule

MB: Final = 1 << 20


def param(
    default: Any = dataclasses.MISSING,
    *,
    doc: str,
    factory: Callable[[], Any] | None = None,
    semantic: bool = True,
    model: str | None = None,
) -> Any:
    """Declare a parameter of a stage.

    Args:
        default: its value when the config says nothing; without one the parameter is required.
        doc: one sentence for the docs table, units included.
        factory: makes the default, for lists and tables.
        semantic: whether the stage's output depends on it. Parameters that are not (thread counts, `keep`) stay out of
            the fingerprint, so changing them re-runs nothing.
        model: the value is a file or folder the stage loads (a model, a word list): its SHA-256, not its path, enters
            the fingerprint, and workers read the copy that the plan pinned. The string is the folder of built-in files,
            relative to the module that defines the stage ("models"; "" for none): a bare name is looked up there.
    """
    metadata = {"doc": doc, "semantic": semantic, "model": model}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Resources:
    """What one task of a stage takes. `memory` is bytes; the scheduler packs by it, nothing enforces it."""

    cpus: float = 1.0
    memory: int = 1500 * MB
    gpus: float = 0.0


_OPENED: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class Stage(ABC):
    """Base of all stages. Subclasses are ``@dataclass(frozen=True, kw_only=True)`` with fields made by `param`."""

    #: Goes up whenever the output for the same input changes; a golden-digest test watches it.
    version: ClassVar[int] = 1
    #: Columns the batch function may look at (signals included); it is handed these and nothing else. One written with a
    #: trailing ``?`` is handed over only where some stage before makes it.
    reads: ClassVar[tuple[str, ...]] = ()
    #: Columns it returns, with their Arrow types; those of a Transform with a trailing ``?`` only where it was handed them.
    adds: ClassVar[Mapping[str, pa.DataType]] = {}
    resources: ClassVar[Resources] = Resources()
    #: Distributions whose version can change the output; a run resumed under another one is refused.
    libraries: ClassVar[tuple[str, ...]] = ()

    def inputs(self) -> tuple[str, ...]:
        """`reads`, where it depends on parameters."""
        return self.reads

    def outputs(self) -> Mapping[str, pa.DataType]:
        """`adds`, where it depends on parameters."""
        return self.adds

    def open(self) -> Any:
        """Load what is expensive (a model). Called at most once per worker process; see `opened`."""
        return None

    @property
    def opened(self) -> Any:
        """What `open` returned, kept for the life of the process by class and parameters."""
        key = f"{type(self).__module__}.{type(self).__qualname__}:{fingerprint(parameters(self))}"
        if key not in _OPENED:
            _OPENED[key] = self.open()
        return _OPENED[key]

    def facts(self) -> Mapping[str, Any]:
        """Small JSON values about the columns it adds, for the manifests of Sinks (tokenizer digest, eos id)."""
        return {}

    def warm(self) -> None:  # noqa: B027 - most stages compile nothing
        """Compile kernels. Called once in the driver before workers start, so that they find the compiled code."""


@dataclass(frozen=True)
class FileRange:
    """A piece of an input file: bytes [start, end), or all of it where end is None."""

    path: str
    relative_path: str
    size: int
    etag: str
    start: int = 0
    end: int | None = None

    @property
    def length(self) -> int:
        """Bytes covered."""
        return (self.size if self.end is None else self.end) - self.start


@dataclass(frozen=True)
class Split:
    """What one shard reads: one piece of a large file, or several small files."""

    files: tuple[FileRange, ...]

    @property
    def length(self) -> int:
        """Bytes as stored."""
        return sum(f.length for f in self.files)


@dataclass(frozen=True, kw_only=True)
class Source(Stage):
    """Yields documents. It has no wide checkpoint: its text is read again where it is needed."""

    #: The parameter by which a Source that may give bytes gives none, for a hint: ``pages: skip``.
    without_bytes: ClassVar[str] = ""

    @property
    def gives_bytes(self) -> bool:
        """Whether documents may be bytes (`raw`) and have no text before a Transform has made it of them."""
        return False

    @abstractmethod
    def splits(self) -> Iterator[Split]:
        """The input in pieces of about one shard each, in an order that depends on names alone.

        Raises:
            ConfigError: a path does not exist or matches nothing.
        """

    @abstractmethod
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The records of a split, in order.

        Batches hold any of schema.DOCUMENT_COLUMNS and LOCATION_COLUMNS (`id` always), the columns the config maps, and
        two verdicts, null where the record is a document: `skipped` (why the record is not one: a short snake_case
        reason) and `quarantine` (why it could not be read). Every record is a row.
        """


@dataclass(frozen=True, kw_only=True)
class Transform(Stage):
    """Rewrites columns of a document, usually `text`; rows and ids stay."""

    keep: bool = param(
        False, semantic=False, doc="Store the text as this stage leaves it, besides the step's last one."
    )

    #: Document columns that are gone after this stage.
    removes: ClassVar[tuple[str, ...]] = ()
    #: True: what it takes out of the text should lie nowhere, so the plan says where the text before it is stored.
    redacts: ClassVar[bool] = False

    @abstractmethod
    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """New values of `outputs()` (and optionally `quarantine`) for a batch of `inputs()`; same number of rows."""


@dataclass(frozen=True, kw_only=True)
class Score(Stage):
    """Measures documents: adds signal columns."""

    #: True: measures only what all filters before it kept (for costly scores: tokens), so soft thresholds enter its
    #: fingerprint. False: measures every row the gates passed.
    survivors_only: ClassVar[bool] = False

    @abstractmethod
    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`outputs()` (and optionally `quarantine`) for a batch of `inputs()`; same number of rows."""


@dataclass(frozen=True, kw_only=True)
class Filter(Stage):
    """Decides by rules alone. A *gate* keeps the rows it drops from being measured or stored any further."""

    gate: bool = param(
        False,
        semantic=False,
        doc="Measure and store nothing more of what this drops: cheaper, but loosening it costs a re-run.",
    )

    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """The thresholds; the first that fails gives the drop reason."""

    def inputs(self) -> tuple[str, ...]:
        """The columns the rules name."""
        return tuple(dict.fromkeys(c for rule in self.rules() for c in rule.columns()))


@dataclass(frozen=True)
class Part:
    """A committed file of a phase: made by task number `task` under the name the task gave it."""

    task: int
    name: str
    path: str
    size: int
    rows: int
    digest: str = ""  # xxh3-128, 32 hex digits, as in the commit record


class PhaseInputs(ABC):
    """What the tasks of an Exchange or a Sink may read."""

    #: Shard numbers, ascending.
    shards: tuple[int, ...]
    seed: int

    @abstractmethod
    def has(self, column: str) -> bool:
        """Whether the plan has a column here; for those named with a ``?`` in `inputs()`."""

    @abstractmethod
    def epoch(self, shard: int) -> int:
        """When the shard joined the plan; documents of earlier epochs win."""

    @abstractmethod
    def survivors(self, shard: int, columns: Sequence[str], rows: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """The documents of a shard that every filter before this stage kept, in row order, in bounded batches.

        Args:
            shard: a number from `shards`.
            columns: document columns and signals. `row` (int32, the row in the shard's base) comes first by itself.
            rows: only these rows (sorted int32 array).
        """

    @abstractmethod
    def parts(self, phase: str, task: int | None = None) -> tuple[Part, ...]:
        """Committed files of an earlier phase (of one of its tasks), ordered by task, then as written."""

    @abstractmethod
    def info(self, phase: str) -> Mapping[int, Mapping[str, Any]]:
        """Per task of an earlier phase, what it noted with `PhaseTask.note`."""

    def facts(self, column: str) -> Mapping[str, Any]:
        """What the stage that adds `column` says of it (`Stage.facts`); empty where no stage of the plan adds it."""
        return {}

    def maker(self, column: str) -> Stage | None:
        """The stage that adds `column`, if it read the very text that `survivors` gives; else None."""
        return None

    @abstractmethod
    def open(self, part: Part) -> IO[bytes]:
        """A seekable binary stream of a committed file."""

    @abstractmethod
    def read_parquet(
        self, part: Part, columns: Sequence[str] | None = None, row_groups: Sequence[int] | None = None
    ) -> pa.Table:
        """A committed Parquet file, or some row groups of it, with page checksums verified."""


class BatchWriter(Protocol):
    """Takes batches; row groups of the file do not depend on how the rows were cut into batches."""

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows."""


class PhaseTask(PhaseInputs):
    """One task of a phase: reads as PhaseInputs, writes files that are committed together when `run` returns."""

    index: int

    @abstractmethod
    def parquet(
        self, name: str, schema: pa.Schema, *, row_group_rows: int = 65_536
    ) -> AbstractContextManager[BatchWriter]:
        """A new Parquet file of this task."""

    @abstractmethod
    def file(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """A new file of bytes of this task."""

    @abstractmethod
    def count(self, counter: str, n: int) -> None:
        """Add to a counter of the commit record."""

    @abstractmethod
    def note(self, **info: Any) -> None:
        """Small JSON values (< 2 kB in all) that later phases read with `info`."""


@dataclass(frozen=True)
class Phase:
    """One barrier-to-barrier part of an Exchange or a Sink.

    Args:
        name: snake_case, unique in the stage.
        run: does one task, reading and writing through the PhaseTask alone.
        tasks: how many there are, from what earlier phases committed; None: one per shard, `index` being its position
            in `shards`.
    """

    name: str
    run: Callable[[PhaseTask], None]
    tasks: Callable[[PhaseInputs], int] | None = None


@dataclass(frozen=True, kw_only=True)
class Exchange(Stage):
    """Needs all shards (dedup, quantiles). Adds columns to the rows that survived every filter before it."""

    @abstractmethod
    def phases(self) -> tuple[Phase, ...]:
        """In order; each starts when the one before it is sealed."""

    @abstractmethod
    def apply(self, shard: int, inputs: PhaseInputs) -> Iterator[pa.RecordBatch]:
        """Batches of `row` (int32, ascending) and `outputs()` for the survivors of one shard. Every survivor is a row."""

    def costs(self, documents: float, text_bytes: float) -> Mapping[str, Any]:
        """What the phases would take at any size, for `corpusflow plan --size`: `phases`, a list of plain rows, and `rests_on`,
        the figures behind them. Empty where nobody has made a model.

        Args:
            documents: that reach the stage.
            text_bytes: of each, on average.
        """
        return {}


@dataclass(frozen=True)
class Published:
    """A Sink's result: stable file names, slashes allowed, and the committed part or the small text each stands for."""

    parts: Mapping[str, Part]
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """What `Sink.verify` looked at: `count` things called `what` (plural), and a sentence per problem, the file in it."""

    what: str
    count: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sink(Stage):
    """Writes the final form of what survived."""

    #: Phases whose notes say how files are cut: `corpusflow takedown` keeps those, so that every other file stays as it is.
    layout_phases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def phases(self) -> tuple[Phase, ...]:
        """In order; each starts when the one before it is sealed."""

    @abstractmethod
    def publish(self, inputs: PhaseInputs) -> Published:
        """The stable names; called once, after the last phase is sealed."""

    def verify(self, inputs: PhaseInputs, sample: int) -> Iterator[Check]:
        """Optional, for `corpusflow verify`: hold the format against itself and against the documents of the run.

        The engine has checked the bytes of every file by then. `sample` is how many documents to follow from the files
        back to what the run has of them.
        """
        return iter(())

    def open_by_library(self, inputs: PhaseInputs, folder: str) -> Iterator[Check]:
        """Optional, for `corpusflow verify --libraries`: read the published files with the library that the format is made for,
        and hold what it gives against what was committed. `folder` is theirs, on a file system of this machine.

        Raises:
            ModuleNotFoundError: the library is not installed.
        """
        return iter(())

    def find(self, inputs: PhaseInputs, document_id: str) -> Iterator[Mapping[str, Any]]:
        """Optional, for `corpusflow explain`: where a document lies, one small JSON mapping per published file."""
        return iter(())

    def holding(self, inputs: PhaseInputs, phase: str, ids: pa.Array) -> set[int] | None:
        """Optional, for `corpusflow takedown`: the tasks of a phase whose files hold documents of these ids (strings).

        A takedown runs those tasks again without the documents; the tasks of phases over shards it knows itself. None: not
        known, all of them.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class Composite(Stage):
    """Several stages under one name; their parts share its folder and its row in every table."""

    @abstractmethod
    def expand(self) -> tuple[Stage, ...]:
        """The stages it stands for, in order; no Composite among them."""


def parameters(stage: Stage, *, semantic_only: bool = False) -> dict[str, Any]:
    """The stage's parameters by name."""
    return {
        f.name: getattr(stage, f.name)
        for f in dataclasses.fields(stage)
        if not semantic_only or f.metadata.get("semantic", True)
    }


def require_columns(stage_name: str, got: pa.Schema, expected: Mapping[str, pa.DataType]) -> None:
    """Check what a stage returned against what it declares.

    Raises:
        StageError: a column is missing, is one too many, or has another type.
    """
    names = set(got.names) - {"quarantine"}
    if missing := [c for c in expected if c not in names]:
        raise StageError(
            f"{stage_name} did not return {', '.join(missing)}; it returned {', '.join(got.names) or 'nothing'}"
        )
    if extra := sorted(names - set(expected)):
        raise StageError(
            f"{stage_name} returned {', '.join(extra)}, which it does not declare", hint="add the column to `adds`"
        )
    for name, kind in expected.items():
        if got.field(name).type != kind:
            raise StageError(f"{stage_name} returned {name} as {got.field(name).type}, declared as {kind}")
