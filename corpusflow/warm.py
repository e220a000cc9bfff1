"""Compiling kernels before workers start, once per machine: numba keeps the compiled code on disk.

Loading it takes the driver 0.1 s a stage. If it takes longer, the code is being compiled: child processes join in, one per
further CPU, each taking the next stage that nobody has taken. All kernels of the web pipeline take 50 s on one core.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence

from corpusflow.plan import Node, Plan

log = logging.getLogger("corpusflow")

_SLOW_SECONDS = 1.5
_MOST_HANDS = 4


def warm(plan: Plan, plan_path: str, nodes: Sequence[Node]) -> None:
    """Compile what `nodes` need.

    Args:
        plan_path: the stored plan, for child processes.
    """
    claims = tempfile.mkdtemp(prefix="corpusflow-warm-")
    children: list[subprocess.Popen[bytes]] = []

    def call_hands() -> None:
        for _ in range(min(os.cpu_count() or 1, _MOST_HANDS, len(nodes)) - 1):
            children.append(_hand(plan_path, claims, nodes))

    # The first stage alone may take 15 s: the others must not wait for it.
    timer = threading.Timer(_SLOW_SECONDS, call_hands)
    timer.daemon = True
    timer.start()
    try:
        _take(nodes, _claimer(claims))
    finally:
        timer.cancel()
        timer.join()
        for child in children:  # one that fails is no harm: workers compile what they miss
            child.wait()
        shutil.rmtree(claims, ignore_errors=True)


def _take(nodes: Sequence[Node], claim: Callable[[Node], bool]) -> None:
    # The compiler leaves few cycles and many objects: looking for the former among the latter took a tenth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        for node in nodes:
            if claim(node):
                started = time.monotonic()
                node.build().warm()
                took = time.monotonic() - started
                if took > _SLOW_SECONDS:
                    log.info("compiled kernels of %s in %.1f s", node.name, took)
    finally:
        if collects:
            gc.enable()


def _claimer(folder: str) -> Callable[[Node], bool]:
    """Says yes to one process per node."""

    def claim(node: Node) -> bool:
        try:
            os.mkdir(os.path.join(folder, str(node.index)))
        except OSError:  # taken, or the driver has finished and the folder is gone
            return False
        return True

    return claim


def _hand(plan_path: str, claims: str, nodes: Sequence[Node]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "corpusflow.warm", plan_path, claims, *(str(n.index) for n in nodes)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    """``python -m corpusflow.warm PLAN CLAIMS NODE…``: compile what nobody else has taken of some nodes of a stored plan."""
    from corpusflow.worker import load_plan

    plan = load_plan(sys.argv[1])
    _take([plan.nodes[int(index)] for index in sys.argv[3:]], _claimer(sys.argv[2]))


if __name__ == "__main__":
    main()
