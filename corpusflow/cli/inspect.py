"""`corpusflow inspect RUN`."""

from __future__ import annotations

import json
from typing import Any

import click

from corpusflow.accounting import StageCount
from corpusflow.api import Run, open_run
from corpusflow.cli._documents import number, plain, say_findings
from corpusflow.cli._options import json_option
from corpusflow.cli._show import counts_table, size, stdout
from corpusflow.cli._table import print_report
from corpusflow.cli.explain import explain_document
from corpusflow.errors import ConfigError, typed
from corpusflow.quarantine import quarantined
from corpusflow.reader import ShardReader
from corpusflow.samples import KEPT, Sample, StageReport, report
from corpusflow.summaries import summary_of

#: Characters of a text in a table of a stage's summary.
_CUT = 40


@click.command()
@click.argument("run", type=click.Path())
@click.option("--stage", help="Kept and dropped documents of this stage, by reason, with samples.")
@click.option("--reason", help="With --stage: only this drop reason, or `kept`.")
@click.option("--shard", type=int, help="What this shard reads, and what each stage has committed of it.")
@click.option("--id", "document", metavar="ID-or-URL", help="One document's whole story, as `corpusflow explain`.")
@click.option("--quarantine", is_flag=True, help="Documents that could not be processed, with where their bytes lie.")
@click.option("--samples", default=5, show_default=True, help="Documents per reason.")
@json_option
def command(
    run: str,
    stage: str | None,
    reason: str | None,
    shard: int | None,
    document: str | None,
    quarantine: bool,
    samples: int,
    as_json: bool,
) -> None:
    """Look at a run: its stages; a stage's kept and dropped documents; a shard; a document; the quarantine."""
    opened = open_run(run)
    if document is not None:
        explain_document(opened, document, as_json)
    elif shard is not None:
        _shard(opened, shard, as_json)
    elif quarantine:
        _quarantine(opened, stage, as_json)
    elif stage is not None:
        _stage(opened, stage, reason, samples, as_json)
    elif reason is not None:
        raise ConfigError("--reason needs --stage", hint=f"one of {', '.join(opened.stages)}")
    else:
        _overview(opened, as_json)


def _overview(run: Run, as_json: bool) -> None:
    counts = run.counts()
    if as_json:
        click.echo(json.dumps({"run_dir": run.plan.run_dir, "stages": [c.as_data() for c in counts]}))
        return
    stdout().print(counts_table(counts))


def _stage(run: Run, stage: str, reason: str | None, samples: int, as_json: bool) -> None:
    view = run.stage(stage)
    reports = report(run, view, most=samples, reason=reason)
    if not reports:
        raise ConfigError(f"{stage} has not run yet", hint=typed("status", run.plan.run_dir))
    known = {KEPT} | {r for n in view.nodes for rule in n.rule_list for r in [rule.reason]}
    known |= {r for one in reports for r in one.count.dropped}
    if reason is not None and reason not in known:
        raise ConfigError(f"{stage} has no drop reason {reason!r}", hint=f"it has {', '.join(sorted(known))}")
    own = summary_of(run.plan, view.nodes, most=max(1, samples))
    if as_json:
        told = {} if own is None else {"summary": own}
        click.echo(json.dumps([{**r.as_data(), **told} for r in reports], ensure_ascii=False, default=str))
        return
    for one in reports:
        _say_counts(one.count, reason)
        for name in [*sorted(one.count.dropped, key=lambda r: -one.count.dropped[r]), KEPT]:
            if name in one.samples:
                _say_samples(one, name)
    if own is not None:
        click.secho(f"\nwhat {stage} says of its work:", bold=True)
        print_report(stdout(), {k: _short(v) for k, v in own.items()})


def _short(value: Any, within: bool = False) -> Any:
    """A summary's value with long texts and lists inside its tables cut."""
    if isinstance(value, dict):
        return {k: _short(v, True) for k, v in value.items()}
    if isinstance(value, list) and not within:
        return [_short(v) for v in value]
    if isinstance(value, list):
        more = f" and {len(value) - 1} more" if len(value) > 1 else ""
        return f"{value[0]}{more}" if value else ""
    if isinstance(value, str) and within and len(value) > _CUT:
        return " ".join(value[:_CUT].split()) + "…"
    return value


