"""`corpusflow gc RUN`."""

from __future__ import annotations

import json
import re

import click

from corpusflow.api import open_run
from corpusflow.cleanup import delete, garbage
from corpusflow.cli._documents import plain
from corpusflow.cli._options import json_option
from corpusflow.cli._show import size
from corpusflow.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@click.command()
@click.argument("run", type=click.Path())
@click.option("--grace", default="7d", show_default=True, help="Leave files younger than this: 30m, 12h, 7d.")
@click.option("--old-plans", is_flag=True, help="Also what only earlier configs of this folder made.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
def command(run: str, grace: str, old_plans: bool, dry_run: bool, as_json: bool) -> None:
    """Delete what no commit record names.

    Files of attempts that failed, were killed or came second, in stages that are finished, once they are older than the
    grace period. With --old-plans also whole stage folders of earlier configs: going back to those then costs a run.
    """
    opened = open_run(run)
    found = garbage(opened, grace_seconds=seconds(grace), old_plans=old_plans)
    files = total = 0
    for item in found if dry_run else delete(opened, found):
        files, total = files + 1, total + item.size
        if as_json:
            click.echo(json.dumps(vars(item), ensure_ascii=False))
        else:
            click.echo(f"{plain(item.path)} ({size(item.size)}): {plain(item.why)}")
    if not as_json:
        verb = "would be deleted" if dry_run else "deleted"
        click.echo(f"{files:,} files, {size(total)} {verb}")


def seconds(text: str) -> float:
    """``7d`` in seconds.

    Raises:
        ConfigError: not a number and a unit.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if match is None:
        raise ConfigError(f"--grace {text}: expected a number and a unit", hint="30m, 12h, 7d, 2w")
    return float(match[1]) * _UNITS[match[2]]
