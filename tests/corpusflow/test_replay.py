"""`quarantine replay`: what now succeeds joins the run, once, and nothing committed is touched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpusflow
from corpusflow import ConfigError, PlanDriftError
from corpusflow.cleanup import garbage
from corpusflow.explain import find_documents, tell
from corpusflow.quarantine import quarantined
from corpusflow.replay import replay
from corpusflow.verify import verify
from stages.ingest.jsonl import Jsonl

#: A stage that cannot process documents with words of a file: what is wrong with the machine, and can be mended.
STAGE = """
import pathlib
import corpusflow

def broken():
    return pathlib.Path({trouble!r}).read_text().split()

@corpusflow.document_score(adds={{"my.length": "int32"}}, version={version})
def length(text: str) -> int:
    for word in broken():
        if word in text.split():
            raise RuntimeError(f"cannot read {{word}}")
    return len(text)
"""
FILES = {
    "a.jsonl": ["the first text", "a text with rust", "a text with dust", "twin of another"],
    "b.jsonl": ["the second text", "more rust here", "twin of another", "twin with dust", "twin with dust"],
}
ALL = sorted(t for texts in FILES.values() for t in texts)


class Corpus:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trouble = folder / "trouble.txt"
        self.code(1)
        for name, texts in FILES.items():
            self.file(name, texts)

    def code(self, version: int) -> None:
        (self.folder / "my.py").write_text(STAGE.format(trouble=str(self.trouble), version=version))

    def file(self, name: str, texts: list[str]) -> None:
        (self.folder / name).write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))

    def breaks(self, *words: str) -> None:
        self.trouble.write_text(" ".join(words))

    def config(self, run: str = "run", stages: list[Any] | None = None) -> dict[str, Any]:
        return {
            "name": "r",
            "input": [{"ingest.jsonl": {"paths": [f"{self.folder}/*.jsonl"], "group_bytes": 0}}],
            "stages": stages or [f"{self.folder}/my.py:length"],
            "output": ["export.parquet"],
            "run": {"dir": str(self.folder / run), "executor": "inline"},
        }

    def run(self, run: str = "run", stages: list[Any] | None = None, **options: Any) -> corpusflow.results.RunResult:
        return corpusflow.run(self.config(run, stages), **options)

    @property
    def run_dir(self) -> str:
        return str(self.folder / "run")

    def exported(self, run: str = "run") -> list[tuple[str, str]]:
        rows: list[tuple[str, str]] = []
        for path in sorted((self.folder / run / "exports" / "parquet").rglob("*.parquet")):
            table = pq.read_table(path)
            rows += zip(table.column("id").to_pylist(), table.column("text").to_pylist(), strict=True)
        assert len({i for i, _ in rows}) == len(rows), "an id is there twice"
        return sorted(rows)

    def waiting(self) -> list[str]:
        return sorted(e.id for e in quarantined(corpusflow.open_run(self.run_dir)))

    def committed(self) -> dict[str, bytes]:
        """Everything below the stage folders and the listings."""
        root = Path(self.run_dir)
        files = (p for p in root.rglob("*") if p.is_file() and len(p.relative_to(root).parts) > 1)
        return {str(p.relative_to(root)): p.read_bytes() for p in files if "exports" not in p.parts}


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def test_what_now_succeeds_joins_the_run(corpus: Corpus) -> None:
    corpus.breaks("rust", "dust")
    corpus.run()
    assert len(corpus.waiting()) == 5
    before = corpus.committed()
    corpus.breaks("dust")
    found = replay(corpus.run_dir)
    assert (found.tried, found.kept_going, found.failed, found.missing) == (5, 2, 3, 0)
    assert found.result is not None
    assert all(c.exact for c in found.result.counts)
    assert found.result.counts[0].entered == len(ALL) + 5, "each counts as read once more"
    after = corpus.committed()
    assert {k: after[k] for k in before} == before, "what was committed is rewritten"
    assert sorted(t for _, t in corpus.exported()) == sorted(t for t in ALL if "dust" not in t)
    assert len(corpus.waiting()) == 3
    assert not any(s.tasks for s in corpus.run().steps), "`run` goes on from the replay"

    corpus.breaks()
    found = replay(corpus.run_dir)
    assert (found.tried, found.kept_going, found.failed) == (3, 3, 0)
    assert corpus.waiting() == []
    corpus.run("clean")
    assert corpus.exported() == corpus.exported("clean")
    assert verify(corpusflow.open_run(corpus.run_dir)).problems == []
    garbage_left = list(garbage(corpusflow.open_run(corpus.run_dir), grace_seconds=0))
    assert garbage_left == []
    assert replay(corpus.run_dir).result is None


def test_only_one_stage(corpus: Corpus) -> None:
    other = corpus.folder / "other.py"
    other.write_text(
        (corpus.folder / "my.py").read_text().replace("my.length", "other.length").replace("trouble", "more")
    )
    (corpus.folder / "more.txt").write_text("first")
    corpus.breaks("rust")
    stages = [f"{corpus.folder}/my.py:length", f"{other}:length"]
    corpus.run(stages=stages)
    assert len(corpus.waiting()) == 3
    (corpus.folder / "more.txt").write_text("")
    found = replay(corpus.run_dir, stage=stages[1])
    assert (found.tried, found.kept_going) == (1, 1)
    assert len(corpus.waiting()) == 2
    with pytest.raises(ConfigError, match="no stage"):
        replay(corpus.run_dir, stage="nothing")


def test_exchanges_run_again_and_the_earlier_document_stays(corpus: Corpus) -> None:
    stages = [f"{corpus.folder}/my.py:length", "dedup.exact"]
    corpus.file("c.jsonl", ["the first text with dust", "the second text"])
    corpus.file("d.jsonl", ["twin of another with dust"])
    corpus.breaks("dust")
    corpus.run(stages=stages)
    first = dict(corpus.exported())
    corpus.breaks()
    found = replay(corpus.run_dir)
    assert found.kept_going == found.tried == 5
    now = dict(corpus.exported())
    assert first.items() <= now.items()
    assert sorted(now.values()) == sorted({*ALL, "the first text with dust", "twin of another with dust"})
    assert corpus.run(stages=stages).digest == found.result.digest if found.result else False


def test_a_stage_of_a_higher_version_keeps_nothing_twice(corpus: Corpus) -> None:
    corpus.breaks("rust")
    corpus.run()
    corpus.breaks()
    replay(corpus.run_dir)
    replayed = corpus.exported()
    corpus.code(2)  # the earlier shard tries its documents anew
    result = corpus.run()
    assert result.counts[0].entered == len(ALL)
    assert corpus.exported() == replayed
    assert [s.only for s in corpusflow.open_run(corpus.run_dir).plan.shards] == [(), ()]
    assert verify(corpusflow.open_run(corpus.run_dir)).problems == []
    corpus.code(1)  # its records say what could not be processed, and so what was replayed
    again = corpus.run()
    assert again.counts[0].entered == len(ALL) + 2
    assert corpus.exported() == replayed
    assert not any(s.measured for s in again.steps)
    assert verify(corpusflow.open_run(corpus.run_dir)).problems == []


def test_new_input_and_replays_together(corpus: Corpus) -> None:
    corpus.breaks("rust")
    corpus.run()
    corpus.breaks()
    replay(corpus.run_dir)
    corpus.file("c.jsonl", ["a new text"])
    result = corpus.run(refresh=True)
    assert sorted(t for _, t in corpus.exported()) == sorted([*ALL, "a new text"])
    assert result.counts[0].entered == len(ALL) + 3
    (corpus.folder / "b.jsonl").unlink()  # its replay goes with it
    corpus.run(refresh=True)
    assert sorted(t for _, t in corpus.exported()) == sorted([*FILES["a.jsonl"], "a new text"])


def test_records_that_a_source_could_not_read(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.breaks()
    read = Jsonl.read

    def worse(self: Jsonl, split: Any) -> Iterator[pa.RecordBatch]:
        for batch in read(self, split):
            why = ["jsonl: not today" if t and "rust" in t else None for t in batch.column("text").to_pylist()]
            i = batch.schema.get_field_index("quarantine")
            yield batch.set_column(i, "quarantine", pa.array(why, pa.string()))

    with monkeypatch.context() as patch:
        patch.setattr(Jsonl, "read", worse)
        corpus.run()
        assert len(corpus.waiting()) == 2
    found = replay(corpus.run_dir, stage="ingest.jsonl")
    assert (found.tried, found.kept_going) == (2, 2)
    assert sorted(t for _, t in corpus.exported()) == ALL


LATE = """
import pathlib
from dataclasses import dataclass
import pyarrow as pa
from corpusflow import Score

