"""A killable child process for work on untrusted bytes: parsers written in C, which no timeout inside a process can stop.

Reads items (a small JSON header and bytes), returns one `Result` per item, in order. Promises that an item which hangs,
kills the process or exhausts its memory costs that item alone: it is tried once more by itself, in a fresh child and with
six times the deadline, and reported as failed only if it fails again. All others come back as if it had not been there.

The child is spawned, never forked, imports the worker and nothing else of ours, and dies with its parent. Items are
pipelined: many are in flight, so neither side waits for the other. No pickle crosses the pipes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from corpusflow.errors import RetryableError, StageError
from corpusflow.sandbox_child import ANSWER, ERROR, ITEM, MEMORY, NOT_STARTED, decoded, encoded

Failure = Literal["deadline", "crash", "memory", "error"]
Request = tuple[Mapping[str, Any], bytes | memoryview]

#: How much longer the second try may take: a busy machine must not decide about a document.
RETRY_FACTOR: Final = 6
#: In flight at once: enough to keep the child busy, little enough to be sent again after a kill.
_WINDOW_ITEMS: Final = 256
_WINDOW_BYTES: Final = 4 << 20
#: With so many in flight, answers are let gather for so long: waking up for each took a tenth of the time of parsing a page.
_NAP_ITEMS: Final = 32
_NAP_SECONDS: Final = 0.01
_PIPE_BYTES: Final = 1 << 20
_START_SECONDS: Final = 60.0
_BOOT: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from corpusflow.sandbox_child import main; main()"
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one item.

    Attributes:
        header: the small values the worker returned; empty if it failed.
        parts: the byte strings the worker returned.
        failure: None, or why there is no answer: `error` is an exception of the worker.
        detail: the exception, the signal or the seconds, for people.
        nondeterministic: a clock decided, not a counted limit.
    """

    header: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[bytes] = ()
    failure: Failure | None = None
    detail: str = ""
    nondeterministic: bool = False


class Sandbox:
    """One child process that does one kind of work, item by item.

    Args:
        worker: ``module:function``. Called once in the child as ``function(**params)``; what that returns is called for
            each item as ``f(header: dict, body: bytes) -> (dict, Sequence[bytes])``.
        params: JSON values.
        deadline_seconds: wall clock an item may take before the child is killed.
        memory_bytes: address space of the child (RLIMIT_AS).
        recycle_items: after this many items a fresh child takes over, so that leaks stay bounded.
        recycle_bytes: the same once its resident size passed this.
        output_bytes: an answer larger than this counts as a crash.

    The child starts with the first item and is reused by every later call. One caller at a time, others wait.
    """

    def __init__(
        self,
        worker: str,
        params: Mapping[str, Any] | None = None,
        *,
        deadline_seconds: float = 10.0,
        memory_bytes: int = 1 << 30,
        recycle_items: int = 50_000,
        recycle_bytes: int = 600 << 20,
        output_bytes: int = 256 << 20,
    ) -> None:
        self._worker = worker
        self._settings = {"worker": worker, "params": dict(params or {}), "memory": memory_bytes}
        self._deadline = deadline_seconds
        self._recycle_items = recycle_items
        self._recycle_bytes = recycle_bytes
        self._output_bytes = output_bytes
        self._child: _Child | None = None
        self._lock = threading.Lock()
        self._in_flight = 0

    def run(self, items: Iterable[Request]) -> list[Result]:
        """One result per item, in order."""
        return list(self.map(items))

    def map(self, items: Iterable[Request]) -> Iterator[Result]:
        """Results in order, as they come; `items` is read a bounded window ahead.

        Raises:
            StageError: the worker cannot be imported or set up in the child.
            RetryableError: the child died, or was too slow, before it could say so.
        """
        with self._lock:
            source = iter(items)
            waiting: deque[_Item] = deque()
            self._in_flight = 0
            if self._child is not None and not self._child.usable():
                self.close()
            try:
                while self._feed(source, waiting):
                    result = self._answer(waiting)
                    self._in_flight -= waiting.popleft().size
                    yield result
            finally:
                if waiting:  # the caller stopped early, or we did: answers are still on their way
                    self.close()

    def close(self) -> None:
        """End the child. A later call starts another."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _feed(self, source: Iterator[Request], waiting: deque[_Item]) -> bool:
        """Send what the window has room for; whether an answer is due."""
        if not waiting and self._tired():
            self.close()
        # Many at a time, so that they go in few system calls.
        if 2 * self._in_flight > _WINDOW_BYTES or 2 * len(waiting) > _WINDOW_ITEMS:
            return True
        while self._in_flight < _WINDOW_BYTES and len(waiting) < _WINDOW_ITEMS and not self._tired():
            nxt = next(source, None)
            if nxt is None:
                break
            item = _Item(*nxt)
            self._in_flight += item.size
            self._ready().send(item)
            waiting.append(item)
        return bool(waiting)

    def _tired(self) -> bool:
        child = self._child
        return child is not None and (child.taken >= self._recycle_items or child.resident_bytes > self._recycle_bytes)

    def _ready(self) -> _Child:
        if self._child is None:
            self._child = _Child(self._settings, self._output_bytes)
        return self._child

    def _answer(self, waiting: deque[_Item]) -> Result:
        """The result of the oldest item; after a loss the younger ones are sent again to a fresh child."""
        try:
            return self._ready().receive(self._deadline, patient=len(waiting) >= _NAP_ITEMS)
        except _Lost:
            self.close()
        result = self._alone(waiting[0])
        for other in list(waiting)[1:]:
            self._ready().send(other)
        return result

    def _alone(self, item: _Item) -> Result:
        # The first failure may have been due to what came before it (a leak, a loaded machine): a verdict must be about
        # this item and nothing else, so it is tried in a fresh process, with time to spare.
        child = self._ready()
        child.send(item)
        try:
            return child.receive(self._deadline * RETRY_FACTOR)
        except _Lost as lost:
            self.close()
            return Result(failure=lost.failure, detail=lost.detail, nondeterministic=lost.failure == "deadline")


class _Item:
    __slots__ = ("body", "head", "size")

    def __init__(self, header: Mapping[str, Any], body: bytes | memoryview) -> None:
        data = encoded(header)
        self.body = memoryview(body).cast("B")
        self.head = memoryview(ITEM.pack(len(data), self.body.nbytes) + data)
        self.size = self.head.nbytes + self.body.nbytes


class _Lost(Exception):
    """The child is of no more use."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(detail)
        self.failure: Failure = failure
        self.detail = detail


