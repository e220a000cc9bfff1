"""quality.signals_redpajama: the document signals of RedPajama-V2 that need no model and no list, as counts.

Reads `text` and `language.code`, adds the signals named in stages/kernels/redpajama.py, where their definitions and
how they differ from quality.signals are said. Null for languages without spaces between words. The planner inserts it for
the rule sets with ``dialect: redpajama``. RedPajama-V2's list, and where each of its signals is:

    ccnet_length, ccnet_nlines                              rp_chars; rp_lines
    ccnet_language_score, ccnet_perplexity, ccnet_bucket    language.score; quality.perplexity, and stats.quantile on it
    rps_doc_word_count, rps_doc_mean_word_length            rp_words; rp_word_chars / rp_words
    rps_doc_frac_unique_words, rps_doc_unigram_entropy      rp_unique_words / rp_words; rp_unigram_entropy
    rps_doc_num_sentences                                   rp_sentences
    rps_doc_symbol_to_word_ratio                            rp_symbols / rp_raw_words
    rps_doc_frac_all_caps_words                             rp_caps_raw_words / rp_raw_words
    rps_doc_frac_no_alph_words                              1 - rp_alpha_raw_words / rp_raw_words
    rps_doc_curly_bracket, rps_doc_lorem_ipsum              rp_curly_brackets / rp_chars; rp_lorem_ipsum / rp_chars
    rps_doc_frac_lines_end_with_ellipsis                    rp_ellipsis_lines / rp_lines
    rps_doc_frac_chars_top_{2..4}gram, _dupe_{5..10}grams   rp_top_{n}gram_chars, rp_dup_{n}gram_chars / rp_word_chars
    rps_doc_stop_word_fraction                              quality.stop_word_hits / quality.words, by our own lists
    rps_doc_ldnoobw_words, rps_doc_ut1_blacklist            toxicity.wordlist; access.url with those lists
    rps_lines_ending_with_terminal_punctution_mark          rp_terminal_lines, of all lines together, as are the next
    rps_lines_start_with_bulletpoint, _javascript_counts    rp_bullet_lines; quality.javascript_lines
    rps_lines_num_words                                     rp_words
    rps_lines_uppercase_letter_fraction                     quality.upper_chars / quality.chars
    rps_lines_numerical_chars_fraction                      quality.digits / quality.chars
    rps_doc_ml_*_score                                      quality.classifier with such a model
    minhash_signature_*                                     dedup.minhash
    rps_doc_*_importance                                    not there: they need a model for each of three data sets
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from corpusflow import Score
from stages.kernels.buffers import number_column, text_buffers
from stages.kernels.redpajama import COUNTED, measure
from stages.kernels.words import WHITESPACE, word_units
from stages.quality._counts import PREFIX, example

ENTROPY: Final = "rp_unigram_entropy"


@dataclass(frozen=True, kw_only=True)
class RedPajamaSignals(Score):
    """RedPajama-V2's document signals as counts, for the rule sets' dialect of that name."""

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("text", "language.code")
    adds: ClassVar[Mapping[str, pa.DataType]] = {
        **{PREFIX + name: pa.int64() for name in COUNTED},
        PREFIX + ENTROPY: pa.float32(),
    }

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = text_buffers(batch.column("text"))
        applied = text.valid & (word_units(batch.column("language.code")) == WHITESPACE)
        counts, entropy = measure(text, applied)
        columns = {PREFIX + name: number_column(counts[i], applied) for i, name in enumerate(COUNTED)}
        columns[PREFIX + ENTROPY] = number_column(entropy, applied)
        return pa.RecordBatch.from_pydict(columns)

    def warm(self) -> None:
        self.score(example())


STAGE = RedPajamaSignals
