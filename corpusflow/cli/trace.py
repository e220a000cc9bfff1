"""`corpusflow trace RUN --token N | --id ID`."""

from __future__ import annotations

import json

import click

from corpusflow.api import open_run
from corpusflow.cli._documents import number, place, plain
from corpusflow.cli._options import json_option
from corpusflow.errors import ConfigError, typed
from corpusflow.trace import TokenSpan, Traced, token_exports, trace_document, trace_tokens


@click.command()
@click.argument("run", type=click.Path())
@click.option("--token", type=click.IntRange(0), help="Number of a token in the split, counted from 0.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="So many tokens from there on.")
@click.option("--id", "document", help="Id or URL of a document: where its tokens lie, in each export.")
@click.option("--export", "name", help="Folder below exports/; the first one of tokens if not given.")
@click.option("--split", default="train", show_default=True, help="train or validation.")
@json_option
def command(
    run: str, token: int | None, count: int, document: str | None, name: str | None, split: str, as_json: bool
) -> None:
    """Say which document a token came from, or where a document's tokens lie.

    A token number counts through all files of a split, as corpusflow.feed does: with sequences of 2048, sequence 7 begins at
    token 14336.
    """
    if (token is None) == (document is None):
        raise ConfigError("give either --token or --id", hint=typed("trace", run, "--token", 123456))
    opened = open_run(run)
    if token is not None:
        export = token_exports(opened, name)[0]
        for traced in trace_tokens(opened, export, split, token, count):
            click.echo(json.dumps(traced.as_data(), ensure_ascii=False)) if as_json else _say(traced)
        return
    spans = trace_document(opened, document or "", token_exports(opened, name))
    for span in spans:
        click.echo(json.dumps(span.as_data(), ensure_ascii=False)) if as_json else click.echo(_line(span))
    if not spans:
        raise ConfigError(
            f"no export has tokens of {document}", hint=f"{typed('explain', run, document)}  says what became of it"
        )


def _line(span: TokenSpan) -> str:
    samples = "" if span.samples is None else f", samples {number(span.samples[0])} to {number(span.samples[1])}"
    return (
        f"{span.export} {span.split}: tokens {number(span.start)} to {number(span.start + span.tokens - 1)} "
        f"({plain(span.file)} from its token {number(span.file_token)} on{samples})"
    )


def _say(traced: Traced) -> None:
    document = traced.document
    click.secho(plain(document["id"]), bold=True)
    for key in ("url", "record_id", "date"):
        if document.get(key):
            click.echo(f"  {key}: {plain(document[key])}")
    click.echo(f"  lies in: {place(document['path'], document['offset'], document.get('length'))}")
    click.echo(f"  {_line(traced.span)}")
    if traced.excerpt:
        click.echo(f"  {plain(traced.excerpt)}")
