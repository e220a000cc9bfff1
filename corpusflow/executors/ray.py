"""Ray Core tasks, windowed with `ray.wait`: paths go in, a few hundred bytes come out, nothing lives in the object store.

The only module that imports Ray. A local Ray is started on this machine alone (127.0.0.1, no dashboard, no usage reports)
and ends with the run; `run.address` joins a cluster instead. Ray is never asked to remember anything: a lost driver, worker
or node costs the tasks in flight.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import ray
from ray.exceptions import NodeDiedError, OutOfMemoryError, RayError, WorkerCrashedError

from corpusflow.config import RunConfig
from corpusflow.errors import ConfigError, CorpusflowError, RetryableError, RunFailedError
from corpusflow.executors import Executor
from corpusflow.plan import Plan
from corpusflow.storage import storage_for
from corpusflow.worker import Outcome, TaskSpec, execute

#: How long the head of a cluster may take to accept a connection.
_KNOCK_SECONDS: Final = 15.0
#: Tasks handed over per CPU: enough that no CPU waits for the driver (1,370 tasks/s measured), few enough that the driver's
#: memory stays flat (8.3 kB per task handed over).
_PER_CPU: Final = 2
_MAX_WINDOW: Final = 20_000
_RECYCLE_AFTER: Final = 100  # tasks per worker process: parsers and allocators fragment the heap


@dataclass(frozen=True)
class _Home:
    """Where the driver is at home: its working directory and import path."""

    directory: str
    path: tuple[str, ...]

    def enter(self) -> None:
        """Be there, too. Where a module is found in several places, a worker's own come first."""
        if os.path.isdir(self.directory) and os.getcwd() != self.directory:
            os.chdir(self.directory)
        sys.path += [p for p in self.path if p not in sys.path]


def _run(spec: TaskSpec, home: _Home) -> Outcome:
    home.enter()
    return execute(spec)


