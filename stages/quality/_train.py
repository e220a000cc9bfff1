"""Training and measuring a quality model."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from corpusflow import ConfigError, storage_for
from stages.kernels.buffers import TextBuffers, text_buffers
from stages.kernels.fasttext import load
from stages.kernels.flatten import MARKED, flatten
from stages.quality._calibrate import isotonic, measure
from stages.quality._model import QualityModel, read
from stages.quality._spoil import spoil

GOOD: Final = "good"
BAD: Final = "bad"


def train(
    *,
    positive: Iterator[str],
    negative: Iterator[str] | None = None,
    out: str,
    spoiled: float = 1.0,
    bytes_per_text: int = 20_000,
    dim: int = 16,
    epochs: int = 10,
    learning_rate: float = 0.3,
    word_ngrams: int = 2,
    min_n: int = 2,
    max_n: int = 4,
    buckets: int = 200_000,
    features: int = 60_000,
    seed: int = 7,
) -> dict[str, Any]:
    """Train a model that tells good texts from bad ones, and write it with its card to a folder.

    A text's hash decides whether it is trained on (70 %), calibrated with (15 %) or measured on (15 %).

    Args:
        positive: good texts.
        negative: bad texts.
        out: folder to write model.ftz and card.json to; refused if it holds a model.
        spoiled: bad texts made from each good one (menus, keyword spam, mojibake, boilerplate), besides `negative`.
        bytes_per_text: how much of the beginning of a text is looked at.
        dim: size of the vectors.
        epochs: passes over the texts.
        learning_rate: of the first step.
        word_ngrams: longest run of words that is a feature.
        min_n: shortest run of characters that is a feature.
        max_n: longest run of characters that is a feature.
        buckets: features that hash to one bucket are one.
        features: how many are kept in the stored model.
        seed: of the spoiling and of the training.

    Returns:
        The card: texts, parameters, measured quality on texts the training never saw.

    Raises:
        ConfigError: no texts, `out` taken, or the fasttext library missing.
    """
    model_path, card_path = os.path.join(out, "model.ftz"), os.path.join(out, "card.json")
    if storage_for(model_path).exists(model_path):
        raise ConfigError(f"{model_path} exists already", hint="choose another --out, or remove it")
    rows = _rows(positive, negative, spoiled, seed)
    parts = [[r for r in rows if low <= _draw(r[1], seed) < high] for low, high in ((0, 70), (70, 85), (85, 100))]
    if any({label for label, _, _ in part} != {GOOD, BAD} for part in parts):
        raise ConfigError("not enough texts to train on", hint="some dozens of good and of bad ones at least")
    fit, tune, test = parts
    lines = [f"__label__{label} {line}\n" for (label, _, _), line in zip(fit, _lines(fit, bytes_per_text), strict=True)]
    settings = {
        "dim": dim, "epoch": epochs, "lr": learning_rate, "wordNgrams": word_ngrams, "minn": min_n, "maxn": max_n,
        "bucket": buckets, "seed": seed,
    }  # fmt: skip
    data = _fasttext(lines, features, settings)
    plain = QualityModel(classifier := load(data), classifier.labels.index(GOOD), MARKED, bytes_per_text, None)
    table = isotonic(_scores(plain, tune), _truth(tune))
    calibrated = QualityModel(classifier, plain.label, MARKED, bytes_per_text, np.array(table))
    card = {
        "use": {"label": GOOD, "form": "marked", "bytes": bytes_per_text, "calibration": table},
        "texts": {name: _count(part) for name, part in (("trained", fit), ("calibrated", tune), ("measured", test))},
        "parameters": {**settings, "features": features, "spoiled": spoiled},
        "measured": measure(_scores(calibrated, test), _truth(test)),
        "recall_by_kind": _by_kind(_scores(calibrated, test), test),
        "bytes": len(data),
    }
    storage_for(model_path).put_exclusive(model_path, data)
    storage_for(card_path).replace(card_path, json.dumps(card, indent=1, ensure_ascii=False).encode())
    return card


def evaluate(
    *, positive: Iterator[str], negative: Iterator[str], model: str, label: str | None = None
) -> dict[str, Any]:
    """Measure a model on texts known to be good and bad.

    Args:
        positive: good texts.
        negative: bad texts.
        model: folder or file.
        label: which of the model's labels means good; default: what its card says.
    """
    rows = [(GOOD, t, "") for t in positive] + [(BAD, t, "") for t in negative]
    return measure(_scores(read(model, label), rows), _truth(rows))


#: (label, text, how it was made)
Row = tuple[str, str, str]


def _rows(positive: Iterator[str], negative: Iterator[str] | None, spoiled: float, seed: int) -> list[Row]:
    """All texts once, in an order that depends on their content alone."""
    good = dict.fromkeys(t for t in positive if t.strip())
    rows: list[Row] = [(GOOD, text, "given") for text in good]
    for text in good:
        times = int(spoiled) + (_draw(text, seed + 1) < 100 * (spoiled % 1))
        for k in range(times):
            way, bad = spoil(text, seed + k)
            rows.append((BAD, bad, way))
    rows += [(BAD, text, "given") for text in dict.fromkeys(negative or ()) if text.strip() and text not in good]
    return sorted(rows, key=lambda r: (xxhash.xxh3_128_digest(r[1].encode("utf-8", "replace"), seed), r[0]))


def _draw(text: str, seed: int) -> int:
    """0 … 99 by the text's content."""
    return int(xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace"), seed) % 100)


def _lines(rows: Sequence[Row], most: int) -> list[str]:
    data, offsets = flatten(_buffers(rows), most, MARKED)
    raw = data.tobytes()
    return [raw[a:b].decode("utf-8", "replace") for a, b in itertools.pairwise(offsets)]


def _buffers(rows: Sequence[Row]) -> TextBuffers:
    return text_buffers(pa.array([t.encode("utf-8", "replace").decode() for _, t, _ in rows], pa.large_string()))


def _scores(model: QualityModel, rows: Sequence[Row]) -> np.ndarray:
    return model.scores(_buffers(rows)).astype(np.float64)


def _truth(rows: Sequence[Row]) -> np.ndarray:
    return np.array([label == GOOD for label, _, _ in rows])


def _count(rows: Sequence[Row]) -> dict[str, int]:
    return {label: sum(r[0] == label for r in rows) for label in (GOOD, BAD)}


def _by_kind(scores: np.ndarray, rows: Sequence[Row]) -> dict[str, float]:
    """Of the bad texts of each kind, the share scored below 0.5; of the good ones, the share scored 0.5 or more."""
    found = {}
    for label, kind in sorted({(label, kind) for label, _, kind in rows}):
        inside = np.array([(r[0], r[2]) == (label, kind) for r in rows])
        right = scores[inside] >= 0.5 if label == GOOD else scores[inside] < 0.5
        found[f"{label}: {kind}"] = round(float(right.mean()), 4)
    return found


def _fasttext(lines: Sequence[str], features: int, settings: dict[str, Any]) -> bytes:
    try:
        import fasttext
    except ModuleNotFoundError as e:
        raise ConfigError("training needs the fasttext library", hint="pip install fasttext-community") from e
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.txt")
        storage_for(path).put_exclusive(path, "".join(lines).encode())
        # One thread: fastText's threads write over each other, and a second training would give another model.
        model = fasttext.train_supervised(path, thread=1, verbose=0, minCount=2, **settings)
        model.quantize(path, cutoff=features, retrain=True, qnorm=True, epoch=3, lr=0.1, thread=1, verbose=0)
        small = os.path.join(folder, "model.ftz")
        model.save_model(small)
        return storage_for(small).get(small)
