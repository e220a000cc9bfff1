"""Training a sentencepiece model on a corpus, with what it will cost: tokens per word and per character, per language."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import sentencepiece

from corpusflow import ConfigError, storage_for

from ._score import model_bytes
from ._spm_model import NOT_A_MODEL, load

#: The trainer drops longer sentences without a word; texts are cut into pieces of at most this many bytes instead.
_SENTENCE_BYTES: Final = 4_000
#: Characters held back from training, on which the report measures; every 50th text.
_HELD_OUT_EVERY: Final = 50
_HELD_OUT_CHARACTERS: Final = 2_000_000


def train(
    *,
    texts: Iterator[str],
    out: str,
    vocabulary: int = 32_000,
    kind: str = "bpe",
    coverage: float = 0.9995,
    byte_fallback: bool = True,
    split_digits: bool = True,
    normalization: str = "identity",
    symbols: Sequence[str] = (),
    control: Sequence[str] = (),
    sentences: int = 4_000_000,
    threads: int = 2,
    seed: int = 0,
    beside: str | None = None,
) -> dict[str, Any]:
    """Train a model on texts and write it to `out`.

    Defaults keep text as it is (no normalisation, all spaces kept, bytes for what is not in the vocabulary), so that
    decoding the ids gives the text back.

    Args:
        texts: documents; consumed once. Every 50th is held out for the report.
        out: path of the .model file to write; refused if it exists.
        vocabulary: number of ids; below 65,500 the token files are uint16.
        kind: "bpe" or "unigram".
        coverage: share of the characters' occurrences that get an id of their own.
        byte_fallback: encode other characters as UTF-8 bytes instead of <unk>.
        split_digits: one token per digit.
        normalization: "identity", "nfkc", "nmt_nfkc", or their `_cf` forms.
        symbols: strings that are always one token; found in text.
        control: strings that never come from text, e.g. "<|pad|>".
        sentences: at most this many pieces of text are trained on.
        threads: for the unigram trainer.
        seed: of the trainer's own random choices.
        beside: path of another .model to report beside.

    Returns:
        {"model", "pieces", "texts", "held_out": {language: {"characters", "tokens", "tokens_per_character",
        "words", "tokens_per_word"}}, "beside": the same or None}, languages told by script.

    Raises:
        ConfigError: no text, bad options, or `out` exists.
    """
    storage = storage_for(out)
    if storage.exists(out):
        raise ConfigError(f"{out} exists already", hint="choose another --out, or remove it")
    other = processor_of(beside) if beside else None  # before hours of training, not behind them
    held: list[str] = []
    feed = _Feed(texts, held)
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(seed)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(feed),
            model_writer=model,
            vocab_size=vocabulary,
            model_type=kind,
            character_coverage=coverage,
            byte_fallback=byte_fallback,
            split_digits=split_digits,
            normalization_rule_name=normalization,
            remove_extra_whitespaces=normalization not in ("identity",),
            allow_whitespace_only_pieces=True,
            user_defined_symbols=list(symbols),
            control_symbols=list(control),
            input_sentence_size=sentences,
            shuffle_input_sentence=True,
            max_sentence_length=2 * _SENTENCE_BYTES,
            num_threads=threads,
            train_extremely_large_corpus=kind == "unigram",
            minloglevel=2,
        )
    except (RuntimeError, OSError, ValueError) as e:
        if not feed.count:
            raise ConfigError("no text to train a tokenizer on", hint="is the stage's output empty?") from e
        raise ConfigError(
            f"sentencepiece refused to train: {e}", hint="another --vocab-size, a lower --coverage, or more text"
        ) from e
    data = model.getvalue()
    with storage.create(out) as file:
        file.write(data)
    trained = sentencepiece.SentencePieceProcessor(model_proto=data)
    return {
        "model": out,
        "pieces": trained.get_piece_size(),
        "texts": feed.count,
        "held_out": fertility(trained, held),
        "beside": fertility(other, held) if other else None,
    }


class _Feed:
    """Hands texts to the trainer in pieces it accepts and keeps some back."""

    def __init__(self, texts: Iterator[str], held: list[str]) -> None:
        self._texts = texts
        self._held = held
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        kept = 0
        for text in self._texts:
            self.count += 1
            if self.count % _HELD_OUT_EVERY == 0 and kept < _HELD_OUT_CHARACTERS:
                self._held.append(text)
                kept += len(text)
                continue
            for line in text.split("\n"):
                step = _SENTENCE_BYTES // 4
                for start in range(0, len(line), step):
                    piece = line[start : start + step].replace("\0", " ")
                    if piece:
                        yield piece


def processor_of(path: str) -> sentencepiece.SentencePieceProcessor:
    """The library on a .model file.

    Raises:
        ConfigError: no such file, or not a sentencepiece model.
    """
    load(path)  # says what is wrong with it; the library takes an empty file, and says nothing
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model_bytes(path)[0])
    except RuntimeError as e:
        raise ConfigError(f"{path} is not a sentencepiece model: {e}", hint=NOT_A_MODEL) from e


def fertility(processor: sentencepiece.SentencePieceProcessor, texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Tokens per character and per word of a model on texts, by script: "Hani", "Latn", … as the first letter tells."""
    table: dict[str, dict[str, float]] = {}
    for text in texts:
        row = table.setdefault(script(text), {"characters": 0, "words": 0, "tokens": 0})
        row["characters"] += len(text)
        row["words"] += len(text.split())
        row["tokens"] += len(processor.encode(text, out_type=int, num_threads=1))
    for row in table.values():
        row["tokens_per_character"] = round(row["tokens"] / max(1, row["characters"]), 4)
        row["tokens_per_word"] = round(row["tokens"] / max(1, row["words"]), 4)
    return table


_SCRIPTS: Final = (
    ("Hani", 0x4E00, 0x9FFF),
    ("Kana", 0x3040, 0x30FF),
    ("Hang", 0xAC00, 0xD7AF),
    ("Cyrl", 0x0400, 0x052F),
    ("Arab", 0x0600, 0x06FF),
    ("Deva", 0x0900, 0x097F),
    ("Thai", 0x0E00, 0x0E7F),
    ("Grek", 0x0370, 0x03FF),
    ("Hebr", 0x0590, 0x05FF),
)


def script(text: str) -> str:
    """The commonest script among the first 2,000 characters; "Latn" where none of the others leads; "Kana" for Japanese."""
    counts = dict.fromkeys([name for name, _, _ in _SCRIPTS], 0)
    latin = 0
    for c in text[:2_000]:
        code = ord(c)
        latin += c.isascii() and c.isalpha()
        for name, low, high in _SCRIPTS:
            counts[name] += low <= code <= high
    if counts["Kana"] * 10 > counts["Hani"] > 0 and counts["Kana"] > latin:
        return "Kana"
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] > latin else "Latn"
