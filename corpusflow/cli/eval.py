"""`corpusflow eval NAME`."""

from __future__ import annotations

from corpusflow.cli._hooks import hooks_group

command = hooks_group("evaluate", "Measure a tokenizer or a model.\n\nNAME is a stage that can be measured.")
