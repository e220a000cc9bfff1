"""What dedup says of its work, where people read it: warnings at the end of a run, and `corpusflow inspect --stage`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

import corpusflow
from corpusflow.cli import cli

WORDS = [f"{a}{b}" for a in ("river", "gate", "tide", "stone") for b in range(300)]


@pytest.fixture(scope="module")
def finished(quick_root: Path) -> corpusflow.RunResult:
    """60 documents of their own, and a template that 130 fill in."""
    folder = quick_root / "report"
    folder.mkdir()
    rng = random.Random(5)
    template = rng.choices(WORDS, k=150)
    rows = [{"text": " ".join(rng.choices(WORDS, k=120)), "url": f"https://one.org/{i}"} for i in range(60)]
    rows += [{"text": " ".join([*template, f"n{i}"]), "url": f"https://two.org/{i}"} for i in range(130)]
    (folder / "in.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return corpusflow.run(
        {
            "name": "report",
            "input": [{"ingest.jsonl": {"paths": [str(folder / "in.jsonl")]}}],
            "stages": ["dedup.minhash"],
            "output": [],
            "run": {"dir": str(folder / "run"), "executor": "inline"},
        }
    )


def test_a_giant_component_is_a_warning_of_the_run(finished: corpusflow.RunResult) -> None:
    (warning,) = [w for w in finished.warnings if w.startswith("dedup.minhash: ")]
    assert "one cluster holds 130 documents, 68.4% of all" in warning
    assert warning in json.loads((Path(finished.run_dir) / "run.json").read_text())["warnings"]


def test_inspect_tells_it(finished: corpusflow.RunResult) -> None:
    called = CliRunner().invoke(cli, ["inspect", finished.run_dir, "--stage", "dedup.minhash", "--json"])
    (told,) = json.loads(called.stdout)
    summary = told["summary"]
    assert (summary["documents"], summary["removed"], summary["largest_cluster"]) == (190, 129, 130)
    assert summary["clusters_by_size"] == {"128-255": 1}
    assert sum(summary["removed_by_similarity"].values()) == 129
    assert summary["found_by_bands"]["0.80"] == pytest.approx(1 - (1 - 0.8**8) ** 14, abs=1e-4)
    (cluster,) = summary["clusters"]
    assert (cluster["documents"], cluster["kept"]) == (130, 1)
    assert 0.7 <= cluster["least_similarity"] <= cluster["mean_similarity"] <= cluster["most_similarity"]
    shares = {(s["by"], s["value"]): (s["documents"], s["removed"]) for s in summary["shares"]}
    assert shares["host", "two.org"] == (130, 129)
    assert shares["host", "one.org"] == (60, 0)
    assert shares["source", "jsonl"] == (190, 129)
    shown = CliRunner().invoke(cli, ["inspect", finished.run_dir, "--stage", "dedup.minhash"]).stdout
    assert "what dedup.minhash says of its work" in shown
    assert "two.org" in shown
    assert max(map(len, shown.splitlines())) < 400
