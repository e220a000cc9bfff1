"""`corpusflow status RUN`."""

from __future__ import annotations

import json

import click
from rich.table import Table

from corpusflow.api import open_run
from corpusflow.cli._options import json_option
from corpusflow.cli._show import counts_table, stdout
from corpusflow.commit import Dataset
from corpusflow.phases import phase_dataset, phase_records, phases_of


@click.command()
@click.argument("run", type=click.Path())
@json_option
def command(run: str, as_json: bool) -> None:
    """Say how far a run is; works from another terminal while it goes on."""
    opened = open_run(run)
    plan = opened.plan
    rows: list[tuple[str, int, int | None]] = []
    for step in plan.steps:
        if step.kind == "map":
            nodes = [plan.nodes[i] for i in step.nodes]
            total = len(plan.shards)
            committed = {s.number for s in plan.shards}
            for node in nodes:
                other = {s.number for s in plan.shards if node.kind == "source" and s.source != node.index}
                committed &= set(opened.committed(node)) | other
            title = " + ".join(dict.fromkeys(n.stage for n in nodes if n.kind != "wide"))
            rows.append((title, len(committed), total))
            continue
        node = plan.nodes[step.nodes[0]]
        for phase in phases_of(node):
            sealed = phase_dataset(plan, node, phase.name).sealed(0) is not None
            done = len(phase_records(plan, node, phase.name))
            rows.append((f"{node.stage}: {phase.name}", done, done if sealed else None))
    failures = [f for n in plan.nodes for f in Dataset(plan.root(n), n.fp).failures()]
    counts = opened.counts()
    if as_json:
        body = {
            "run_dir": plan.run_dir,
            "steps": [{"title": t, "done": d, "total": of} for t, d, of in rows],
            "stages": [c.as_data() for c in counts],
            "failures": failures,
        }
        click.echo(json.dumps(body, ensure_ascii=False))
        return
    console = stdout()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("step", overflow="fold")
    table.add_column("done", justify="right", no_wrap=True)
    for title, done, of in rows:
        table.add_row(title, f"{done}/{of}" if of is not None else f"{done}/?")
    console.print(table)
    console.print(counts_table(counts))
    if failures:
        console.print(f"{len(failures)} notes under _failures, the last: {failures[-1]}", markup=False)
