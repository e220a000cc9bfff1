"""`corpusflow schema`."""

from __future__ import annotations

import json

import click

from corpusflow.json_schema import config_schema
from corpusflow.storage import storage_for


@click.command()
@click.option("--out", type=click.Path(), help="Write it to this file instead of printing it.")
def command(out: str | None) -> None:
    """Print the JSON Schema of a config, for editors.

    \b
        corpusflow schema --out corpusflow.schema.json

    A config then begins with this line, and an editor with the YAML language server completes and checks stages and
    parameters as you type:

    \b
        # yaml-language-server: $schema=corpusflow.schema.json
    """
    text = json.dumps(config_schema(), indent=1, ensure_ascii=False)
    if out is None:
        click.echo(text)
        return
    storage_for(out).replace(out, (text + "\n").encode())
    click.echo(f"written to {out}", err=True)
