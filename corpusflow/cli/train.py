"""`corpusflow train NAME`."""

from __future__ import annotations

from corpusflow.cli._hooks import hooks_group

command = hooks_group(
    "train",
    "Train a tokenizer or a model.\n\nNAME is a stage that can be trained; `tokenizer` is tokenize.sentencepiece:\n\n"
    "\b\n    corpusflow train tokenizer --run runs/web --stage dedup.exact --vocab-size 32000 --out web.model",
)
