"""`corpusflow mix CONFIG`."""

from __future__ import annotations

import json

import click

from corpusflow.cli._documents import plain
from corpusflow.cli._options import json_option
from corpusflow.mix.recipe import load_recipe
from corpusflow.mix.write import Mix, make, write


@click.command()
@click.argument("config", type=click.Path())
@click.option("--output", metavar="FOLDER", help="Write it here instead of the config's `output`.")
@click.option("--dry-run", is_flag=True, help="Only say what would be taken from where.")
@json_option
def command(config: str, output: str | None, dry_run: bool, as_json: bool) -> None:
    """Mix finished runs: weights, budgets, epochs, temperature.

    Says what will be taken from where, then writes a folder that corpusflow.feed.open_mixture reads and, where every part is a
    whole Megatron export, Megatron's blend file. No tokens are copied.
    """
    recipe = load_recipe(config)
    mix = make(recipe if output is None else type(recipe)(**{**vars(recipe), "output": output}))
    if as_json:
        click.echo(json.dumps(mix.as_data(), ensure_ascii=False))
    else:
        _say(mix)
    if not dry_run:
        folder = write(mix)
        if not as_json:
            click.echo(f"written to {plain(folder)}")


def _say(mix: Mix) -> None:
    body = mix.as_data()
    width = max(len(p["name"]) for p in body["parts"])
    click.echo(f"{'part':{width}}  {'available':>15}  {'taken':>15}   share  epochs")
    for part in body["parts"]:
        click.echo(
            f"{plain(part['name']):{width}}  {part['available_tokens']:>15,}  {part['tokens']:>15,}  "
            f"{part['share']:>6.2%}  {part['epochs']:>6.2f}"
        )
    for left in body["left_out"]:
        click.secho(f"{plain(left['name'])}: left out, {left['tokens']:,} tokens", fg="yellow")
    click.echo(f"{body['tokens']:,} tokens in {body['sequences']:,} sequences of {body['length']:,}")