def _say_counts(count: StageCount, reason: str | None) -> None:
    inserted = ", put in because a rule reads its signals" if count.inserted else ""
    click.secho(f"{count.stage} ({count.where}{inserted})", bold=True)
    click.echo(
        f"  in {count.entered:,} = kept {count.kept:,} + dropped {count.all_dropped:,} + "
        f"quarantined {count.all_quarantined:,}" + ("" if count.exact else "  <- does not add up")
    )
    for title, table in (("dropped", count.dropped), ("quarantined", count.quarantined), ("n/a", count.inapplicable)):
        for name, n in sorted(table.items(), key=lambda kv: (-kv[1], kv[0])):
            if reason in (None, name):
                share = f"{n / count.entered:7.2%}" if count.entered else ""
                click.echo(f"  {title:11} {n:>12,} {share}  {plain(name)}")


def _say_samples(one: StageReport, name: str) -> None:
    n = one.count.kept if name == KEPT else one.count.dropped[name]
    click.secho(f"\n{name}: {n:,}, {len(one.samples[name])} of them:", bold=True, fg="green" if name == KEPT else "red")
    for sample in one.samples[name]:
        _say_sample(sample, None if name == KEPT else name)


def _say_sample(sample: Sample, reason: str | None) -> None:
    click.echo(f"\n  {plain(sample.id)}" + (f"  {plain(sample.url)}" if sample.url else ""))
    if reason is not None:
        say_findings([f for f in sample.findings if f.rule.reason == reason or not f.passed], indent="    ")
    click.secho(f"    {plain(sample.text)}" if sample.text else "    (its text is not stored)", dim=True)


def _shard(run: Run, number_: int, as_json: bool) -> None:
    shard = run.plan.by_number.get(number_)
    if shard is None:
        raise ConfigError(f"this run has no shard {number_}", hint=f"it has 0 to {max(run.plan.by_number)}")
    reader = ShardReader(run.plan, shard)
    files = [
        {"path": path, "start": start, "end": size_ if end is None else end}
        for path, _, size_, _, start, end in shard.files
    ]
    stages: list[dict[str, Any]] = []
    for node in run.plan.nodes:
        if node.kind == "sink" or (node.kind == "source" and node.index != shard.source):
            continue
        record = reader.record(node)
        entry: dict[str, Any] = {"stage": node.stage, "part": node.label, "committed": record is not None}
        if record is not None:
            root = run.plan.root(node)
            entry |= {
                "attempt": record.attempt,
                "generation": record.generation,
                "files": [
                    {"label": p.label, "path": f"{root}/{p.path}", "bytes": p.size, "rows": p.rows}
                    for p in record.parts
                ],
                "counters": record.counters,
                "seconds": record.advice.get("seconds"),
            }
        stages.append(entry)
    if as_json:
        body = {"shard": number_, "epoch": shard.epoch, "key": shard.key, "input": files, "stages": stages}
        click.echo(json.dumps(body, ensure_ascii=False))
        return
    click.secho(f"shard {number_}, epoch {shard.epoch}", bold=True)
    for file in files:
        click.echo(f"  reads {plain(file['path'])}, bytes {number(file['start'])} to {number(file['end'])}")
    for entry in stages:
        _say_record(entry)


def _say_record(entry: dict[str, Any]) -> None:
    title = f"{entry['stage']} [{entry['part']}]"
    if not entry["committed"]:
        click.secho(f"{title}: not committed yet", fg="yellow")
        return
    counters = ", ".join(f"{k} {number(v)}" for k, v in entry["counters"].items())
    click.echo(click.style(title, bold=True) + f": {counters}, {number(entry['seconds'])} s")
    for file in entry["files"]:
        click.echo(f"  {file['label']}: {file['rows']:,} rows, {size(file['bytes'])}, {file['path']}")


def _quarantine(run: Run, stage: str | None, as_json: bool) -> None:
    from corpusflow.cli.quarantine import say_list

    say_list(quarantined(run, stage), as_json)