@contextlib.contextmanager
def _elsewhere(folder: str) -> Iterator[None]:
    """Ray puts the working directory in front of its workers' import path. In a checkout of corpusflow they ran the files
    found there instead of the installed ones that the driver ran, and compiled all kernels again."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class RayExecutor(Executor):
    """Tasks on a local Ray or a cluster."""

    name = "ray"

    def __init__(self, run: RunConfig, plan: Plan, plan_path: str) -> None:
        self._joined = run.address is not None
        self._limit = run.workers if isinstance(run.workers, int) else None
        self._running: dict[Any, TaskSpec] = {}
        self._cpus_read = 0.0
        self._cpus = 1
        self._home = _Home(os.getcwd(), tuple(p for p in sys.path if p))
        self._start(run, plan.run_dir)
        self._task = ray.remote(max_calls=_RECYCLE_AFTER)(_run)
        try:
            if self._joined:
                self._check_shared(plan)
        except BaseException:
            self.close()
            raise

    def _start(self, run: RunConfig, run_dir: str) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        options: dict[str, Any] = {
            "logging_level": logging.ERROR,
            "log_to_driver": False,
            "ignore_reinit_error": False,
            "runtime_env": {"env_vars": _worker_env()},
        }
        if run.address is not None:
            _knock(run.address)
            options["address"] = run.address
        else:
            options.update(
                address="local",  # never a cluster that happens to run on this machine
                num_cpus=self._limit or os.cpu_count() or 1,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                # Payloads never travel in it; Ray's default would take 30 % of the memory.
                object_store_memory=100 << 20,
            )
        try:
            with _elsewhere(run_dir):
                ray.init(**options)
        except (RuntimeError, ConnectionError, OSError, ValueError) as e:
            raise ConfigError(
                f"Ray did not start: {str(e).strip().splitlines()[0]}",
                hint="check run.address" if run.address else "--set run.executor=inline runs without Ray",
            ) from e

    def window(self) -> int:
        return min(_MAX_WINDOW, _PER_CPU * self.workers())

    def workers(self) -> int:
        now = time.monotonic()
        if now - self._cpus_read > 5 or not self._cpus_read:
            self._cpus_read = now
            resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
            cpus = int(resources.get("CPU", 1))
            self._cpus = max(1, min(cpus, self._limit) if self._limit else cpus)
        return self._cpus

    def submit(self, spec: TaskSpec, memory: int) -> None:
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": 0}
        if self._joined:
            options.update(memory=memory, scheduling_strategy="SPREAD")
        self._running[self._task.options(**options).remote(spec, self._home)] = spec

    def wait(self, timeout: float) -> list[Outcome]:
        if not self._running:
            return []
        done, _ = ray.wait(list(self._running), num_returns=1, timeout=timeout, fetch_local=False)
        if done:
            more, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0, fetch_local=False)
            done = list({*done, *more})
        return [self._outcome(ref, self._running.pop(ref)) for ref in done]

    def _outcome(self, ref: Any, spec: TaskSpec) -> Outcome:
        try:
            outcome: Outcome = ray.get(ref)
        except OutOfMemoryError:
            error: CorpusflowError = RetryableError("the worker was killed for memory", hint="lower run.workers")
            return Outcome(spec, error=error, retry=True)
        except (WorkerCrashedError, NodeDiedError) as e:
            return Outcome(spec, error=RetryableError(f"the worker died ({type(e).__name__})"), retry=True)
        except RayError as e:
            text = str(e).strip().splitlines()
            return Outcome(spec, error=RetryableError(f"Ray: {text[-1] if text else type(e).__name__}"), retry=True)
        return outcome

    def _check_shared(self, plan: Plan) -> None:
        """Every node must see the run folder.

        Raises:
            RunFailedError: some node does not.
        """
        probe = f"{plan.run_dir}/.probe-{os.getpid()}-{time.time_ns():x}"
        storage_for(probe).replace(probe, b"corpusflow")
        try:
            every: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
            nodes = [n for n in every if n["Alive"] and n["Resources"].get("CPU")]
            seen = {}
            for node in nodes:
                strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                look = ray.remote(_sees).options(num_cpus=0.01, scheduling_strategy=strategy, max_retries=0)
                seen[node["NodeID"]] = (node["NodeManagerAddress"], look.remote(probe))
            blind = sorted(address for address, ref in seen.values() if not _answer(ref))
        finally:
            storage_for(probe).delete(probe)
        if blind:
            raise RunFailedError(
                f"the run folder {plan.run_dir} is not visible on {len(blind)} of {len(seen)} nodes: {', '.join(blind[:5])}",
                hint="put run.dir on a filesystem that every node mounts under the same path",
            )

    def close(self) -> None:
        # What runs ends with the job, on a joined cluster as well. It is not cancelled first: Ray 2.60.0 aborts this process when
        # a task completes while it is being cancelled ("Tried to complete task that was not pending").
        self._running.clear()
        ray.shutdown()


def _knock(address: str) -> None:
    """Ray tries an address where nobody is for more than ten minutes, without a word and deaf to Ctrl-C.

    Raises:
        ConfigError: nothing listens at ``host:port``; other forms are left to Ray.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or "://" in address:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()
    except (OSError, OverflowError) as e:
        raise ConfigError(
            f"Ray did not start: nothing answers at run.address {address}: {getattr(e, 'strerror', None) or e}",
            hint="check run.address; `ray start --head` says which host and port it is (6379 if nothing else was asked for)",
        ) from e


def _sees(path: str) -> bool:
    return storage_for(path).exists(path)


def _answer(ref: Any) -> bool:
    """Whether a node sees the probe; one that died meanwhile is no node."""
    try:
        return bool(ray.get(ref))
    except RayError:
        return True


def _worker_env() -> dict[str, str]:
    """Workers import what the driver imports, single-threaded, and nothing from the working directory."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    kept = {k: v for k, v in os.environ.items() if k.startswith(("CORPUSFLOW_", "NUMBA_CACHE_DIR"))}
    return {**one, **kept, "PYTHONSAFEPATH": "1", "PYTHONWARNINGS": ",".join(sys.warnoptions)}
