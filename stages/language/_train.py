"""Training and measuring language models: what `corpusflow train language` and `corpusflow eval language` do."""

from __future__ import annotations

import collections
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from corpusflow import ConfigError, storage_for
from stages.kernels.buffers import text_column
from stages.labelled import read_labelled
from stages.language._codes import code_of
from stages.language._judge import load_model
from stages.language._sample import take_samples

_WINDOW: Final = 500
_CHUNK: Final = 4096


def read_sentences(paths: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(language, kind, text) of JSONL files (also .gz) with `lang`, `text` and, where rows are of several kinds, `kind`.

    Raises:
        ConfigError: a line is not such an object.
    """
    return read_labelled(
        paths,
        "`lang` and `text`",
        lambda row: (code_of(f"{row['lang']}_"), str(row.get("kind", "")), str(row["text"])),
    )


def samples(texts: Sequence[str]) -> list[str]:
    """Texts as the models see them."""
    out: list[str] = []
    for i in range(0, len(texts), _CHUNK):
        data, offsets, _ = take_samples(pa.array(texts[i : i + _CHUNK], pa.large_string()), _WINDOW, lower=True)
        out += text_column(data, offsets).to_pylist()
    return out


def codes_of(model: str) -> frozenset[str]:
    """What a model tells apart."""
    return frozenset(code_of(label) for label in load_model(model).labels)


def training_rows(
    labelled: Iterator[tuple[str, str, str]], known: frozenset[str], only: bool, pieces: int, seed: int
) -> list[tuple[str, str]]:
    """(language, text): sentences and words as they come; of languages that have paragraphs only, pieces of them too.

    Args:
        known: languages wanted; empty for all.
        only: leave out others even if they have two-letter codes.
        pieces: pieces of paragraphs a language, at most.
    """
    rng = random.Random(seed)
    rows: list[tuple[str, str]] = []
    paragraphs: dict[str, list[str]] = collections.defaultdict(list)
    short: set[str] = set()
    for language, kind, text in labelled:
        if known and language not in known and (only or len(language) != 2):
            continue
        if kind:
            rows.append((language, text))
            short.add(language)
        elif len(text) > 12:
            paragraphs[language].append(text)
    for language in sorted(paragraphs):
        rows += [(language, text) for text in paragraphs[language]]
        if language in short:
            continue
        rows += [(language, text) for text in paragraphs[language]]
        cut = [piece for text in paragraphs[language] for piece in _pieces(text, rng)]
        rng.shuffle(cut)
        rows += [(language, piece) for piece in cut[:pieces]]
    rng.shuffle(rows)
    return rows


def _pieces(text: str, rng: random.Random) -> Iterator[str]:
    yield text
    words = text.split()
    for _ in range(10):
        if len(words) > 1:
            size = rng.choice((1, 2, 2, 4, 8))
            start = rng.randrange(max(1, len(words) - size + 1))
            yield " ".join(words[start : start + size])
        else:
            size = rng.choice((4, 8, 16))
            start = rng.randrange(max(1, len(text) - size))
            yield text[start : start + size]


def train_fasttext(rows: Sequence[tuple[str, str]], out: str, features: int, **settings: Any) -> dict[str, Any]:
    """Train a classifier on (label, single line of text) and store it quantised, keeping `features` rows.

    Raises:
        ConfigError: the library is missing.
    """
    try:
        import fasttext
    except ModuleNotFoundError as e:
        raise ConfigError("training needs the fasttext library", hint="pip install fasttext-community") from e
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.txt")
        with storage_for(path).create(path) as f:
            f.write("".join(f"__label__{label} {text}\n" for label, text in rows if text.strip()).encode())
        # One thread: fastText's threads write over each other, so a second training would give another model.
        model = fasttext.train_supervised(path, thread=1, verbose=0, minCount=1, **settings)
        model.quantize(path, cutoff=features, retrain=True, qnorm=True, epoch=5, lr=0.3, thread=1, verbose=0)
        small = os.path.join(folder, "model.ftz")
        model.save_model(small)
        data = storage_for(small).get(small)
    storage_for(out).replace(out, data)
    labels = collections.Counter(label for label, _ in rows)
    return {"out": out, "bytes": len(data), "rows": len(rows), "labels": len(labels)}


def report(truth: Sequence[str], batch: pa.RecordBatch, texts: Sequence[str]) -> dict[str, Any]:
    """Accuracy by language, what is taken for what, whether scores mean what they say, and the worst mistakes."""
    codes = batch.column("language.code").to_pylist()
    scores = np.asarray(batch.column("language.score"), np.float64)
    right = np.array([a == b for a, b in zip(truth, codes, strict=True)])
    languages = sorted(set(truth))
    of = {language: np.array([t == language for t in truth]) for language in languages}
    accuracy = {language: float(right[of[language]].mean()) for language in languages}
    confusion = collections.Counter((a, b) for a, b in zip(truth, codes, strict=True) if a != b)
    worst = sorted(np.flatnonzero(~right).tolist(), key=lambda i: -scores[i])[:20]
    return {
        "documents": len(truth),
        "accuracy": float(right.mean()),
        "macro_accuracy": float(np.mean(list(accuracy.values()))),
        "by_language": {language: round(a, 4) for language, a in sorted(accuracy.items(), key=lambda x: x[1])},
        "confusion": [{"true": a, "taken_for": b, "times": n} for (a, b), n in confusion.most_common(30)],
        "calibration": _calibration(scores, right),
        "worst": [
            {"true": truth[i], "taken_for": codes[i], "score": round(float(scores[i]), 4), "text": texts[i][:120]}
            for i in worst
        ],
    }


def _calibration(scores: np.ndarray, right: np.ndarray) -> list[dict[str, float]]:
    """Of the documents scored in each tenth, how many are right."""
    out = []
    for low in np.arange(0, 10) / 10:
        inside = (scores >= low) & ((scores < low + 0.1) | (low > 0.85))
        if inside.any():
            row = {"documents": int(inside.sum()), "mean_score": float(scores[inside].mean())}
            out.append({**row, "accuracy": float(right[inside].mean())})
    return out
