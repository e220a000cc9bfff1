"""`corpusflow quarantine list | show | replay`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from corpusflow.api import open_run
from corpusflow.cli._documents import number, place, plain
from corpusflow.cli._options import json_option
from corpusflow.cli._show import Show, closing, stderr
from corpusflow.errors import ConfigError
from corpusflow.quarantine import Entry, find_entry, quarantined, stored_bytes
from corpusflow.storage import storage_for


@click.group()
def command() -> None:
    """List or show what could not be processed, with where its bytes lie, or try it again."""


@command.command("list")
@click.argument("run", type=click.Path())
@click.option("--stage", help="Only what this stage could not process.")
@click.option("--reason", help="Only this reason.")
@json_option
def list_(run: str, stage: str | None, reason: str | None, as_json: bool) -> None:
    """Every quarantined document, and how many there are by stage and reason."""
    say_list(quarantined(open_run(run), stage, reason), as_json)


@command.command()
@click.argument("run", type=click.Path())
@click.argument("document", metavar="ID-or-URL")
@click.option("--bytes", "target", type=click.Path(), help="Write the record's bytes, as they lie in the input, here.")
@json_option
def show(run: str, document: str, target: str | None, as_json: bool) -> None:
    """One quarantined document: place, stage, exception."""
    entries = find_entry(open_run(run), document)
    if target is not None:
        _write(entries[0], target)
    if as_json:
        for entry in entries:
            click.echo(json.dumps(entry.as_data(), ensure_ascii=False))
        return
    for entry in entries:
        _say(entry)


@command.command()
@click.argument("run", type=click.Path())
@click.option("--stage", help="Only what this stage could not process.")
@click.option("--workers", type=click.IntRange(min=1), help="Tasks at once. Default: as the run had it.")
@click.option("--executor", type=click.Choice(["ray", "inline"]), help="Default: as the run had it.")
@json_option
def replay(run: str, stage: str | None, as_json: bool, **options: Any) -> None:
    """Try what could not be processed again, with the present code.

    Reads the documents from the input once more, as additional shards: what now succeeds joins the run, what is committed is
    not touched, and what needs the whole corpus (deduplication, exports) runs again.
    """
    from corpusflow.replay import replay as run_again  # with the whole engine behind it

    console = stderr()
    show = Show(console)
    try:
        found = run_again(run, stage=stage, options=options, progress=show)
    finally:
        show.close()
    if found.result is not None:
        closing(console, found.result)
    if as_json:
        click.echo(json.dumps(found.as_data(), ensure_ascii=False))
        return
    click.echo(
        f"{number(found.tried)} documents tried again: {number(found.kept_going)} processed, "
        f"{number(found.failed)} in quarantine again, {number(found.missing)} no longer in the input"
        if found.tried
        else "nothing to replay"
    )
    for name, n in sorted(found.left.items()):
        click.echo(f"{number(n)} of {name} left: it stands behind an exchange and runs again when the input changes")


def say_list(entries: Iterable[Entry], as_json: bool) -> None:
    """Print entries as they come, then the counts."""
    counts: dict[tuple[str, str], int] = {}
    for entry in entries:
        if as_json:
            click.echo(json.dumps(entry.as_data(), ensure_ascii=False))
            continue
        counts[entry.stage, entry.reason] = counts.get((entry.stage, entry.reason), 0) + 1
        _say(entry)
    if as_json:
        return
    for (stage, reason), n in sorted(counts.items(), key=lambda kv: -kv[1]):
        click.secho(f"{n:,} by {stage}: {plain(reason)}", bold=True)
    if not counts:
        click.echo("nothing is in quarantine")


def _say(entry: Entry) -> None:
    click.echo(plain(entry.id) + (f"  {plain(entry.url)}" if entry.url else ""))
    click.echo(f"  {place(entry.path, entry.offset, entry.length)}")
    click.echo(f"  {entry.stage}: {plain(entry.detail)}")


def _write(entry: Entry, target: str) -> None:
    data = stored_bytes(entry)
    try:
        with storage_for(target).create(target) as file:
            file.write(data)
    except FileExistsError as e:
        raise ConfigError(f"{target} exists already", hint="give another file to --bytes") from e
    click.echo(f"{len(data):,} bytes written to {target}", err=True)
