"""Who runs tasks: serially in this process (`inline`), or on Ray (`ray`). Results do not depend on it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from corpusflow.config import RunConfig
from corpusflow.plan import Plan
from corpusflow.worker import Outcome, TaskSpec


class Executor(ABC):
    """Runs tasks, at most `window` of them handed over at once."""

    name: str

    @abstractmethod
    def window(self) -> int:
        """How many tasks to have handed over; may grow with the cluster."""

    @abstractmethod
    def submit(self, spec: TaskSpec, memory: int) -> None:
        """Hand over a task that will take about `memory` bytes."""

    @abstractmethod
    def wait(self, timeout: float) -> list[Outcome]:
        """Outcomes of tasks that ended, at least one unless `timeout` seconds pass."""

    @abstractmethod
    def workers(self) -> int:
        """Tasks that can run at once."""

    @abstractmethod
    def close(self) -> None:
        """Stop what runs and let go."""


def make_executor(run: RunConfig, plan: Plan, plan_path: str) -> Executor:
    """The executor a config asks for, started."""
    if run.executor == "inline":
        from corpusflow.executors.inline import InlineExecutor

        return InlineExecutor()
    from corpusflow.executors.ray import RayExecutor

    return RayExecutor(run, plan, plan_path)
