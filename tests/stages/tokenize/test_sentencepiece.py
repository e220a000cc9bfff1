from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError, check_stage
from stages.tokenize._score import token_type
from stages.tokenize._spm_model import load, parse
from stages.tokenize._spm_train import script
from stages.tokenize.sentencepiece import SentencePiece

TEXT = (
    "The river rose in the night.\n昨夜河水上涨，清晨时低处的道路已被淹没。  two  spaces \U0001f469\u200d\U0001f467 é̂"
)


def tokens(stage: SentencePiece, texts: list[str | None]) -> list[list[int] | None]:
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    out: list[list[int] | None] = stage.score(batch).column("tokenize.tokens").to_pylist()
    return out


@pytest.mark.parametrize(("bos", "eos"), [(True, True), (False, True), (True, False), (False, False)])
def test_contract(spm_model: str, bos: bool, eos: bool) -> None:
    check_stage(SentencePiece(model=spm_model, add_bos=bos, add_eos=eos))


def test_ids_are_the_librarys_with_the_asked_ends(spm_model: str) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=spm_model)
    expected = processor.encode(TEXT)
    assert tokens(SentencePiece(model=spm_model), [TEXT, None, ""]) == [[1, *expected, 2], None, [1, 2]]
    plain = SentencePiece(model=spm_model, add_bos=False, add_eos=False)
    assert tokens(plain, [TEXT, None, ""]) == [expected, None, []]
    assert tokens(SentencePiece(model=spm_model, add_bos=False), [TEXT]) == [[*expected, 2]]


def test_ids_decode_to_the_text(spm_model: str) -> None:
    for stage in (SentencePiece(model=spm_model), SentencePiece(model=spm_model, add_bos=False, add_eos=False)):
        (got,) = tokens(stage, [TEXT])
        assert stage.decode(got or []) == TEXT
    assert SentencePiece(model=spm_model).decode([]) == ""


def test_width_follows_the_largest_id() -> None:
    assert token_type(65_499) == pa.uint16()
    assert token_type(65_500) == pa.uint32()


def test_facts_for_the_manifest(spm_model: str) -> None:
    facts = SentencePiece(model=spm_model).facts()
    assert (facts["bos_id"], facts["eos_id"], facts["unk_id"], facts["pad_id"]) == (1, 2, 0, None)
    assert len(facts["tokenizer_sha256"]) == 64
    assert facts["vocabulary_size"] == sentencepiece.SentencePieceProcessor(model_file=spm_model).get_piece_size()


def test_the_model_file_is_read_as_the_library_reads_it(spm_model: str) -> None:
    model, vocabulary = load(spm_model)
    processor = sentencepiece.SentencePieceProcessor(model_file=spm_model)
    assert [p.decode() for p in model.pieces] == [processor.id_to_piece(i) for i in range(len(model.pieces))]
    scores = [processor.get_score(i) for i in range(len(model.pieces))]
    assert np.array_equal(np.array(model.scores, np.float32), np.array(scores, np.float32))
    assert model.byte_fallback
    assert not model.remove_extra_whitespaces
    assert vocabulary.largest_id == processor.get_piece_size() - 1


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x0a\xff\xff\xff\xff\x0f", bytes(range(256)) * 40])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="not a sentencepiece model"):
        SentencePiece(model=str(path)).outputs()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_crash_the_parser(data: bytes) -> None:
    try:
        parse(data)
    except (ValueError, IndexError):
        return


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.model does not exist"):
        SentencePiece(model="nowhere.model").outputs()


def test_a_begin_token_the_model_lacks_is_refused(tmp_path: Path) -> None:
    from sentencepiece import SentencePieceTrainer

    SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f g"] * 5),
        model_prefix=str(tmp_path / "m"),
        vocab_size=12,
        model_type="bpe",
        bos_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    with pytest.raises(ConfigError, match="begin token"):
        tokens(SentencePiece(model=str(tmp_path / "m.model")), ["a"])


def _corpus() -> Iterator[str]:
    for i in range(400):
        yield f"Line {i} of a small corpus about rivers, mills and schools.\n第{i}行：河水上涨，道路被淹没。" * 3


def test_training_reports_and_makes_a_model_that_keeps_text(tmp_path: Path) -> None:
    out = str(tmp_path / "new.model")
    report = SentencePiece.train(texts=_corpus(), out=out, vocabulary=390, symbols=["<|sep|>"])
    assert report["texts"] == 400
    assert report["held_out"]["Latn"]["tokens_per_word"] > 0
    processor = sentencepiece.SentencePieceProcessor(model_file=out)
    text = "Rivers  rise 2024!\n河水<|sep|>\t\U0001f30a"
    (got,) = tokens(SentencePiece(model=out), [text])
    assert processor.decode(got) == text
    assert processor.piece_to_id("<|sep|>") in got
    with pytest.raises(ConfigError, match="exists already"):
        SentencePiece.train(texts=_corpus(), out=out)


def test_training_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no text"):
        SentencePiece.train(texts=iter(()), out=str(tmp_path / "none.model"))


@pytest.mark.parametrize(
    ("text", "name"),
    [("river", "Latn"), ("河水上涨了", "Hani"), ("川の水が増え", "Kana"), ("Река", "Cyrl"), ("", "Latn")],
)
def test_script_of_a_text(text: str, name: str) -> None:
    assert script(text) == name
