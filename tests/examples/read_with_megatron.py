"""Megatron-LM's own dataset classes over an export, built from its blend file as Megatron's training loop does.

    corpusflow run configs/web.yaml
    pip install torch megatron-core
    python tests/examples/read_with_megatron.py runs/web/exports/megatron --length 128

In Megatron itself these are the options `--data-args-path train.blend.txt` (from within the export's folder), `--split 100,0,0`
and `--sequence-length 128`. Some seconds on a CPU, most of them imports.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.utils import get_blend_from_list
from torch import distributed


def training_set(export: str, length: int, samples: int | None, cache: str) -> Any:
    """The samples of `length` tokens that Megatron draws from the files of an export by their weights.

    Args:
        export: folder of `export.megatron`.
        samples: how many; None: one pass through every file.
        cache: folder where Megatron keeps its indexes.
    """
    about = json.loads(Path(export, "manifest.json").read_text())["tokenizer"]
    words = Path(export, "train.blend.txt").read_text().split()
    if samples is None:
        samples = sum((int(tokens) - 1) // length for tokens in words[::2])
    # Megatron looks at nothing else of a tokenizer here
    tokenizer = SimpleNamespace(
        eod=about["eos_id"],
        pad=about["pad_id"] if about["pad_id"] is not None else about["eos_id"],
        vocab_size=about["vocabulary_size"],
        unique_identifiers={"sha256": about["tokenizer_sha256"]},
    )
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=length,
        blend=get_blend_from_list([w if i % 2 == 0 else str(Path(export, w)) for i, w in enumerate(words)]),
        split="100,0,0",
        path_to_cache=cache,
        tokenizer=tokenizer,
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    with tempfile.TemporaryDirectory() as meeting:
        distributed.init_process_group("gloo", init_method=f"file://{meeting}/group", rank=0, world_size=1)
        try:
            train, _, _ = BlendedMegatronDatasetBuilder(GPTDataset, [samples, 0, 0], lambda: True, config).build()
        finally:
            distributed.destroy_process_group()
    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--samples", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        train = training_set(arguments.export, arguments.length, arguments.samples, cache)
        print(f"{len(train)} samples of {arguments.length} tokens; the first: {train[0]['tokens'].tolist()[:16]} …")


if __name__ == "__main__":
    main()
