"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

overrides_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a parameter of a stage (quality.gopher.min_words=30) or any key (run.workers=8). May be repeated.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def with_overrides(sets: tuple[str, ...], run_options: Mapping[str, Any]) -> list[str]:
    """``--set`` plus the options that stand for keys of `run`."""
    # `--limit 0` is a mistake to be named, and no way to ask for everything: 0 == False.
    given = {key: value for key, value in run_options.items() if value is not None and value is not False}
    shorthand = [f"run.{key}={_yaml(value)}" for key, value in given.items()]
    return [*sets, *shorthand]


def _yaml(value: Any) -> str:
    return "true" if value is True else str(value)
