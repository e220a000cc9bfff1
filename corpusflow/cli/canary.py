"""`corpusflow canary CONFIG`."""

from __future__ import annotations

import json

import click
from rich.table import Table

from corpusflow.canary import Canaries, try_canaries
from corpusflow.cli._documents import plain
from corpusflow.cli._options import json_option, overrides_option
from corpusflow.cli._show import stdout
from corpusflow.config import load_config
from corpusflow.errors import RunFailedError


@click.command()
@click.argument("config")
@overrides_option
@click.option("--good", multiple=True, type=click.Path(), help="File of documents that must be kept (repeatable).")
@click.option("--bad", multiple=True, type=click.Path(), help="File of documents that must be dropped (repeatable).")
@json_option
def command(config: str, sets: tuple[str, ...], good: tuple[str, ...], bad: tuple[str, ...], as_json: bool) -> None:
    """Try known-good and known-bad documents on a config's stages.

    Without --good and --bad, those of `run.canaries`, which every run tries before it begins. They go through a run of their
    own in canaries/ of the run folder and are in no export. Exit status 1 if one did not end as it should.
    """
    found = try_canaries(load_config(config, list(sets)), good, bad)
    if as_json:
        click.echo(json.dumps(found.as_data(), ensure_ascii=False))
    else:
        stdout().print(_table(found))
    if found.wrong:
        raise RunFailedError(
            f"{len(found.wrong)} of {len(found.fates)} canaries did not end as they should; the first: {found.complaints()[0]}",
            hint="change the stages, or the canaries if these are wrong",
        )


def _table(found: Canaries) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("canary", "should be", "was", "by", "for"):
        table.add_column(name, overflow="fold")
    for fate in found.fates:
        style = "red" if fate.wrong else ""
        expected = "kept" if fate.good else "dropped"
        table.add_row(plain(fate.name), expected, fate.outcome, fate.stage, plain(fate.reason), style=style)
    return table
