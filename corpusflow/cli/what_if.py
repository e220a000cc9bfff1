"""`corpusflow what-if RUN --set …`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from corpusflow.api import open_run
from corpusflow.cli._documents import number, plain
from corpusflow.cli._options import json_option, overrides_option
from corpusflow.cli._show import stdout
from corpusflow.rules import Rule
from corpusflow.whatif import Curve, FilterChange, Moved, RuleChange, WhatIf, what_if

_BAR = 40


@click.command()
@click.argument("run", type=click.Path())
@overrides_option
@click.option("--curve", "curves", multiple=True, metavar="REASON", help="Draw this rule's survival curve too.")
@click.option("--samples", default=5, show_default=True, help="Documents that would move, each way.")
@click.option("--all-rules", is_flag=True, help="Also rules that drop nothing, and the table of overlaps.")
@json_option
def command(
    run: str, sets: tuple[str, ...], curves: tuple[str, ...], samples: int, all_rules: bool, as_json: bool
) -> None:
    """Try other thresholds on what is measured already.

    Reads signal columns alone: what each rule would drop, by language and source; documents that would move; the survival
    curve of every changed threshold; what each rule drops that no other does. `corpusflow run` with the same --set then
    measures nothing again.
    """
    answer = what_if(open_run(run), sets, samples=samples, curves=curves)
    if as_json:
        click.echo(json.dumps(answer.as_data(), ensure_ascii=False, default=str))
        return
    for change in answer.filters:
        _say_filter(change, all_rules)
    _say_totals(answer)
    for curve in answer.curves:
        _say_curve(curve)
    if all_rules and answer.overlap is not None:
        _say_overlap(answer.overlap.as_data())
    for moved in answer.samples:
        _say_moved(moved)


def _pair(pair: list[int]) -> str:
    now, then = pair
    return f"{now:,}" if now == then else f"{now:,} -> {then:,} ({then - now:+,})"


def _say_filter(change: FilterChange, all_rules: bool) -> None:
    rules = [r for r in change.rules if all_rules or r.changed or any(r.dropped)]
    if not rules:
        return
    click.secho(f"\n{change.node.stage}: in {_pair(change.entered)}, kept {_pair(change.kept)}", bold=True)
    if change.unmeasured:
        click.secho(f"  {change.unmeasured:,} documents come this far that were never measured", fg="yellow")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  rule", no_wrap=True)
    table.add_column("keeps", overflow="fold")
    table.add_column("drops", justify="right")
    table.add_column("it alone", justify="right")
    for rule in rules:
        table.add_row(
            f"  {rule.reason}",
            Text(_thresholds(rule)),  # brackets are no markup
            _pair(rule.dropped),
            f"{rule.only:,}" if rule.only is not None else "",
            style="yellow" if rule.changed else None,
        )
    stdout().print(table)


def _thresholds(rule: RuleChange) -> str:
    if rule.before is None:
        return f"{_needs(rule.after)} (new)"
    if rule.after is None:
        return f"{_needs(rule.before)} (gone)"
    if not rule.changed:
        return _needs(rule.after)
    if (rule.before.signal(), rule.before.op) == (rule.after.signal(), rule.after.op):
        return f"{rule.after.signal()} {rule.after.op} {_value(rule.before)} -> {_value(rule.after)}"
    return f"{_needs(rule.before)} -> {_needs(rule.after)}"


def _needs(rule: Rule | None) -> str:
    if rule is None:
        return ""
    value = "" if rule.op in ("is null", "not null") else f" {_value(rule)}"
    return f"{rule.signal()} {rule.op}{value}"


def _value(rule: Rule) -> str:
    """A threshold; of a table each value once, the commonest first, with the keys it is for."""
    if not isinstance(rule.value, Mapping):
        return number(rule.value)
    keys: dict[Any, list[str]] = {}
    for key, value in rule.value.items():
        keys.setdefault(value, []).append(key)
    groups = sorted(keys.items(), key=lambda kv: -len(kv[1]))
    if len(groups) == 1:
        return number(groups[0][0])
    shown = [f"{number(v)} for {', '.join(k[:4])}{', …' if len(k) > 4 else ''}" for v, k in groups[:3]]
    return "; ".join([*shown, *(["…"] if len(groups) > 3 else [])])


def _say_totals(answer: WhatIf) -> None:
    click.secho(f"\nkept {_pair(answer.kept)}: {answer.gained:,} more, {answer.lost:,} fewer", bold=True)
    if answer.horizon:
        click.echo(f"behind here {answer.horizon} sees other documents; what it would do takes a run")
    if answer.unmeasured:
        click.secho(
            f"{answer.unmeasured:,} documents are let through that were never measured behind the loosened rule; "
            "they are in no number above but its own",
            fg="yellow",
        )
    for title, table in (("language", answer.languages), ("source", answer.sources)):
        rows = sorted(table.items(), key=lambda kv: -max(kv[1]))[:12]
        click.echo(f"by {title}: " + ", ".join(f"{plain(key)} {_pair(pair)}" for key, pair in rows))


def _say_curve(curve: Curve) -> None:
    data = curve.as_data()
    for group in data["groups"]:
        who = f" where it is {plain(group['key'])}" if group["key"] else ""
        click.secho(f"\n{data['reason']}{who}: share kept by {data['signal']} {data['op']} …", bold=True)
        for threshold, share in group["points"]:
            mark = " <- now" if threshold == group["now"] else ""
            mark = " <- then" if threshold == group["then"] != group["now"] else mark
            click.echo(f"  {number(threshold):>12} {share:7.2%} {'█' * round(share * _BAR)}{mark}")


def _say_overlap(data: dict[str, Any]) -> None:
    click.secho(f"\nrules on {data['documents']:,} measured documents, each by itself", bold=True)
    for i, reason in enumerate(data["rules"]):
        pairs = sorted(((n, data["rules"][j]) for j, n in enumerate(data["both"][i]) if j != i and n), reverse=True)
        shared = ", ".join(f"{name} {n:,}" for n, name in pairs[:4]) or "nothing"
        click.echo(f"  {reason}: {data['both'][i][i]:,}, alone {data['only'][i]:,}; shared with {shared}")


def _say_moved(moved: Moved) -> None:
    colour = "red" if moved.then == "dropped" else "green"
    click.secho(f"\n{moved.now} -> {moved.then}: {plain(moved.id)}", fg=colour, nl=False)
    click.echo((f"  {plain(moved.url)}" if moved.url else "") + f"\n  {moved.reason}: {number(moved.value)}")
    if moved.text:
        click.secho(f"  {plain(moved.text)}", dim=True)
