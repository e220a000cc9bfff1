"""`corpusflow dedup-index ls | show | verify`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import click

from corpusflow.cli._documents import plain
from corpusflow.cli._options import json_option
from corpusflow.cli._show import size, stdout
from corpusflow.cli._table import print_report
from corpusflow.errors import ConfigError, CorruptShardError
from corpusflow.registry import find
from corpusflow.storage import storage_for

_STAGE: Final = "dedup.index"
_INDEX: Final = "index.json"
#: Where an index may lie: the folder itself, below a run folder, below a folder of runs.
_PLACES: Final = ("", "exports/index", "*/exports/index")


@click.group()
def command() -> None:
    """Indexes of kept documents that later crawls are deduplicated against."""


@command.command()
@click.argument("where", nargs=-1, required=True, type=click.Path())
@json_option
def ls(where: tuple[str, ...], as_json: bool) -> None:
    """List indexes: of folders of runs, of run folders, or index folders."""
    paths = list(dict.fromkeys(path for place in where for path in _indexes(place)))
    if not paths:
        raise ConfigError(
            f"no dedup index in {', '.join(where)}",
            hint="a run with the output `dedup.index` writes <run>/exports/index",
        )
    found = [{"path": path, **_hook("describe")(path)} for path in paths]
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, default=str))
        return
    rows = [
        {
            "index": f["name"],
            "version": f["version"],
            "documents": f"{f['documents']:,}",
            "in all": f"{f['documents_in_all']:,}",
            "size in all": size(f["bytes_in_all"]),
            "keys": ", ".join(f["settings"]),
            "folder": f["path"],
        }
        for f in sorted(found, key=lambda f: (f["name"], f["version"], f["path"]))
    ]
    print_report(stdout(), {"indexes": rows})


@command.command()
@click.argument("index", type=click.Path())
@json_option
def show(index: str, as_json: bool) -> None:
    """Show what one index holds, how its keys were made, and what it extends."""
    path = _one(index)
    found = _hook("describe")(path)
    if as_json:
        click.echo(json.dumps({"path": path, **found}, ensure_ascii=False, default=str))
        return
    nested = {"settings", "extends", "files"}
    body: dict[str, Any] = {"folder": path, **{k: v for k, v in found.items() if k not in nested}}
    body |= {f"settings of {key}": values for key, values in found["settings"].items() if values}
    body |= {k: found[k] for k in ("extends", "files") if found[k]}
    print_report(stdout(), body)


@command.command()
@click.argument("index", type=click.Path())
@json_option
def verify(index: str, as_json: bool) -> None:
    """Read every file of an index, and of those it extends, and hold it against its digest. Exit status 4 means damage."""
    path = _one(index)
    wrong = _hook("check")(path)
    if as_json:
        click.echo(json.dumps({"path": path, "problems": wrong}, ensure_ascii=False))
    else:
        for text in wrong:
            click.secho(plain(text), fg="red")
        if not wrong:
            click.secho("everything is as recorded", fg="green")
    if wrong:
        raise CorruptShardError(
            f"{len(wrong)} problem(s) in {path}; the first: {wrong[0]}",
            hint="corpusflow verify RUN --repair  makes it again in the run that wrote it",
        )


def _hook(name: str) -> Any:
    """A function of the stage that writes indexes; the engine knows nothing of their format."""
    return getattr(find(_STAGE), name)


def _indexes(place: str) -> Iterator[str]:
    place = place.rstrip("/")
    storage = storage_for(place)
    for below in _PLACES:
        if below.startswith("*/"):
            tried = [f"{folder.rstrip('/')}/{below[2:]}" for folder in storage.folders(place)]
        else:
            tried = [f"{place}/{below}".rstrip("/")]
        for path in tried:
            if storage.exists(f"{path}/{_INDEX}"):
                yield path


def _one(place: str) -> str:
    found = list(_indexes(place))
    if len(found) > 1:
        raise ConfigError(f"{place} holds {len(found)} dedup indexes", hint=f"name one: {found[0]}")
    return found[0] if found else place.rstrip("/")  # the stage says what is wrong with it
