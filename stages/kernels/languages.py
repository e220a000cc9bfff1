"""From the probabilities of one or two language models to a language and a score that means something.

Plain multiplications, additions and square roots in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stages.kernels.jit import inlined, kernel

_FLOOR: Final = 1e-6
#: What a model that does not know a language is taken to have said of it.
_MISSING_FIRST: Final = 0.02
_MISSING_SECOND: Final = 0.003
#: A raw score of the combination means more the longer the text is. Of held-out words, pairs and sentences with up to so
#: many letters, and raw scores of so much, this share is right (a logistic fit in both; straight lines between).
_LETTERS: Final = np.array([15, 25, 40, 80, 160])
_RAW: Final = np.array([0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995, 1.0])
_RIGHT: Final = np.array(
    [
        [0.0, 0.108, 0.178, 0.217, 0.261, 0.314, 0.387, 0.506, 0.615, 0.738, 0.866, 0.985],
        [0.0, 0.147, 0.255, 0.312, 0.375, 0.449, 0.542, 0.675, 0.777, 0.871, 0.947, 0.996],
        [0.0, 0.188, 0.330, 0.403, 0.480, 0.565, 0.664, 0.787, 0.868, 0.932, 0.976, 0.999],
        [0.0, 0.241, 0.426, 0.512, 0.599, 0.686, 0.776, 0.875, 0.930, 0.968, 0.990, 1.0],
        [0.0, 0.318, 0.546, 0.640, 0.724, 0.801, 0.872, 0.937, 0.968, 0.987, 0.997, 1.0],
        [0.0, 0.390, 0.642, 0.734, 0.808, 0.870, 0.922, 0.965, 0.984, 0.994, 0.999, 1.0],
    ]
)


@inlined
def _calibrate(score: Any, letters: Any) -> Any:
    row = 0
    while row < _LETTERS.shape[0] and letters >= _LETTERS[row]:
        row += 1
    k = 1
    while k < _RAW.shape[0] - 1 and score > _RAW[k]:
        k += 1
    share = (score - _RAW[k - 1]) / (_RAW[k] - _RAW[k - 1])
    return _RIGHT[row, k - 1] + share * (_RIGHT[row, k] - _RIGHT[row, k - 1])


@kernel
def combine(
    first: Any, second: Any, first_slots: Any, second_slots: Any, two: Any, knows: Any, permitted: Any, group: Any,
    letters: Any, min_letters: Any, priors: Any, scratch: Any, labels: Any, scores: Any,
) -> None:  # fmt: skip
    """The best and second code of n texts.

    Args:
        first, second: float32 (n, labels): probabilities of the models; the same if `two` is False.
        first_slots, second_slots: int64 (labels,): codes of the labels; several labels of one code are added up.
        two: whether there are two models.
        knows: bool (2, m): which model has which code.
        permitted: bool (groups, m): codes that are possible in a group (a script).
        group: int64 (n,).
        letters, min_letters: int32 (n,): letters of each text; fewer than `min_letters` gives no code.
        priors: float64 (m,).
        scratch: float64 (3, m).
        labels, scores: int64 (n, 2), -1 for none; float32 (n, 2).
    """
    m = priors.shape[0]
    for row in range(labels.shape[0]):
        labels[row, 0] = -1
        labels[row, 1] = -1
        scores[row, 0] = 0
        scores[row, 1] = 0
        if letters[row] < min_letters:
            continue
        for c in range(m):
            scratch[0, c] = 0.0
            scratch[1, c] = 0.0
        for k in range(first.shape[1]):
            scratch[0, first_slots[k]] += first[row, k]
        if two:
            for k in range(second.shape[1]):
                scratch[1, second_slots[k]] += second[row, k]
        sum_first = 0.0
        sum_second = 0.0
        for c in range(m):
            if permitted[group[row], c]:
                sum_first += scratch[0, c]
                sum_second += scratch[1, c]
        total = 0.0
        best = -1
        runner = -1
        for c in range(m):
            if not permitted[group[row], c]:
                continue
            a = _MISSING_FIRST
            if knows[0, c]:
                a = scratch[0, c] / sum_first if sum_first > 0 else 0.0
            value = a
            if two:
                b = _MISSING_SECOND
                if knows[1, c]:
                    b = scratch[1, c] / sum_second if sum_second > 0 else 0.0
                value = priors[c] * np.sqrt(a + _FLOOR) * (b + _FLOOR)
            scratch[2, c] = value
            total += value
            if best < 0 or value > scratch[2, best]:
                runner = best
                best = c
            elif runner < 0 or value > scratch[2, runner]:
                runner = c
        if best < 0 or total <= 0:
            continue
        labels[row, 0] = best
        score = scratch[2, best] / total
        scores[row, 0] = _calibrate(score, letters[row]) if two else score
        if runner >= 0 and scratch[2, runner] > 0:
            labels[row, 1] = runner
            rest = scratch[2, runner] / total
            scores[row, 1] = min(rest, 1.0 - scores[row, 0]) if two else rest
