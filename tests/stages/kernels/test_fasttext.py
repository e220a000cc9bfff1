"""The fastText kernel against the library, on models of every kind trained here."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numba import njit

from stages.kernels.buffers import text_buffers
from stages.kernels.fasttext import FastText, load
from stages.kernels.fasttext_math import exp

fasttext = pytest.importorskip("fasttext")

_SENTENCES = {
    "en": "the river rose in night and lower road was under water by morning nobody had expected it so soon",
    "de": "der fluss stieg in nacht und die untere straße stand am morgen unter wasser niemand hatte es erwartet",
    "zh": "昨夜 河水 上涨 清晨 道路 已被 淹没 村民们 学校 停课",
    "ru": "река поднялась ночью и к утру нижняя дорога оказалась под водой школа была закрыта",
}
_WORDS = {language: sentence.split() for language, sentence in _SENTENCES.items()}
_ODD = ["", "x", "  two  spaces ", "mixed der river 河水", "é" * 50, "👩\u200d🔬", "a" * 5000]


def _lines(count: int, seed: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    languages = sorted(_WORDS)
    return [
        (k, " ".join(rng.choices(_WORDS[k], k=rng.randint(1, 12))))
        for k in rng.choices(languages, (8, 4, 2, 1), k=count)
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("fasttext") / "train.txt"
    path.write_text("".join(f"__label__{k} {t}\n" for k, t in _lines(2000, 1)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("settings", "quantised"),
    [
        ({"loss": "hs", "minn": 2, "maxn": 4}, False),
        ({"loss": "hs", "minn": 1, "maxn": 4}, True),
        ({"loss": "softmax", "minn": 2, "maxn": 5, "wordNgrams": 2}, False),
        ({"loss": "softmax", "minn": 2, "maxn": 3, "wordNgrams": 3}, True),
        ({"loss": "softmax", "minn": 0, "maxn": 0}, False),
        ({"loss": "ova", "minn": 3, "maxn": 3}, False),
        ({"loss": "ns", "minn": 0, "maxn": 0, "wordNgrams": 2}, False),
    ],
)
def test_same_labels_and_probabilities_as_the_library(
    corpus: str, tmp_path: Path, settings: dict[str, object], quantised: bool
) -> None:
    dim = 10 if quantised else 16
    theirs = fasttext.train_supervised(corpus, dim=dim, epoch=3, bucket=20_000, thread=1, verbose=0, **settings)
    if quantised:
        theirs.quantize(corpus, cutoff=600, retrain=True, qnorm=True, thread=1, verbose=0)
    path = str(tmp_path / "model.bin")
    theirs.save_model(path)
    ours = load(Path(path).read_bytes())
    texts = [text for _, text in _lines(200, 2)] + _ODD
    got = _probabilities(ours, texts)
    for text, row in zip(texts, got, strict=True):
        found = theirs.f.predict(text + "\n", len(_WORDS), 0.0, "strict")
        expected = {label.removeprefix("__label__"): p for p, label in found}
        for label, p in zip(ours.labels, row, strict=True):
            assert p == pytest.approx(min(expected.get(label, 0.0), 1.0), abs=2e-5), (text, label)


def _probabilities(model: FastText, texts: list[str]) -> np.ndarray:
    offsets, data, _ = text_buffers(pa.array(texts, pa.large_string()))
    return model.probabilities(data, offsets)


def test_a_text_does_not_depend_on_its_neighbours(corpus: str, tmp_path: Path) -> None:
    theirs = fasttext.train_supervised(corpus, minn=1, maxn=4, wordNgrams=2, bucket=20_000, thread=1, verbose=0)
    theirs.save_model(str(tmp_path / "m"))
    ours = load((tmp_path / "m").read_bytes())
    texts = [text for _, text in _lines(50, 3)] + _ODD
    together = _probabilities(ours, texts)
    for i, text in enumerate(texts):
        assert (_probabilities(ours, [text])[0] == together[i]).all()


def test_what_is_remembered_changes_nothing(corpus: str, tmp_path: Path) -> None:
    theirs = fasttext.train_supervised(corpus, minn=1, maxn=4, loss="hs", bucket=20_000, thread=1, verbose=0)
    theirs.save_model(str(tmp_path / "m"))
    ours = load((tmp_path / "m").read_bytes())
    # More words than are remembered, so that most slots are taken several times; prefixes of each other among them.
    rng = random.Random(6)
    words = ["".join(rng.choices("abcdeé河", k=rng.randint(1, 20))) for _ in range(20_000)]
    words += [word[:k] for word in words[:200] for k in range(1, len(word))] + ["a" * 23, "a" * 24, "a\0", "a"]
    texts = [" ".join(rng.choices(words, k=20)) for _ in range(1_500)] + ["a a\0 a", "a" * 23 + " " + "a" * 24]
    together = _probabilities(ours, texts)
    assert (_probabilities(ours, texts[::-1])[::-1] == together).all()
    for i in range(0, len(texts), 50):
        assert (_probabilities(ours, [texts[i]])[0] == together[i]).all()


def test_exponential() -> None:
    compiled = njit(lambda x: exp(x))
    for x in np.linspace(-80, 80, 4001):
        assert compiled(x) == pytest.approx(np.exp(x), rel=1e-13)
    assert compiled(-1000.0) == 0.0


@pytest.mark.parametrize("content", [b"", b"no model", b"\xba\x16\x4f\x2f\x0b\x00\x00\x00" + bytes(100)])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a fastText model"):
        load(content)
