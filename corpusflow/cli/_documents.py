"""How documents look on a terminal: rules beside values, stories, samples. Control characters never reach the terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import click

from corpusflow.explain import Passage, Story
from corpusflow.rules import Finding

_WIDTH = 118
_COLOURS = {
    "dropped": "red",
    "would drop it too": "yellow",
    "quarantined": "magenta",
    "skipped": "yellow",
    "written": "green",
}


def plain(text: object) -> str:
    """One printable line: line ends as spaces, control and direction characters as escapes."""
    joined = " ".join(str(text).split())
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in joined)


def number(value: Any) -> str:
    """A value for people: counts with separators, other numbers to four digits."""
    if isinstance(value, bool) or value is None:
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(number(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {number(v)}" for k, v in value.items()) + "}"
    return plain(value)


def place(path: str, offset: int | None, length: int | None) -> str:
    """Where a record's bytes lie: ``a.warc.gz at 705, 1,974 bytes``; members of an archive have no place of their own."""
    at = f" at {number(offset)}" if offset is not None else ""
    return f"{plain(path)}{at}" + (f", {number(length)} bytes" if length is not None else "")


def finding_line(finding: Finding) -> str:
    """``gopher_few_words: quality.words = 34, needs >= 50``."""
    rule = finding.rule
    head = f"{rule.reason}: {rule.signal()} = {number(finding.value)}"
    if not finding.applicable:
        return f"{head}, not applicable"
    if rule.op in ("is null", "not null"):
        needs = "to be null" if rule.op == "is null" else "not to be null"
    else:
        needs = f"{rule.op} {number(finding.threshold)}"
    return f"{head}, needs {needs}" + ("" if finding.passed else "  <- fails")


def say_story(story: Story) -> None:
    """Print a story."""
    document = story.document
    click.echo(plain(document["id"]))
    for key in ("url", "record_id", "date", "content_type"):
        if document.get(key):
            click.echo(f"  {key}: {plain(document[key])}")
    where = place(document["path"], document["offset"], document.get("length"))
    click.echo(f"  lies in: {where} (shard {story.shard}, row {story.row})")
    dropped = story.fate.startswith(("dropped", "quarantined", "skipped"))
    click.secho(f"  {plain(story.fate)}", fg="red" if dropped else "green", bold=True)
    for passage in story.passages:
        _say_passage(passage)
    if story.excerpt:
        click.echo(f"\n{plain(story.excerpt)}")


def _say_passage(passage: Passage) -> None:
    reason = f" ({plain(passage.reason)})" if passage.reason else ""
    colour = _COLOURS.get(passage.outcome)
    click.echo("\n" + click.style(f"{passage.stage} [{passage.part}]: {passage.outcome}{reason}", fg=colour, bold=True))
    say_findings(passage.findings, indent="  ")
    if passage.signals:
        pairs = ", ".join(f"{_short(k, passage.stage)} {number(v)}" for k, v in passage.signals.items())
        click.echo(textwrap.fill(pairs, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False))
    for place in passage.places:
        click.echo("  " + ", ".join(f"{k} {number(v)}" for k, v in place.items()))


def say_findings(findings: Sequence[Finding], indent: str) -> None:
    """Rules beside values, one a line; those that do not apply to the document as a number."""
    applicable = [f for f in findings if f.applicable]
    for finding in applicable:
        click.secho(f"{indent}{finding_line(finding)}", fg=None if finding.passed else "red")
    if left := len(findings) - len(applicable):
        click.secho(f"{indent}{left} rule{'s do' if left > 1 else ' does'} not apply to this document", dim=True)


def _short(column: str, stage: str) -> str:
    """The column without the family it shares with the stage."""
    return column.removeprefix(stage + ".").removeprefix(stage.partition(".")[0] + ".")
