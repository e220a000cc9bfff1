"""Files in, splits out: folders, globs and lists; what is one file by two names; groups of small files, pieces of large ones."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from corpusflow import ConfigError, FileRange, FileSource, Split


@dataclass(frozen=True, kw_only=True)
class Files(FileSource):
    """Anything, read as nothing."""

    def cut(self, item: FileRange) -> tuple[FileRange, ...]:
        return self.ranges(item) if item.path.endswith(".cut") else (item,)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return iter(())


def write(folder: Path, *names: str, size: int = 10) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)


def found(*paths: str, **params: str) -> list[str]:
    return [f.relative_path for f in Files(paths=paths, **params).files()]


def test_relative_paths_start_below_the_part_without_wildcards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "b/two.gz", "b/c/three.gz", "a.gz", "b/other")
    assert found(str(tmp_path)) == ["a.gz", "b/c/three.gz", "b/other", "b/two.gz"]
    assert found(f"{tmp_path}/") == found(str(tmp_path))
    assert found(f"{tmp_path}/**/*.gz") == ["a.gz", "b/c/three.gz", "b/two.gz"]
    assert found(f"{tmp_path}/b/*.gz") == ["two.gz"]
    assert found(f"{tmp_path}/./b/c/three.gz") == ["three.gz"]
    monkeypatch.chdir(tmp_path)
    assert found("b") == found("./b") == found("../" + tmp_path.name + "/b") == ["c/three.gz", "other", "two.gz"]
    assert found("**/*.gz") == ["a.gz", "b/c/three.gz", "b/two.gz"]
    assert found("*.gz") == ["a.gz"]


def test_brackets_are_a_name_where_there_is_such_a_file(tmp_path: Path) -> None:
    write(tmp_path, "page [1].html", "page 1.html", "set [a]/x.html")
    assert found(f"{tmp_path}/page [1].html") == ["page [1].html"]
    assert found(f"{tmp_path}/set [a]") == ["x.html"]
    assert found(f"{tmp_path}/page [12].html") == ["page 1.html"]


def test_a_file_with_two_names_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "a/one", "a/two")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "again").symlink_to(tmp_path / "a" / "one")
    assert found(str(tmp_path / "a"), f"{tmp_path}/link/*", f"{tmp_path}/again*", f"{tmp_path}/a/one") == ["one", "two"]


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a/one", "b/one")
    with pytest.raises(ConfigError, match="would both be called files/one") as caught:
        found(str(tmp_path / "a"), str(tmp_path / "b"))
    assert "different names" in (caught.value.hint or "")


@pytest.mark.parametrize("pack", [lambda d: d, gzip.compress], ids=["plain", "gz"])
def test_list_files(tmp_path: Path, pack: object) -> None:
    write(tmp_path, "crawl/seg/1.warc.gz", "crawl/seg/2.warc.gz", "crawl/seg/3.warc.gz")
    assert callable(pack)
    (tmp_path / "warc.paths.gz").write_bytes(pack(b"seg/2.warc.gz\n\nseg/1.warc.gz\r\n"))
    there = {"base": str(tmp_path / "crawl")}
    assert found(f"@{tmp_path}/warc.paths.gz", **there) == ["seg/1.warc.gz", "seg/2.warc.gz"]
    (tmp_path / "crawl" / "list").write_bytes(pack(b"seg/3.warc.gz"))
    assert found(f"@{tmp_path}/crawl/list") == ["seg/3.warc.gz"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a\n../../etc/passwd\n", "line 2: '../../etc/passwd' is not a path below the base"),
        (b"/etc/passwd\n", "line 1: '/etc/passwd' is not a path below the base"),
        (b"https://example.org/x\n", "is not a path below"),
        (b"a\nmissing\n", "line 2: .*missing does not exist"),
        (b"\xff\xfe", "is not text"),
        (gzip.compress(b"a" * 100)[:-9], "is damaged"),
    ],
)
def test_lists_that_lead_nowhere(tmp_path: Path, data: bytes, says: str) -> None:
    write(tmp_path, "a")
    (tmp_path / "list").write_bytes(data)
    with pytest.raises(ConfigError, match=says):
        found(f"@{tmp_path}/list")
    with pytest.raises(ConfigError, match="does not exist"):
        found(f"@{tmp_path}/no-list")


def test_small_files_are_grouped_and_large_ones_cut(tmp_path: Path) -> None:
    write(tmp_path, *(f"small/{i:03d}" for i in range(100)), size=100)
    write(tmp_path, "large.cut", "large.whole", size=2_500)
    stage = Files(paths=(str(tmp_path),), group_bytes=1_000, split_size=999)
    splits = list(stage.splits())
    pieces = [[(f.relative_path, f.start, f.end) for f in s.files] for s in splits]
    assert pieces[:4] == [
        [("large.cut", 0, 833)],
        [("large.cut", 833, 1666)],
        [("large.cut", 1666, 2500)],
        [("large.whole", 0, None)],
    ]
    assert [len(p) for p in pieces[4:]] == [10] * 10
    assert sum(s.length for s in splits) == 100 * 100 + 2 * 2_500
    assert len(list(Files(paths=(f"{tmp_path}/large*",), split_size=0, group_bytes=0).splits())) == 2


def test_many_small_files_are_planned_at_once(tmp_path: Path) -> None:
    for i in range(50):
        write(tmp_path, *(f"{i:02d}/{j:02d}" for j in range(100)), size=200)
    began = time.process_time()
    splits = list(Files(paths=(str(tmp_path),)).splits())
    assert sum(len(s.files) for s in splits) == 5_000
    assert len(splits) == 2  # 4,096 files at most share a shard
    assert time.process_time() - began < 1, "100,000 files would take more than 20 s"


def test_special_files_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, "a")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("/etc")
    assert found(str(tmp_path)) == ["a"]
    assert found(f"{tmp_path}/*") == ["a"]
