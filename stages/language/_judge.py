"""Languages of texts by one fastText model, or by two whose judgements are combined.

With two models the probability of a label is proportional to ``prior * sqrt(p1) * p2``, both taken given the script of the
text. A label that one model does not have gets a constant from it. The constants and the one prior were chosen on a tenth
of the training data that the second model had not seen; `models/corpusflow.md` has the figures.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from corpusflow import ConfigError, storage_for
from stages.kernels.fasttext import FastText, load
from stages.kernels.languages import combine
from stages.kernels.sample import LETTERS
from stages.language._codes import UNDETERMINED, code_of
from stages.language._sample import take_samples
from stages.language._scripts import allowed, dominant

#: Indonesian and Malay often cannot be told apart by a sentence; the web holds several times more of the former.
_PRIORS: Final = {"id": 6.0}
_ROWS: Final = 4096  # at a time: probabilities of all labels take 4 bytes a row and label


@dataclass(frozen=True)
class Judgement:
    """What is known of n texts.

    Attributes:
        labels: int64 (n, 2): the best and second code as indexes of `Judge.codes`, -1 (which is `und`) for none.
        scores: float32 (n, 2): their calibrated probabilities, 0 where there is none.
        scripts: int64 (n,): rows of `_scripts.allowed`.
        facts: int32 (n, FACTS) of the samples.
    """

    labels: np.ndarray
    scores: np.ndarray
    scripts: np.ndarray
    facts: np.ndarray


@dataclass(frozen=True)
class Judge:
    """One or two models, ready to use.

    Attributes:
        models: the models.
        slots: for each, int64 (its labels,): the code each label stands for.
        codes: object array (m + 1,): all codes, `und` last.
        knows: bool (2, m): which model has which code.
        permitted: bool (scripts + 1, m) of `_scripts.allowed`.
        priors: float64 (m,).
    """

    models: tuple[FastText, ...]
    slots: tuple[np.ndarray, ...]
    codes: np.ndarray
    knows: np.ndarray
    permitted: np.ndarray
    priors: np.ndarray

    def judge(self, text: pa.Array, *, window: int, min_letters: int) -> Judgement:
        """Languages of a text column; a text of fewer letters than `min_letters` has none."""
        parts = [self._some(text.slice(i, _ROWS), window, min_letters) for i in range(0, max(len(text), 1), _ROWS)]
        fields = ("labels", "scores", "scripts", "facts")
        return Judgement(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))

    def _some(self, text: pa.Array, window: int, min_letters: int) -> Judgement:
        data, offsets, facts = take_samples(text, window, lower=True)
        scripts = dominant(facts)
        probabilities = [model.probabilities(data, offsets) for model in self.models]
        labels = np.empty((len(text), 2), np.int64)
        scores = np.empty((len(text), 2), np.float32)
        combine(
            probabilities[0], probabilities[-1], self.slots[0], self.slots[-1], len(self.models) > 1, self.knows,
            self.permitted, scripts, np.ascontiguousarray(facts[:, LETTERS]), min_letters, self.priors,
            np.empty((3, len(self.priors))), labels, scores,
        )  # fmt: skip
        return Judgement(labels, scores, scripts, facts)


def open_judge(model: str, second: str) -> Judge:
    """Load one model, or two if `second` is not empty.

    Raises:
        ConfigError: a file is missing or no fastText model.
    """
    models = tuple(load_model(name) for name in (model, second) if name)
    named = [[code_of(label) for label in m.labels] for m in models]
    codes = sorted({code for names in named for code in names})
    place = {code: i for i, code in enumerate(codes)}
    knows = np.array([[code in set(names) for code in codes] for names in (named[0], named[-1])])
    return Judge(
        models=models,
        slots=tuple(np.array([place[code] for code in names], np.int64) for names in named),
        codes=np.array([*codes, UNDETERMINED], object),
        knows=knows,
        permitted=allowed(codes),
        priors=np.array([_PRIORS.get(code, 1.0) if len(models) > 1 else 1.0 for code in codes]),
    )


def load_model(name: str) -> FastText:
    """A model by path, or by the name of one that lies beside this module."""
    path = name
    if not storage_for(path).exists(path):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", name)
    try:
        return load(storage_for(path).get(path))
    except FileNotFoundError as e:
        raise ConfigError(f"language model {name} does not exist") from e
    except ValueError as e:
        raise ConfigError(f"language model {name}: {e}", hint="give a fastText .ftz or .bin file") from e
