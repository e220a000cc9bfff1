"""The contract of stages that need all shards, as executable checks: `check_barrier` runs one on a small corpus.

Asserts of an Exchange (or a Composite with one) that every document has the same fate and the same columns, and of a Sink
that its published files are the same bytes, whether the corpus is one shard or three; and that in = kept + dropped +
quarantined at every stage. Documents come from JSONL files, so `ingest.jsonl` must be installed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

from corpusflow.api import open_run, run
from corpusflow.checks import SAMPLE_TEXTS
from corpusflow.errors import StageError
from corpusflow.publish import MANIFEST
from corpusflow.registry import find
from corpusflow.stage import Sink
from corpusflow.storage import storage_for

#: Stage name and its parameters.
Entry = tuple[str, Mapping[str, Any]]
_FILES: Final = 3


def check_barrier(
    name: str,
    params: Mapping[str, Any] | None = None,
    *,
    before: Sequence[Entry] = (),
    documents: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Hold an Exchange, a Composite with one, or a Sink against the contract by running it.

    Args:
        name: as a config names it.
        params: its parameters.
        before: stages it needs in front of it (a tokenizer before a Sink of tokens).
        documents: JSON objects with `text` (and `url`, `id`, …) besides the built-in texts, each of which occurs three times.

    Raises:
        StageError: the first clause it breaks.
    """
    with tempfile.TemporaryDirectory(prefix="corpusflow-check-") as folder:
        write_documents(f"{folder}/in", documents)
        entry = (name, dict(params or {}))
        one, three = (outcome(folder, shards, before=before, entry=entry) for shards in (1, _FILES))
        if one != three:
            first = next((k for k in sorted({*one, *three}) if one.get(k) != three.get(k)), None)
            raise StageError(
                f"{name} depends on how documents are cut into shards: {first} is {str(one.get(str(first)))[:200]} in one "
                f"shard, {str(three.get(str(first)))[:200]} in three",
                hint="order by a hash of the id, never by shard or arrival",
            )


def write_documents(folder: str, documents: Sequence[Mapping[str, Any]]) -> None:
    """Three JSONL files; every built-in text is in each of them, with some words more in one."""
    rows: list[dict[str, Any]] = []
    for i in range(_FILES):
        for n, text in enumerate(SAMPLE_TEXTS):
            longer = text if text is None or i < _FILES - 1 else f"{text} And so on."
            rows.append({"text": longer, "url": f"https://www.example.org/{n % 7}?f={i}", "id": f"{i}-{n}"})
    rows += [dict(d) for d in documents]
    for i in range(_FILES):
        lines = "".join(json.dumps(r) + "\n" for r in rows[i::_FILES])
        storage_for(folder).put_exclusive(f"{folder}/{i}.jsonl", lines.encode())


def outcome(folder: str, shards: int, *, before: Sequence[Entry], entry: Entry) -> dict[str, Any]:
    """What must not depend on shards, of the documents in `folder`/in as one shard or three.

    Returns:
        of a Sink, each published file's bytes and the manifest's values; else id -> all signals of what was kept.
    """
    name, params = entry
    sink = issubclass(find(name), Sink)
    run_dir = f"{folder}/shards-{shards}/run"
    group_bytes = 1 << 30 if shards == 1 else 0
    config: dict[str, Any] = {
        "name": "check",
        "seed": 7,
        "input": [{"ingest.jsonl": {"paths": [f"{folder}/in"], "group_bytes": group_bytes}}],
        "stages": [{n: dict(p)} for n, p in [*before, *([] if sink else [entry])]],
        "output": [{name: dict(params)}] if sink else [],
        "run": {"dir": run_dir, "executor": "inline", "check_disk": False, "max_quarantine": 1.0},
    }
    result = run(config)
    if not all(c.exact for c in result.counts):
        raise StageError(
            f"{name}: in = kept + dropped + quarantined does not hold: {[c.as_data() for c in result.counts]}"
        )
    if sink:
        return _published(result.exports[name])
    view = open_run(run_dir).stage(name)
    columns = ["id", *(c for c in view.columns if "." in c)]
    return {r.pop("id"): r for r in view.table(columns).to_pylist()}


def _published(folder: str) -> dict[str, Any]:
    """Published file -> its bytes; the manifest without the fingerprint, which stands for the shards, too."""
    storage = storage_for(folder)
    files: dict[str, Any] = {os.path.relpath(i.path, folder): storage.get(i.path) for i in storage.walk(folder)}
    manifest = json.loads(files.pop(MANIFEST))
    del manifest["fingerprint"]
    return {**files, **{f"{MANIFEST}: {k}": v for k, v in manifest.items()}}
