# mypy: allow-untyped-calls
"""Training and measuring the model that tells main text from the rest of a page.

    python -m stages.ingest._train_main_text DATA [--measure] [--write]

Reads labelled pages below DATA: extraction/scrapinghub, extraction/newspaper4k (page and article body), extraction/readability
(page and expected article), and pages of documentation (warc/docs-00.warc.gz, labelled where two extractors whose text is in
parity/text.parquet agree). With --measure, prints the score of five seeded two-fold swaps of scrapinghub, each half tested by
a model trained on the other half and the other sets; with --write, trains on everything and writes models/main_text.json.

The score is that of the benchmark (github.com/scrapinghub/article-extraction-benchmark): 4-gram shingles of words, multiset
precision and recall averaged over pages, F1 of the averages.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from corpusflow import storage_for
from stages.ingest._main_text import MODEL, Model, Reader
from stages.ingest.warc import Warc
from stages.kernels.block_features import FEATURES
from stages.kernels.charset import decode
from stages.kernels.trees import ONE, Trees, as_json, evaluate, from_json, grow

_WORD: Final = re.compile(r"\w+")
_SWAPS: Final = 5
_GROWTH: Final[dict[str, Any]] = {"trees": 100, "leaves": 24, "rate": 0.1, "column_share": 0.25}
#: Scores above are kept: log-odds of 0.55, and of 0.25 where hardly anything is.
_THRESHOLD: Final = round(math.log(0.55 / 0.45) * ONE)
_SECOND: Final = round(math.log(0.25 / 0.75) * ONE)
#: Pages of one documentation package that are trained on, and what each counts against a news page.
_DOCS_PAGES: Final = 40
_DOCS_WEIGHT: Final = 0.6
#: Blocks are taken apart without being judged.
_EMPTY: Final = Model(from_json({"features": FEATURES, "roots": [], "node": [], "threshold": [], "bias": 0}, FEATURES))


@dataclass
class Example:
    """A labelled page: block features and labels, `known` where there is a label, words per block, and the true text."""

    features: np.ndarray
    labels: np.ndarray
    known: np.ndarray
    words: np.ndarray
    lines: list[str]
    truth: str
    weight: float = 1.0


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """Multiset of 4-grams of words; of a shorter text, itself."""
    words = _WORD.findall(text)
    return Counter(tuple(words[i : i + 4]) for i in range(max(1, len(words) - 3))) if words else Counter()


def precision_recall(found: str, truth: str) -> tuple[float, float]:
    """Of one page; (1, 1) if both are empty."""
    a, b = shingles(found), shingles(truth)
    common = (a & b).total()
    if not a and not b:
        return 1.0, 1.0
    return (common / a.total() if a else 0.0), (common / b.total() if b else 0.0)


def label(lines: Sequence[str], truth: str) -> tuple[np.ndarray, np.ndarray]:
    """(labels, words) of blocks: 1 where half of a block's 4-grams are in the truth.

    A block of under four words counts if the truth has these words in this order and a longer block nearby is in it.
    """
    grams = set(shingles(truth))
    joined = f" {' '.join(_WORD.findall(truth))} "
    labels = np.zeros(len(lines), np.int64)
    words = np.zeros(len(lines), np.int64)
    for i, line in enumerate(lines):
        w = _WORD.findall(line)
        words[i] = len(w)
        if len(w) >= 4:
            own = [tuple(w[k : k + 4]) for k in range(len(w) - 3)]
            labels[i] = sum(g in grams for g in own) >= 0.5 * len(own)
        elif w:
            labels[i] = f" {' '.join(w)} " in joined
    long = (labels == 1) & (words >= 4)
    for i in np.flatnonzero((labels == 1) & (words < 4)).tolist():
        labels[i] = long[max(0, i - 3) : i + 4].any()
    return labels, words


def example(reader: Reader, raw: bytes, truth: str) -> Example:
    """A page with the true text."""
    n, made = reader.take_apart(decode(raw)[0].encode("utf-8", "replace"))
    features = np.vstack([f.copy() for _, f in reader.described(n, made)] or [np.zeros((0, len(FEATURES)), np.float32)])
    lines = reader.lines(n)
    labels, words = label(lines, truth)
    return Example(features, labels, np.ones(n, np.bool_), words, lines, truth)


def articles(root: str, name: str) -> list[Example]:
    """Pages of scrapinghub or newspaper4k, by key."""
    folder = f"{root}/extraction/{name}"
    storage = storage_for(folder)
    reader = Reader(_EMPTY)
    truths = json.loads(storage.get(f"{folder}/ground-truth.json"))
    pages = ((f"{folder}/html/{key}.html.gz", truth["articleBody"]) for key, truth in sorted(truths.items()))
    return [example(reader, gzip.decompress(storage.get(p)), t) for p, t in pages if storage.exists(p)]


def readable(root: str) -> list[Example]:
    """Pages of readability, whose expected result is HTML."""
    folder = f"{root}/extraction/readability"
    storage = storage_for(folder)
    reader = Reader(_EMPTY)
    found = []
    for item in storage.walk(folder):
        if item.path.endswith("/source.html.gz"):
            expected = item.path.replace("/source.html.gz", "/expected.html.gz")
            n, _ = reader.take_apart(gzip.decompress(storage.get(expected)))
            truth = "\n".join(reader.lines(n))
            found.append(example(reader, gzip.decompress(storage.get(item.path)), truth))
    return found


def documentation(root: str) -> list[Example]:
    """Some pages of each package in docs-00, labelled where two extractors agree."""
    table = pq.read_table(f"{root}/parity/text.parquet", columns=["url", "text", "text_resiliparse"])
    texts = {r["url"]: (r["text"] or "", r["text_resiliparse"] or "") for r in table.to_pylist()}
    by_package: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
    source = Warc(paths=(f"{root}/warc/docs-00.warc.gz",))
    for split in source.splits():
        for batch in source.read(split):
            for url, raw in zip(batch.column("url").to_pylist(), batch.column("raw").to_pylist(), strict=True):
                if raw and url in texts:
                    by_package[re.sub(r"(-[a-z]{2}){0,2}\.test$", "", url.split("/")[2])].append((url, raw))
    reader = Reader(_EMPTY)
    found = []
    for _, pages in sorted(by_package.items()):
        for url, raw in random.Random(5).sample(pages, min(_DOCS_PAGES, len(pages))):
            one, two = texts[url]
            page = example(reader, raw, one)
            other, _ = label(page.lines, two)
            page.known = page.labels == other
            page.weight = _DOCS_WEIGHT
            found.append(page)
    return found


def fit(examples: Iterable[Example], seed: int = 0) -> Trees:
    """Train on pages. A page's blocks count by their share of its true words, so that every page counts alike."""
    features, labels, weights = [], [], []
    for e in examples:
        if e.known.any():
            true_words = e.words[e.known & (e.labels == 1)].sum()
            features.append(e.features[e.known])
            labels.append(e.labels[e.known])
            weights.append(np.minimum((e.words[e.known] + 2) / (true_words + 50), 0.3) * e.weight)
    weight = np.concatenate(weights)
    return grow(np.vstack(features), np.concatenate(labels), weight / weight.mean(), seed=seed, **_GROWTH)


