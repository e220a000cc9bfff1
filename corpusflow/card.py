"""The data card of a run's exports: what the corpus is, from what, and what was done to it, on one page.

Written to `exports/README.md` at the end of a run, from the plan and the counts alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from corpusflow.accounting import StageCount
from corpusflow.plan import Plan
from corpusflow.retention import Retention, summary


def card(
    plan: Plan, counts: Sequence[StageCount], digest: str, exports: Sequence[str], kept_of: Sequence[Retention] = ()
) -> str:
    """The card as Markdown."""
    files = {f[1] for s in plan.shards for f in s.files}
    size = sum(s.length for s in plan.shards if not s.only)
    first = [c for c in counts if c.stage in {n.stage for n in plan.sources}]
    sinks = {n.stage for n in plan.nodes if n.kind == "sink"}
    kept = next((c.kept for c in reversed(counts) if c.stage not in sinks), 0)
    lines = [
        f"# {plan.name}",
        "",
        f"{kept:,} documents kept of {sum(c.kept for c in first):,} read from {len(files):,} files ({size:,} bytes as stored).",
        f"Content digest `{digest}`; seed {plan.seed}"
        + (f"; a sample of {plan.sample:g} of the input" if plan.sample is not None else "")
        + ".",
        "",
        "## Exports",
        "",
        *(f"- `{name}/`" for name in exports),
        "",
        "## What was done, in order",
        "",
        "| stage | documents in | kept | dropped for | quarantined |",
        "| --- | ---: | ---: | --- | ---: |",
    ]
    for row in counts:
        reasons = ", ".join(f"{k} {v:,}" for k, v in sorted(row.dropped.items(), key=lambda kv: (-kv[1], kv[0])))
        lines.append(f"| {row.stage} | {row.entered:,} | {row.kept:,} | {reasons} | {row.all_quarantined:,} |")
    lines += _kept_of(kept_of)
    lines += ["", "## Settings", ""]
    seen = set()
    models = f"{plan.run_dir}/models/"
    for node in plan.nodes:
        if node.kind == "wide" or (node.stage, node.where) in seen:
            continue
        seen.add((node.stage, node.where))
        # a pinned model by its SHA-256 and name: where the run folder lies is nobody's business
        params = {k: v.removeprefix(models) if isinstance(v, str) else v for k, v in node.params.items()}
        given = json.dumps(params, ensure_ascii=False, default=str)
        lines.append(f"- {node.stage}: `{given}`")
    libraries = sorted({(k, v) for n in plan.nodes for k, v in n.libraries.items()})
    lines += ["", "## Libraries", "", ", ".join(f"{k} {v}" for k, v in libraries) + "."]
    lines += ["", "Rights in the documents are those of their sources; this card states none.", ""]
    return "\n".join(lines)


def _kept_of(rows: Sequence[Retention]) -> list[str]:
    """What was kept of each source and language, and where most of it went."""
    groups = summary(rows)
    if not groups:
        return []
    lines = ["", "## What was kept, by source and language", ""]
    lines += ["| | documents | kept | share | least kept by |", "| --- | ---: | ---: | ---: | --- |"]
    for whole, worst in groups:
        least = f"{worst.stage} ({worst.share:.1%})" if worst is not None else ""
        lines.append(f"| {whole.group} | {whole.entered:,} | {whole.kept:,} | {whole.share:.1%} | {least} |")
    return lines