class _Child:
    """A running child: what is still to be written to it, and what it wrote that is not yet taken."""

    def __init__(self, settings: Mapping[str, Any], output_bytes: int) -> None:
        self.taken = 0
        self.resident_bytes = 0
        self._limit = output_bytes
        self._owner = os.getpid()
        arguments = [json.dumps(sys.path), json.dumps({**settings, "parent": self._owner})]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._finalize = weakref.finalize(self, _end, self._process, self._owner)
        self._in, self._out, self._err = (
            _fileno(s) for s in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        self._selector = selectors.DefaultSelector()
        for fd in (self._out, self._err):
            self._selector.register(fd, selectors.EVENT_READ)
        self._writing = False
        self._to_write: deque[memoryview] = deque()
        self._got = bytearray()
        self._at = 0  # so much of it has been taken
        self._errors = b""
        self._start(settings["worker"])

    def _start(self, worker: str) -> None:
        try:
            status, header, _ = self._frame(_START_SECONDS, patient=False)
        except _Lost as lost:
            self.kill()
            # killed from outside, or no memory or time for it just now: another try of the task may find it otherwise
            raise RetryableError(f"the sandbox for {worker} did not start: {lost.detail}") from lost
        if status == NOT_STARTED:
            self.kill()
            raise StageError(f"the sandbox cannot load {worker}: {header['detail']}")

    def usable(self) -> bool:
        """Whether it is ours (not a forked copy of the parent's) and has not died while idle."""
        return self._owner == os.getpid() and self._process.poll() is None

    def send(self, item: _Item) -> None:
        """Queue an item; it is written while answers are waited for."""
        self.taken += 1
        self._to_write.append(item.head)
        if item.body.nbytes:
            self._to_write.append(item.body)

    def receive(self, seconds: float, *, patient: bool = False) -> Result:
        """The next answer.

        Args:
            seconds: to wait for it.
            patient: the child has enough to do, so that answers may be let gather.

        Raises:
            _Lost: none came in time, or the child died, or ran out of memory.
        """
        if self._to_write and not self._writing:
            self._write()
        status, header, parts = self._frame(seconds, patient)
        if status == MEMORY:
            raise _Lost("memory", header["detail"])
        if status == ERROR:
            return Result(failure="error", detail=header["detail"])
        return Result(header, parts)

    def kill(self) -> None:
        """SIGKILL, reap, close."""
        self._selector.close()
        self._finalize()

    def _frame(self, seconds: float, patient: bool) -> tuple[int, dict[str, Any], list[bytes]]:
        limit = time.monotonic() + seconds
        while (frame := self._take()) is None:
            if patient:
                time.sleep(_NAP_SECONDS)
            left = limit - time.monotonic()
            # Even when time is up, look once more: this process may itself have been stopped meanwhile.
            if not self._turn(max(left, 0.0)) and left <= 0:
                raise _Lost("deadline", f"no answer within {seconds:g} s")
        return frame

    def _take(self) -> tuple[int, dict[str, Any], list[bytes]] | None:
        """One answer out of what has arrived, if it is complete."""
        at = self._at + ANSWER.size
        if len(self._got) < at:
            return None
        status, header_bytes, parts, resident_kb = ANSWER.unpack_from(self._got, self._at)
        if parts > 1024 or header_bytes > 1 << 20:
            raise _Lost("crash", "the child wrote something that is no answer")
        if len(self._got) < at + 8 * parts:
            return None
        lengths = struct.unpack_from(f"<{parts}Q", self._got, at)
        if sum(lengths) > self._limit:
            raise _Lost("crash", f"the answer has {sum(lengths)} bytes, {self._limit} are allowed")
        at += 8 * parts
        if len(self._got) < at + header_bytes + sum(lengths):
            return None
        found = []
        with memoryview(self._got) as view:
            header = decoded(view[at : at + header_bytes])
            at += header_bytes
            for n in lengths:
                found.append(bytes(view[at : at + n]))
                at += n
        self._at = at
        if at > _PIPE_BYTES:  # a large answer is not held until the next one comes
            del self._got[:at]
            self._at = 0
        if resident_kb:
            self.resident_bytes = resident_kb << 10
        return status, header, found

    def _turn(self, seconds: float) -> bool:
        """Read and write what can be; whether anything happened."""
        events = self._selector.select(seconds)
        for key, _ in events:
            if key.fd == self._out:
                data = os.read(self._out, _PIPE_BYTES)
                if not data:
                    raise self._post_mortem()
                del self._got[: self._at]
                self._at = 0
                self._got += data
            elif key.fd == self._err:
                self._drain_errors()
            else:
                self._write()
        return bool(events)

    def _write(self) -> None:
        while self._to_write:
            try:
                done = os.writev(self._in, [self._to_write[i] for i in range(min(len(self._to_write), 64))])
            except BlockingIOError:
                break
            except BrokenPipeError:  # it died; the end of its output says so, after the answers it still gave
                self._to_write.clear()
                break
            while done:
                first = self._to_write[0]
                if done < first.nbytes:
                    self._to_write[0] = first[done:]
                    break
                done -= first.nbytes
                self._to_write.popleft()
        if bool(self._to_write) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._selector.register(self._in, selectors.EVENT_WRITE)
            else:
                self._selector.unregister(self._in)

    def _drain_errors(self) -> bool:
        try:
            data = os.read(self._err, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._err)
            return False
        self._errors = (self._errors + data)[-4096:]
        return True

    def _post_mortem(self) -> _Lost:
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:  # it closed its output but lives on
            self._process.kill()
            code = self._process.wait()
        while self._drain_errors():
            pass
        said = self._errors.decode("utf-8", "replace").strip()
        first = said.splitlines()[0][:200] if said else ""
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        out_of_memory = "memory allocation of" in said or "MemoryError" in said or "bad_alloc" in said
        return _Lost(
            "memory" if out_of_memory else "crash", f"the parser process ended with {how}: {first}".rstrip(": ")
        )


def _fileno(stream: Any) -> int:
    """The descriptor of a pipe end, made non-blocking and as roomy as the system allows."""
    fd: int = stream.fileno()
    os.set_blocking(fd, False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(PermissionError):  # over the user's quota of pipe memory: the default size works too
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return fd


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()
