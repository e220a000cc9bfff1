"""FineWeb2's thresholds by language (huggingface/fineweb-2, configs/*.yml), of the larger languages.

Its configs were published twice, with other numbers: in the first, the limit of 4-grams is above that of 2-grams. These are
the second.

What its configs call `max_non_alpha_words_ratio` is the smallest share of words with a letter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Limits(NamedTuple):
    """Thresholds of one language.

    Attributes:
        dup_lines: largest share of lines equal to an earlier one.
        top: largest share of characters in the most frequent 2-, 3-, 4-gram.
        dup: largest share of characters in repeated 5- ... 10-grams.
        terminal_lines: smallest share of lines that end in terminal punctuation.
        newlines: most line feeds per word.
        shortest, longest: mean word length.
        alpha_words: smallest share of words with a letter.
    """

    dup_lines: float
    top: tuple[float, float, float]
    dup: tuple[float, float, float, float, float, float]
    terminal_lines: float
    newlines: float
    shortest: float
    longest: float
    alpha_words: float


LIMITS: Final[Mapping[str, Limits]] = {
    "ar": Limits(0.304, (0.197, 0.172, 0.146), (0.165, 0.153, 0.142, 0.131, 0.12, 0.109), 0.143, 0.189, 2, 9, 0.787),
    "de": Limits(0.263, (0.169, 0.153, 0.137), (0.141, 0.134, 0.126, 0.117, 0.108, 0.098), 0.0, 0.152, 0, 15, 0.774),
    "es": Limits(0.252, (0.156, 0.14, 0.125), (0.145, 0.136, 0.127, 0.117, 0.108, 0.099), 0.182, 0.138, 3, 14, 0.825),
    "fr": Limits(0.264, (0.161, 0.149, 0.134), (0.15, 0.141, 0.131, 0.121, 0.111, 0.1), 0.1, 0.185, 2, 11, 0.812),
    "hi": Limits(0.206, (0.208, 0.198, 0.161), (0.135, 0.125, 0.116, 0.108, 0.099, 0.09), 0.091, 0.316, 2, 21, 0.837),
    "id": Limits(0.241, (0.194, 0.166, 0.145), (0.166, 0.155, 0.144, 0.133, 0.122, 0.111), 0.111, 0.157, 3, 12, 0.805),
    "it": Limits(0.246, (0.198, 0.156, 0.133), (0.144, 0.136, 0.127, 0.118, 0.109, 0.1), 0.025, 0.2, 3, 21, 0.807),
    "ja": Limits(0.328, (0.239, 0.196, 0.172), (0.243, 0.225, 0.207, 0.19, 0.175, 0.159), 0.096, 0.13, 1, 6, 0.759),
    "ko": Limits(0.374, (0.282, 0.228, 0.185), (0.201, 0.184, 0.168, 0.154, 0.14, 0.127), 0.062, 0.196, 1, 6, 0.791),
    "nl": Limits(0.296, (0.213, 0.182, 0.158), (0.156, 0.146, 0.136, 0.126, 0.115, 0.104), 0.102, 0.154, 3, 17, 0.828),
    "pl": Limits(0.32, (0.222, 0.198, 0.176), (0.172, 0.16, 0.148, 0.136, 0.123, 0.111), 0.087, 0.158, 3, 12, 0.726),
    "pt": Limits(0.287, (0.371, 0.191, 0.163), (0.163, 0.153, 0.141, 0.13, 0.119, 0.108), 0.077, 0.186, 3, 13, 0.814),
    "ru": Limits(0.322, (0.184, 0.164, 0.146), (0.168, 0.156, 0.145, 0.133, 0.121, 0.109), 0.231, 0.139, 3, 11, 0.713),
    "th": Limits(0.349, (0.221, 0.197, 0.162), (0.185, 0.168, 0.152, 0.137, 0.124, 0.111), 0.0, 0.153, 2, 10, 0.9),
    # Of the first release, the only numbers for Turkish that were at hand.
    "tr": Limits(0.303, (0.094, 0.114, 0.136), (0.168, 0.151, 0.135, 0.123, 0.116, 0.107), 0.2, 0.273, 3, 21, 0.773),
    "uk": Limits(0.3, (0.189, 0.172, 0.153), (0.16, 0.148, 0.136, 0.124, 0.113, 0.102), 0.167, 0.175, 3, 11, 0.694),
    "vi": Limits(0.293, (0.223, 0.197, 0.171), (0.178, 0.163, 0.15, 0.136, 0.124, 0.111), 0.333, 0.103, 3, 11, 0.803),
    "zh": Limits(0.287, (0.256, 0.201, 0.171), (0.198, 0.182, 0.167, 0.154, 0.14, 0.127), 0.106, 0.178, 1, 5, 0.735),
}
