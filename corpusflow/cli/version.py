"""`corpusflow version`."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version

import click

from corpusflow.cli._options import json_option

_SHOWN = (
    "corpusflow",
    "pyarrow",
    "numpy",
    "numba",
    "ray",
    "fastwarc",
    "resiliparse",
    "fasttext-community",
    "sentencepiece",
)


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Print versions of corpusflow and of what makes its output."""
    found = {"python": platform.python_version()}
    for name in _SHOWN:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    click.echo(json.dumps(found) if as_json else "\n".join(f"{k} {v}" for k, v in found.items()))
