"""`corpusflow stages [NAME]`."""

from __future__ import annotations

import json

import click

from corpusflow.catalogue import catalogue, describe, markdown
from corpusflow.cli._options import json_option
from corpusflow.registry import find, stage_names


@click.command()
@click.argument("name", required=False)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the whole catalogue as a page.")
@json_option
def command(name: str | None, as_markdown: bool, as_json: bool) -> None:
    """List the stages, or show one: parameters, what it reads and adds, reasons it drops for."""
    if name is not None:
        entry = describe(name, find(name))
        click.echo(json.dumps(entry.as_data(), ensure_ascii=False) if as_json else entry.text())
        return
    entries = catalogue(stage_names())
    if as_json:
        click.echo(json.dumps([e.as_data() for e in entries], ensure_ascii=False))
        return
    if as_markdown:
        click.echo(markdown(entries), nl=False)
        return
    width = max(len(e.name) for e in entries)
    for entry in entries:
        click.echo(f"{entry.name:{width}}  {entry.kind:9}  {entry.summary}")