def measure(trees: Trees, examples: Sequence[Example]) -> tuple[float, float]:
    """Mean precision and recall over pages."""
    found = []
    for e in examples:
        scores = np.zeros(len(e.lines), np.int32)
        evaluate(e.features, len(e.lines), *trees, _THRESHOLD, scores)
        threshold = _THRESHOLD if e.words[scores > _THRESHOLD].sum() >= 20 else _SECOND
        kept = "\n".join(line for line, s in zip(e.lines, scores, strict=True) if s > threshold)
        found.append(precision_recall(kept, e.truth))
    precision, recall = np.mean(found, axis=0)
    return float(precision), float(recall)


def two_folds(
    tested: Sequence[Example], others: Sequence[Example], swaps: int = _SWAPS
) -> list[tuple[float, float, float]]:
    """(precision, recall, F1) of each half, tested by a model trained on the other half and `others`."""
    results = []
    for swap in range(swaps):
        order = list(tested)
        random.Random(swap).shuffle(order)
        halves = order[::2], order[1::2]
        for train, test in (halves, halves[::-1]):
            p, r = measure(fit([*train, *others]), test)
            results.append((p, r, 2 * p * r / (p + r)))
    return results


def main(root: str, *flags: str) -> None:
    """See the module's docstring."""
    tested = articles(root, "scrapinghub")
    others = [*articles(root, "newspaper4k"), *readable(root), *documentation(root)]
    if "--measure" in flags:
        results = two_folds(tested, others)
        mean = np.mean(results, axis=0)
        lines = [f"P {p:.4f}  R {r:.4f}  F1 {f:.4f}" for p, r, f in results]
        lines.append(f"mean of {len(results)} halves: P {mean[0]:.4f}  R {mean[1]:.4f}  F1 {mean[2]:.4f}")
        sys.stdout.write("\n".join(lines) + "\n")
    if "--write" in flags:
        trees = as_json(fit([*tested, *others]), FEATURES)
        data = {"keep_above": _THRESHOLD, "keep_above_if_few": _SECOND, "trees": trees}
        storage_for(MODEL).replace(MODEL, json.dumps(data, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
