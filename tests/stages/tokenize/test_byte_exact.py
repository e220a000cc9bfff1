"""Ids of the byte-level kernels against Hugging Face tokenizers and tiktoken, on vocabularies trained here."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusflow import ConfigError, check_stage
from stages.tokenize import huggingface, tiktoken
from stages.tokenize._byte_exact import inner_pairs
from stages.tokenize._patterns import SHAPES
from stages.tokenize._score import Library
from stages.tokenize.huggingface import HuggingFace, byte_letters
from stages.tokenize.tiktoken import Tiktoken

EXPRESSIONS = list(SHAPES)
ALPHABET = [
    *"abcdefABCDEF'stmdlvre  \t\n\r\u3000\u00a0\u0085\u180e\u200b.,!?/\\=0123456789٣②½Ⅷé",
    *"e\u0301ǅʰªſK한글汉字昨夜ﷺ\U0001f642\u200d\x00\x01\x7f가\U0010ffff\ue000İıßΩб",
    *("'s", "'S", "'ſ", "'ll", "'LL", "'Re", "  ", "\n\n", " \n ", "<|endoftext|>", "</s>", "the ", " the", "river"),
]


@pytest.fixture(scope="module")
def merges(corpus: list[str]) -> list[tuple[str, str]]:
    """Merges of a byte-level BPE of 1,200 tokens, in GPT-2's letters."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1_200, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(corpus, trainer)
    # digits, of which the corpus has few: without merges of them nobody sees where a number is cut
    digits = [("1", "1"), ("11", "1"), ("11", "11"), ("2", "3"), ("1", "23"), ("9", "0")]
    found = [tuple(m) for m in json.loads(tokenizer.to_str())["model"]["merges"]]
    return [*found, *(m for m in digits if m not in found)]


def write_json(path: Path, merges: list[tuple[str, str]], expression: str | None, **model: Any) -> str:
    """A tokenizer.json with the expression as a Split, or GPT-2's own where it is None."""
    vocabulary = {c: i for i, c in enumerate(sorted(byte_letters()))}
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": expression is None}
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
    added = {"id": len(vocabulary), "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False}
    description = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**added, "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": byte_level
        if expression is None
        else {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [list(m) for m in merges], **model},
    }
    path.write_text(json.dumps(description))
    return str(path)


def write_ranks(path: Path, merges: list[tuple[str, str]]) -> str:
    """The same vocabulary as a .tiktoken file."""
    to_byte = {c: b for b, c in enumerate(byte_letters())}
    ranks = {bytes([b]): b for b in range(256)}
    for left, right in merges:
        ranks.setdefault(bytes(to_byte[c] for c in left + right), len(ranks))
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in ranks.items()))
    return str(path)


