"""Compiling kernels before workers start, once per machine: numba keeps the compiled code on disk.

In the driver while it goes fast (the code is on disk); at the first slow stage the rest is shared with child processes. All
kernels of the web pipeline together take 45 s on one core.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from corpusflow.plan import Node, Plan

log = logging.getLogger("corpusflow")

#: Loading compiled code takes 0.1 s a stage, compiling it seconds.
_SLOW_SECONDS = 1.5


def warm(plan: Plan, plan_path: str, nodes: Sequence[Node]) -> None:
    """Compile what `nodes` need.

    Args:
        plan_path: the stored plan, for child processes.
    """
    left = list(nodes)
    while left:
        node = left.pop(0)
        if _warm_one(node) > _SLOW_SECONDS and len(left) > 1:
            _share(plan_path, left)
            return


def _warm_one(node: Node) -> float:
    started = time.monotonic()
    node.build().warm()
    took = time.monotonic() - started
    if took > _SLOW_SECONDS:
        log.info("compiled kernels of %s in %.1f s", node.name, took)
    return took


def _share(plan_path: str, nodes: Sequence[Node]) -> None:
    """Compile here and in one child per further CPU. A child that fails is no harm: workers compile what they miss."""
    hands = max(1, min(os.cpu_count() or 1, 4, len(nodes)))
    shares = [nodes[i::hands] for i in range(hands)]
    children = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "corpusflow.warm", plan_path, *(str(n.index) for n in share)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for share in shares[1:]
    ]
    try:
        for node in shares[0]:
            _warm_one(node)
    finally:
        for child in children:
            child.wait()


def main() -> None:
    """``python -m corpusflow.warm PLAN NODE…``: compile what some nodes of a stored plan need."""
    from corpusflow.worker import load_plan

    plan = load_plan(sys.argv[1])
    for index in sys.argv[2:]:
        plan.nodes[int(index)].build().warm()


if __name__ == "__main__":
    main()
