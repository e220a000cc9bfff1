from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import corpusflow
from corpusflow.commit import condemn
from corpusflow.datasets import datasets_of
from corpusflow.phases import run_phase_task
from corpusflow.record import Record
from corpusflow.results import run_digest


def files(folder: Path) -> list[Path]:
    """Every committed part, record and manifest of a run folder."""
    found = [p for p in folder.rglob("*") if p.is_file() and ("data" in p.parts or "_commits" in p.parts)]
    return sorted([*found, *folder.rglob("manifest-*.parquet")])


def flip(path: Path, at: int = 40) -> None:
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 4
    path.unlink()  # exports are links to the same bytes
    path.write_bytes(data)


def one(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[1]


def test_a_good_run_is_good(call: Any, small_run: Any) -> None:
    result = call("verify", small_run, "--json")
    body = json.loads(result.out)
    assert result.status == 0
    assert body["problems"] == []
    assert body["unfinished"] == []
    parts = [p for p in files(small_run.folder) if "data" in p.parts]
    assert body["files"] == len(parts)
    assert body["bytes"] == sum(p.stat().st_size for p in parts)
    decoded = {c["sink"]: c["count"] for c in body["checks"] if "have the run's tokens" in c["what"]}
    assert decoded == {"export.megatron": 64, "export.bin": 64}
    assert "everything is as recorded" in call("verify", small_run).out


def test_libraries_are_asked_where_they_are_installed(
    call: Any, small_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "megatron", None)  # as where it is not installed
    body = json.loads(call("verify", small_run, "--libraries", "--json").out)
    assert body["problems"] == []
    tokens = pq.read_table(small_run.folder / "exports" / "bin" / "train-00000-of-00001.documents.parquet")["length"]
    assert [(c["sink"], c["count"]) for c in body["checks"] if "reads as they were written" in c["what"]] == [
        ("export.bin", pc.sum(tokens).as_py())
    ]
    assert [
        n for n in body["notes"] if n.startswith("export.megatron was not read by its own library: no package megatron")
    ]


PLACES: dict[str, str] = {
    "source index": "ingest.warc/source-*/data/*/*",
    "wide checkpoint": "clean.unicode/wide-*/data/*/*",
    "signals": "quality.signals/score-*/data/*/*",
    "shuffle of dedup": "dedup.exact/exchange-*/runs/data/*/*",
    "verdicts of dedup": "dedup.exact/exchange-*/data/*/*",
    "token columns": "tokenize.sentencepiece/score-*/data/*/*",
    "sorted run of a Sink": "export.bin/sink-*/sort/data/*/*",
    "token file": "export.megatron/sink-*/write/data/*/*.bin",
}


def test_a_flipped_bit_is_found_named_and_mended(call: Any, own_run: Any) -> None:
    """One in every kind of file at once; a repair makes just those shards again."""
    victims = [sorted(own_run.folder.glob(pattern))[0] for pattern in PLACES.values()]
    before = run_digest(corpusflow.open_run(str(own_run)).plan)
    for victim in victims:
        flip(victim)
    call("verify", own_run).fails(4, "8 problem", "--repair")
    mended = json.loads(call("verify", own_run, "--repair", "--json").out)
    assert {p["path"] for p in mended["problems"]} == {str(v) for v in victims}
    assert mended["problems_left"] == []
    assert len(list(own_run.folder.rglob("*.01.json"))) == len(victims), "one new generation each, no other shard"
    assert run_digest(corpusflow.open_run(str(own_run)).plan) == before
    assert all(v.exists() for v in victims), "nothing is deleted by a repair"


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_each_kind_of_file_alone(call: Any, own_run: Any, place: str) -> None:
    victim = sorted(own_run.folder.glob(PLACES[place]))[0]
    flip(victim)
    call("verify", own_run).fails(4, str(victim))
    mended = json.loads(call("verify", own_run, "--repair", "--json").out)
    assert mended["problems_left"] == []
    assert [p["path"] for p in mended["problems"]] == [str(victim)]


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[: len(data) // 2])


def test_a_missing_file_and_a_short_one(call: Any, own_run: Any) -> None:
    short = one(own_run.folder, PLACES["wide checkpoint"])
    gone = one(own_run.folder, PLACES["signals"])
    truncate(short)
    gone.unlink()
    body = json.loads(call("verify", own_run, "--json").out)
    assert {(p["path"], p["what"].partition(": ")[2].partition(",")[0]) for p in body["problems"]} == {
        (str(short), f"{short.stat().st_size} bytes"),
        (str(gone), "named by a commit record but missing"),
    }
    assert call("verify", own_run, "--repair").status == 0
    assert call("verify", own_run).status == 0


def lose(path: Path) -> None:
    path.unlink()


def test_lost_records_are_written_from_the_seal_and_manifests_from_the_records(call: Any, own_run: Any) -> None:
    records = {
        "quality.gopher/filter-*": truncate,
        "dedup.exact/exchange-*/groups": lose,
        "clean.unicode/wide-*": flip,
        "quality.chinese/score-*": lose,
    }
    manifests = {"quality.signals/score-*": truncate, "export.bin/sink-*/sort": lose}
    victims = []
    for pattern, damage in records.items():
        victims.append(sorted(own_run.folder.glob(f"{pattern}/_commits/*"))[0])
        damage(victims[-1])
    for pattern, damage in manifests.items():
        victims.append(sorted(own_run.folder.glob(f"{pattern}/manifest-*"))[0])
        damage(victims[-1])
    mended = json.loads(call("verify", own_run, "--repair", "--json").out)
    assert {p["path"] for p in mended["problems"]} >= {str(v) for v in victims}
    assert mended["problems_left"] == []
    assert sum("written again, from the seal" in text for text in mended["repaired"]) == len(records)
    assert not any("made again" in text for text in mended["repaired"])
    assert call("verify", own_run).status == 0


def test_record_and_manifest_both_lost_means_making_it_again(call: Any, own_run: Any) -> None:
    folder = next(own_run.folder.glob("quality.signals/score-*"))
    next(folder.glob("manifest-*")).unlink()
    sorted(folder.glob("_commits/*"))[2].unlink()
    assert call("verify", own_run).status == 4
    mended = json.loads(call("verify", own_run, "--repair", "--json").out)
    assert mended["problems_left"] == []
    assert any("shard 2 made again" in text for text in mended["repaired"])


def test_a_broken_export_is_published_again(call: Any, own_run: Any) -> None:
    changes = {
        "bin/train-00000-of-00001.bin": flip,
        "megatron/train-00000-of-00001.idx": lose,
        "parquet/manifest.json": truncate,
        "bin/train-00000-of-00001.json": flip,
    }
    victims = {own_run.folder / "exports" / name: change for name, change in changes.items()}
    good = {v: v.read_bytes() for v in victims}
    for victim, change in victims.items():
        change(victim)
    mended = json.loads(call("verify", own_run, "--repair", "--json").out)
    assert {p["path"] for p in mended["problems"]} == {str(v) for v in victims}
    assert mended["problems_left"] == []
    assert {v: v.read_bytes() for v in victims} == good


def test_a_strange_file_in_an_export_is_named(call: Any, own_run: Any) -> None:
    (own_run.folder / "exports" / "bin" / "notes.txt").write_text("mine")
    call("verify", own_run).fails(4, "notes.txt", "not a file of this export")


def test_a_changed_model_copy_is_named(call: Any, own_run: Any) -> None:
    model = next(own_run.folder.glob("models/*web.model"))
    good = model.read_bytes()
    flip(model)
    call("verify", own_run).fails(4, model.name, "SHA-256", "--repair")
    assert call("verify", own_run, "--repair").status == 0
    assert model.read_bytes() == good


def test_a_record_whose_numbers_do_not_add_up_is_found(call: Any, own_run: Any) -> None:
    """A record with a right checksum and wrong counters, as a broken engine would write it."""
    path = one(own_run.folder, "quality.gopher/filter-*/_commits/*")
    record = Record.decode(path.read_bytes(), 0)
    assert record is not None
    forged = Record(**{**vars(record), "counters": {**record.counters, "kept": record.counters["kept"] - 1}})
    path.write_bytes(forged.encode())
    body = json.loads(call("verify", own_run, "--json").out)
    assert any("quality.gopher, shard 1: in" in p["what"] for p in body["problems"])


def test_tokens_that_are_not_the_text_are_found(call: Any, own_run: Any) -> None:
    """Bytes that agree with their record and not with the documents: a file made by a wrong writer."""
    run = corpusflow.open_run(str(own_run))
    node = next(n for n in run.plan.nodes if n.stage == "export.bin")
    item = next(i for i in datasets_of(run.plan) if i.node is node and i.phase == "write")
    old = item.dataset.record(0, item.keys[0])
    assert old is not None
    attempt = item.dataset.attempt(0, item.keys[0])
    for part in old.parts:
        name, upload = attempt.create(part.path.rpartition(".")[2])
        data = Path(item.dataset.path(part.path)).read_bytes()
        with upload:
            upload.write(data[2:] + data[:2] if part.label.endswith(".bin") else data)
        attempt.add(part.label, name, upload, part.rows)
    record = attempt.commit(old.counters, old.info, old.libraries, generation=1)
    seal = next(iter(Path(item.dataset.root).glob("_SEALED-*")))
    seal.unlink()
    item.dataset.seal(0, [record])
    from corpusflow.publish import publish

    publish(run.plan, node)
    call("verify", own_run).fails(4, "the tokens of", "are not those that the run has of it", ".bin")


def test_a_repair_that_gives_other_bytes_is_refused(call: Any, own_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made from the old file would not fit the new one."""
    from stages.kernels import megatron_index

    victim = sorted(own_run.folder.glob("export.megatron/sink-*/write/data/*/*.idx"))[0]
    flip(victim)
    before = sorted(own_run.folder.glob("export.megatron/sink-*/write/_commits/*"))
    monkeypatch.setattr(megatron_index, "VERSION", 2)
    result = call("verify", own_run, "--repair")
    result.fails(4, str(victim))
    assert "NOT MENDED" in result.out
    assert sorted(own_run.folder.glob("export.megatron/sink-*/write/_commits/*")) == before


def test_an_unfinished_run_is_said_to_be_so(call: Any, own_run: Any) -> None:
    for folder in own_run.folder.glob("export.bin"):
        shutil.rmtree(folder)
    result = call("verify", own_run)
    assert result.status == 0
    folder = next(own_run.folder.glob("tokenize.sentencepiece/score-*"))
    next(folder.glob("_SEALED*")).unlink()
    sorted(folder.glob("_commits/*"))[0].unlink()
    result = call("verify", own_run)
    assert "tokenize.sentencepiece [score]: 3 of 4 shards committed" in result.out


def test_every_phase_task_made_again_is_the_same(own_run: Any) -> None:
    """The comparison that guards a repair accepts all that is unchanged (tuples in notes come back as lists)."""
    run = corpusflow.open_run(str(own_run))
    for item in datasets_of(run.plan):
        for number in item.keys if item.phase else ():
            old = item.dataset.record(number, item.keys[number])
            assert old is not None
            with condemn({(item.dataset.root, number): old}):
                run_phase_task(run.plan, item.node, item.phase, number)
            new = item.dataset.record(number, item.keys[number])
            assert new is not None
            assert (new.generation, new.same_as(old)) == (1, True)


def test_not_a_run_folder(call: Any, tmp_path: Path) -> None:
    call("verify", tmp_path).fails(2, "not a run folder", "hint")
