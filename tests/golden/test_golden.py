"""What each stage makes of fixed documents, as a digest beside its version: another output needs another version.

A version that stays the same says to every run folder in the world that its checkpoints can be reused. So: if a test here
fails, either the change of output was not meant, or `version` of the stage goes up and the digests are taken again with

    CORPUSFLOW_UPDATE_GOLDEN=1 python -m pytest tests/golden/test_golden.py [-k STAGE]

Digests hold for the library versions that stand beside them; under others a test says so and is skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_corpus import LANGUAGES, TEXTS
from stage_table import before as stages_before
from stage_table import is_barrier, parameters, parts

from corpusflow import Score, Source, Stage, Transform
from corpusflow.build import build_stage
from corpusflow.checks import sample_batch
from corpusflow.checks_run import outcome, write_documents
from corpusflow.plan import type_string
from corpusflow.registry import find, stage_names

GOLDEN = Path(__file__).resolve().parent
UPDATE = bool(os.environ.get("CORPUSFLOW_UPDATE_GOLDEN"))
HOW = "CORPUSFLOW_UPDATE_GOLDEN=1 python -m pytest tests/golden/test_golden.py -k {name}"


def digest(value: Any) -> str:
    """Of Python values; floats by their shortest repr, which is exact."""

    def plain(v: Any) -> Any:
        return v.hex() if isinstance(v, bytes) else str(v)

    text = json.dumps(value, default=plain, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def table(batches: list[pa.RecordBatch]) -> Any:
    """Names, types and values, columns by name."""
    whole = pa.Table.from_batches(batches)
    return {
        n: [type_string(whole.schema.field(n).type), whole.column(n).to_pylist()] for n in sorted(whole.schema.names)
    }


def of_part(part: Stage, types: dict[str, pa.DataType]) -> Any:
    """What a part without barriers makes; None for Filters (their rules are data) and barriers."""
    if isinstance(part, (Score, Transform)):
        batch = sample_batch(part, types, TEXTS, LANGUAGES)
        made = part.score(batch) if isinstance(part, Score) else part.transform(batch)
        return table([made])
    if isinstance(part, Source):
        rows = [table(list(part.read(s))) for s in part.splits()]
        return [{k: v for k, v in r.items() if k != "path"} for r in rows]  # the test's own folder
    return None


def of_run(name: str, folder: Path, params: dict[str, Any]) -> Any:
    """What a whole run makes of the documents."""
    documents = [
        {"text": t, "url": f"https://www.example.org/golden/{i % 11}", "id": f"g{i}"} for i, t in enumerate(TEXTS)
    ]
    write_documents(str(folder / "in"), documents)
    return outcome(str(folder), 3, before=stages_before(name), entry=(name, params))


@pytest.mark.parametrize("name", stage_names())
def test_golden(name: str, tmp_path: Path) -> None:
    params = parameters(name, tmp_path)
    every = parts(build_stage(name, find(name), params))
    types = {k: v for p in every for k, v in p.outputs().items()}
    libraries = {"pyarrow", *(lib for p in every for lib in p.libraries)}
    now: dict[str, Any] = {
        "libraries": {lib: version(lib) for lib in sorted(libraries)},
        "versions": {f"{i} {type(p).__name__}": p.version for i, p in enumerate(every)},
        "digests": {},
    }
    for i, part in enumerate(every):
        if (made := of_part(part, types)) is not None:
            now["digests"][f"{i} {type(part).__name__}"] = digest(made)
    if is_barrier(name):
        now["digests"]["run"] = digest(of_run(name, tmp_path, params))
    path = GOLDEN / f"{name}.json"
    if UPDATE:
        if now["digests"]:
            path.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
        return
    if not now["digests"]:
        return  # rules alone
    assert path.exists(), f"no golden digests of {name} yet: {HOW.format(name=name)}"
    golden = json.loads(path.read_text())
    if golden["libraries"] != now["libraries"]:
        pytest.skip(f"digests were taken with {golden['libraries']}, here are {now['libraries']}")
    if golden["digests"] != now["digests"]:
        changed = sorted(k for k in now["digests"] if golden["digests"].get(k) != now["digests"][k])
        raised = sorted(k for k in now["versions"] if golden["versions"].get(k) != now["versions"][k])
        what = f"raise `version` of {', '.join(changed)}, then " if not raised else "versions were raised, so "
        pytest.fail(
            f"{name}: output of {', '.join(changed)} changed; {what}take the digests again: {HOW.format(name=name)}"
        )
    assert golden["versions"] == now["versions"], f"take the digests again: {HOW.format(name=name)}"


def test_no_golden_file_is_left_over() -> None:
    assert {p.stem for p in GOLDEN.glob("*.json")} <= set(stage_names())
