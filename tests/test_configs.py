"""The configs that come with the project, run on the sample crawl: what is there to be kept, and what is not."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpusflow
from corpusflow.feed import open_mixture
from corpusflow.mix.recipe import load_recipe
from corpusflow.mix.write import make, write

ROOT = Path(__file__).parents[1]
MIXTURE = ROOT / "configs" / "mix.yaml"
CONFIGS = sorted(p for p in (ROOT / "configs").glob("*.yaml") if p != MIXTURE)

#: Bad pages that the rules of web.yaml let through. One more is a rule that has become lax; one less may leave this list.
PASSES = {"bad/mojibake-en", "bad/mojibake-zh", "bad/parked-en", "bad/shouting", "bad/teasers"}
#: Groups of near duplicates of which more than one is left: their texts differ by more than 0.3.
FAR = {"en/ferry-winter", "en/walking-slowly"}


#: What nobody can be reached by: hosts, networks and numbers set aside for documents and films (RFC 2606, RFC 5737, Ofcom, NANP).
RESERVED = re.compile(
    r"[. ](dot |\[dot\] )?example$|^(192\.0\.2|198\.51\.100|203\.0\.113)\.\d+$|^01632 960|^\(555\) 01"
)


class Runs:
    """One run of each config, made when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[str, corpusflow.RunResult] = {}

    def of(self, config: Path) -> corpusflow.RunResult:
        if config.stem not in self.made:
            before = Path.cwd()
            os.chdir(ROOT)  # their paths are those of a checkout
            try:
                self.made[config.stem] = corpusflow.run(
                    f"configs/{config.name}", ["run.executor=inline", f"run.dir={self.folder}/{config.stem}"]
                )
            finally:
                os.chdir(before)
        return self.made[config.stem]

    def exported(self, config: Path) -> pa.Table:
        self.of(config)
        return pa.concat_tables(
            pq.read_table(f, columns=["id", "url", "text"])
            for f in sorted((self.folder / config.stem / "exports" / "parquet").glob("*.parquet"))
        )


@pytest.fixture(scope="module")
def runs(quick_root: Path) -> Iterator[Runs]:
    folder = quick_root / "configs"
    folder.mkdir()
    yield Runs(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def pages() -> list[dict[str, Any]]:
    """The truth about the sample crawl's pages of which web.yaml may want to know."""
    lines = (ROOT / "sample_data" / "pages.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [p for p in found if p["status"] == 200 and p["kind"] != "revisit"]


def web() -> Path:
    return ROOT / "configs" / "web.yaml"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.stem)
def test_no_document_is_lost(runs: Runs, config: Path) -> None:
    counts = runs.of(config).counts
    assert len(counts) > 5
    for count in counts:
        assert count.entered == count.kept + sum(count.dropped.values()) + sum(count.quarantined.values()), count.stage
    exported = runs.exported(config)
    ids = exported.column("id").to_pylist()
    assert len(set(ids)) == len(ids) == counts[-1].kept > 0
    assert all(text.strip() for text in exported.column("text").to_pylist())


def test_every_good_text_is_kept_once(runs: Runs, pages: list[dict[str, Any]]) -> None:
    kept = set(runs.exported(web()).column("url").to_pylist())
    copies = defaultdict(list)
    for page in pages:
        if (
            page["kind"] == "good"
            and page["lang"] in ("en", "zh")
            and not page.get("robots")
            and page["why"] != "truncated record"
        ):
            copies[page["duplicate_group"] or page["near_group"] or page["url"]].append(page["url"] in kept)
    assert len(copies) > 100
    assert {group: sum(left) for group, left in copies.items() if sum(left) != 1} == dict.fromkeys(FAR, 2)


def test_bad_pages_are_dropped(runs: Runs, pages: list[dict[str, Any]]) -> None:
    kept = set(runs.exported(web()).column("url").to_pylist())
    bad = [p for p in pages if p["kind"] != "good"]
    assert len(bad) > 40
    assert {p["text_name"] for p in bad if p["url"] in kept} == PASSES
    assert not {p["url"] for p in pages if p["lang"] not in ("en", "zh", "")} & kept


def test_no_personal_data_is_left(runs: Runs, pages: list[dict[str, Any]]) -> None:
    exported = runs.exported(web())
    texts = dict(zip(exported.column("url").to_pylist(), exported.column("text").to_pylist(), strict=True))
    planted = [(texts[p["url"]], v["value"]) for p in pages if p["url"] in texts for v in p.get("pii", ())]
    left = {value for text, value in planted if value in text}
    assert {value for value in left if not RESERVED.search(value)} == set()
    assert len(planted) - len(left) > 15


def test_the_mixture_takes_nothing_more_than_three_times(runs: Runs, tmp_path: Path) -> None:
    runs.of(web())
    recipe = load_recipe(str(MIXTURE))
    assert [p.run for p in recipe.parts] == ["runs/web"]
    parts = tuple(dataclasses.replace(p, run=str(runs.folder / "web")) for p in recipe.parts)
    folder = write(make(dataclasses.replace(recipe, parts=parts, output=str(tmp_path / "mix"))))
    mixture = open_mixture(folder)
    taken = json.loads((tmp_path / "mix" / "mixture.json").read_text())["parts"]
    shares = {p["name"]: p["share"] for p in taken}
    assert shares.keys() == {"web.en", "web.zh"}
    assert 0.4 < shares["web.zh"] < shares["web.en"], "of the tokens a third are Chinese"
    drawn = np.bincount(mixture.draws(np.arange(mixture.sequences), recipe.seed)[0])
    assert drawn.tolist() == [p["sequences"] for p in taken]


def test_the_readme_shows_the_table_of_today(runs: Runs) -> None:
    counts = {c.stage: c for c in runs.of(web()).counts}
    shown = re.findall(
        r"^    ([a-z_.]+) +(\d+) +(\d+) +(\d+) +(\d+) ", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(shown) > 3
    for stage, *numbers in shown:
        count = counts[stage]
        left = sum(count.dropped.values()), sum(count.quarantined.values())
        assert [int(n) for n in numbers] == [count.entered, count.kept, *left], stage
