"""What a reader of a plan should be told: text written more than once, signals measured twice, thresholds that cost a reading."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from corpusflow.plan import Node


def notes_on(nodes: Sequence[Node], redacting: Collection[int] = ()) -> tuple[str, ...]:
    """What a reader of the plan should be told.

    Args:
        redacting: indexes of the nodes that redact text (`Transform.redacts`).
    """
    notes = []
    wides = [n for n in nodes if n.kind == "wide"]
    if len(wides) > 1:
        names = ", ".join(n.stage for n in wides)
        notes.append(
            f"text is written {len(wides)} times (after {names}); a Transform behind a barrier costs a copy of the corpus"
        )
    notes += _stored_before(nodes, redacting)
    notes += _never_redacted(nodes, redacting)
    notes += _costly_thresholds(nodes)
    for node in nodes:
        if (
            node.kind == "score"
            and node.inserted
            and any(n.stage == node.stage and not n.inserted and n.kind == "score" for n in nodes)
        ):
            notes.append(f"{node.stage} is measured again before {node.where}, because the text changed since")
    return tuple(dict.fromkeys(notes))


def _stored_before(nodes: Sequence[Node], redacting: Collection[int]) -> list[str]:
    """Checkpoints that hold what a later Transform takes out of the text."""
    return [
        f"{wide.stage} stores the text before {nodes[i].stage} redacts it: the run folder will hold what was redacted; "
        f"move {nodes[i].stage} in front of it, or leave its keep: true out"
        for i in redacting
        for wide in nodes[:i]
        if wide.kind == "wide"
    ]


#: Columns that say where a document comes from, of which a redacting Transform is not expected to change any.
_ADDRESSES: Final = ("url", "id", "record_id")
#: Columns of the engine's own words.
_OWN: Final = ("source", "date")


def _never_redacted(nodes: Sequence[Node], redacting: Collection[int]) -> list[str]:
    """Document columns that are stored as the input has them, although a Transform redacts."""
    notes = []
    for i in redacting:
        stored = next((n.adds for n in nodes[i + 1 :] if n.kind == "wide"), {})
        left = [c for c in stored if c not in nodes[i].adds and c not in (*_ADDRESSES, *_OWN)]
        if left:
            notes.append(
                f"{nodes[i].stage} does not look at {', '.join(left)}: name them in its `columns` to have them redacted"
            )
        notes.append(
            f"{', '.join(_ADDRESSES)} are stored as the input has them, also where {nodes[i].stage} would find something"
        )
    return notes


def _costly_thresholds(nodes: Sequence[Node]) -> list[str]:
    """Soft filters whose thresholds cost a reading of the source, because a Transform behind them rewrites what they kept and
    the text before it is not stored."""
    notes = []
    for transform in nodes:
        if transform.kind != "transform":
            continue
        earlier = [n for n in nodes[: transform.index] if n.kind == "transform"]
        start = earlier[-1].index if earlier else -1
        stored = any(n.kind == "wide" for n in nodes[max(start, 0) : transform.index])
        soft = [n.stage for n in nodes[start + 1 : transform.index] if n.kind == "filter" and not n.gate]
        soft = [s for s in soft if not any(n.stage == s and n.kind == "transform" for n in nodes)]
        if soft and earlier and not stored:
            notes.append(
                f"{transform.stage} rewrites the text behind {', '.join(dict.fromkeys(soft))}: another threshold there reads the "
                f"input again, unless {earlier[-1].stage} has keep: true"
            )
    return notes
