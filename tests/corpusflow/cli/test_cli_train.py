from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
import sentencepiece

import corpusflow
from corpusflow import training
from corpusflow.cli._hooks import command_of
from corpusflow.errors import ConfigError
from corpusflow.schema import id_hashes
from corpusflow.texts import texts_of, units_of


def test_train_and_measure_a_tokenizer_on_a_run(call: Any, small_run: Any, tmp_path: Path) -> None:
    out = tmp_path / "own.model"
    made = call(
        "train", "tokenizer", "--run", small_run, "--stage", "dedup.exact", "--vocab-size", 4000, "--out", out, "--json"
    )
    assert made.status == 0
    report = json.loads(made.out)
    documents = corpusflow.open_run(str(small_run)).stage("dedup.exact").table(["id"]).num_rows
    assert report["texts"] == documents
    assert sentencepiece.SentencePieceProcessor(model_file=str(out)).get_piece_size() == 4000
    measured = call(
        "eval", "tokenizer", "--texts", f"{small_run}:dedup.exact", "--documents", 30, "--model", out, "--json"
    )
    rows = json.loads(measured.out)["model"]
    assert set(rows) == {"Latn", "Hani"}
    assert 0 < rows["Latn"]["tokens_per_character"] < 1
    texts = tmp_path / "a.jsonl"
    texts.write_text('{"text": "some words"}\n')
    beside = call("eval", "tokenizer", "--texts", texts, "--model", out, "--beside", texts)
    beside.fails(2, f"{texts} is not a sentencepiece model", "hint: give the .model file")
    again = call("train", "tokenizer", "--run", small_run, "--out", out)
    again.fails(2, "exists already", "hint")


@pytest.mark.parametrize(("where", "says"), [("none.jsonl", "No such file or directory"), (".", "Is a directory")])
def test_labelled_data_that_is_no_file(call: Any, tmp_path: Path, where: str, says: str) -> None:
    path = tmp_path / where
    call("eval", "language.identify", "--data", path).fails(2, f"{path}: {says}", "hint: relative paths start at")


def test_a_tokenizer_that_is_none(call: Any, tmp_path: Path) -> None:
    texts, none = tmp_path / "a.jsonl", tmp_path / "none.model"
    texts.write_text('{"text": "some words"}\n')
    none.write_bytes(b"")
    for model in (texts, none):
        measured = call("eval", "tokenizer", "--texts", texts, "--model", model)
        measured.fails(2, f"{model} is not a sentencepiece model", "hint: give the .model file")
        out = tmp_path / "own.model"
        call("train", "tokenizer", "--texts", texts, "--out", out, "--beside", model).fails(2, "is not a sentencepiece")
        assert not out.exists(), "refused before the training"
    absent = call("eval", "tokenizer", "--texts", texts, "--model", tmp_path / "b.model")
    absent.fails(2, "b.model does not exist", "hint")
    out = tmp_path / "small.model"
    call("train", "tokenizer", "--texts", texts, "--out", out).fails(
        2, "refused to train", "hint: another --vocab-size"
    )


