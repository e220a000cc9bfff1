"""Training and measuring the toxicity classifier: what `corpusflow train toxicity` and `eval toxicity` do."""

from __future__ import annotations

import collections
import html
import os
import random
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from corpusflow import ConfigError, storage_for
from stages.kernels.buffers import text_buffers, text_column
from stages.kernels.plain_words import plain_lines, plain_table
from stages.kernels.wordlist import CATEGORIES
from stages.labelled import read_labelled
from stages.toxicity._lists import read_list

_CHUNK: Final = 4096
_PARAGRAPH: Final = 900  # characters
_LEAST_BYTES: Final = 40  # words and titles teach nothing
_PER_DOCUMENT: Final = 200  # paragraphs of one document, so that no novel outweighs a corpus of short texts


def read_rows(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Objects of JSONL files, unpacked where they end in .gz.

    Raises:
        ConfigError: a line is not an object with `text`.
    """
    return read_labelled(paths, "`text`", lambda row: {**row, "text": str(row["text"])})


def labelled(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Objects of JSONL files with `text` and `toxic`, a bool.

    Raises:
        ConfigError: a line is not such an object.
    """
    return read_labelled(paths, "`text` and `toxic`", _labelled)


def _labelled(row: dict[str, Any]) -> dict[str, Any]:
    text, toxic = str(row["text"]), row["toxic"]
    if toxic not in (0, 1):  # "false" would be true
        raise ValueError(f"`toxic` must be true or false, got {toxic!r}")
    return {**row, "text": text, "toxic": bool(toxic)}


def held_out(text: str, holdout: int) -> bool:
    """Whether a text is for measuring only."""
    return holdout > 0 and zlib.crc32(text.encode()) % holdout == 0


def labelled_rows(paths: Sequence[str], holdout: int, without_source: str) -> list[tuple[str, bool]]:
    """(text, toxic) of the training part."""
    return [
        (_undo_export(row["text"]), bool(row["toxic"]))
        for row in labelled(paths)
        if not held_out(row["text"], holdout) and (not without_source or row.get("source") != without_source)
    ]


def _undo_export(text: str) -> str:
    """What collections of tweets do to text, and pages do not have."""
    return html.unescape(text).replace("|LBR|", "\n")


def ordinary_rows(paths: Sequence[str]) -> list[tuple[str, bool]]:
    """Paragraphs of every second document, as negatives; the other half is for measuring false alarms."""
    rows: list[tuple[str, bool]] = []
    for row in read_rows(paths):
        if zlib.crc32(str(row.get("id") or row["text"]).encode()) % 2:
            paragraphs = [p for p in _paragraphs(row["text"]) if len(p.encode()) >= _LEAST_BYTES]
            rows += [(paragraph, False) for paragraph in paragraphs[:_PER_DOCUMENT]]
    return rows


def _paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for line in text.split("\n"):
        if lines and size + len(line) > 600:
            yield "\n".join(lines)[:_PARAGRAPH]
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    yield "\n".join(lines)[:_PARAGRAPH]


_FRAMES: Final = (
    "【{a}】{b}官网_{c}_{a}app下载_最新{b}网址", "{a}-{b}-{c}，{a}{b}在线观看，免费{c}", "{a}|{b}|{c}|{d}|最新{a}|{b}大全",
    "欢迎来到{a}，本站提供{b}、{c}、{d}等内容，立即注册", "{a}{b}{c}{d}，每日更新{a}，{b}在线播放",
    "{a} {b} {c} {d} 联系客服 {a}",
)  # fmt: skip


def advertisements(count: int, seed: int) -> list[tuple[str, bool]]:
    """Pages of Chinese adult and gambling advertising, made up of list terms as such pages are."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lists", "curated", "zh.txt")
    entries = read_list(path, storage_for(path).get(path).decode(), 0)
    rng = random.Random(seed)
    pages = []
    for _ in range(count):
        kind = CATEGORIES.index(rng.choice(("sexual", "gambling", "gambling", "spam")))
        terms = [e.term for e in entries if e.category == kind and e.weight >= 2]
        lines = [
            rng.choice(_FRAMES).format(**dict(zip("abcd", rng.sample(terms, 4), strict=True)))
            for _ in range(rng.randint(1, 4))
        ]
        pages.append(("\n".join(lines), True))
    return pages


def plain(texts: Sequence[str]) -> list[str]:
    """Texts as the classifier reads them."""
    out: list[str] = []
    for i in range(0, len(texts), _CHUNK):
        offsets, data, _ = text_buffers(pa.array(texts[i : i + _CHUNK], pa.large_string()))
        lines = np.empty(2 * int(offsets[-1]) + 16, np.uint8)
        line_offsets = np.empty(len(offsets), np.int64)
        plain_lines(data, offsets[:-1].copy(), offsets[1:].copy(), plain_table(), lines, line_offsets)
        out += text_column(lines[: line_offsets[-1]], line_offsets).to_pylist()
    return out


def train(
    rows: Sequence[tuple[str, bool]], out: str, features: int, seed: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Train and store a quantised classifier.

    Raises:
        ConfigError: the library is missing.
    """
    try:
        import fasttext
    except ModuleNotFoundError as e:
        raise ConfigError("training needs the fasttext library", hint="pip install fasttext-community") from e
    shuffled = list(zip(plain([text for text, _ in rows]), (toxic for _, toxic in rows), strict=True))
    random.Random(seed).shuffle(shuffled)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.txt")
        lines = [f"__label__{'toxic' if toxic else 'ok'} {text}\n" for text, toxic in shuffled if text]
        with storage_for(path).create(path) as f:
            f.write("".join(lines).encode())
        # One thread: fastText's threads write over each other, so a second training would give another model.
        model = fasttext.train_supervised(path, thread=1, verbose=0, **settings)
        model.quantize(path, cutoff=features, retrain=True, qnorm=True, epoch=3, lr=0.05, thread=1, verbose=0)
        small = os.path.join(folder, "model.ftz")
        model.save_model(small)
        data = storage_for(small).get(small)
    storage_for(out).replace(out, data)
    counts = collections.Counter(toxic for _, toxic in shuffled)
    return {"out": out, "bytes": len(data), "toxic": counts[True], "ordinary": counts[False]}


def evaluation_rows(paths: Sequence[str], holdout: int, source: str) -> list[dict[str, Any]]:
    """Rows to measure on: of the held-out part only texts that training cannot have seen."""
    rows = [row for row in labelled(paths) if not source or row.get("source") == source]
    if holdout:
        seen = {row["text"] for row in rows if not held_out(row["text"], holdout)}
        rows = [row for row in rows if held_out(row["text"], holdout) and row["text"] not in seen]
    for row in rows:
        row["text"] = _undo_export(row["text"])
    return rows


def report(rows: Sequence[Mapping[str, Any]], scores: np.ndarray, threshold: float) -> dict[str, Any]:
    """AUC over all, by language and by source, with what the threshold makes of them; other thresholds; the worst mistakes."""
    toxic = np.array([bool(row["toxic"]) for row in rows], np.bool_)
    by: dict[str, dict[str, Any]] = {"lang": {}, "source": {}}
    for key, table in by.items():
        for value in sorted({str(row.get(key, "")) for row in rows}):
            inside = np.array([str(row.get(key, "")) == value for row in rows])
            table[value] = _confusion(scores[inside], toxic[inside], threshold)
    order = np.argsort(np.where(toxic, 1 - scores, scores), kind="stable")[::-1][:20]
    worst = [
        {"toxic": bool(toxic[i]), "score": round(float(scores[i]), 4), "text": rows[i]["text"][:120]} for i in order
    ]
    return {
        **_confusion(scores, toxic, threshold),
        "threshold": threshold,
        "by_language": by["lang"],
        "by_source": by["source"],
        "thresholds": [{"over": limit, **_shares(scores > limit, toxic)} for limit in (0.3, 0.5, 0.7, 0.8, 0.9)],
        "worst": worst,
    }


def _confusion(scores: np.ndarray, toxic: np.ndarray, threshold: float) -> dict[str, Any]:
    flagged = scores > threshold
    return {
        "texts": len(scores),
        "auc": auc(scores, toxic),
        "toxic_flagged": int((flagged & toxic).sum()),
        "toxic_kept": int((~flagged & toxic).sum()),
        "other_flagged": int((flagged & ~toxic).sum()),
        "other_kept": int((~flagged & ~toxic).sum()),
    }


def _shares(flagged: np.ndarray, toxic: np.ndarray) -> dict[str, float | None]:
    """Precision and recall, None where there is nothing to take a share of."""
    right, found, all_ = int((flagged & toxic).sum()), int(flagged.sum()), int(toxic.sum())
    return {"precision": right / found if found else None, "recall": right / all_ if all_ else None}


def auc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """Area under the ROC curve, ties counting half; None where all are of one kind."""
    n = int(positive.sum())
    if n in (0, len(positive)):
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[inverse]
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(positive) - n)))
