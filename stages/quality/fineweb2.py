"""quality.fineweb2: FineWeb2's rules with its thresholds for each language (Penedo et al. 2025, arXiv 2506.20920).

Gopher's, the repetition and FineWeb's rules in FineWeb2's order and with its numbers (stages/quality/_fineweb2.py): without
paragraphs, without short lines, with 0.1 for characters in duplicated lines. Definitions are those of the `paper` dialects:
words separated by white space, stop words of our own lists, where FineWeb2 has a tokenizer for each language, whose
punctuation marks are words.

For Chinese and Japanese FineWeb2 counts dictionary words; quality.signals counts characters there, to which its numbers for
words and n-grams do not apply. Of its rules only those about lines do; quality.chinese has rules for the rest. With
``dictionary: true`` the rules on words hold for Chinese too, as `fineweb2_dict_*`, by FineWeb2's definitions on jieba's words
(quality.signals_dictionary; needs the extra `dictionary`). Japanese and Thai have no dictionary here: not applicable. A
language without a line in the table, English among them, is not applicable: quality.fineweb is for English.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from corpusflow import Filter, Rule, param
from stages.kernels.words import LANGUAGE_UNITS, WHITESPACE
from stages.language._known import OTHERS
from stages.quality._dictionary import DICTIONARY
from stages.quality._fineweb2 import LIMITS, Limits
from stages.quality._thresholds import Threshold, at_least, at_most, check_tables, limit, per_language

_ALL: Final = tuple(LIMITS)
_WORDS: Final = tuple(code for code in LIMITS if LANGUAGE_UNITS.get(code) == WHITESPACE)
_OWN: Final = "; null, and languages that a table leaves out: FineWeb2's number for the language."


_CUT: Final = tuple(code for code in LIMITS if code in DICTIONARY)
#: (signal, signal it is divided by) -> the same on dictionary words.
_DICTIONARY_SIGNALS: Final[Mapping[tuple[str, str | None], tuple[str, str | None]]] = {
    **{(f"top_{n}gram_chars", "word_chars"): (f"dict_top_{n}gram_chars", "dict_chars") for n in (2, 3, 4)},
    **{(f"dup_{n}gram_chars", "word_chars"): (f"dict_dup_{n}gram_chars", "dict_chars") for n in range(5, 11)},
    ("newlines", "words"): ("dict_newlines", "dict_words"),
    ("words", None): ("dict_text_words", None),
    ("word_chars", "words"): ("dict_text_word_chars", "dict_text_words"),
    ("hashes", "words"): ("dict_hashes", "dict_words"),
    ("ellipses", "words"): ("dict_ellipses", "dict_words"),
    ("alpha_words", "words"): ("dict_alpha_words", "dict_words"),
    ("stop_words", None): ("dict_stop_words", None),
}
_Number = Callable[[Limits], float]
_Make = Callable[[str, str, str | None, Threshold, tuple[str, ...]], list[Rule]]


def _table(languages: tuple[str, ...], number: _Number) -> dict[str, float | None]:
    return {code: number(LIMITS[code]) for code in languages}


def _filled(value: Threshold, languages: tuple[str, ...], number: _Number) -> Threshold:
    """The threshold, with FineWeb2's numbers for what it does not speak of."""
    if value is None or (isinstance(value, dict) and OTHERS not in value):
        return {**_table(languages, number), **(value or {})}
    return value


def _top(i: int) -> _Number:
    return lambda limits: limits.top[i]


def _dup(i: int) -> _Number:
    return lambda limits: limits.dup[i]


