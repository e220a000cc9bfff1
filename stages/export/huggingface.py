"""A dataset folder that Hugging Face `datasets.load_from_disk` opens: Arrow files, memory-mapped, nothing copied.

Reads `id` and `tokenize.tokens`; writes `dataset_dict.json` and per split `train/train-00000-of-00004.arrow`, `state.json` and
`dataset_info.json`, `manifest.json`, and the document indexes. Rows have `id` and `input_ids`; with `sequence` also
`seq_lengths`, tokens of each document in the row, by which trl's collator makes position ids and attention masks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pyarrow as pa

from corpusflow import PhaseInputs, PhaseTask

from ._publish import flat
from ._samples import Samples, SampleSink


@dataclass(frozen=True, kw_only=True)
class HuggingFaceDataset(SampleSink):
    """A folder for `datasets.load_from_disk`.

    Source: huggingface/datasets, Dataset.save_to_disk: Arrow IPC streams listed in state.json.
    """

    version: ClassVar[int] = 3
    format_name: ClassVar[str] = "huggingface"
    library: ClassVar[str] = "datasets"

    def file_name(self, split: str, stem: str, suffix: str) -> str:
        return f"{split}/{flat(split, stem, suffix)}"

    def write_samples(self, task: PhaseTask, split: str, samples: Iterator[Samples]) -> int:
        count = 0
        first = next(samples)
        fields = [("id", pa.string()), ("input_ids", pa.list_(pa.from_numpy_dtype(first.tokens.dtype)))]
        if self.sequence is not None:
            fields.append(("seq_lengths", pa.list_(pa.int32())))
        schema = pa.schema(fields)
        with task.file(f"{split}.arrow") as stream, pa.ipc.new_stream(stream, schema) as writer:
            for block in chain([first], samples):
                columns = [block.ids.cast(pa.string()), _lists(block.lengths, block.tokens)]
                if self.sequence is not None:
                    columns.append(_lists(block.counts, block.parts))
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
                count += len(block.lengths)
        return count

    def read_by_library(self, folder: Path, split: str, paths: Sequence[Path], dtype: np.dtype[Any]) -> Iterator[Any]:
        rows: Any = import_module("datasets").load_from_disk(str(folder))[split].with_format("arrow")
        return (block.column("input_ids").combine_chunks().flatten() for block in rows.iter(1_024))

    def read_samples(self, stream: IO[bytes], dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
        try:
            for batch in pa.ipc.open_stream(stream):
                yield batch.column("input_ids").flatten().to_numpy()
        except OSError as e:  # what Arrow raises where a stream ends too early
            raise ValueError(str(e)) from e

    def texts(self, inputs: PhaseInputs) -> dict[str, str]:
        files: dict[str, list[str]] = {}
        for split, stem, _ in self.samples(inputs):
            files.setdefault(split, []).append(f"{stem}.arrow")
        texts = {"dataset_dict.json": json.dumps({"splits": list(files)}) + "\n"}
        for split, listed in files.items():
            state: dict[str, Any] = {
                "_data_files": [{"filename": name} for name in listed],
                "_fingerprint": f"corpusflow-{inputs.seed}-{split}",
                "_format_columns": None,
                "_format_kwargs": {},
                "_format_type": None,
                "_output_all_columns": False,
                "_split": split,
            }
            texts[f"{split}/state.json"] = json.dumps(state, indent=1) + "\n"
            info = {"citation": "", "description": "", "homepage": "", "license": ""}
            texts[f"{split}/dataset_info.json"] = json.dumps(info) + "\n"
        return texts


def _lists(counts: np.ndarray, values: np.ndarray) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


STAGE = HuggingFaceDataset
