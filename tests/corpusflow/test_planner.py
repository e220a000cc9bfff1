"""Configs to plans: steps, inserted Scores, wide checkpoints, gates, and the law of what a change re-runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from toys import ROWS, STAGES, Entry, Toy, short_name

from corpusflow import ConfigError
from corpusflow.listing import make_shards
from corpusflow.plan import Plan, shard_table, shards_from_table
from corpusflow.planner import Planner

GATE = ("Keep", {"column": "toy.lang", "op": "in", "value": ["en"], "gate": True, "reason": "toy_language"})
SOFT = ("Keep", {"column": "toy.size", "op": ">=", "value": 2, "reason": "toy_small"})


@pytest.fixture(autouse=True)
def corpus(toy: Toy) -> None:
    toy.corpus([ROWS, ROWS])


def names(plan: Plan) -> list[str]:
    return [f"{short_name(n.stage)}.{n.label}{'+' if n.inserted else ''}" for n in plan.nodes]


def steps(plan: Plan) -> list[str]:
    every = names(plan)
    return [f"{s.kind}: " + " ".join(every[i] for i in s.nodes) for s in plan.steps]


# ---- shape ----


@pytest.mark.parametrize(
    ("stages", "wanted"),
    [
        ([], ["map: Lines.source", "sink: Dump.sink"]),
        (["Size"], ["map: Lines.source Size.score", "sink: Dump.sink"]),
        (["Upper"], ["map: Lines.source Upper.transform Upper.wide", "sink: Dump.sink"]),
        # text is written once, behind the last Transform of a segment
        (["Upper", "Cut"], ["map: Lines.source Upper.transform Cut.transform Cut.wide", "sink: Dump.sink"]),
        (
            [("Upper", {"keep": True}), "Cut"],
            ["map: Lines.source Upper.transform Upper.wide Cut.transform Cut.wide", "sink: Dump.sink"],
        ),
        # … and behind the gates that follow it; a soft filter does not move it
        (
            ["Upper", "Language", GATE, "Size", SOFT],
            [
                "map: Lines.source Upper.transform Language.score Keep.filter Upper.wide Size.score Keep.filter",
                "sink: Dump.sink",
            ],
        ),
        (
            ["Upper", "Size", SOFT, "Language", GATE],
            [
                "map: Lines.source Upper.transform Size.score Keep.filter Language.score Keep.filter Upper.wide",
                "sink: Dump.sink",
            ],
        ),
        (
            [("Upper", {"keep": True}), "Language", GATE, "Cut"],
            [
                "map: Lines.source Upper.transform Language.score Keep.filter Upper.wide Cut.transform Cut.wide",
                "sink: Dump.sink",
            ],
        ),
        # an Exchange is a barrier; its columns are applied by the step behind it; Scores are hoisted in front of it
        (
            ["Upper", "Unique", "Size", SOFT],
            [
                "map: Lines.source Upper.transform Upper.wide Unique.score Size.score",
                "exchange: Unique.exchange",
                "map: Unique.exchange Unique.filter Keep.filter",
                "sink: Dump.sink",
            ],
        ),
        # survivors-only Scores and what is behind a gate or reads an Exchange's columns are not
        (
            ["Upper", ("Unique", {"gate": True}), "Size", "Codes"],
            [
                "map: Lines.source Upper.transform Upper.wide Unique.score",
                "exchange: Unique.exchange",
                "map: Unique.exchange Unique.filter Size.score Codes.score",
                "sink: Dump.sink",
            ],
        ),
        # a Transform behind a barrier writes the text again
        (
            ["Upper", "Unique", "Cut"],
            [
                "map: Lines.source Upper.transform Upper.wide Unique.score",
                "exchange: Unique.exchange",
                "map: Unique.exchange Unique.filter Cut.transform Cut.wide",
                "sink: Dump.sink",
            ],
        ),
        # Composites of Transform, Score and Filter
        (["Tidy"], ["map: Lines.source Tidy.transform Tidy.wide Tidy.score Tidy.filter", "sink: Dump.sink"]),
        # a signal that nobody measured on this text is measured again, with the configured parameters
        (
            ["Size", "Upper", SOFT],
            ["map: Lines.source Size.score Upper.transform Upper.wide Size.score+ Keep.filter", "sink: Dump.sink"],
        ),
        # a rule in front of the only Score that makes its signal: that Score comes first, once
        ([SOFT, "Size"], ["map: Lines.source Size.score+ Keep.filter", "sink: Dump.sink"]),
        (["Half", "Size"], ["map: Lines.source Size.score+ Half.score", "sink: Dump.sink"]),
        # what reads no text is not retired
        (
            ["Language", "Upper", GATE],
            ["map: Lines.source Language.score Upper.transform Keep.filter Upper.wide", "sink: Dump.sink"],
        ),
    ],
    ids=str,
)
def test_steps(toy: Toy, stages: Sequence[Entry], wanted: list[str]) -> None:
    assert steps(toy.plan(stages)) == wanted


def test_rows_are_numbered_by_the_last_wide(toy: Toy) -> None:
    plan = toy.plan(["Language", "Upper", "Size", "Unique", "Cut", "Digits"])
    bases = {
        n: plan.nodes[node.base].label if node.base >= 0 else "source"
        for n, node in zip(names(plan), plan.nodes, strict=True)
    }
    assert bases["Language.score"] == bases["Upper.transform"] == bases["Upper.wide"] == "source"
    assert bases["Size.score"] == bases["Unique.exchange"] == bases["Cut.transform"] == "wide"
    size, digits = (next(n for n in plan.nodes if n.stage.endswith(f":{s}")) for s in ("Size", "Digits"))
    assert plan.nodes[size.base].stage.endswith("Upper")
    assert plan.nodes[digits.base].stage.endswith("Cut")
    assert [n.text_version for n in plan.nodes if n.kind == "score"] == [0, 1, 1, 2]


def test_sinks_run_last_and_apart(toy: Toy) -> None:
    plan = toy.plan(["Size"], [("Dump", {}), ("Dump", {"columns": ["id"]})])
    assert steps(plan)[1:] == ["sink: Dump.sink", "sink: Dump.sink"]


def test_notes(toy: Toy) -> None:
    assert toy.plan(["Upper"]).notes == ()
    (note,) = toy.plan(["Upper", "Unique", "Cut"]).notes
    assert note.startswith("text is written 2 times")
    (note,) = toy.plan(["Size", "Upper", SOFT]).notes
    assert "Size is measured again before toy.yaml:" in note
    assert "because the text changed since" in note


@pytest.mark.parametrize(
    ("stages", "output", "says"),
    [
        (
            [("Keep", {"column": "nobody.makes", "op": "is null"})],
            ["Dump"],
            "reads nobody.makes, which no stage before it makes",
        ),
        ([("Keep", {"column": "lang", "op": "is null"})], ["Dump"], "looks at 'lang', which is no signal"),
        ([("Keep", {"column": "toy.changed", "op": "is null"}), "Upper"], ["Dump"], "reads toy.changed"),
        ([SOFT, ("Size", {"max": 3})], ["Dump"], "has no parameter 'max'"),
        (["Dump"], [], "does not belong under stages"),
        (["Size"], ["Size"], "does not belong under output"),
        (["Lines"], [], "needs a value for 'paths'"),
        (["Upper"], [("Dump", {"columns": ["rest"]})], "reads the column 'rest', which no input maps"),
        (["Size", ("Keep", {"column": "toy.size", "op": "in", "value": ["a"]})], ["Dump"], "which is in no list like"),
        (["Nothing"], ["Dump"], "has no stage called 'Nothing'"),
        (["quality.gofer"], ["Dump"], "unknown stage 'quality.gofer'"),
    ],
)
def test_refused(toy: Toy, stages: Sequence[Entry], output: Sequence[Entry], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        toy.plan(stages, output)
    assert says in caught.value.message
    assert "toy.yaml:" in caught.value.message


def test_two_inputs_with_the_same_ids_are_refused(toy: Toy) -> None:
    toy.corpus([ROWS], "more")
    config = toy.config(["Size"])
    other = {"paths": [str(toy.root / "more")]}
    entry = type(config.input[0])(config.input[0].name, other, 99)
    both = type(config)(**{**vars(config), "input": (*config.input, entry)})
    with pytest.raises(ConfigError, match=r"would both be called lines/00\.jsonl in document ids") as caught:
        make_shards(Planner(both), (), 0)
    assert "name: …" in str(caught.value.hint)
    named = type(config)(
        **{**vars(config), "input": (*config.input, type(entry)(entry.name, {**other, "name": "more"}, 99))}
    )
    assert len(make_shards(Planner(named), (), 0)) == 3


# ---- plans as data ----


def test_a_plan_survives_its_files(toy: Toy) -> None:
    import json

    plan = toy.plan(["Language", GATE, "Upper", SOFT, "Size", "Unique", "Codes"])
    shards = shards_from_table(shard_table(plan.shards))
    assert shards == plan.shards
    again = Plan.from_data(json.loads(plan.encode()), shards)
    assert [n.fp for n in again.nodes] == [n.fp for n in plan.nodes]
    assert [n.rule_list for n in again.nodes] == [n.rule_list for n in plan.nodes]
    assert [n.build() for n in again.nodes if n.kind != "wide"] == [n.build() for n in plan.nodes if n.kind != "wide"]
    assert (again.steps, again.fp, again.notes) == (plan.steps, plan.fp, plan.notes)
    assert again.encode() == plan.encode()


# ---- what depends on what ----

PIPELINE: list[Entry] = [("Cut", {"n": 9}), "Language", GATE, "Size", SOFT, "Digits", "Unique", "Codes"]
LABELS = {
    "input": ["Lines.source"],
    "text": ["Cut.transform"],
    "language": ["Language.score"],
    "gate": ["Keep.filter"],
    "wide": ["Cut.wide"],
    "size": ["Size.score"],
    "soft": ["Keep.filter 2"],
    "digits": ["Digits.score"],
    "key": ["Unique.score"],
    "exchange": ["Unique.exchange"],
    "twin": ["Unique.filter"],
    "codes": ["Codes.score"],
    "sink": ["Dump.sink"],
}
BEHIND = {"exchange", "twin", "codes", "sink"}  # what consumes survivors


def prints(plan: Plan) -> dict[str, str]:
    """What of PIPELINE -> fingerprint."""
    seen: dict[str, int] = {}
    by_name = {}
    for name, node in zip(names(plan), plan.nodes, strict=True):
        seen[name] = seen.get(name, 0) + 1
        by_name[name + (f" {seen[name]}" if seen[name] > 1 else "")] = node.fp
    return {short: by_name[name] for short, (name,) in LABELS.items() if name in by_name}


def edited(where: int, **params: Any) -> list[Entry]:
    """PIPELINE with some parameters of one entry changed."""
    out = list(PIPELINE)
    entry = out[where]
    name, before = (entry, {}) if isinstance(entry, str) else entry
    out[where] = (name, {**before, **params})
    return out


def moved(a: int, b: int) -> list[Entry]:
    out = list(PIPELINE)
    out[a], out[b] = out[b], out[a]
    return out


@pytest.mark.parametrize(
    ("stages", "options", "changes"),
    [
        (PIPELINE, {}, set()),
        (PIPELINE, {"executor": "ray", "workers": 3, "attempts": 9, "run": "elsewhere"}, set()),
        (PIPELINE, {"batch_rows": 2}, set()),
        (edited(4, value=3), {}, {"soft", *BEHIND}),
        (edited(4, reason="toy_other"), {}, {"soft", *BEHIND}),
        (edited(2, value=["en", "de"]), {}, {"gate", "wide", "size", "soft", "digits", "key", *BEHIND}),
        # the checkpoint moves in front of what was a gate, so rows are numbered anew from there
        (edited(2, gate=False), {}, {"language", "gate", "wide", "size", "soft", "digits", "key", *BEHIND}),
        (edited(5, modulo=3), {}, {"digits", *BEHIND}),
        (edited(0, n=8), {}, {"text", "wide", "language", "gate", "size", "soft", "digits", "key", *BEHIND}),
        (PIPELINE, {"seed": 8}, BEHIND),
        # a Score more: measures alone, but what it cannot measure is gone for what consumes survivors
        ([*PIPELINE[:6], "vowels", *PIPELINE[6:]], {}, BEHIND),
        ([*PIPELINE, "vowels"], {}, {"sink"}),
        # a Score less, a Filter less
        ([*PIPELINE[:5], *PIPELINE[6:]], {}, BEHIND),
        ([*PIPELINE[:4], *PIPELINE[5:]], {}, BEHIND),
        # order of two Scores: only what counts what they lose
        (moved(3, 5), {}, {"soft", *BEHIND}),
        # the source's own semantic parameters are in the keys of its shards and of its own output
        (PIPELINE, {"source": {"name": "other"}}, {"input", *BEHIND}),
        # a sample or a limit is another input: other shards, other keys
        (PIPELINE, {"limit": 3}, BEHIND),
        (PIPELINE, {"sample": 0.5}, BEHIND),
    ],
    ids=lambda v: "-".join(sorted(v)) if isinstance(v, set) else None if isinstance(v, list) else str(v),
)
def test_the_law_of_dependencies(
    toy: Toy, stages: Sequence[Entry], options: Mapping[str, Any], changes: set[str]
) -> None:
    before, after = prints(toy.plan(PIPELINE)), prints(toy.plan(stages, **options))
    assert {k for k in before if k in after and before[k] != after[k]} == changes


def test_more_input_adds_shards(toy: Toy) -> None:
    before = toy.plan(PIPELINE)
    toy.corpus([ROWS, ROWS, ROWS[:2]])
    planner = Planner(toy.config(PIPELINE))
    after = planner.plan(make_shards(planner, before.shards, 1), 1)
    assert {k for k, fp in prints(after).items() if prints(before)[k] != fp} == BEHIND
    assert after.shards[:2] == before.shards
    assert (after.shards[2].number, after.shards[2].epoch) == (2, 1)
    for node in after.nodes:
        if node.kind == "score" and not node.survivors_only:
            assert [after.key(node, s) for s in after.shards[:2]] == [before.key(node, s) for s in before.shards]


def test_changed_bytes_are_another_shard(toy: Toy) -> None:
    before = toy.plan(PIPELINE)
    toy.corpus([ROWS[:4], ROWS])
    planner = Planner(toy.config(PIPELINE))
    after = make_shards(planner, before.shards, 1)
    assert [s.number for s in after] == [1, 2]
    assert after[0] == before.shards[1]


def test_a_moved_input_is_the_same_input(toy: Toy) -> None:
    before = toy.plan(PIPELINE)
    (toy.root / "in").rename(toy.root / "moved")
    planner = Planner(toy.config(PIPELINE, source={"paths": [str(toy.root / "moved")]}))
    after = make_shards(planner, before.shards, 1)
    assert [(s.key, s.number, s.epoch) for s in after] == [(s.key, s.number, s.epoch) for s in before.shards]
    assert all("/moved/" in s.files[0][0] for s in after)


# ---- versions and code ----

PROVIDER = '''
from dataclasses import dataclass
from typing import ClassVar
import pyarrow as pa
from corpusflow import Score, param

@dataclass(frozen=True, kw_only=True)
class Mine(Score):
    """Mine."""
    rate: float = param(0.5, doc="Meaningful.")
    threads: int = param(1, doc="Not.", semantic=False)
    words: str = param("list.txt", doc="A word list.", model="")
    version: ClassVar[int] = VERSION
    reads: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar = {"my.x": pa.int8()}
    def score(self, batch):
        return pa.RecordBatch.from_arrays([pa.array([1] * batch.num_rows, pa.int8())], names=["my.x"])

STAGE = Mine
'''


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Installs a package of stages; called with another version, it is that version from then on."""
    import sys

    from corpusflow import registry

    package = tmp_path / "mystages"
    (package / "score").mkdir(parents=True)
    (package / "__init__.py").write_text("__corpusflow_stages__ = True\n")
    (package / "score" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(version: int) -> None:
        (package / "score" / "mine.py").write_text(PROVIDER.replace("VERSION", str(version)))
        for name in [m for m in sys.modules if m.partition(".")[0] == "mystages"]:
            del sys.modules[name]
        import mystages

        monkeypatch.setattr(registry, "providers", lambda: (("mystages", mystages),))
        registry.stage_names.cache_clear()
        registry._modules.cache_clear()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    (tmp_path / "list.txt").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    yield install
    registry.stage_names.cache_clear()
    registry._modules.cache_clear()


def test_versions_models_and_what_does_not_matter(toy: Toy, provider: Callable[[int], None], tmp_path: Path) -> None:
    def fp(**params: Any) -> str:
        return next(n.fp for n in toy.plan([("score.mine", params)]).nodes if n.kind == "score")

    provider(1)
    first = fp()
    assert fp(rate=0.5, threads=8) == first
    assert fp(rate=0.25) != first
    (tmp_path / "copy.txt").write_text("one\n")
    assert fp(words="copy.txt") == first, "a model counts by its bytes, not by its name"
    (tmp_path / "list.txt").write_text("two\n")
    assert fp() != first
    (tmp_path / "list.txt").write_text("one\n")
    assert fp() == first
    provider(2)
    assert fp() != first


def test_a_user_file_counts_by_its_bytes(toy: Toy, tmp_path: Path) -> None:
    code = STAGES.read_text()
    (tmp_path / "mine.py").write_text(code)

    def fp() -> str:
        plan = toy.plan([(f"{tmp_path}/mine.py:Size", {})])
        return next(n.fp for n in plan.nodes if n.kind == "score")

    first = fp()
    (tmp_path / "mine.py").write_text(code + "\n# a comment is a change, too\n")
    assert fp() != first
    (tmp_path / "mine.py").write_text(code)
    assert fp() == first
