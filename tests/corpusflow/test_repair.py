"""Records, seals and listings that are lost or damaged: what `verify` says, what `repair` mends, and what `gc` must keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from toys import ROWS, Entry, Toy, stage_name

import corpusflow
from corpusflow import repair as repairing
from corpusflow.cleanup import delete, garbage
from corpusflow.errors import CorruptShardError
from corpusflow.repair import repair
from corpusflow.results import run_digest
from corpusflow.takedown.perform import take_down
from corpusflow.takedown.request import Request
from corpusflow.verify import Verification, verify

STAGES: list[Entry] = [
    "Cut",
    "Size",
    ("Keep", {"column": "toy.size", "op": ">=", "value": 2}),
    "Unique",
    "Codes",
]
OUTPUT: list[Entry] = [("Dump", {"columns": ("id", "text", "toy.codes")})]


@pytest.fixture
def made(toy: Toy) -> Path:
    """A finished run of three shards."""
    toy.corpus([[{**row, "text": f"{row['text']} of {s}"} for row in ROWS] for s in range(3)])
    toy.run(STAGES, OUTPUT)
    return toy.root / "run"


def look(folder: Path) -> Verification:
    return verify(corpusflow.open_run(str(folder)))


def mend(folder: Path) -> None:
    """Repair it, after which nothing is wrong."""
    done = repair(corpusflow.open_run(str(folder)).plan, look(folder))
    assert done.done
    assert done.failed == []
    assert [p.what for p in look(folder).problems] == []


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def lose_later(first: Path) -> None:
    later(first).unlink()


def tear_later(first: Path) -> None:
    tear(later(first))


def lose_first(first: Path) -> None:
    first.unlink()


def lose_both(first: Path) -> None:
    first.unlink()
    later(first).unlink()


def later(first: Path) -> Path:
    return first.with_name(first.name.replace(".00.", ".01."))


@pytest.mark.parametrize("damage", [lose_later, tear_later, lose_first, lose_both])
def test_a_record_of_a_later_generation_is_written_again(toy: Toy, made: Path, damage: Callable[[Path], None]) -> None:
    """A takedown has let the older generation's files go: what counted then would name files that are not there."""
    gone = "lines/01.jsonl#2"
    take_down(str(made), Request(ids=frozenset({gone})))
    expected = toy.dumped()
    first = [p for p in sorted(made.rglob("_commits/*.00.json")) if later(p).exists()]
    assert len(first) > 6
    for path in first:
        damage(path)
    assert {p.remedy for p in look(made).problems if "record" in p.what} == {"record"}
    mend(made)
    texts = corpusflow.open_run(str(made)).stage(stage_name("Codes")).batches(["id", "text"])
    assert gone not in [i for b in texts for i in b.column("id").to_pylist()]
    toy.run(STAGES, OUTPUT)
    assert toy.dumped() == expected


def test_a_repair_that_was_killed_before_the_manifest(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases are read by the manifest; its old attempt is the one whose file is damaged."""
    path = next(p for p in sorted(made.rglob("data/*/*")) if "/runs/" in str(p) or "/keys/" in str(p))
    path.write_bytes(b"x" * path.stat().st_size)

    def killed(item: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(repairing, "_write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            repair(corpusflow.open_run(str(made)).plan, look(made))
    assert [p.remedy for p in look(made).problems] == ["manifest"]
    mend(made)


def test_damage_upon_damage_is_mended_at_once(made: Path) -> None:
    """Both phases of an Exchange; a record that is lost, and its file as well."""
    for pattern in ("Unique/exchange-*/keys", "Unique/exchange-*/losers", "Size/score-*"):
        for path in sorted(made.glob(f"*{pattern}/data/*/*")):
            tear(path)
    for path in sorted(made.glob("*Size/score-*/_commits/*")):
        path.unlink()
    mend(made)


def test_a_seal_that_is_made_again_names_what_counts(toy: Toy, made: Path) -> None:
    """Of a repaired shard: the manifest of the damaged seal, which lies there still, names the damaged file."""
    plan = corpusflow.open_run(str(made)).plan
    before = run_digest(plan)
    for path in sorted(made.glob("*Unique/exchange-*/keys/data/*/*")):
        tear(path)
    for path in made.glob("*Unique/exchange-*/keys/_SEALED*"):
        data = path.read_bytes()
        at = data.index(b'"digest": "') + 40
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])  # another digest, still JSON
    mend(made)
    toy.run(STAGES, OUTPUT)
    assert [p.what for p in look(made).problems] == []
    assert run_digest(plan) == before


def test_what_a_seal_names_is_no_garbage(made: Path) -> None:
    """Its record can be written again from the seal, its files cannot."""
    lost = sorted(made.rglob("_commits/*.json"))
    for path in lost:
        path.unlink()
    run = corpusflow.open_run(str(made))
    assert list(garbage(run, grace_seconds=-60)) == []
    mend(made)


def test_a_damaged_record_that_was_made_good_hides_no_garbage(made: Path) -> None:
    record = next(p for p in sorted(made.rglob("_commits/*.json")) if list(p.parents[1].glob("data/*/*")))
    stray = next(record.parents[1].glob("data/*")) / "000-0123456789abcdef.parquet"
    stray.write_bytes(b"an attempt that was killed")
    tear(record)
    run = corpusflow.open_run(str(made))
    assert list(garbage(run, grace_seconds=-60)) == [], "the record may be the stray file's"
    mend(made)
    assert [g.path for g in garbage(run, grace_seconds=-60)] == [str(stray)]


def test_a_lost_listing_is_named_and_made_again(toy: Toy, made: Path) -> None:
    expected = toy.dumped()
    (made / "plans" / "shards-0000.parquet").unlink()
    with pytest.raises(CorruptShardError, match="shards-0000"):
        corpusflow.open_run(str(made))
    toy.run(STAGES, OUTPUT)
    assert [p.what for p in look(made).problems] == []
    assert toy.dumped() == expected


def test_deleting_old_plans_forgets_no_takedown(toy: Toy, made: Path) -> None:
    gone = "lines/01.jsonl#2"
    take_down(str(made), Request(ids=frozenset({gone})))
    (made / "notes").mkdir()
    (made / "notes" / "of mine.txt").write_text("what I thought of it")
    toy.run([("Cut", {"n": 3}), *STAGES[1:]], OUTPUT)
    run = corpusflow.open_run(str(made))
    deleted = {g.path.removeprefix(f"{made}/") for g in delete(run, garbage(run, grace_seconds=-60, old_plans=True))}
    assert {p.partition("/")[0] for p in deleted} <= {n.folder.partition("/")[0] for n in run.plan.nodes}
    assert deleted
    assert (made / "notes" / "of mine.txt").exists()
    toy.run(STAGES, OUTPUT)
    assert gone not in [r["id"] for r in toy.dumped()]
