"""What people see: progress while a run goes on, the closing table, sizes and rates in words."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from corpusflow.accounting import StageCount
from corpusflow.plan import Plan
from corpusflow.results import RunResult, StepCost
from corpusflow.retention import Retention, summary
from corpusflow.worker import Outcome

_LINE_EVERY_SECONDS = 10.0
_MOST_GROUPS = 12


def size(n: float) -> str:
    """Bytes for people: ``1.2 GB`` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 1000 or unit == "TB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return ""


def many(n: int, what: str) -> str:
    """``1 shard``, ``1,200 shards``."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def top(table: Mapping[str, int], n: int = 3) -> str:
    """The largest entries: ``few_words 120, too_long 3``."""
    ordered = sorted(table.items(), key=lambda kv: (-kv[1], kv[0]))
    text = ", ".join(f"{k} {v:,}" for k, v in ordered[:n])
    return text + (f", {len(ordered) - n} more" if len(ordered) > n else "")


class Show:
    """A Progress for a terminal (bars) or a log (a line now and then)."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.plan: Plan | None = None
        self._bars: Bars | None = None
        self._bar: TaskID | None = None
        self._title = ""
        self._done = self._total = 0
        self._started = self._said = time.monotonic()
        self._bytes = 0.0

    def planned(self, plan: Plan, reused: Mapping[str, int]) -> None:
        self.plan = plan
        size_in = sum(s.length for s in plan.shards)
        shards = many(len(plan.shards), "shard")
        self.console.print(f"{plan.name}: {shards}, {size(size_in)} of input, run folder {plan.run_dir}")

    def step(self, title: str, done: int, total: int) -> None:
        self._close()
        self._title, self._done, self._total = title, done, total
        self._started = self._said = time.monotonic()
        self._bytes = 0.0
        if total == done:
            return
        if self.console.is_terminal:
            self._bars = Bars(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self._bar = self._bars.add_task(title, total=total, completed=done, note="")
            self._bars.start()
        else:
            self.console.print(f"{title}: {done}/{total}", soft_wrap=True)

    def task(self, outcome: Outcome, totals: Mapping[int, Mapping[str, Any]]) -> None:
        self._done += 1
        if outcome.result is not None:
            self._bytes += max([a.get("bytes", 0) for a in outcome.result.advice.values()], default=0)
        note = self._note(totals)
        if self._bars is not None and self._bar is not None:
            self._bars.update(self._bar, completed=self._done, note=note)
        elif time.monotonic() - self._said > _LINE_EVERY_SECONDS:
            self._said = time.monotonic()
            eta = (self._said - self._started) / max(1, self._done) * (self._total - self._done)
            said = ", ".join(filter(None, (f"{self._title}: {self._done}/{self._total}", note, f"{eta:.0f} s left")))
            self.console.print(said, soft_wrap=True)

    def _note(self, totals: Mapping[int, Mapping[str, Any]]) -> str:
        if self.plan is None:
            return ""
        documents = next((c["in"] for _, c in sorted(totals.items()) if "in" in c), None)
        if documents is None:
            return ""  # a phase of an Exchange or a Sink, which counts none
        dropped: dict[str, int] = {}
        for counters in totals.values():
            for reason, n in counters.get("dropped", {}).items():
                dropped[reason] = dropped.get(reason, 0) + n
        rate = self._bytes / max(0.001, time.monotonic() - self._started) / 1e6
        text = f"{documents:,} documents, {rate:.1f} MB/s"
        return f"{text}, dropped: {top(dropped, 2)}" if dropped else text

    def message(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False)

    def _close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def close(self) -> None:
        """Leave the terminal clean."""
        self._close()


def counts_table(counts: list[StageCount]) -> Table:
    """Documents per stage: in, kept, dropped by reason, quarantined, MB/s."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    for name in ("in", "kept", "dropped", "quarantined", "MB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most often", overflow="fold")
    seen: set[str] = set()
    for row in counts:
        again = " (again)" if row.inserted and row.stage in seen else ""
        seen.add(row.stage)
        rate = f"{row.bytes / row.seconds / 1e6:.1f}" if row.bytes and row.seconds > 0.05 else ""
        reasons = top({**row.dropped, **row.quarantined})
        table.add_row(
            row.stage + again,
            f"{row.entered:,}",
            f"{row.kept:,}",
            f"{row.all_dropped:,}",
            f"{row.all_quarantined:,}",
            rate,
            reasons,
        )
    return table


def retention_table(groups: Sequence[tuple[Retention, Retention | None]]) -> Table:
    """Documents in and kept of each source and language, and the stage that kept least of it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("of", no_wrap=True)
    for name in ("in", "kept", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("least kept by", overflow="fold")
    for whole, worst in groups[:_MOST_GROUPS]:
        least = f"{worst.stage} {worst.share:.1%}" if worst is not None else ""
        table.add_row(whole.group, f"{whole.entered:,}", f"{whole.kept:,}", f"{whole.share:.1%}", least)
    if len(groups) > _MOST_GROUPS:
        table.add_row(f"{len(groups) - _MOST_GROUPS} more", "", "", "", "in run.json and the card")
    return table


def closing(console: Console, result: RunResult) -> None:
    """The end of a run."""
    console.print(counts_table(result.counts))
    if len(groups := summary(result.retention)) > 1:
        console.print(retention_table(groups))
    for title, steps in _by_stage(result.steps).items():
        if tasks := sum(s.tasks for s in steps):
            console.print(
                f"{title}: {many(tasks, 'task')}, {sum(s.seconds for s in steps):.1f} s, "
                f"{sum(s.measured for s in steps):,} rows measured, "
                f"{size(sum(s.text_bytes for s in steps))} of text read",
                style="dim",
                soft_wrap=True,
            )
    if not any(s.tasks for s in result.steps):
        console.print("nothing had to run: every stage was committed already")
    console.print(
        f"{result.seconds:.1f} s in all (executor start {result.start_seconds:.1f} s), "
        f"largest worker {size(result.peak_memory)}, content digest {result.digest[:16]}",
        soft_wrap=True,
    )
    for text in result.warnings:
        console.print(f"warning: {text}", style="yellow", soft_wrap=True, markup=False)
    for sink, folder in result.exports.items():
        console.print(f"{sink}: {folder}", soft_wrap=True, markup=False)


def _by_stage(steps: list[StepCost]) -> dict[str, list[StepCost]]:
    """Rounds of tasks together that belong to one stage (``dedup.exact: runs``, ``dedup.exact: groups``)."""
    out: dict[str, list[StepCost]] = {}
    for step in steps:
        out.setdefault(step.title.partition(": ")[0], []).append(step)
    return out


def stderr() -> Console:
    """A console on stderr: results go to stdout, talk goes here."""
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 160)


def stdout() -> Console:
    """A console on stdout."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)
