"""Serial, in this process: for tests, debugging and machines without Ray."""

from __future__ import annotations

from collections import deque

from corpusflow.executors import Executor
from corpusflow.worker import Outcome, TaskSpec, execute


class InlineExecutor(Executor):
    """Runs a task when its outcome is asked for."""

    name = "inline"

    def __init__(self) -> None:
        self._queue: deque[TaskSpec] = deque()

    def window(self) -> int:
        return 1

    def submit(self, spec: TaskSpec, memory: int) -> None:
        self._queue.append(spec)

    def wait(self, timeout: float) -> list[Outcome]:
        return [execute(self._queue.popleft())] if self._queue else []

    def workers(self) -> int:
        return 1

    def close(self) -> None:
        self._queue.clear()
