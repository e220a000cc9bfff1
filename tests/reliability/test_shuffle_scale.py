"""A shuffle of many tokens: a uniform order, little memory, the same bytes for any workers and after kills.

    pytest -m slow -s tests/reliability/test_shuffle_scale.py

CORPUSFLOW_SHUFFLE_TOKENS says how many (200 M), in 64 shards. Tokens are arithmetic, so that no tokenizer is timed or measured
with it, and every one of them can be checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from command import Command, config_file

from corpusflow.config import build_config

pytestmark = [pytest.mark.slow, pytest.mark.ray]

TOKENS = int(float(os.environ.get("CORPUSFLOW_SHUFFLE_TOKENS", "2e8")))
SHARDS = 64
FILES = 8
BOUND = 256 << 20
DOCUMENTS = TOKENS // 500

STAGE = '''
"""A document's text says its number and its size; its tokens follow from these."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusflow import Score


@dataclass(frozen=True, kw_only=True)
class Counted(Score):
    """Tokens by arithmetic."""

    version = 1
    reads = ("text",)
    adds = {"tokenize.tokens": pa.list_(pa.uint16())}

    def score(self, batch):
        lists = [np.zeros(0, np.uint16)]
        for text in batch.column("text").to_pylist():
            number, size = map(int, text.split())
            lists.append(((number * 7_919 + np.arange(size) * 104_729) % 65_000).astype(np.uint16))
        ends = pa.array(np.cumsum([len(one) for one in lists], dtype=np.int32))
        column = pa.ListArray.from_arrays(ends, pa.array(np.concatenate(lists)))
        return pa.RecordBatch.from_arrays([column], names=["tokenize.tokens"])
'''


class Corpus:
    """Input files, and runs over them in processes of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sizes = np.random.default_rng(1).integers(1, 1_000, DOCUMENTS)
        (root / "in").mkdir()
        (root / "counted.py").write_text(STAGE)
        #: Where each document begins in its file, by which it is called; and which file begins with which.
        self.starts: list[np.ndarray] = []
        self.first = [f * DOCUMENTS // SHARDS for f in range(SHARDS + 1)]
        for f in range(SHARDS):
            numbers = range(self.first[f], self.first[f + 1])
            lines = [json.dumps({"text": f"{n} {self.sizes[n]}"}) + "\n" for n in numbers]
            self.starts.append(np.cumsum([0, *map(len, lines)]))
            (root / "in" / f"{f:02d}.jsonl").write_text("".join(lines))

    def start(self, name: str, **run: Any) -> Command:
        config = build_config(
            {
                "name": "shuffle",
                "seed": 7,
                "input": [{"ingest.jsonl": {"paths": [f"{self.root}/in/*.jsonl"], "group_bytes": 0}}],
                "stages": [f"{self.root}/counted.py:Counted"],
                "output": [{"export.megatron": {"file_tokens": int(self.sizes.sum()) // FILES + 1}}],
                "run": {"dir": str(self.root / name), **run},
            }
        )
        return Command(["run", config_file(config, self.root / f"{name}.yaml")])

    def run(self, name: str, **run: Any) -> dict[str, Any]:
        """What run.json says of the outcome."""
        code, _, err = self.start(name, **run).wait(3_600)
        assert code == 0, err
        outcome: dict[str, Any] = json.loads((self.root / name / "run.json").read_text())
        return outcome

    def digests(self, name: str) -> dict[str, str]:
        """SHA-256 of every exported file."""
        found = {}
        for path in sorted((self.root / name / "exports" / "megatron").iterdir()):
            with path.open("rb") as f:
                found[path.name] = hashlib.file_digest(f, "sha256").hexdigest()
        return found

    def order(self, name: str) -> np.ndarray:
        """Numbers of documents as they stand in the export, every token of each checked; int64."""
        folder = self.root / name / "exports" / "megatron"
        numbers = []
        for path in sorted(folder.glob("*.bin")):
            index = pq.read_table(path.with_suffix(".documents.parquet"))
            tokens = np.memmap(path, "<u2", "r")
            for identity, start, size in zip(*(index[c].to_pylist() for c in ("id", "offset", "length")), strict=True):
                number = self.number(identity)
                assert size == self.sizes[number]
                expected = (number * 7_919 + np.arange(size) * 104_729) % 65_000
                assert np.array_equal(tokens[start : start + size], expected)
                numbers.append(number)
        return np.array(numbers)

    def number(self, identity: str) -> int:
        """Of a document, by its file and its place in it."""
        path, _, start = identity.rpartition("#")
        file = int(Path(path).name.partition(".")[0])
        return self.first[file] + int(np.searchsorted(self.starts[file], int(start)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    root = tmp_path_factory.mktemp("shuffle")
    yield Corpus(root)
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def quiet(corpus: Corpus) -> dict[str, str]:
    """Digests of a run in one process, whose memory is that of the driver, its libraries and the shuffle together."""
    outcome = corpus.run("quiet", executor="inline")
    peak = outcome["peak_worker_bytes"]
    print(f"\n{corpus.sizes.sum():,} tokens in {SHARDS} shards: {outcome['seconds']:.0f} s, peak {peak / 1e6:.0f} MB")
    assert peak < BOUND
    return corpus.digests("quiet")


def test_order_is_uniform(corpus: Corpus, quiet: dict[str, str]) -> None:
    order = corpus.order("quiet")
    n = len(order)
    assert np.array_equal(np.sort(order), np.arange(n)), "every document once"
    at = np.arange(n)
    # Spearman's rho of a random permutation has deviation 1/sqrt(n-1); 1 neighbour is expected to stay one each way
    assert abs(np.corrcoef(order, at)[0, 1]) < 4 / np.sqrt(n)
    assert (np.abs(np.diff(order)) == 1).sum() < 20
    counts = np.histogram2d(at, order, bins=16)[0].ravel()
    chi = ((counts - n / 256) ** 2 / (n / 256)).sum()
    assert chi < 225 + 5 * np.sqrt(2 * 225)
    # of a file, too: shards come evenly, as a draw of 64 balls a time would have it
    shards = order[: n // FILES] * SHARDS // n
    counts = np.bincount(shards, minlength=SHARDS)
    expected = len(shards) / SHARDS
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * np.sqrt(2 * 63)


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers(corpus: Corpus, quiet: dict[str, str], workers: int) -> None:
    outcome = corpus.run(f"workers-{workers}", executor="ray", workers=workers)
    assert corpus.digests(f"workers-{workers}") == quiet
    # Ray's own 80 MB of libraries come on top
    print(f"\n{workers} workers: {outcome['seconds']:.0f} s, largest {outcome['peak_worker_bytes'] / 1e6:.0f} MB")
    assert outcome["peak_worker_bytes"] < BOUND + (80 << 20)
    shutil.rmtree(corpus.root / f"workers-{workers}")


def test_killed_and_resumed(corpus: Corpus, quiet: dict[str, str]) -> None:
    """Three times: while tokens are made, while shards are sorted, while files are written."""
    folder = corpus.root / "killed"
    kills = 0
    for made, enough in (("counted.Counted/*", 20), ("export.megatron/*/sort", 20), ("export.megatron/*/write", 2)):
        command = corpus.start("killed", executor="inline")
        while command.process.poll() is None and len(list(folder.glob(f"{made}/data/*"))) < enough:
            time.sleep(0.002)
        kills += command.process.poll() is None
        command.kill_tree()
    assert kills == 3
    corpus.run("killed", executor="inline")
    assert corpus.digests("killed") == quiet
