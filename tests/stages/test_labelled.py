"""The reader of labelled texts: packed or not, every line or an error that names it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from corpusflow import ConfigError
from stages.labelled import read_labelled


def _text(row: dict[str, Any]) -> str:
    return str(row["text"])


def test_files_are_read_in_order_packed_or_not(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_text('{"text": "one"}\n{"text": "zwei\\nzeilen"}\n', encoding="utf-8")
    packed.write_bytes(gzip.compress('{"text": "三"}'.encode()))
    assert list(read_labelled([str(packed), str(plain)], "`text`", _text)) == ["三", "one", "zwei\nzeilen"]
    assert list(read_labelled([], "`text`", _text)) == []


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\x0b", "\x1c"])
def test_only_line_feeds_part_lines(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "a' + separator.replace("\x0b", "\\u000b").replace("\x1c", "\\u001c") + 'b"}\n', encoding="utf-8"
    )
    assert list(read_labelled([str(path)], "`text`", _text)) == [f"a{separator}b"]


@pytest.mark.parametrize("line", ["{", "[1]", '"text"', "3", '{"words": "a"}', "", "null"])
def test_other_lines_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "one"}}\n{line}\n{{"text": "two"}}\n', encoding="utf-8")
    rows = read_labelled([str(path)], "`text`", _text)
    assert next(rows) == "one"
    with pytest.raises(ConfigError, match=r"a\.jsonl:2: not an object with `text`"):
        next(rows)


def test_an_array_is_read_like_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b' [{"text": "one"},\n {"words": "two"}]'))
    rows = read_labelled([str(path)], "`text`", _text)
    assert next(rows) == "one"
    with pytest.raises(ConfigError, match=r"a\.json\.gz:2: not an object with `text`"):
        next(rows)
    (tmp_path / "b.json").write_text('[{"text": "one"}', encoding="utf-8")
    with pytest.raises(ConfigError, match="begins like a JSON array"):
        list(read_labelled([str(tmp_path / "b.json")], "`text`", _text))
