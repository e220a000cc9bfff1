"""`corpusflow verify RUN`."""

from __future__ import annotations

import json
from typing import Any

import click

from corpusflow.api import open_run
from corpusflow.cli._documents import plain
from corpusflow.cli._options import json_option
from corpusflow.cli._show import size
from corpusflow.errors import CorruptShardError, typed
from corpusflow.repair import Repair, repair
from corpusflow.verify import Verification, verify


@click.command()
@click.argument("run", type=click.Path())
@click.option("--repair", "mend", is_flag=True, help="Make damaged shards again, and what hangs on them.")
@click.option("--sample", default=64, show_default=True, help="Documents per token export to decode and compare.")
@click.option(
    "--libraries",
    is_flag=True,
    help="Also read exports whole with the libraries of their formats (megatron-core, streaming, datasets, …), if installed.",
)
@json_option
def command(run: str, mend: bool, sample: int, libraries: bool, as_json: bool) -> None:
    """Re-read every committed file and check it.

    Sizes and digests, records against seals, row counts, the accounting of every shard, the exports, and a sample of token
    spans decoded back to the text they came from. Exit status 4 means damage that is not mended.
    """
    opened = open_run(run)
    tell = (lambda text: None) if as_json else click.echo
    found = verify(opened, sample=sample, libraries=libraries, tell=tell)
    mended, after = None, found
    if mend and found.problems:
        mended = repair(opened.plan, found, tell)
        after = verify(open_run(run), sample=sample, libraries=libraries)
    if as_json:
        click.echo(json.dumps(_data(found, mended, after), ensure_ascii=False))
    else:
        _say(found, mended, after)
    if after.problems:
        first = after.problems[0]
        raise CorruptShardError(
            f"{len(after.problems)} problem(s); the first: {first.what}: {first.path}",
            hint=_hint(run, mend, after),
        )


def _hint(run: str, mend: bool, after: Verification) -> str:
    if not mend and any(p.remedy for p in after.problems):
        return f"{typed('verify', run, '--repair')}  makes damaged shards again"
    return "what cannot be made again needs another run folder: --set run.dir=…"


def _data(found: Verification, mended: Repair | None, after: Verification) -> dict[str, Any]:
    body = found.as_data()
    if mended is not None:
        body |= {"repaired": mended.done, "not_repaired": mended.failed}
        body["problems_left"] = [p.as_data() for p in after.problems]
    return body


def _say(found: Verification, mended: Repair | None, after: Verification) -> None:
    for problem in found.problems:
        click.secho(f"{plain(problem.what)}: {plain(problem.path)}", fg="red")
    for sink, check in found.checks:
        click.echo(f"{sink}: {check.count:,} {check.what}")
    for text in (*found.unfinished, *found.notes):
        click.echo(f"note: {text}")
    click.echo(f"{found.records:,} records, {found.files:,} files, {size(found.bytes)} read")
    if mended is not None:
        click.echo(f"{len(mended.done)} repairs; {len(after.problems)} problems left")
    if not after.problems:
        click.secho("everything is as recorded" if mended is None else "everything is as recorded again", fg="green")
