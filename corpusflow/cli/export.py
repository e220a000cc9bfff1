"""`corpusflow export RUN --stage S --to DIR`."""

from __future__ import annotations

import json

import click

from corpusflow.api import open_run
from corpusflow.cli._options import json_option
from corpusflow.cli._show import size, stderr
from corpusflow.errors import ConfigError
from corpusflow.plain_files import FORMATS, write_files


@click.command()
@click.argument("run", type=click.Path())
@click.option(
    "--stage", required=True, help="Write the documents that survived this stage, with the text as it left it."
)
@click.option("--to", "folder", required=True, type=click.Path(), help="Folder for the files, one per shard.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--columns", help="Comma-separated; default: id, url, text and every signal measured so far.")
@click.option("--force", is_flag=True, help="Replace an earlier export in the folder.")
@json_option
def command(
    run: str, stage: str, folder: str, format_name: str, columns: str | None, force: bool, as_json: bool
) -> None:
    """Write any stage out as Parquet or JSONL."""
    view = open_run(run).stage(stage)
    names = [c.strip() for c in columns.split(",") if c.strip()] if columns is not None else None
    if names == []:
        raise ConfigError("--columns names no column", hint=f"{stage} has {', '.join(view.columns)}")
    files = rows = total = without_text = 0
    for written in write_files(view, folder, format_name=format_name, columns=names, force=force):
        files, rows, total = files + 1, rows + written.rows, total + written.size
        without_text += written.without_text
        if as_json:
            click.echo(json.dumps(vars(written), ensure_ascii=False))
    if not as_json:
        empty = len(view.run.plan.shards) - files
        rest = f"; {empty} shards have no survivors and make no file" if empty else ""
        click.echo(f"{rows:,} documents, {files:,} files, {size(total)} in {folder}{rest}")
    if without_text:
        stderr().print(
            f"warning: {without_text:,} of {rows:,} documents have no text at {stage}: a later stage makes it of bytes",
            soft_wrap=True,
            markup=False,
        )
