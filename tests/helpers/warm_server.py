"""Imported by the fork server alone: loads the kernels of the real pipeline, so that its children start at once."""

from __future__ import annotations

from pathlib import Path

import pipeline

from corpusflow import Composite, registry
from corpusflow.build import build_stage

_config = pipeline.config(Path("unused"))
for _given in (*_config.stages, *_config.output):
    _stage = build_stage(_given.name, registry.find(_given.name), _given.params)
    for _part in _stage.expand() if isinstance(_stage, Composite) else (_stage,):
        _part.warm()