@dataclass(frozen=True, kw_only=True)
class Late(Score):
    survivors_only = True
    reads = ("text", "dedup.exact.copies")
    adds = {{"my.late": pa.int32()}}

    def score(self, batch):
        for word in pathlib.Path({trouble!r}).read_text().split():
            if any(word in text for text in batch.column("text").to_pylist()):
                raise RuntimeError("cannot read " + word)
        return pa.RecordBatch.from_arrays([batch.column("dedup.exact.copies").cast(pa.int32())], names=["my.late"])
"""


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_replay_that_was_killed_is_finished_by_run(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.breaks("rust")
    corpus.run()
    corpus.breaks()
    with monkeypatch.context() as patch:
        patch.setattr("corpusflow.replay.Runner", interrupted)
        with pytest.raises(KeyboardInterrupt):
            replay(corpus.run_dir)
    corpus.run()
    assert sorted(t for _, t in corpus.exported()) == ALL
    assert corpus.waiting() == []


def test_stages_behind_an_exchange_are_left(corpus: Corpus) -> None:
    """They try all again as soon as a replay in front of them, or new input, changes what the Exchange sees."""
    late = corpus.folder / "late.py"
    late.write_text(LATE.format(trouble=str(corpus.trouble)))
    stages = ["dedup.exact", f"{late}:Late"]
    corpus.breaks("rust")
    corpus.run(stages=stages)
    assert len(corpus.waiting()) == 2
    corpus.breaks()
    found = replay(corpus.run_dir)
    assert found.result is None
    assert dict(found.left) == {stages[1]: 2}
    assert len(corpus.waiting()) == 2
    corpus.file("c.jsonl", ["a new text"])
    corpus.run(stages=stages, refresh=True)
    assert corpus.waiting() == []


def test_explain_tells_the_last_try(corpus: Corpus) -> None:
    corpus.breaks("rust")
    corpus.run()
    key = corpus.waiting()[0]
    corpus.breaks()
    replay(corpus.run_dir)
    run = corpusflow.open_run(corpus.run_dir)
    assert tell(run, find_documents(run, key)[0]).fate == "kept to the end"


def test_other_stages_than_the_run_had(corpus: Corpus) -> None:
    corpus.breaks("rust")
    corpus.run()
    corpus.code(2)
    with pytest.raises(PlanDriftError, match="not those"):
        replay(corpus.run_dir)
    corpus.code(1)
    corpus.file("a.jsonl", ["changed"])
    with pytest.raises(PlanDriftError, match="changed since"):
        replay(corpus.run_dir)
    with pytest.raises(ConfigError, match="not a run folder"):
        replay(str(corpus.folder / "none"))
