"""`corpusflow explain RUN ID-or-URL`."""

from __future__ import annotations

import json

import click

from corpusflow.api import Run, open_run
from corpusflow.cli._documents import plain, say_story
from corpusflow.cli._options import json_option
from corpusflow.explain import find_documents, tell


@click.command()
@click.argument("run", type=click.Path())
@click.argument("document", metavar="ID-or-URL")
@json_option
def command(run: str, document: str, as_json: bool) -> None:
    """Tell one document's whole story.

    Each stage it reached, every signal beside its threshold, the rule that dropped it, its twin where it was a duplicate,
    and where its text and tokens lie in the exports.
    """
    explain_document(open_run(run), document, as_json)


def explain_document(run: Run, document: str, as_json: bool) -> None:
    """Print the story of the first record that matches, and which others do."""
    places = find_documents(run, document)
    stories = [tell(run, place) for place in (places if as_json else places[:1])]
    if as_json:
        for story in stories:
            click.echo(json.dumps(story.as_data(), ensure_ascii=False, default=str))
        return
    say_story(stories[0])
    if len(places) > 1:
        click.echo(f"\n{len(places) - 1} more records match:")
        for place in places[1:]:
            click.echo(f"  {plain(tell(run, place).document['id'])}")
