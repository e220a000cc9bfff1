"""What each signal of quality.* is: unit, definition, source; and the page that lists them (stages/quality/SIGNALS.md).

python -m stages.quality._definitions > stages/quality/SIGNALS.md
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from corpusflow import Composite, Score, Stage
from stages import quality
from stages.quality.signals import ENTROPY, SIGNALS


class Definition(NamedTuple):
    """`unit` is what is counted."""

    unit: str
    text: str
    source: str


_UNITS: Final = ("chars", "lines", "words", "paragraphs", "sentences")
_GOPHER, _FINEWEB, _C4 = "Gopher A.1.1", "FineWeb 3.6", "C4 2.2"
_OWN: Final = "own"
_SOURCES: Final[Mapping[str, str]] = {
    "words": _GOPHER, "word_chars": _GOPHER, "alpha_words": _GOPHER, "hashes": _GOPHER, "ellipses": _GOPHER,
    "bullet_lines": _GOPHER, "ellipsis_lines": _GOPHER, "stop_words": _GOPHER, "dup_lines": _GOPHER,
    "dup_line_chars": _GOPHER, "dup_paragraphs": _GOPHER, "dup_paragraph_chars": _GOPHER,
    "short_lines": _FINEWEB, "terminal_lines": _FINEWEB, "newlines": _FINEWEB,
    "javascript_lines": _C4, "policy_lines": _C4, "lorem_ipsum_lines": _C4, "curly_brackets": _C4, "sentences": _C4,
    "unique_words": "RedPajama-V2", "upper_words": "RedPajama-V2", ENTROPY: "RedPajama-V2",
    **{f"top_{n}gram_chars": _GOPHER for n in (2, 3, 4)}, **{f"dup_{n}gram_chars": _GOPHER for n in range(5, 11)},
}  # fmt: skip


def _unit(name: str) -> str:
    if name == ENTROPY:
        return "bits"
    if "chars" in name or name in ("longest_line",):
        return "characters"
    return next((u for u in _UNITS if name.endswith(u)), "occurrences")


def _grams(prefix: str, source: str, top: str, dup: str) -> dict[str, Definition]:
    found = {f"{prefix}_top_{n}gram_chars": Definition("characters", top.format(n=n), source) for n in (2, 3, 4)}
    return found | {
        f"{prefix}_dup_{n}gram_chars": Definition("characters", dup.format(n=n), source) for n in range(5, 11)
    }


def _described(prefix: str, source: str, rows: Mapping[str, str]) -> dict[str, Definition]:
    return {f"{prefix}_{name}": Definition(_unit(name), text, source) for name, text in rows.items()}


_DT: Final = "datatrove 0.10"
_DOLMA: Final = "Dolma 1.2"
_DCLM: Final = "DCLM"
_RP: Final = "RedPajama-V2"
_LINES: Final = {
    "lines": "lines between line feeds",
    "line_chars": "characters of those lines",
    "dup_lines": "lines of which there is another copy, all copies",
    "dup_line_chars": "characters of those",
    "bullet_lines": "lines that begin with * or -",
    "ellipsis_lines": "lines that end with …",
}
_DATATROVE: Final = {
    "chars": "characters",
    "hashes": "`#`",
    "ellipses": "`…` and `...`",
    "newlines": "line feeds",
    "chars_in_lines": "characters but line feeds",
    "split_lines": "lines as str.splitlines() gives them",
    "bullet_lines": "of those, lines that begin with • or -",
    "ellipsis_lines": "of those, lines that end with ... or …",
    "paragraphs": "pieces of the stripped text between two line feeds or more",
    "dup_paragraphs": "pieces equal to an earlier one",
    "dup_paragraph_chars": "characters of those",
    "lines": "pieces between line feeds, runs counting as one",
    "dup_lines": "pieces equal to an earlier one",
    "dup_line_chars": "characters of those",
    "text_lines": "lines that are not blank, not stripped",
    "terminal_lines": "of those, lines that end in terminal punctuation",
    "short_lines": "of those, lines of at most 30 characters",
    "dup_text_line_chars": "characters of those equal to an earlier one",
    "text_words": "of those, words that are not punctuation only",
    "text_word_chars": "characters of those",
    "alpha_words": "words with a letter",
}
DEFINITIONS: Final[Mapping[str, Definition]] = {
    **{name: Definition(_unit(name), text, _SOURCES.get(name, _OWN)) for name, text in SIGNALS.items()},
    ENTROPY: Definition("bits", "entropy of the words' distribution", _SOURCES[ENTROPY]),
    "score": Definition("probability", "calibrated chance that the document is good", "quality.classifier"),
    "lm_log10": Definition("base-10 logarithm", "minus the logarithm of the text's probability", "CCNet"),
    "lm_tokens": Definition("tokens", "tokens and line ends of the text", "CCNet"),
    **_described("c4", _C4, {
        "kept_lines": "lines that the line rules leave",
        "long_word_lines": "lines removed for a word of more than 1,000 characters",
        "unfinished_lines": "lines removed because they end in no terminal mark, or in an ellipsis",
        "short_lines": "lines removed for too few words",
        "lorem_ipsum_lines": "lines with lorem ipsum that got that far",
        "javascript_lines": "lines removed for javascript",
        "curly_bracket_lines": "lines with { that got that far",
        "policy_lines": "lines removed for a policy phrase",
        "sentences": "sentences in the lines that are left",
    }),
    **_described("zh", _OWN, {
        "rare_chars": "Chinese characters outside GB 2312 level 1 and Big5 level 1",
        "simplified_chars": "Chinese characters only GB 2312 has",
        "traditional_chars": "Chinese characters only Big5 level 1 has",
        "sentence_chars": "Chinese characters in lines that hold terminal punctuation",
        "separators": "characters that separate items of menus: | / · _ 【 】 and the like",
    }),
    **_described("dt", _DT, {**_DATATROVE,
        "words": "spaCy's words, punctuation marks among them",
        "stop_words": "distinct ones of the, be, to, of, and, that, have, with",
    }),
    **_described("dict", _DT, {**_DATATROVE,
        "words": "words that a dictionary finds, punctuation marks among them",
        "stop_words": "distinct ones of the language's stop-word list",
    }),
    **{k: v for p in ("dt", "dict") for k, v in _grams(
        p, _DT, "characters and spaces of the most frequent {n}-gram, times its occurrences",
        "characters of {n}-grams seen before, {n} words skipped after each").items()},
    **_described("dclm", _DCLM, {
        "split_words": "words between white space", "split_word_chars": "characters of those",
        "alpha_words": "of those, words with a letter", "stop_words": "of those, occurrences of Gopher's stop words",
        "symbols": "`#`, `...`, `. . .` and `…`",
        "lines": "lines that are not blank, stripped", "line_chars": "characters of those",
        "dup_lines": "lines of which there is another copy, all copies", "dup_line_chars": "characters of those",
        "bullet_lines": "lines that begin with ● • * or -", "ellipsis_lines": "lines that end with ... or . . . or …",
        "paragraphs": "pieces between two line feeds, not blank", "paragraph_chars": "characters of those",
        "dup_paragraphs": "pieces of which there is another copy, all copies", "dup_paragraph_chars": "characters of those",
        "words": "words between white space that begin with a letter or number",
        "uniseg_word_chars": "characters of UAX #29 words that begin with a letter or number",
        "words_before": "words before the line corrections", "words_after": "words after them",
        "removed_lines": "lines they remove",
    }),
    **_grams("dclm", _DCLM, "characters of the most frequent {n}-gram, the longest of several, times its occurrences",
             "characters under {n}-grams that occur more than once, all copies"),
    **_described("dolma", _DOLMA, {
        "words": "words between white space", "word_chars": "characters of those",
        "symbol_words": "words with # or …", "alpha_words": "words with a letter",
        "stop_words": "occurrences of Gopher's stop words, lower case only",
        **_LINES, **{f"v2_{k}": v + "; runs of line feeds count as one" for k, v in _LINES.items()},
    }),
    "dolma_median_word_length": Definition("characters", "median length of a word", _DOLMA),
    **_grams("dolma", _DOLMA, "characters of the most frequent {n}-gram, times its occurrences",
             "characters of all {n}-grams that occur more than once, overlaps counted each time"),
    **{f"dolma_all_{n}gram_chars": Definition("characters", f"characters of all {n}-grams, overlaps counted each time", _DOLMA)
       for n in range(5, 11)},
    **_described("rp", _RP, {
        "chars": "characters", "curly_brackets": "`{` and `}`", "symbols": "`#`, `...` and `…`",
        "sentences": "runs without . ! ? that hold a word character", "lorem_ipsum": "`lorem ipsum` in normalised text",
        "lines": "lines, blank ones included", "ellipsis_lines": "lines that end with ... or …",
        "terminal_lines": "lines that end with . ! ? or ”", "bullet_lines": "lines that begin with one of ten bullets",
        "raw_words": "runs of word characters, and of others", "alpha_raw_words": "of those, with a letter a-z",
        "caps_raw_words": "of those, upper case only",
        "words": "normalised words", "word_chars": "characters of those, decomposed",
        "unique_words": "distinct normalised words",
    }),
    "rp_unigram_entropy": Definition("nats", "entropy of the normalised words' distribution", _RP),
    **_grams("rp", _RP, "characters of the most frequent {n}-gram, times its occurrences; 0 if it occurs once",
             "characters under {n}-grams that occur more than once, all copies"),
}  # fmt: skip


_REQUIRED: Final[Mapping[str, dict[str, Any]]] = {
    "perplexity": {"model": ""},
    "threshold": {"column": "quality.chars", "reason": "none", "max": 0},
}


def page() -> Iterator[str]:
    """Markdown: every signal of the quality stages by the stage that adds it."""
    yield "# Signals of quality\n"
    yield "Made by `python -m stages.quality._definitions`; do not edit. Counts unless said: rules divide one by another."
    for name, part in _scores():
        yield f"\n## {name}\n"
        yield "| signal | type | unit | definition | source |"
        yield "| --- | --- | --- | --- | --- |"
        for column, kind in part.outputs().items():
            d = DEFINITIONS[column.removeprefix("quality.")]
            yield f"| `{column}` | {kind} | {d.unit} | {d.text.replace('|', chr(92) + '|')} | {d.source} |"


def _scores() -> Iterator[tuple[str, Score]]:
    """(stage name, Score) of every module of this package."""
    for item in pkgutil.iter_modules(quality.__path__):
        if item.name.startswith("_"):
            continue
        cls: Any = importlib.import_module(f"{quality.__name__}.{item.name}").STAGE
        stage: Stage = cls(**_REQUIRED[item.name]) if item.name in _REQUIRED else cls()
        parts = stage.expand() if isinstance(stage, Composite) else (stage,)
        yield from ((f"quality.{item.name}", part) for part in parts if isinstance(part, Score))


def main() -> None:
    """Print the page."""
    sys.stdout.write("\n".join(page()) + "\n")


if __name__ == "__main__":
    main()