@pytest.fixture(scope="module", params=[None, *EXPRESSIONS], ids=lambda e: f"{EXPRESSIONS.index(e) if e else 'gpt2'}")
def json_pair(request: pytest.FixtureRequest, merges: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    tokenizers = pytest.importorskip("tokenizers")
    path = write_json(tmp_path_factory.mktemp("hf") / "tokenizer.json", merges, request.param, ignore_merges=True)
    stage = HuggingFace(model=path)
    engine = tokenizers.Tokenizer.from_file(path)
    assert stage.facts()["encoder"] == "kernels"
    engine.encode_special_tokens = True
    return stage.open().encoder, Library(lambda t: [e.ids for e in engine.encode_batch(t, add_special_tokens=False)])


@pytest.fixture(scope="module", params=EXPRESSIONS, ids=lambda e: str(EXPRESSIONS.index(e)))
def ranks_pair(
    request: pytest.FixtureRequest, merges: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Any]:
    library = pytest.importorskip("tiktoken")
    path = write_ranks(tmp_path_factory.mktemp("tt") / "x.tiktoken", merges)
    stage = Tiktoken(model=path, pattern=request.param, special={"<|endoftext|>": 2_000})
    assert stage.facts()["encoder"] == "kernels"
    engine = library.Encoding(
        "x", pat_str=request.param, mergeable_ranks=stage._ranks()[0], special_tokens={"<|endoftext|>": 2_000}
    )
    return stage.open().encoder, Library(lambda t: engine.encode_ordinary_batch(t, num_threads=1))


def assert_same(pair: tuple[Any, Any], texts: list[str]) -> None:
    assert not isinstance(pair[0], Library)
    column = pa.array(texts, pa.large_string())
    ours, theirs = (encoder.encode(column, None, None) for encoder in pair)
    for i, text in enumerate(texts):
        a, b = (ids[ends[i] : ends[i + 1]].tolist() for ends, ids in (ours, theirs))
        assert a == b, repr(text[:200])


def hard_texts() -> list[str]:
    rng = random.Random(11)
    texts = ["".join(rng.choices(ALPHABET, k=rng.randrange(40))) for _ in range(1_500)]
    characters = [chr(c) for c in range(0x32000) if not 0xD800 <= c < 0xE000]
    texts += ["".join(characters[i : i + 80]) for i in range(0, len(characters), 80)]
    texts += [f"a{c}A {c}{c}1'{c}s" for c in characters[::23]]
    runs = [
        "a",
        "ab",
        " ",
        "\n",
        "\t",
        "é",
        "昨夜",
        "\U0001f642",
        "=",
        "A",
        "1",
        "\r\n",
        " \n",
        "A\u0301",
        "'s",
        "e\u0301",
    ]
    return texts + [r * n for r in runs for n in (1, 2, 3, 5, 17, 47, 49, 97, 400)]


def test_tokenizer_json(json_pair: tuple[Any, Any]) -> None:
    assert_same(json_pair, hard_texts())


def test_ranks(ranks_pair: tuple[Any, Any]) -> None:
    assert_same(ranks_pair, hard_texts())


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(), max_size=5))
def test_tokenizer_json_any_text(json_pair: tuple[Any, Any], texts: list[str]) -> None:
    assert_same(json_pair, texts)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(), max_size=5))
def test_ranks_any_text(ranks_pair: tuple[Any, Any], texts: list[str]) -> None:
    assert_same(ranks_pair, texts)


def test_unreachable_tokens_are_found_whole_only(merges: Any, tmp_path: Path) -> None:
    """A token that merging never gives: with ignore_merges a piece that equals it is one id, a part of a piece is not."""
    tokenizers = pytest.importorskip("tokenizers")
    path = write_json(tmp_path / "t.json", merges, EXPRESSIONS[2], ignore_merges=True)
    description = json.loads(Path(path).read_text())
    vocabulary = description["model"]["vocab"]
    for word in ("qzxj", "昨夜".encode().decode("latin-1")):
        letters = "".join(byte_letters()[b] for b in word.encode("latin-1"))
        vocabulary[letters] = max(vocabulary.values()) + 1
    description["added_tokens"][0]["id"] = max(vocabulary.values()) + 1
    Path(path).write_text(json.dumps(description))
    engine = tokenizers.Tokenizer.from_file(path)
    pair = HuggingFace(model=path).open().encoder, Library(lambda t: [e.ids for e in engine.encode_batch(t)])
    assert_same(pair, ["qzxj", "aqzxj", " qzxj", "昨夜", "昨夜河", "，昨夜，qzxj昨夜", "qzxj昨夜" * 30])


