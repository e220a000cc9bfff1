"""`corpusflow takedown RUN --ids/--urls/--domains FILE`."""

from __future__ import annotations

import json

import click

from corpusflow.api import open_run
from corpusflow.cli._documents import plain
from corpusflow.cli._options import json_option
from corpusflow.cli._show import size
from corpusflow.takedown.perform import Outcome, find, take_down
from corpusflow.takedown.request import Found, read_request


@click.command()
@click.argument("run", type=click.Path())
@click.option("--ids", multiple=True, metavar="FILE", help="Document ids or record ids, one a line.")
@click.option("--urls", multiple=True, metavar="FILE", help="URLs, as the run has them, one a line.")
@click.option("--domains", multiple=True, metavar="FILE", help="Hosts, one a line; each with all below it.")
@click.option("--dry-run", is_flag=True, help="Only say what the request names.")
@json_option
def command(
    run: str, ids: tuple[str, ...], urls: tuple[str, ...], domains: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Take documents out of a finished run.

    Out of exports, wide checkpoints, signals, evidence and quarantine, rewriting only the shards they are in. RUN/takedowns/
    says what was done; input that is read again later is held against it. Killed half-way, the same command goes on.
    """
    request = read_request(ids, urls, domains)
    if dry_run:
        _say_found(find(open_run(run), request), as_json)
        return
    outcome = take_down(run, request, (lambda text: None) if as_json else click.echo)
    if as_json:
        body = {"records": outcome.records, "unknown": outcome.unknown, **outcome.as_data(), "book": outcome.book}
        click.echo(json.dumps(body, ensure_ascii=False))
    else:
        _say(outcome)


def _say_found(found: Found, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"records": found.records, "shards": len(found.rows), "unknown": found.unknown}))
        return
    for folder, shard in sorted(found.rows):
        click.echo(f"{folder}: {len(found.rows[folder, shard]):,} records of shard {shard}")
    _say_unknown(found.unknown)
    click.echo(f"{found.records:,} records would be taken down")


def _say(outcome: Outcome) -> None:
    _say_unknown(outcome.unknown)
    for name in outcome.published:
        click.echo(f"exports/{name}: published again")
    for name in outcome.started_over:
        click.echo(f"{name}: was half done; the next run makes it again")
    click.echo(
        f"{outcome.records:,} records taken down, {len(outcome.rewritten):,} shards and tasks rewritten, "
        f"{outcome.deleted_files:,} files ({size(outcome.deleted_bytes)}) deleted"
    )
    click.echo(f"written down in {plain(outcome.book)}")


def _say_unknown(unknown: list[str]) -> None:
    for entry in unknown[:20]:
        click.secho(f"not in this run: {plain(entry)}", fg="yellow")
    if len(unknown) > 20:
        click.secho(f"and {len(unknown) - 20:,} more that are not in this run", fg="yellow")
