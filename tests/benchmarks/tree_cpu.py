"""Run a command; report wall time, CPU time and peak memory of its whole process tree as JSON.

    python tree_cpu.py --out usage.json -- command arguments…

CPU time is summed over every process that ever belonged to the tree, daemons that leave it included (this process becomes
their reaper), from samples of /proc; a process that lives shorter than the sampling interval is counted by its parent's
`children` times if the parent waited for it. Linux only; standard library only, so that any environment's Python can run it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_CHILD_SUBREAPER = 36


def snapshot() -> dict[int, tuple[int, str, float, float, int]]:
    """pid -> (parent, start time, own CPU seconds, waited children's CPU seconds, resident bytes)."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        own = (int(fields[11]) + int(fields[12])) / _TICK
        waited = (int(fields[13]) + int(fields[14])) / _TICK
        found[int(name)] = (int(fields[1]), fields[19].decode(), own, waited, int(fields[21]) * _PAGE)
    return found


def members(root: int, every: dict[int, tuple[int, str, float, float, int]], me: int) -> set[int]:
    """Descendants of root, and orphans that were handed to this process."""
    tree = {root} | {pid for pid, (parent, *_) in every.items() if parent == me}
    grew = True
    while grew:
        more = {pid for pid, (parent, *_) in every.items() if parent in tree} - tree
        tree |= more
        grew = bool(more)
    return tree & set(every)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--interval", type=float, default=0.1)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    me = os.getpid()
    began = time.perf_counter()
    child = subprocess.Popen(command)
    cpu: dict[tuple[int, str], tuple[float, float]] = {}
    peak_tree = peak_one = 0
    wall = None
    while True:
        every = snapshot()
        tree = members(child.pid, every, me) - {me}
        for pid in tree:
            _, start, own, waited, _ = every[pid]
            cpu[pid, start] = (own, waited)
        resident = [every[pid][4] for pid in tree]
        peak_tree, peak_one = max(peak_tree, sum(resident)), max([peak_one, *resident])
        if wall is None and child.poll() is not None:
            wall = time.perf_counter() - began
            break
        time.sleep(args.interval)
    for pid in members(child.pid, snapshot(), me) - {me}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    own_total = sum(own for own, _ in cpu.values())
    usage = {
        "command": [os.path.basename(command[0]), *command[1:]],
        "exit": child.returncode,
        "wall_s": round(wall, 3),
        "cpu_s": round(own_total, 3),
        "peak_tree_mb": round(peak_tree / 1e6, 1),
        "peak_process_mb": round(peak_one / 1e6, 1),
        "processes": len(cpu),
    }
    Path(args.out).write_text(json.dumps(usage) + "\n", encoding="utf-8")
    sys.exit(child.returncode)


if __name__ == "__main__":
    main()