@pytest.mark.parametrize("size", [96, 97, 3_000])
def test_a_long_token_that_merging_never_gives(merges: Any, tmp_path: Path, size: int) -> None:
    """Of 97 bytes it was split into them, of 3,000 these were written behind the end of an array."""
    tokenizers, library = pytest.importorskip("tokenizers"), pytest.importorskip("tiktoken")
    path = Path(write_json(tmp_path / "t.json", merges, EXPRESSIONS[2], ignore_merges=True))
    description = json.loads(path.read_text())
    number = description["added_tokens"][0]["id"]
    description["model"]["vocab"]["z" * size] = number
    description["added_tokens"][0]["id"] = number + 1
    path.write_text(json.dumps(description))
    engine = tokenizers.Tokenizer.from_file(str(path))
    ranks = Path(write_ranks(tmp_path / "x.tiktoken", merges))
    line = base64.b64encode(b"z" * size) + b" %d\n" % ranks.read_bytes().count(b"\n")
    ranks.write_bytes(ranks.read_bytes() + line)
    stage = Tiktoken(model=str(ranks), pattern=EXPRESSIONS[2])
    named = library.Encoding("x", pat_str=EXPRESSIONS[2], mergeable_ranks=stage._ranks()[0], special_tokens={})
    for ours, theirs in (
        (HuggingFace(model=str(path)).open().encoder, lambda t: [e.ids for e in engine.encode_batch(t)]),
        (stage.open().encoder, named.encode_ordinary_batch),
    ):
        assert isinstance(ours, Library) == (size > 96)
        texts = ["z" * size, "z" * size + " z", "z" * (size + 1), "zz " + "z" * size]
        column = pa.array(texts, pa.large_string())
        assert ours.encode(column, None, None)[1].tolist() == [i for ids in theirs(texts) for i in ids]


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("content", ["e\u0301t", "<tool>", "\u0301", "e"])
def test_added_tokens_that_normalising_touches(merges: Any, tmp_path: Path, content: str, normalized: bool) -> None:
    """Tokens that are not in NFC, or that NFC makes one with what stands behind them, are the library's to find."""
    tokenizers = pytest.importorskip("tokenizers")
    path = Path(write_json(tmp_path / "t.json", merges, EXPRESSIONS[3]))
    description = json.loads(path.read_text()) | {"normalizer": {"type": "NFC"}}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized, "special": False}
    description["added_tokens"].append({"id": 5_000, "content": content, **flags})
    path.write_text(json.dumps(description))
    engine = tokenizers.Tokenizer.from_file(str(path))
    engine.encode_special_tokens = True
    ours = HuggingFace(model=str(path)).open().encoder
    texts = ["a e\u0301t b", "\u00e9t", "<tool>\u0338 b", "<tool>", "e\u0301", "x\u0301", "plain", "a\u0301"]
    got = [ours.encode(pa.array([t], pa.large_string()), None, None)[1].tolist() for t in texts]
    assert got == [engine.encode(t, add_special_tokens=False).ids for t in texts]


@pytest.mark.parametrize("normalizer", [{"type": "NFC"}, {"type": "Sequence", "normalizers": []}, None])
@pytest.mark.parametrize("normalized", [True, False])
def test_nfc_and_tokens_found_in_text(
    merges: Any, tmp_path: Path, normalizer: dict[str, Any] | None, normalized: bool
) -> None:
    """As in Qwen's tokenizers: text is put in NFC, and some added tokens are not special."""
    tokenizers = pytest.importorskip("tokenizers")
    path = Path(write_json(tmp_path / "t.json", merges, EXPRESSIONS[3]))
    description = json.loads(path.read_text()) | {"normalizer": normalizer}
    for i, (content, side) in enumerate((("<tool>", False), ("K;", True), ("\u00e9t", False))):
        flags = {"single_word": False, "lstrip": side, "rstrip": side, "normalized": normalized, "special": False}
        description["added_tokens"].append({"id": 5_000 + i, "content": content, **flags})
    path.write_text(json.dumps(description))
    stage = HuggingFace(model=str(path))
    assert stage.facts()["encoder"] == "kernels"
    engine = tokenizers.Tokenizer.from_file(str(path))
    engine.encode_special_tokens = True
    pair = stage.open().encoder, Library(lambda t: [e.ids for e in engine.encode_batch(t, add_special_tokens=False)])
    rng = random.Random(2)
    alphabet = [
        *ALPHABET,
        "<tool>",
        " K; ",
        "\u212a\u037e",
        "e\u0301t",
        "\u1100\u1161\u11a8",
        "\u0344",
        "\u0958",
        "\u1e9b\u0323",
    ]
    assert_same(pair, ["".join(rng.choices(alphabet, k=rng.randrange(12))) for _ in range(1_500)])
    assert_same(pair, [chr(c) + "\u0301a" for c in range(0x2FA20) if not 0xD800 <= c < 0xE000][::13])
    assert_same(pair, hard_texts()[::5])


