"""`corpusflow export`: what is said of documents whose text does not exist yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def test_pages_before_extraction_have_no_text_and_that_is_said(call: Any, small_run: Any, tmp_path: Path) -> None:
    result = call("export", small_run, "--stage", "ingest.warc", "--to", tmp_path / "a", "--json")
    assert result.status == 0
    files = [json.loads(line) for line in result.out.splitlines()]
    rows = sum(pq.read_metadata(f["path"]).num_rows for f in files)
    assert rows > 0
    assert rows == sum(f["without_text"] for f in files)
    assert f"warning: {rows:,} of {rows:,} documents have no text at ingest.warc" in result.err

    asked = call("export", small_run, "--stage", "ingest.warc", "--to", tmp_path / "b", "--columns", "id,url")
    assert "warning" not in asked.err
    later = call("export", small_run, "--stage", "dedup.exact", "--to", tmp_path / "c")
    assert later.status == 0
    assert "warning" not in later.err
