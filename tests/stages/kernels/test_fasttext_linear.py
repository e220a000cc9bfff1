"""Classifiers of two classes as sums of integers: the library's probabilities, whatever was remembered before."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stages.kernels.buffers import text_buffers
from stages.kernels.fasttext import FastText, load
from stages.kernels.fasttext_linear import Linear, linear

fasttext = pytest.importorskip("fasttext")

_WORDS = (
    "river",
    "rose",
    "night",
    "lower",
    "road",
    "water",
    "morning",
    "nobody",
    "expected",
    "河",
    "水",
    "上",
    "дорога",
    "ö",
)
_ODD = [
    "", "x", "  two  spaces ", "é" * 11 + "a", "é" * 12, "a" * 23, "a" * 24, "a" * 24 + "b", "a" * 5000, "a\0b a", "👩\u200d🔬",
]  # fmt: skip


def _lines(count: int, seed: int) -> list[tuple[str, str]]:
    """Of two classes: the second half of the words is likelier in one of them."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        label = rng.choice(("ok", "toxic"))
        weights = [3 if (k < 7) == (label == "ok") else 1 for k in range(len(_WORDS))]
        lines.append((label, " ".join(rng.choices(_WORDS, weights, k=rng.randint(1, 12)))))
    return lines


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("linear") / "train.txt"
    path.write_text("".join(f"__label__{k} {t}\n" for k, t in _lines(1000, 1)), encoding="utf-8")
    return str(path)


def _model(corpus: str, folder: Path, quantised: bool, **settings: object) -> FastText:
    theirs = fasttext.train_supervised(corpus, epoch=10, lr=0.5, dim=10, bucket=5_000, thread=1, verbose=0, **settings)
    if quantised:
        theirs.quantize(corpus, cutoff=300, retrain=True, qnorm=True, thread=1, verbose=0)
    theirs.save_model(str(folder / "model"))
    return load((folder / "model").read_bytes())


def _probabilities(model: FastText | Linear, texts: list[str]) -> np.ndarray:
    offsets, data, _ = text_buffers(pa.array(texts, pa.large_string()))
    return model.probabilities(data, offsets)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize(("minn", "maxn", "words"), [(2, 5, 2), (1, 3, 1), (0, 0, 3)])
def test_same_probabilities_as_the_general_kernel(
    corpus: str, tmp_path: Path, minn: int, maxn: int, words: int, quantised: bool
) -> None:
    model = _model(corpus, tmp_path, quantised, minn=minn, maxn=maxn, wordNgrams=words)
    fast = linear(model, "toxic")
    assert fast is not None
    texts = [text for _, text in _lines(300, 2)] + _ODD
    expected = _probabilities(model, texts)[:, model.labels.index("toxic")]
    assert expected.std() > 0.1
    assert _probabilities(fast, texts) == pytest.approx(expected, abs=1e-5)


def test_what_is_remembered_changes_nothing(corpus: str, tmp_path: Path) -> None:
    fast = linear(_model(corpus, tmp_path, False, minn=2, maxn=4, wordNgrams=2), "toxic")
    assert fast is not None
    # More words than are remembered, so that most slots are taken several times; prefixes of each other among them.
    rng = random.Random(4)
    words = ["".join(rng.choices("abcdeé河", k=rng.randint(1, 20))) for _ in range(30_000)]
    words += [word[:k] for word in words[:200] for k in range(1, len(word))]
    texts = [" ".join(rng.choices(words, k=20)) for _ in range(2_000)] + _ODD
    together = _probabilities(fast, texts)
    assert (_probabilities(fast, texts[::-1])[::-1] == together).all()
    for i in range(0, len(texts), 50):
        assert (_probabilities(fast, [texts[i]])[0] == together[i]).all()


def test_other_models_have_no_such_form(corpus: str, tmp_path: Path) -> None:
    assert linear(_model(corpus, tmp_path, False, loss="hs"), "toxic") is None
