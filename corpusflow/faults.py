"""Fault points: lets a test make the n-th write, fsync or link of a process fail or kill it.

``CORPUSFLOW_FAULT=point:n[:action]`` (action: crash (default), stop (until SIGCONT), or an errno: EIO, ENOSPC); `any` stands
for every point. Without the variable a point costs one attribute read. Kept in the shipped code on purpose: what is tested
is what runs.
"""

from __future__ import annotations

import errno
import os
import signal

_SPEC = os.environ.get("CORPUSFLOW_FAULT")
_seen = 0


def point(name: str) -> None:
    """Pass a fault point.

    Raises:
        OSError: when the environment asks for it here.
    """
    if _SPEC is None:
        return
    global _seen
    wanted, count, *action = _SPEC.split(":")
    if wanted not in (name, "any"):
        return
    _seen += 1
    if _seen != int(count):
        return
    kind = action[0] if action else "crash"
    if kind in ("crash", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if kind == "crash" else signal.SIGSTOP)
        return
    raise OSError(getattr(errno, kind), f"injected {kind} at {name}")
