"""The FineWeb recipe with datatrove, dedup left out: what bench_pipeline.py compares with.

Runs in an environment of datatrove's own (``pip install 'datatrove[processing,io]' spacy lxml_html_clean aiohttp``), whose
Python is named by CORPUSFLOW_DATATROVE_PYTHON:

    python datatrove_fineweb.py --warcs FOLDER --model lid.176.ftz --work FOLDER --workers 2
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path


def place_model(model: str) -> None:
    """Put the language model where datatrove would download it to."""
    from datatrove.io import strip_protocol
    from datatrove.utils.lid import FT176LID
    from huggingface_hub import cached_assets_path

    folder = cached_assets_path(library_name="datatrove", namespace="lid", subfolder="ft176")
    target = os.path.join(folder, strip_protocol(FT176LID.MODEL_URL).replace("/", "_"))
    shutil.copy(model, target)
    Path(target + ".completed").touch()


def tokenizer(kept: str, work: str) -> str:
    """A byte-level BPE of 8,000 pieces, as many as the sample tokenizer of corpusflow has, on some of what was kept."""
    import gzip
    import json

    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    path = os.path.join(work, "tokenizer.json")
    texts = []
    for file in sorted(Path(kept).glob("*.jsonl.gz"))[:1]:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for _, line in zip(range(50), lines, strict=False)]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=8000, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    )
    bpe.save(path)
    return path


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    for name in ("--warcs", "--model", "--work"):
        parser.add_argument(name, required=True)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("HF_HOME", os.path.join(args.work, "hf"))
    place_model(args.model)
    from datatrove.executor.local import LocalPipelineExecutor
    from datatrove.pipeline.extractors import Trafilatura
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
        LanguageFilter,
        URLFilter,
    )
    from datatrove.pipeline.readers import JsonlReader, WarcReader
    from datatrove.pipeline.tokens import DocumentTokenizer
    from datatrove.pipeline.writers import JsonlWriter

    tasks = len(list(Path(args.warcs).glob("*.warc.gz")))
    kept = os.path.join(args.work, "kept")
    filters = [
        WarcReader(args.warcs, glob_pattern="*.warc.gz", default_metadata={"dump": "bench"}),
        URLFilter(),
        Trafilatura(favour_precision=True),
        LanguageFilter(["en"]),
        GopherRepetitionFilter(language="en"),
        GopherQualityFilter(language="en"),
        C4QualityFilter(filter_no_terminal_punct=False, language="en"),
        FineWebQualityFilter(language="en"),
        JsonlWriter(kept),
    ]
    logs = os.path.join(args.work, "logs")
    LocalPipelineExecutor(filters, tasks=tasks, workers=args.workers, logging_dir=f"{logs}/filter").run()
    tokens = [
        JsonlReader(kept),
        DocumentTokenizer(os.path.join(args.work, "tokens"), tokenizer(kept, args.work), eos_token="<|endoftext|>"),
    ]
    LocalPipelineExecutor(tokens, tasks=tasks, workers=args.workers, logging_dir=f"{logs}/tokens").run()


if __name__ == "__main__":
    main()
