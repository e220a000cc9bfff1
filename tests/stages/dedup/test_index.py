"""A second and a third crawl against the index of the ones before: old documents win, old output is not touched."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import corpusflow
from corpusflow import ConfigError, PlanDriftError
from stages.dedup.index import Index

WORDS = [f"{a}{b}" for a in ("river", "gate", "tide", "stone", "market", "lamp") for b in range(500)]
HAN = [chr(c) for c in range(0x4E00, 0x4E00 + 2_000)]


def fresh(rng: random.Random) -> str:
    return "".join(rng.choices(HAN, k=300)) if rng.random() < 0.5 else " ".join(rng.choices(WORDS, k=200))


def edited(rng: random.Random, text: str) -> str:
    units = text.split(" ") if " " in text else list(text)
    at = rng.randrange(len(units) - 2)
    units[at : at + 2] = ["新", "字"] if " " not in text else ["changed", "words"]
    return (" " if " " in text else "").join(units)


def crawls() -> list[list[dict[str, str]]]:
    """Three crawls; `kind` says what each document is to the crawls before it."""
    rng = random.Random(3)
    first = [{"kind": "new", "text": fresh(rng)} for _ in range(150)]
    second = [{"kind": "new", "text": fresh(rng)} for _ in range(80)]
    second += [{"kind": "exact", "text": first[i]["text"].upper() + " \n"} for i in range(20)]
    second += [{"kind": "near", "text": edited(rng, first[i]["text"])} for i in range(20, 60)]
    second += [{"kind": "twin", "text": edited(rng, second[i]["text"])} for i in range(20)]
    third = [{"kind": "new", "text": fresh(rng)} for _ in range(40)]
    third += [{"kind": "exact", "text": second[i]["text"]} for i in range(30, 40)]
    third += [{"kind": "near", "text": edited(rng, first[i]["text"])} for i in range(70, 90)]
    third += [{"kind": "address", "text": fresh(rng)} for _ in range(5)]
    for name, crawl in (("a", first), ("b", second), ("c", third)):
        for i, row in enumerate(crawl):
            row["url"] = f"https://example.org/{name}/{i}"
    for i, row in enumerate(r for r in third if r["kind"] == "address"):
        row["url"] = f"http://www.example.org/a/{i}/#again"
    return [first, second, third]


def write(folder: Path, rows: list[dict[str, str]], files: int) -> str:
    folder.mkdir()
    for f in range(files):
        lines = (json.dumps(r, ensure_ascii=False) + "\n" for r in rows[f::files])
        (folder / f"{f}.jsonl").write_text("".join(lines), encoding="utf-8")
    return str(folder)


def run(name: str, inputs: str, run_dir: Path, against: list[str], **minhash: Any) -> corpusflow.api.Run:
    given = {"against": against} if against else {}
    extends = {"extends": against} if against else {}
    corpusflow.run(
        {
            "name": name,
            "input": [{"ingest.jsonl": {"paths": [inputs], "name": name, "columns": {"kind": "kind"}}}],
            "stages": [{"dedup.url": given}, {"dedup.exact": given}, {"dedup.minhash": {**given, **minhash}}],
            "output": [{"dedup.index": {"name": "web", **extends}}],
            "run": {"dir": str(run_dir), "executor": "inline"},
        }
    )
    return corpusflow.open_run(str(run_dir))


def kinds(opened: corpusflow.api.Run, stage: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for batch in opened.stage(stage).batches(["kind"]):
        for kind in batch.column("kind").to_pylist():
            counts[kind] = counts.get(kind, 0) + 1
    return counts


@pytest.fixture(scope="module")
def runs(quick_root: Path) -> list[tuple[corpusflow.api.Run, str]]:
    folder = quick_root / "index"
    folder.mkdir()
    out: list[tuple[corpusflow.api.Run, str]] = []
    for i, rows in enumerate(crawls()):
        inputs = write(folder / f"in{i}", rows, 2 + i)
        opened = run(f"crawl{i}", inputs, folder / f"run{i}", [out[-1][1]] if out else [])
        out.append((opened, str(folder / f"run{i}" / "exports" / "index")))
    return out


def test_what_earlier_crawls_have_goes(runs: list[tuple[corpusflow.api.Run, str]]) -> None:
    (first, _), (second, _), (third, _) = runs
    assert kinds(first, "dedup.minhash") == {"new": 150}
    assert kinds(second, "dedup.exact") == {"new": 80, "near": 40, "twin": 20}
    # a pair of this crawl keeps one; near-duplicates of the one before, none
    kept = kinds(second, "dedup.minhash")
    assert kept.pop("new", 0) + kept.pop("twin", 0) == 80
    assert kept == {}
    assert kinds(third, "dedup.url") == {"new": 40, "exact": 10, "near": 20}
    assert kinds(third, "dedup.exact") == {"new": 40, "near": 20}
    assert kinds(third, "dedup.minhash") == {"new": 40}


def test_twins_are_ids_of_the_earlier_runs(runs: list[tuple[corpusflow.api.Run, str]]) -> None:
    originals = {}
    for opened, _ in runs:
        for batch in opened.stage("dedup.minhash").batches(["id", "text"]):
            originals |= dict(zip(batch.column("id").to_pylist(), batch.column("text").to_pylist(), strict=True))
    evidence = [
        row
        for part in Path(runs[1][1]).parents[1].glob("dedup.minhash/exchange-*/settle/data/*/*.parquet")
        for row in __import__("pyarrow.parquet").parquet.read_table(part).to_pylist()
    ]
    assert len(evidence) == 40
    for row in evidence:
        assert row["kept_id"].startswith("crawl0/")
        assert row["kept_id"] in originals
        assert row["similarity"] >= 0.7


def test_indexes_grow_by_extension(runs: list[tuple[corpusflow.api.Run, str]]) -> None:
    described = [Index.describe(path) for _, path in runs]
    assert [d["version"] for d in described] == [1, 2, 3]
    assert [d["documents"] for d in described] == [150, 80, 40]
    assert [d["documents_in_all"] for d in described] == [150, 230, 270]
    assert described[2]["extends"][0]["path"] == runs[1][1]
    assert all(Index.check(path) == [] for _, path in runs)


def test_a_damaged_index_is_found(runs: list[tuple[corpusflow.api.Run, str]], tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(runs[0][1], copy)
    victim = next(copy.glob("bands-*.bin"))
    raw = bytearray(victim.read_bytes())
    raw[len(raw) // 2] ^= 1
    victim.unlink()
    victim.write_bytes(raw)
    next(copy.glob("url-*.bin")).unlink()
    wrong = Index.check(str(copy))
    assert len(wrong) == 2
    assert any("missing" in w for w in wrong)
    assert any("do not match" in w for w in wrong)


def test_other_settings_are_refused(runs: list[tuple[corpusflow.api.Run, str]], tmp_path: Path) -> None:
    inputs = write(tmp_path / "in", crawls()[1], 1)
    with pytest.raises(ConfigError, match="shingle 5 instead of 7"):
        run("x", inputs, tmp_path / "run", [runs[0][1]], shingle=7)
    with pytest.raises(ConfigError, match="no dedup index"):
        run("x", inputs, tmp_path / "run", [str(tmp_path)])


def test_an_index_that_changes_under_a_run_is_refused(
    runs: list[tuple[corpusflow.api.Run, str]], tmp_path: Path
) -> None:
    from stages.dedup._index import check_against, open_indexes

    folder = tmp_path / "index"
    folder.mkdir()
    text = (Path(runs[0][1]) / "index.json").read_text()
    (folder / "index.json").write_text(text)
    digests = check_against("dedup.url", [str(folder)], "url", {})
    (folder / "index.json").write_text(text.replace('"name": "web"', '"name": "other"'))
    with pytest.raises(PlanDriftError, match="changed"):
        open_indexes([str(folder)], digests)


def called(*arguments: str) -> Any:
    from click.testing import CliRunner

    from corpusflow.cli import cli

    return CliRunner().invoke(cli, ["dedup-index", *arguments])


def test_the_command_lists_shows_and_verifies(runs: list[tuple[corpusflow.api.Run, str]], tmp_path: Path) -> None:
    import shutil

    everything = str(Path(runs[0][1]).parents[2])
    found = json.loads(called("ls", everything, "--json").stdout)
    assert [(f["path"], f["version"], f["documents_in_all"]) for f in found] == [
        (runs[0][1], 1, 150),
        (runs[1][1], 2, 230),
        (runs[2][1], 3, 270),
    ]
    assert json.loads(called("ls", str(Path(runs[1][1]).parents[1]), "--json").stdout) == [found[1]]
    listed = called("ls", everything).stdout
    assert all(text in listed for text in ("web", "270", "minhash"))
    shown = called("show", runs[2][1]).stdout
    assert all(text in shown for text in ("settings of minhash", runs[1][1], "bands-00000.bin"))
    assert json.loads(called("show", runs[2][1], "--json").stdout)["settings"]["minhash"]["bands"] == 14
    assert "everything is as recorded" in called("verify", runs[2][1]).stdout
    shutil.copytree(runs[0][1], tmp_path / "copy")
    next((tmp_path / "copy").glob("url-*.bin")).unlink()
    damaged = called("verify", str(tmp_path / "copy"))
    assert "is missing" in damaged.stdout
    assert "1 problem(s)" in str(damaged.exception)
    assert "no dedup index" in str(called("ls", str(tmp_path)).exception)
    assert "no dedup index" in str(called("show", str(tmp_path)).exception)
    assert "holds 3 dedup indexes" in str(called("show", everything).exception)
