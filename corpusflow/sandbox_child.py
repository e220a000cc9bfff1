"""The child's side of `corpusflow.sandbox`: reads items from its standard input, writes answers to its standard output.

Imports the standard library, orjson and the worker, nothing else, so that a fresh child is ready in a few hundredths of a second.
Dies with its parent: by signal where the system has one (Linux), at the end of its input everywhere.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import importlib
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Final

import orjson

#: An item: bytes of the JSON header, bytes of the body; header and body follow.
ITEM: Final = struct.Struct("<IQ")
#: An answer: status, bytes of the JSON header, number of parts, resident kB of the child (0: not looked at); a uint64 length
#: per part, the header and the parts follow.
ANSWER: Final = struct.Struct("<BIII")
OK, ERROR, MEMORY, NOT_STARTED = range(4)

Work = Callable[[dict[str, Any], bytes], tuple[dict[str, Any], Sequence[bytes]]]
_PR_SET_PDEATHSIG: Final = 1
#: Items between two looks at the resident size.
_LOOK_EVERY: Final = 4
_PAGE_BYTES: Final = resource.getpagesize()


def encoded(value: Any) -> bytes:
    """JSON. Headers cost more than all else on the way through the pipes: orjson takes a tenth of json's time."""
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates, integers of more than 64 bits
        return json.dumps(value).encode()


def decoded(data: bytes | memoryview) -> Any:
    """What `encoded` was given."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(bytes(data))


def main() -> None:
    """Serve until the input ends. `sys.argv[2]` is JSON: worker, params, memory, parent (process id)."""
    settings = json.loads(sys.argv[2])
    # Whatever a library prints must not get between the frames.
    items = os.fdopen(os.dup(0), "rb", 1 << 20)
    answers = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _die_with(settings["parent"])
    faulthandler.enable()
    try:
        work = _load(settings["worker"], settings["params"])
        _limit(settings["memory"])
    except Exception as e:  # noqa: BLE001 - reported to the parent, which raises it
        _reply(answers, NOT_STARTED, {"detail": f"{type(e).__name__}: {e}"}, ())
        return
    _reply(answers, OK, {}, (), _resident_kb())
    _serve(items, answers, work)


def _serve(items: BinaryIO, answers: BinaryIO, work: Work) -> None:
    served = 0
    while len(head := items.read(ITEM.size)) == ITEM.size:
        header_bytes, body_bytes = ITEM.unpack(head)
        try:
            header = decoded(items.read(header_bytes))
            body = items.read(body_bytes)
            answer, parts = work(header, body)
            status = OK
        except MemoryError:
            status, answer, parts = MEMORY, {"detail": "MemoryError"}, ()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:  # noqa: BLE001 - panics of Rust libraries are no Exceptions; the parent counts this
            status, answer, parts = ERROR, {"detail": f"{type(e).__name__}: {e}"[:500]}, ()
        served += 1
        _reply(answers, status, answer, parts, _resident_kb() if served % _LOOK_EVERY == 0 else 0)


def _reply(
    answers: BinaryIO, status: int, header: dict[str, Any], parts: Sequence[bytes], resident_kb: int = 0
) -> None:
    data = encoded(header)
    lengths = struct.pack(f"<{len(parts)}Q", *map(len, parts))
    view = memoryview(b"".join((ANSWER.pack(status, len(data), len(parts), resident_kb), lengths, data, *parts)))
    while view:
        view = view[answers.write(view) :]


@functools.cache
def _statm() -> int:
    return os.open("/proc/self/statm", os.O_RDONLY) if os.path.exists("/proc/self/statm") else -1


def _resident_kb() -> int:
    # Not getrusage's peak where it can be helped: a process starts with the peak of the one that made it (Linux counts it
    # through fork and exec), so under a parent of 700 MB every child looked full before its first item.
    if _statm() >= 0:
        return int(os.pread(_statm(), 100, 0).split()[1]) * (_PAGE_BYTES >> 10)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> 10 if sys.platform == "darwin" else peak


def _load(worker: str, params: dict[str, Any]) -> Work:
    module, _, function = worker.partition(":")
    work: Work = getattr(importlib.import_module(module), function)(**params)
    return work


def _limit(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "darwin":  # the kernel there does not honour it
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)
