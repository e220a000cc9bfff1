"""Models and user code as the run folder keeps them: named by their digest, found again wherever the folder was moved."""

from __future__ import annotations

import os
from dataclasses import replace

from corpusflow.plan import Node, Plan


def pinned_path(run_dir: str, sha256: str, path: str) -> str:
    """Where the run folder keeps its copy of a model."""
    return f"{run_dir}/models/{sha256[:12]}-{os.path.basename(path.rstrip('/'))}"


def pinned_code_path(run_dir: str, sha256: str, path: str) -> str:
    """Where the run folder keeps its copy of a user's stage file."""
    return f"{run_dir}/code/{sha256[:12]}/{os.path.basename(path)}"


def at_home(plan: Plan, run_dir: str) -> Plan:
    """The plan as its folder has it, wherever that was moved: user code and models are read from the folder's own copies."""
    copies = {path: pinned_code_path(run_dir, sha, path) for path, sha in plan.code.items()}
    models = f"{plan.run_dir}/models/"

    def at(node: Node) -> Node:
        path, _, attribute = node.reference.rpartition(":")
        reference = f"{copies[path]}:{attribute}" if path in copies else node.reference
        params = {
            k: f"{run_dir}/models/{v.removeprefix(models)}" if isinstance(v, str) and v.startswith(models) else v
            for k, v in node.params.items()
        }
        return replace(node, reference=reference, params=params)

    return replace(plan, run_dir=run_dir, nodes=tuple(at(n) for n in plan.nodes))
