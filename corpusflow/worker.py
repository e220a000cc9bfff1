"""What runs in a worker process: a task named by a few strings, its outcome in a few hundred bytes.

Executors call `execute` and nothing else of the engine.
"""

from __future__ import annotations

import resource
import traceback
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from corpusflow.errors import CorpusflowError, RetryableError, StageError
from corpusflow.phases import Inputs, run_phase_task
from corpusflow.pinned import at_home
from corpusflow.plan import Node, Plan, shards_from_table
from corpusflow.storage import parquet_table, storage_for
from corpusflow.task import TaskResult, run_shard


@dataclass(frozen=True)
class TaskSpec:
    """One task. `phase` is empty for a shard of a map step; `index` is then the shard number."""

    plan_path: str
    step: int
    index: int
    phase: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a task ended. `retry`: trying again may help."""

    spec: TaskSpec
    result: TaskResult | None = None
    error: CorpusflowError | None = None
    trace: str = ""
    retry: bool = False


@lru_cache(maxsize=4)
def load_plan(plan_path: str) -> Plan:
    """A stored plan with its shards; user code is found in the run folder's copy."""
    import json

    storage = storage_for(plan_path)
    data = json.loads(storage.get(plan_path))
    folder = plan_path.rpartition("/")[0]
    shards = parquet_table(storage.get(f"{folder}/shards-{data['epoch']:04d}.parquet"))
    return at_home(Plan.from_data(data, shards_from_table(shards)), data["run_dir"])


def execute(spec: TaskSpec) -> Outcome:
    """Do a task. Every failure but the end of the process becomes an Outcome."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    doing = ""
    try:
        plan = load_plan(spec.plan_path)
        step = next(s for s in plan.steps if s.index == spec.step)

        def inputs(node: Node) -> Inputs:
            return Inputs(plan, node)

        if spec.phase:
            doing = f"{plan.nodes[step.nodes[0]].name}, {spec.phase}: "
            result = run_phase_task(plan, plan.nodes[step.nodes[0]], spec.phase, spec.index)
        else:
            result = run_shard(plan, step, plan.by_number[spec.index], inputs)
        result.peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return Outcome(spec, result)
    except CorpusflowError as e:
        return Outcome(spec, error=e, trace=traceback.format_exc(), retry=isinstance(e, RetryableError))
    except OSError as e:
        where = f" ({e.filename})" if e.filename else ""
        error = CorpusflowError(
            f"{e.strerror or e}{where}",
            hint="free some space or mend the disk, then run again: what is done stays done",
        )
        return Outcome(spec, error=error, trace=traceback.format_exc(), retry=True)
    except MemoryError as e:
        error = CorpusflowError(f"out of memory: {e}", hint="lower run.workers, so that each has more of it")
        return Outcome(spec, error=error, trace=traceback.format_exc(), retry=True)
    except Exception as e:  # noqa: BLE001 - a fault in a stage or in the engine; it would fail again
        hint = "the trace is in run.log; everything committed is kept"
        error = StageError(f"{doing}{type(e).__name__}: {e}", hint=hint)
        return Outcome(spec, error=error, trace=traceback.format_exc())
    finally:
        # The pool keeps what a task has freed, up to 80 MB in a shuffle, where numpy and Python cannot use it.
        pa.default_memory_pool().release_unused()