UNLABELLED: dict[str, tuple[list[str], str, list[str]]] = {
    "toxicity": (
        ["eval", "toxicity"],
        '{"text": "b", "lang": "en"}',
        ["a.jsonl:2: not an object with `text` and `toxic` (it has no 'toxic')", "hint: "],
    ),
    "toxicity with a word for true": (
        ["eval", "toxicity"],
        '{"text": "b", "toxic": "false"}',
        ["a.jsonl:2: ", "`toxic` must be true or false, got 'false'"],
    ),
    "toxicity to train on": (
        ["train", "toxicity", "--ordinary", "a.jsonl", "--out", "x.ftz"],
        '{"text": "b"}',
        ["a.jsonl:2: not an object with `text` and `toxic`"],
    ),
    "personal data": (
        ["eval", "clean.pii"],
        '{"text": "jane@example.com", "id": "b"}',
        ["a.jsonl:2: a text without labels: no `spans` among its fields text, id", 'hint: ', '"spans": []'],
    ),
    "personal data, null": (
        ["eval", "clean.pii"],
        '{"text": "jane@example.com", "spans": null}',
        ["a.jsonl:2: a text without labels: `spans` must be a list, got None", '"spans": []'],
    ),
    "languages": (
        ["eval", "language.identify"],
        '{"text": "b"}',
        ["a.jsonl:2: not an object with `lang` and `text` (it has no 'lang')", "hint: "],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("command", "row", "parts"), UNLABELLED.values(), ids=UNLABELLED)
def test_data_without_labels(call: Any, tmp_path: Path, command: list[str], row: str, parts: list[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "a", "toxic": false, "spans": [], "lang": "en"}}\n{row}\n')
    call(*command, "--data", path).fails(2, *parts)
    assert not Path("x.ftz").exists()


def test_what_can_be_trained(call: Any, small_run: Any) -> None:
    assert "tokenize.sentencepiece" in call("train", "--help").out
    page = call("train", "tokenizer", "--help").out
    assert "--vocabulary, --vocab-size" in page
    assert "number of ids" in page
    call("train", "quality.gopher").fails(2, "nothing to train", "hint")
    call("train", "tokeniser").fails(2, "did you mean tokenizer?")
    call("train", "tokenizer", "--out", "x.model").fails(2, "needs texts", "--run")
    call("train", "tokenizer", "--out", "x.model", "--texts", "nowhere.csv").fails(2, "neither a run folder", ".jsonl")
    call("train", "tokenizer", "--out", "x.model", "--run", "nowhere", "--stage", "x").fails(2, "not a run folder")
    call("train", "tokenizer", "--vocab-size", "many").fails(2, "not a valid integer")


def test_the_sample_is_the_smallest_hashes_wherever_they_lie(small_run: Any) -> None:
    table = corpusflow.open_run(str(small_run)).stage("dedup.exact").table(["id", "text"])
    ids = table.column("id").to_pylist()
    order = sorted(range(len(ids)), key=lambda i: tuple(id_hashes(pa.array([ids[i]]), 5)[0]))
    expected = [table.column("text")[i].as_py() for i in sorted(order[:25])]
    assert list(texts_of(f"{small_run}:dedup.exact", documents=25, seed=5)) == expected
    other = list(texts_of(f"{small_run}:dedup.exact", documents=25, seed=6))
    assert len(other) == 25
    assert other != expected


def test_texts_of_files(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(50)) + "not json\n")
    found = list(texts_of(str(path), documents=1000, seed=0))
    assert found == [f"text {i}" for i in range(50)]
    few = list(texts_of(str(path), documents=7, seed=0))
    assert len(few) == 7
    assert [t for t in found if t in few] == few, "in the order in which they lie"
    with pytest.raises(ConfigError, match="does not exist"):
        units_of(str(tmp_path / "b.jsonl"))


def test_every_kind_of_option(small_run: Any) -> None:
    seen: dict[str, Any] = {}

    def train(
        *,
        positive: Iterator[str],
        out: str,
        epochs: int = 5,
        rate: float = 0.1,
        loss: Literal["hinge", "log"] = "log",
        lower: bool = True,
        labels: Sequence[str] = ("a",),
        beside: str | None = None,
        negative: Iterator[str] | None = None,
    ) -> dict[str, Any]:
        """Train.

        Args:
            positive: good texts.
            epochs, rate: numbers
                of two kinds.
        """
        seen.update(locals(), positive=list(positive))
        return {}

    options = tuple(training._options("x", train, training._documentation(train)[1]))
    made = training.Trainer("x", "Train.", options, train)
    command = command_of(made, "x")
    arguments = ["--positive", f"{small_run}:dedup.exact", "--documents", "3", "--out", "m", "--rate", "0.5"]
    command.main([*arguments, "--no-lower", "--labels", "b", "--labels", "c"], standalone_mode=False)
    assert len(seen.pop("positive")) == 3
    assert (seen["out"], seen["epochs"], seen["rate"], seen["loss"], seen["lower"]) == ("m", 5, 0.5, "log", False)
    assert (seen["labels"], seen["beside"], seen["negative"]) == (("b", "c"), None, None)
    by_name = {o.name: o for o in options}
    assert by_name["rate"].doc == "numbers of two kinds."
    assert by_name["loss"].choices == ("hinge", "log")


def test_hooks_of_a_wrong_form_are_refused() -> None:
    def positional(texts: Iterator[str]) -> None: ...

    def odd(*, table: dict[str, int]) -> None: ...

    with pytest.raises(ConfigError, match="keyword-only"):
        list(training._options("x", positional, {}))
    with pytest.raises(ConfigError, match="no option can give"):
        list(training._options("x", odd, {}))
