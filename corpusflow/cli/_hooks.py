"""Commands made of stages' hooks: `corpusflow train NAME`, `corpusflow eval NAME`."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from corpusflow.cli._show import stdout
from corpusflow.cli._table import print_report
from corpusflow.errors import ConfigError
from corpusflow.texts import texts_of
from corpusflow.training import Hook, Option, Trainer, trainable, trainer

#: Other spellings of options, as other tools call them.
_ALSO = {"vocabulary": "--vocab-size"}


class Hooks(click.Group):
    """One subcommand per stage that has the hook; a stage is imported when it is named."""

    hook: Hook

    def list_commands(self, ctx: click.Context) -> list[str]:
        return trainable(self.hook)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_of(trainer(cmd_name, self.hook), cmd_name)


def hooks_group(hook: Hook, doc: str) -> Hooks:
    """The group of a hook."""
    group = Hooks(help=doc)
    group.hook = hook
    return group


def command_of(made: Trainer, name: str) -> click.Command:
    """A click command with the hook's parameters as options."""
    fed = [o for o in made.options if o.kind == "texts"]
    parameters: list[click.Parameter] = [_parameter(o) for o in made.options if o.kind != "texts"]
    for option in fed:
        what = option.doc or "Texts."
        if option.name == "texts":
            parameters += [
                click.Option(["--run"], metavar="RUN", help="Take the texts from this run folder."),
                click.Option(
                    ["--stage"], help="With --run: what survived this stage. Default: the last before exports."
                ),
            ]
        flag = f"--{option.name.replace('_', '-')}"
        parameters.append(
            click.Option(
                [flag, option.name],
                metavar="WHERE",
                required=option.required and option.name != "texts",
                help=f"{what} A run folder, folder:stage, or .jsonl, .parquet or .txt files.",
            )
        )
    if fed:
        parameters += [
            click.Option(
                ["--documents"], type=int, default=1_000_000, show_default=True, help="At most this many texts."
            ),
            click.Option(["--sample-seed"], type=int, default=0, show_default=True, help="Which of them."),
        ]

    parameters.append(click.Option(["--json", "as_json"], is_flag=True, help="Print JSON instead of tables."))

    def call(as_json: bool, **given: Any) -> None:
        report = run_hook(made, given)
        if as_json:
            click.echo(json.dumps(report, ensure_ascii=False, indent=1, default=str))
        else:
            print_report(stdout(), report)

    return click.Command(name, params=parameters, callback=call, help=f"{made.summary}\n\nStage: {made.stage}.")


def run_hook(made: Trainer, given: dict[str, Any]) -> Any:
    """Call a hook with what the command line gave.

    Raises:
        ConfigError: no texts were given, or a file is not there.
    """
    documents, seed = given.pop("documents", 0), given.pop("sample_seed", 0)
    run, stage = given.pop("run", None), given.pop("stage", None)
    values: dict[str, Any] = {}
    for option in made.options:
        value = given.get(option.name)
        if option.kind == "texts":
            where = value if value is not None else (run if option.name == "texts" else None)
            if where is None:
                if option.required:
                    raise ConfigError(
                        f"{made.stage} needs texts", hint="--run runs/web --stage dedup.exact, or --texts FILES"
                    )
                continue
            of_run = stage if option.name == "texts" and value is None else None
            values[option.name] = texts_of(where, stage=of_run, documents=documents, seed=seed)
        elif option.many:
            values[option.name] = tuple(value or ())
        else:
            values[option.name] = value
    try:
        return made.call(**values)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as e:
        if not e.filename:
            raise
        raise ConfigError(f"{e.filename}: {e.strerror}", hint=f"relative paths start at {os.getcwd()}") from e


def _parameter(option: Option) -> click.Option:
    flag = f"--{option.name.replace('_', '-')}"
    names = [flag, *([_ALSO[option.name]] if option.name in _ALSO else []), option.name]
    if option.kind is bool:
        names[0] = f"{flag}/--no-{option.name.replace('_', '-')}"
        return click.Option(names, default=bool(option.default), show_default=True, help=option.doc)
    kind: Any = click.Choice(option.choices) if option.choices else option.kind
    default = list(option.default) if option.many and option.default else option.default
    return click.Option(
        names,
        type=kind,
        multiple=option.many,
        required=option.required,
        default=default,
        show_default=option.default not in (None, ()),
        help=option.doc,
    )
