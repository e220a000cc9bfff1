"""A quality model: a fastText classifier, how text is prepared for it, and what its probabilities are worth.

A folder holds `model.ftz` (or .bin) and `card.json`: data, command, measured quality, and under "use"::

    {"label": "good", "form": "marked", "bytes": 20000, "calibration": [[0.0, 0.02], …, [1.0, 0.97]]}

A file alone is any supervised fastText model (DCLM's, say): text is prepared as DCLM does, probabilities are the model's.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from corpusflow import ConfigError, storage_for
from stages.kernels.buffers import TextBuffers
from stages.kernels.fasttext import FastText, load
from stages.kernels.flatten import MARKED, PLAIN, flatten

FORMS: Final = {"plain": PLAIN, "marked": MARKED}
_WHOLE: Final = 1 << 40
_MODELS: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


@dataclass(frozen=True)
class QualityModel:
    """What `read` returns.

    Attributes:
        label: position of the label that means good.
        form: PLAIN or MARKED.
        most: bytes of a document that are looked at.
        knots: float64 (k, 2): probability of the model -> share that is good, both ascending; None: as it is.
    """

    classifier: FastText
    label: int
    form: int
    most: int
    knots: np.ndarray | None

    def scores(self, text: TextBuffers) -> np.ndarray:
        """float32 (n,), in [0, 1]; the same bits on every CPU. Null or empty texts get 0."""
        data, offsets = flatten(text, self.most, self.form)
        raw = self.classifier.probabilities(data, offsets)[:, self.label].astype(np.float64)
        if self.knots is not None:
            raw = np.interp(raw, self.knots[:, 0], self.knots[:, 1])
        raw[np.diff(offsets) == 0] = 0.0
        scores: np.ndarray = np.clip(raw, 0.0, 1.0).astype(np.float32)
        return scores


def read(path: str, label: str | None) -> QualityModel:
    """Load a model.

    Args:
        path: folder or file; a bare name may be built in.
        label: which label means good; None: what the card says.

    Raises:
        ConfigError: no such model, or no such label in it.
    """
    use: dict[str, Any] = {}
    built_in = os.path.join(_MODELS, path)
    path = built_in if not os.path.exists(path) and os.path.exists(built_in) else path
    if not os.path.exists(path):
        raise ConfigError(f"quality model {path} does not exist", hint="a path, or the built-in en-zh")
    file = path
    if os.path.isdir(path):
        card = os.path.join(path, "card.json")
        use = json.loads(storage_for(card).get(card))["use"] if storage_for(card).exists(card) else {}
        names = [n for n in ("model.ftz", "model.bin") if storage_for(path).exists(os.path.join(path, n))]
        if not names:
            raise ConfigError(f"quality model {path} has neither model.ftz nor model.bin")
        file = os.path.join(path, names[0])
    try:
        classifier = load(storage_for(file).get(file))
    except ValueError as e:
        raise ConfigError(f"quality model {file}: {e}") from e
    wanted = (label or use.get("label", "")).removeprefix("__label__")
    if wanted not in classifier.labels:
        raise ConfigError(
            f"quality model {file} has no label {wanted!r}", hint=f"label: one of {', '.join(classifier.labels)}"
        )
    knots = np.array(use["calibration"], np.float64) if use.get("calibration") else None
    form, most = FORMS[use.get("form", "plain")], int(use.get("bytes", _WHOLE))
    return QualityModel(classifier, classifier.labels.index(wanted), form, most, knots)