def test_contract(merges: Any, tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    check_stage(HuggingFace(model=write_json(tmp_path / "t.json", merges, None)))
    ranks = write_ranks(tmp_path / "x.tiktoken", merges)
    check_stage(Tiktoken(model=ranks, special={"<|endoftext|>": 70_000}))


def test_ends_and_width(merges: Any, tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    batch = pa.record_batch({"text": pa.array(["river", None], pa.large_string())})
    path = write_json(tmp_path / "t.json", merges, None)
    eos = json.loads(Path(path).read_text())["added_tokens"][0]["id"]
    got = HuggingFace(model=path).score(batch).column(0)
    assert got.type == pa.list_(pa.uint16())
    assert got.to_pylist()[0][-1] == eos
    assert got.to_pylist()[1] is None
    ranks = write_ranks(tmp_path / "x.tiktoken", merges)
    stage = Tiktoken(model=ranks, special={"<|endoftext|>": 65_500})
    assert stage.score(batch).column(0).type == pa.list_(pa.uint32())
    with pytest.raises(ConfigError, match="end token"):
        Tiktoken(model=ranks).score(batch)
    with pytest.raises(ConfigError, match=r"no token '<eos>'"):
        HuggingFace(model=path, eos="<eos>").score(batch)


def test_ids_decode_to_the_text(merges: Any, tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    text = "The river  rose\n昨夜河水 \U0001f642 e\u0301"
    for stage in (
        HuggingFace(model=write_json(tmp_path / "t.json", merges, None)),
        Tiktoken(model=write_ranks(tmp_path / "x.tiktoken", merges), special={"<|endoftext|>": 2_000}),
    ):
        (ids,) = stage.score(pa.record_batch({"text": pa.array([text], pa.large_string())})).column(0).to_pylist()
        assert stage.decode(ids) == text


def test_special_tokens_never_come_from_text(merges: Any, tmp_path: Path) -> None:
    path = write_json(tmp_path / "t.json", merges, None)
    stage = HuggingFace(model=path)
    _, ids = stage.open().encoder.encode(pa.array(["a <|endoftext|> b"], pa.large_string()), None, None)
    assert stage.vocabulary().eos not in ids.tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"normalizer": {"type": "NFKC"}}, "normalises"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "pre-tokenizer"),
    ],
)
def test_what_the_kernels_do_not_follow_runs_on_the_library(
    merges: Any, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    path = Path(write_json(tmp_path / "t.json", merges, None))
    description = json.loads(path.read_text()) | change
    path.write_text(json.dumps(description))
    stage = HuggingFace(model=str(path), add_eos=False)
    assert reason in stage.facts()["encoder"]
    assert isinstance(stage.open().encoder, Library)


@pytest.mark.parametrize(
    ("stage", "content"),
    [
        (HuggingFace, b"{}"),
        (HuggingFace, b"\xff\xfe"),
        (HuggingFace, b'{"model": 3}'),
        (Tiktoken, b""),
        (Tiktoken, b"!!! 3\n"),
        (Tiktoken, b"YQ==\n"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, stage: Any, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        stage(model=str(path)).vocabulary()


def test_pairs_inside_tokens() -> None:
    whole, left, right = inner_pairs([b"ab", "昨夜".encode(), b"\xa4\xe6\x98\xa8", b" \xe6\x98", b"\xe6\x98"])
    assert whole == {(ord("a"), ord("b")), (ord("昨"), ord("夜"))}
    assert left == {b"\xa4", b" "}
    assert right == {b"\xe6\x98\xa8", b"\xe6\x98"}


def test_classes_are_the_engines(merges: Any) -> None:
    """Both ways of asking an engine for a class agree with each other and with what is beyond doubt."""
    theirs = pytest.importorskip("tiktoken")
    tokenizers = pytest.importorskip("tokenizers")
    for expression, inside, outside in (
        (r"\p{L}", "aé昨ʰ", "1 _\u0301`"),
        (r"\p{N}", "1٣②Ⅷ", "a "),
        (r"\s", " \t\u3000", "a1"),
    ):
        found = []
        for members in (tiktoken._members(theirs, expression), huggingface._members(tokenizers, expression)):
            flags = np.zeros(0x110000, bool)
            for first, last in members:
                flags[first:last] = True
            assert all(flags[ord(c)] for c in inside)
            assert not any(flags[ord(c)] for c in outside)
            found.append(flags)
        assert (found[0] != found[1]).sum() < 10_000  # Unicode versions differ by some thousand ideographs
