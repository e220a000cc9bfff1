"""A pipeline of real stages on sample_data, for the fault tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpusflow.config import Config, build_config

SAMPLE = Path(__file__).resolve().parent.parent.parent / "sample_data"


def config(run_dir: Path, **run: Any) -> Config:
    """Real stages on the sample crawl, one shard per file."""
    return build_config(
        {
            "name": "sample",
            "seed": 7,
            "input": [{"ingest.warc": {"paths": [f"{SAMPLE}/web/*.warc.gz"], "group_bytes": 0}}],
            "stages": [
                "ingest.extract",
                "clean.unicode",
                {"language.identify": {"keep": ["en", "zh"]}},
                "quality.gopher",
                "dedup.exact",
                {"tokenize.sentencepiece": {"model": f"{SAMPLE}/tokenizer/web.model"}},
            ],
            "output": ["export.parquet", "export.megatron"],
            "run": {"dir": str(run_dir), "executor": "inline", **run},
        }
    )
