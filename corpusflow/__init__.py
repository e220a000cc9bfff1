"""corpusflow: raw crawl files in, deduplicated and tokenized training data out.

Everything a stage or a script may use is in `__all__`. Names are loaded when first used: importing this package starts
nothing, and does not import Ray or Arrow (`corpusflow --help` answers in a fraction of a second).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corpusflow.api import Run, StageView, open_run, run
    from corpusflow.checks import check_stage
    from corpusflow.checks_run import check_barrier
    from corpusflow.errors import (
        ConfigError,
        CorpusflowError,
        CorruptShardError,
        PlanDriftError,
        RetryableError,
        RunFailedError,
        StageError,
    )
    from corpusflow.function_score import document_score
    from corpusflow.inputs import FileSource
    from corpusflow.packing import Packing, pack
    from corpusflow.rules import Rule
    from corpusflow.sandbox import Sandbox
    from corpusflow.schema import DOCUMENT_COLUMNS, LOCATION_COLUMNS, QUARANTINE, ROW, SKIPPED, document_id, id_hashes
    from corpusflow.stage import (
        BatchWriter,
        Check,
        Composite,
        Exchange,
        FileRange,
        Filter,
        Part,
        Phase,
        PhaseInputs,
        PhaseTask,
        Published,
        Resources,
        Score,
        Sink,
        Source,
        Split,
        Stage,
        Transform,
        param,
    )
    from corpusflow.storage import Storage, storage_for

_HOME = {
    "corpusflow.api": ("Run", "StageView", "open_run", "run"),
    "corpusflow.checks": ("check_stage",),
    "corpusflow.checks_run": ("check_barrier",),
    "corpusflow.errors": (
        "ConfigError",
        "CorpusflowError",
        "CorruptShardError",
        "PlanDriftError",
        "RetryableError",
        "RunFailedError",
        "StageError",
    ),
    "corpusflow.function_score": ("document_score",),
    "corpusflow.inputs": ("FileSource",),
    "corpusflow.packing": ("Packing", "pack"),
    "corpusflow.rules": ("Rule",),
    "corpusflow.sandbox": ("Sandbox",),
    "corpusflow.schema": (
        "DOCUMENT_COLUMNS",
        "LOCATION_COLUMNS",
        "QUARANTINE",
        "ROW",
        "SKIPPED",
        "document_id",
        "id_hashes",
    ),
    "corpusflow.stage": (
        "BatchWriter",
        "Check",
        "Composite",
        "Exchange",
        "FileRange",
        "Filter",
        "Part",
        "Phase",
        "PhaseInputs",
        "PhaseTask",
        "Published",
        "Resources",
        "Score",
        "Sink",
        "Source",
        "Split",
        "Stage",
        "Transform",
        "param",
    ),
    "corpusflow.storage": ("Storage", "storage_for"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        value = getattr(importlib.import_module(_MODULE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'corpusflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "DOCUMENT_COLUMNS",
    "LOCATION_COLUMNS",
    "QUARANTINE",
    "ROW",
    "SKIPPED",
    "BatchWriter",
    "Check",
    "Composite",
    "ConfigError",
    "CorpusflowError",
    "CorruptShardError",
    "Exchange",
    "FileRange",
    "FileSource",
    "Filter",
    "Packing",
    "Part",
    "Phase",
    "PhaseInputs",
    "PhaseTask",
    "PlanDriftError",
    "Published",
    "Resources",
    "RetryableError",
    "Rule",
    "Run",
    "RunFailedError",
    "Sandbox",
    "Score",
    "Sink",
    "Source",
    "Split",
    "Stage",
    "StageError",
    "StageView",
    "Storage",
    "Transform",
    "__version__",
    "check_barrier",
    "check_stage",
    "document_id",
    "document_score",
    "id_hashes",
    "open_run",
    "pack",
    "param",
    "run",
    "storage_for",
]
