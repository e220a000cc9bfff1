"""`corpusflow plan CONFIG`."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.table import Table

from corpusflow.cli._options import json_option, overrides_option, with_overrides
from corpusflow.cli._show import size, stdout
from corpusflow.cli._table import print_report
from corpusflow.config import load_config
from corpusflow.errors import ConfigError
from corpusflow.forecast import Forecast, forecast, parse_size
from corpusflow.planner import Planner
from corpusflow.preview import preview
from corpusflow.rundir import RunDir


@click.command()
@click.argument("config")
@overrides_option
@click.option("--limit", type=int, help="As for run.")
@click.option("--sample", type=float, help="As for run.")
@click.option("--refresh", is_flag=True, help="List the input again.")
@click.option("--size", "at_size", metavar="SIZE", help="Say what it would take for so much input (1PB) instead.")
@click.option("--price", type=click.FloatRange(min=0), help="With --size: of a core-hour, to say what the hours cost.")
@json_option
def command(
    config: str,
    sets: tuple[str, ...],
    refresh: bool,
    at_size: str | None,
    price: float | None,
    as_json: bool,
    **run_options: Any,
) -> None:
    """Say what `run` would do and reuse, and why. Writes nothing.

    With --size: documents and core-hours at the pace of what has run in the run folder, and bytes, files, requests, memory and
    core-hours of the phases of deduplication; with --price, what the core-hours cost.
    """
    loaded = load_config(config, with_overrides(sets, run_options))
    planner = Planner(loaded)
    listing = RunDir(loaded.run.dir).listing(planner, refresh=refresh)
    plan = planner.plan(listing.shards, listing.epoch)
    if at_size is not None:
        _say_forecast(forecast(plan, parse_size(at_size)), price, as_json)
        return
    if price is not None:
        raise ConfigError("--price is of a forecast", hint="add --size, e.g. --size 1PB")
    found = preview(plan)
    if as_json:
        body = {"name": plan.name, "run_dir": plan.run_dir, "shards": len(plan.shards), **found.as_data()}
        click.echo(json.dumps(body, ensure_ascii=False))
        return
    console = stdout()
    total = sum(s.length for s in plan.shards)
    files = len({f[0] for s in plan.shards for f in s.files})
    console.print(
        f"{plan.name}: {files} files, {size(total)}, {len(plan.shards)} shards; run folder {plan.run_dir}",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("step", justify="right")
    for name in ("stage", "", "does", "shards", "why"):
        table.add_column(name, overflow="fold" if name == "why" else "ellipsis", no_wrap=name != "why")
    for item in found.stages:
        rows = f", {item.rows:,} rows" if item.rows is not None else ""
        table.add_row(
            str(item.step), item.stage, item.part, item.action, f"{item.reused}/{item.total} done", f"{item.why}{rows}"
        )
    console.print(table)
    for note in found.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    pending = [s for s in found.stages if s.action != "reuse"]
    if not pending:
        console.print("nothing to do: every stage is committed")
    elif not any(s.text for s in pending):
        console.print("no text is read and nothing is measured: only counts are made again")


def _say_forecast(found: Forecast, price: float | None, as_json: bool) -> None:
    every = sum(s["core_hours"] or 0.0 for s in found.stages)
    if as_json:
        cost = {} if price is None else {"cost": every * price}
        click.echo(json.dumps({**found.as_data(), "core_hours": every, **cost}, ensure_ascii=False))
        return
    console = stdout()
    console.print(
        f"{size(found.input_bytes)} of input: {found.documents:,.0f} documents of {found.text_bytes:,.0f} bytes of text",
        soft_wrap=True,
    )
    for text in found.assumed:
        console.print(f"assumed: {text}", soft_wrap=True, markup=False)
    if found.stages:
        hours = [*((s["stage"], f"{s['documents']:,.0f}", s["core_hours"]) for s in found.stages), ("all", "", every)]
        rows = [{"stage": stage, "documents in": count, "core-hours": _number(h)} for stage, count, h in hours]
        if price is not None:
            for row, (_, _, h) in zip(rows, hours, strict=True):
                row["cost"] = _number(None if h is None else h * price)
        print_report(console, {"at the pace of this run": rows})
        if price is not None:
            terabytes = found.input_bytes / 1e12
            console.print(f"{_number(every * price)} in all, {every * price / terabytes:,.2f} a terabyte of input")
    for stage, told in found.barriers.items():
        print_report(console, {stage: told["phases"], f"what {stage} rests on": told["rests_on"]})


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
