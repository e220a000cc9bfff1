"""Stable names for a Sink's files: `exports/<sink>/`, where nothing else ever lies.

Files are linked one by one and the manifest last, so a reader that waits for manifest.json never sees half an export; doing
it twice, or from two drivers at once, gives the same folder.
"""

from __future__ import annotations

import json
import os
from typing import Any

from corpusflow.errors import StageError
from corpusflow.fingerprint import fingerprint
from corpusflow.phases import Inputs
from corpusflow.plan import Node, Plan
from corpusflow.stage import Published, Sink
from corpusflow.storage import storage_for

MANIFEST = "manifest.json"


def export_folder(plan: Plan, node: Node) -> str:
    """Where a Sink's files lie; a second Sink of one kind gets a number."""
    name = node.stage.rpartition(".")[2] if ".py:" not in node.stage else node.stage.rpartition(":")[2]
    return f"{plan.run_dir}/exports/{name}{_number(plan, node)}"


def export_name(plan: Plan, node: Node) -> str:
    """What a Sink's export is called in results: the stage, with the number of its folder if it has one."""
    return f"{node.stage}{_number(plan, node)}"


def _number(plan: Plan, node: Node) -> str:
    same = [n.index for n in plan.nodes if n.kind == "sink" and n.stage == node.stage]
    place = same.index(node.index)
    return f"-{place + 1}" if place else ""


def publish(plan: Plan, node: Node) -> str:
    """Give the Sink's committed files their names; returns the folder.

    Raises:
        StageError: the Sink names a file outside its folder, or one that is not committed.
    """
    sink = node.build()
    if not isinstance(sink, Sink):
        raise StageError(f"{node.name} is not a Sink")
    inputs = Inputs(plan, node)
    published = sink.publish(inputs)
    folder = export_folder(plan, node)
    storage = storage_for(folder)
    names = {*published.parts, *published.texts, MANIFEST}
    for name in names:
        if os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
            raise StageError(f"{node.name} names a file outside its folder: {name!r}")
    wanted = manifest_bytes(plan, node, published)
    try:
        if storage.get(f"{folder}/{MANIFEST}") == wanted and all(storage.exists(f"{folder}/{n}") for n in names):
            return folder
    except (FileNotFoundError, NotADirectoryError):
        pass
    storage.delete(f"{folder}/{MANIFEST}")
    for name, part in sorted(published.parts.items()):
        storage.publish(part.path, f"{folder}/{name}")
    for name, text in sorted(published.texts.items()):
        if name != MANIFEST:
            storage.replace(f"{folder}/{name}", text.encode())
    for info in list(storage.walk(folder)):
        if os.path.relpath(info.path, folder) not in names:
            storage.delete(info.path)
    storage.replace(f"{folder}/{MANIFEST}", wanted)
    return folder


def manifest_bytes(plan: Plan, node: Node, published: Published) -> bytes:
    """The Sink's own manifest, with what it was made by and a digest over all its files.

    Whatever the Sink writes into its manifest, another content thus has another one: files that have changed (a takedown, input
    that was added) are never taken for those that lie there.
    """
    given = published.texts.get(MANIFEST)
    body: dict[str, Any] = json.loads(given) if given else {}
    files = {name: part.digest for name, part in published.parts.items()}
    texts = {name: text for name, text in published.texts.items() if name != MANIFEST}
    made = {"sink": node.stage, "fingerprint": node.fp, "run": plan.name, "files_digest": fingerprint(files, texts)}
    return (json.dumps({**made, **body}, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()
