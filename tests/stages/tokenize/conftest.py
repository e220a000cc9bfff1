"""Texts in many scripts, and small sentencepiece models trained on them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece

EN = (
    "The river rose in the night, and by morning the lower road was under water. Nobody had expected it so soon. "
    'Farmers moved their sheep to the hill; the school stayed closed for 12 days. "We have seen worse," said the miller, '
    "who'd lived there since 1987.\nHis daughter counted 1,024 sacks of flour: they weren't all dry.\n\n"
    "  Indented lines\tand tabs   and   many spaces, too.  It's a well-known, half-forgotten re-telling of an old story.\n"
)
ZH = (
    "昨夜河水上涨，清晨时低处的道路已被淹没。村民们把羊群赶到山坡上，学校停课一天。老磨坊主说：“比这更大的水我也见过。”\n"
    "他的女儿数了1024袋面粉，并非都是干的。昨夜河水上漲，清晨時低處的道路已被淹沒。學校停課一天。\n"
)
OTHER = (
    "Der Fluss stieg in der Nacht; die untere Straße stand unter Wasser. Ça va très bien, merci à l'été. "
    "川の水が夜のうちに増え、学校は休みになった。Река поднялась ночью, и школа была закрыта. "
    "ارتفع النهر في الليل. แม่น้ำเอ่อขึ้นในเวลากลางคืน नदी रात में बढ़ी। 강물이 밤에 불어났다.\n"
)


def train(path: Path, *, text: str = EN * 6 + ZH * 6 + OTHER * 3, **options: object) -> str:
    model = io.BytesIO()
    given = {
        "vocab_size": 700,
        "model_type": "bpe",
        "character_coverage": 1.0,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "minloglevel": 2,
        "hard_vocab_limit": False,
    } | options
    lines = [line for line in text.split("\n") if line]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **given)
    path.write_bytes(model.getvalue())
    return str(path)


@pytest.fixture(scope="session")
def spm_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BPE model that keeps text as it is: identity normaliser, all spaces, byte fallback."""
    return train(tmp_path_factory.mktemp("spm") / "bpe.model")


@pytest.fixture(scope="session")
def train_spm() -> Callable[..., str]:
    """`train`, for tests that want another kind of model."""
    return train


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    """What the models are trained on."""
    return [EN, ZH, OTHER]
