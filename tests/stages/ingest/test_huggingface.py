"""ingest.huggingface: which files are the data, in each layout, and that all formats are read alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusflow import ConfigError, check_stage
from stages.ingest._layout import data_files
from stages.ingest.huggingface import HuggingFace


def read(path: Path, **params: Any) -> list[dict[str, Any]]:
    stage = HuggingFace(paths=(str(path),), **params)
    return [row for split in stage.splits() for batch in stage.read(split) for row in batch.to_pylist()]


def write(folder: Path, **files: Any) -> None:
    """Lists of texts become tables in the format that the name says; all else is written as it is."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
            continue
        table = pa.table({"text": content, "n": range(len(content))})
        if name.endswith(".parquet"):
            pq.write_table(table, path)
        elif name.endswith(".arrow"):
            with pa.ipc.new_stream(str(path), table.schema) as writer:
                writer.write_table(table)
        elif name.endswith(".csv"):
            path.write_text("text,n\n" + "".join(f"{t},{i}\n" for i, t in enumerate(content)))
        else:
            path.write_text("".join(json.dumps({"text": t, "n": i}) + "\n" for i, t in enumerate(content)))


def test_all_formats_are_read_alike(tmp_path: Path) -> None:
    names = ["a.parquet", "b.arrow", "c.jsonl", "d.csv"]
    write(tmp_path, **{name: [f"{name} one", f"{name} two"] for name in names}, **{"LICENSE": "x", "x.png": "y"})
    rows = read(tmp_path, columns={"number": "n"})
    assert [r["text"] for r in rows] == [f"{name} {n}" for name in names for n in ("one", "two")]
    assert [r["number"] for r in rows] == ["0", "1"] * 4
    assert [r["id"].partition("#")[0] for r in rows[::2]] == [f"huggingface/{name}" for name in names]
    assert not any(r["quarantine"] or r["skipped"] for r in rows)


def test_save_to_disk(tmp_path: Path) -> None:
    state = {"_data_files": [{"filename": "data-00000-of-00002.arrow"}, {"filename": "data-00001-of-00002.arrow"}]}
    one = {"state.json": json.dumps(state), "dataset_info.json": "{}", "cache-abc.arrow": ["no"]}
    one |= {"data-00000-of-00002.arrow": ["a"], "data-00001-of-00002.arrow": ["b"]}
    write(tmp_path / "one", **one)
    assert [r["text"] for r in read(tmp_path / "one")] == ["a", "b"]
    write(tmp_path / "dict", **{"dataset_dict.json": '{"splits": ["train", "rest"]}'})
    write(tmp_path / "dict" / "rest", **one)
    assert [r["text"] for r in read(tmp_path / "dict", split="rest")] == ["a", "b"]
    with pytest.raises(ConfigError, match="has no split 'test'") as caught:
        read(tmp_path / "dict", split="test")
    assert "train, rest" in str(caught.value)
    with pytest.raises(ConfigError, match="names no data files"):
        read(tmp_path / "dict")
    (tmp_path / "one" / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(ConfigError, match=r"names data-00001-of-00002\.arrow, which is not"):
        read(tmp_path / "one")


README = """---
license: cc0-1.0
configs:
- config_name: small
  data_files:
  - split: train
    path: data/small-*.parquet
  - split: test
    path: ["held/*.jsonl", "held/**/more.jsonl"]
- config_name: large
  default: true
  data_dir: big
  data_files: "*.parquet"
---
# A dataset
"""


def test_readme_names_the_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "README.md": README,
            "data/small-1.parquet": ["s"],
            "data/deep/small-2.parquet": ["no"],
            "held/x.jsonl": ["h"],
            "held/deep/down/more.jsonl": ["m"],
            "big/1.parquet": ["l"],
        },
    )
    assert [r["text"] for r in read(tmp_path)] == ["l"]
    assert [r["text"] for r in read(tmp_path, config="small")] == ["s"]
    assert [r["text"] for r in read(tmp_path, config="small", split="test")] == ["m", "h"]
    with pytest.raises(ConfigError, match="no configuration 'tiny'") as caught:
        read(tmp_path, config="tiny")
    assert "small, large" in str(caught.value)
    with pytest.raises(ConfigError, match="no split 'validation'"):
        read(tmp_path, split="validation")


@pytest.mark.parametrize(
    ("names", "split", "expected"),
    [
        (["data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"], "test", [1]),
        (["train.jsonl", "dev.jsonl", "my_test_file.jsonl"], "validation", [1]),
        (["x/training/1.csv", "x/eval/1.csv"], "train", [0]),
        (["1.parquet", "2.parquet", "notes.txt"], "train", [0, 1]),
        (["en/validation/train.parquet"], "train", [0]),
        (["data/random-00000-of-00002.parquet", "data/train-00000-of-00001.parquet"], "random", [0]),
        ([".cache/train.jsonl", "train.jsonl.gz", "train.json.zst"], "train", [1, 2]),
        (["contest.jsonl"], "train", [0]),
    ],
)
def test_names_say_the_split(names: list[str], split: str, expected: list[int]) -> None:
    assert data_files(names, lambda name: b"", split, None) == [names[i] for i in expected]


def test_a_folder_per_configuration() -> None:
    names = ["de/train.jsonl", "en/train.jsonl", "en/test.jsonl"]
    assert data_files(names, lambda name: b"", "train", "en") == ["en/train.jsonl"]
    with pytest.raises(ConfigError, match="no configuration 'fr'"):
        data_files(names, lambda name: b"", "train", "fr")


@pytest.mark.parametrize(
    ("readme", "says"),
    [
        ("configs:\n- data_files: ../../etc/*", "no file matches"),
        ("configs:\n- data_files: /etc/passwd", "no file matches"),
        ("configs:\n- data_files: '*.py'", "names script.py, which no Source reads"),
        ("configs: [\n", "is not YAML"),
        (
            "configs:\n- {config_name: a, data_files: x}\n- {config_name: b, data_files: x}",
            "has several configurations",
        ),
    ],
)
def test_hostile_readmes(tmp_path: Path, readme: str, says: str) -> None:
    write(tmp_path, **{"README.md": f"---\n{readme}\n---\n", "script.py": "raise SystemExit", "a.jsonl": ["x"]})
    with pytest.raises(ConfigError, match=says):
        read(tmp_path)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder of a dataset"):
        read(tmp_path / "missing")
    write(tmp_path, **{"README.md": "text"})
    with pytest.raises(ConfigError, match="no files of a split 'train'"):
        read(tmp_path)


def test_large_files_are_cut(tmp_path: Path) -> None:
    write(tmp_path, **{"train.jsonl": [f"text {i}" for i in range(3_000)]})
    whole = read(tmp_path)
    stage = HuggingFace(paths=(str(tmp_path),), split_size=10_000, group_bytes=1)
    splits = list(stage.splits())
    assert len(splits) > 5
    assert [r for s in splits for b in stage.read(s) for r in b.to_pylist()] == whole


def test_contract(tmp_path: Path) -> None:
    write(tmp_path, **{"train.parquet": ["a", "b"], "train.jsonl": ["c"], "train.csv": ["d"]})
    check_stage(HuggingFace(paths=(str(tmp_path),), columns={"n": "n"}))