@dataclass(frozen=True, kw_only=True)
class FineWeb2(Filter):
    """Keeps documents by FineWeb2's rules, each language by its own thresholds."""

    max_dup_lines: Threshold = param(None, doc="Largest share of lines equal to an earlier line" + _OWN)
    min_terminal_lines: Threshold = param(None, doc="Smallest share of lines that end in terminal punctuation" + _OWN)
    max_dup_line_chars: Threshold = limit(0.1, "Largest share of characters in lines equal to an earlier line.")
    max_newlines_per_word: Threshold = param(None, doc="Most line feeds per word" + _OWN)
    min_words: Threshold = limit(50, "Fewest words.")
    max_words: Threshold = limit(100_000, "Most words.")
    min_word_length: Threshold = param(None, doc="Smallest mean word length, characters" + _OWN)
    max_word_length: Threshold = param(None, doc="Largest mean word length, characters" + _OWN)
    max_symbol_ratio: Threshold = limit(0.1, "Most `#` characters, and most ellipses, per word.")
    max_bullet_lines: Threshold = limit(0.9, "Largest share of lines that begin with a bullet.")
    max_ellipsis_lines: Threshold = limit(0.3, "Largest share of lines that end with an ellipsis.")
    min_alpha_words: Threshold = param(None, doc="Smallest share of words with a letter" + _OWN)
    min_stop_words: Threshold = limit(2, "Fewest distinct stop words of the document's language.")

    dictionary: bool = param(
        False, doc="Hold the rules on words against Chinese, too, in dictionary words; needs the extra `dictionary`."
    )

    def __post_init__(self) -> None:
        check_tables("quality.fineweb2", self, _ALL)

    def rules(self) -> tuple[Rule, ...]:
        def word_rules(
            make: _Make, reason: str, column: str, per: str | None, value: Threshold, number: _Number | None = None
        ) -> list[Rule]:
            table = value if number is None else _filled(value, _WORDS, number)
            if not self.dictionary:
                return make("fineweb2_" + reason, column, per, table, _WORDS)
            of_cut = per_language(value if number is None else _filled(value, _CUT, number), _CUT)
            cut = {code: v for code, v in of_cut.items() if code in DICTIONARY}
            spaced = {c: v for c, v in per_language(table, _WORDS).items() if c not in DICTIONARY}
            dict_column, dict_per = _DICTIONARY_SIGNALS[column, per]
            return [
                *make("fineweb2_" + reason, column, per, spaced or None, ()),
                *make("fineweb2_dict_" + reason, dict_column, dict_per, cut or None, ()),
            ]

        low, high = partial(word_rules, at_least), partial(word_rules, at_most)
        dup_lines = _filled(self.max_dup_lines, _ALL, lambda x: x.dup_lines)
        terminal = _filled(self.min_terminal_lines, _ALL, lambda x: x.terminal_lines)
        rules = at_most("fineweb2_dup_lines", "dup_lines", "lines", dup_lines, _ALL)
        for i, n in enumerate((2, 3, 4)):
            rules += high(f"top_{n}gram_chars", f"top_{n}gram_chars", "word_chars", None, _top(i))
        for i, n in enumerate((5, 6, 7, 8, 9, 10)):
            rules += high(f"dup_{n}gram_chars", f"dup_{n}gram_chars", "word_chars", None, _dup(i))
        return (
            *rules,
            *at_least("fineweb2_empty", "lines", None, 1, _ALL),
            *at_least("fineweb2_few_terminal_lines", "terminal_lines", "lines", terminal, _ALL),
            *at_most("fineweb2_dup_line_chars", "dup_line_chars", "line_chars", self.max_dup_line_chars, _ALL),
            *high("list", "newlines", "words", self.max_newlines_per_word, lambda x: x.newlines),
            *low("few_words", "words", None, self.min_words),
            *high("many_words", "words", None, self.max_words),
            *low("short_words", "word_chars", "words", self.min_word_length, lambda x: x.shortest),
            *high("long_words", "word_chars", "words", self.max_word_length, lambda x: x.longest),
            *high("hashes", "hashes", "words", self.max_symbol_ratio),
            *high("ellipses", "ellipses", "words", self.max_symbol_ratio),
            *at_most("fineweb2_bullet_lines", "bullet_lines", "lines", self.max_bullet_lines, _ALL),
            *at_most("fineweb2_ellipsis_lines", "ellipsis_lines", "lines", self.max_ellipsis_lines, _ALL),
            *low("few_alpha_words", "alpha_words", "words", self.min_alpha_words, lambda x: x.alpha_words),
            *low("few_stop_words", "stop_words", None, self.min_stop_words),
        )


STAGE = FineWeb2
