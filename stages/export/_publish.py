"""What every Sink publishes beside its data: stable names, a manifest that lists them, and where each document lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Part, PhaseInputs, Published

from ._shuffle import SPLITS, WRITE

MANIFEST: Final = "manifest.json"
MANIFEST_VERSION: Final = 1


def numbered(inputs: PhaseInputs) -> list[tuple[str, str, int]]:
    """(split, stem, task) of every "write" task that wrote something of a split, in order of split, then task.

    A task says what it wrote with ``note(train={...})``; numbers are dense whatever tasks wrote nothing.
    """
    info = inputs.info(WRITE)
    found = []
    for split in SPLITS:
        tasks = [task for task in sorted(info) if split in info[task]]
        found += [(split, f"{split}-{i:05d}-of-{len(tasks):05d}", task) for i, task in enumerate(tasks)]
    return found


def flat(split: str, stem: str, suffix: str) -> str:
    """The name of a file where all lie in one folder."""
    return f"{stem}.{suffix}"


def holding(inputs: PhaseInputs, phase: str, ids: pa.Array, suffix: str) -> set[int]:
    """Tasks of a phase one of whose Parquet files ``<split>.<suffix>`` has one of the ids (strings) in its column `id`."""
    found = set()
    for part in inputs.parts(phase):
        if part.name.partition(".")[2] == suffix and part.task not in found:
            column = inputs.read_parquet(part, ["id"]).column("id")
            if pc.any(pc.is_in(column, value_set=ids)).as_py():
                found.add(part.task)
    return found


def published(
    inputs: PhaseInputs,
    format_name: str,
    header: Mapping[str, Any],
    extra: Mapping[str, str] | None = None,
    file_name: Callable[[str, str, str], str] | None = None,
) -> Published:
    """Names and manifest of all that the "write" tasks wrote.

    A task's files are called ``<split>.<suffix>`` and become ``<stem>.<suffix>``, or what `file_name` makes of split, stem and
    suffix. The manifest holds `header`, the totals of each split and the file list with sizes, digests and what the task noted.
    """
    parts: dict[str, Part] = {}
    files: list[dict[str, Any]] = []
    totals: dict[str, dict[str, int]] = {}
    info = inputs.info(WRITE)
    for split, stem, task in numbered(inputs):
        noted = dict(info[task][split])
        own: dict[str, Any] = {"split": split, **noted, "parts": {}}
        for part in inputs.parts(WRITE, task):
            head, _, suffix = part.name.partition(".")
            if head == split:
                name = (file_name or flat)(split, stem, suffix)
                parts[name] = part
                own["parts"][suffix] = {"name": name, "bytes": part.size, "xxh3_128": part.digest}
        files.append(own)
        total = totals.setdefault(split, {})
        for key, value in noted.items():
            total[key] = total.get(key, 0) + value
    manifest = {
        "manifest": MANIFEST_VERSION,
        "format": format_name,
        "seed": inputs.seed,
        **header,
        "splits": totals,
        "files": files,
    }
    texts = {MANIFEST: json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", **(extra or {})}
    return Published(parts, texts)
