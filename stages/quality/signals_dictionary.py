"""quality.signals_dictionary: datatrove's signals on dictionary words, for languages whose words only a dictionary finds.

Reads `text` and `language.code`, adds `quality.dict_*`: the signals of quality.signals_datatrove by the same definitions,
on the words of stages/quality/_dictionary.py: Chinese as jieba cuts it, punctuation marks among the words; stop words are
the language's own. Null for every other language. Needs the extra `dictionary`; without it the stage says so at once, since
what a run keeps must not depend on what is installed. The planner inserts it for `quality.fineweb2: {dictionary: true}`;
any rule on it is a quality.threshold, as MAP-CC's mean word length::

    - quality.threshold: {column: quality.dict_text_word_chars, per: quality.dict_text_words, min: {zh: 1.3}, max: {zh: 10},
                          reason: word_length}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusflow import Score
from stages.kernels.affix_tables import string_hash
from stages.kernels.buffers import number_column, text_buffers
from stages.kernels.datatrove import COUNTED, Pieces, measure
from stages.quality._dictionary import DICTIONARY, Cut, chinese_cutter
from stages.quality._stop_words import LISTS
from stages.quality._thresholds import PREFIX

#: Signal -> what datatrove.py calls it.
NAMES: Final[Mapping[str, str]] = {name.replace("dt_", "dict_", 1): name for name in COUNTED}


@dataclass(frozen=True, kw_only=True)
class DictionarySignals(Score):
    """Counts by datatrove's definitions on words that a dictionary finds: Chinese."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("rjieba",)
    reads: ClassVar[tuple[str, ...]] = ("text", "language.code")
    adds: ClassVar[Mapping[str, pa.DataType]] = {PREFIX + name: pa.int32() for name in NAMES}

    def open(self) -> Cut:
        return chinese_cutter()

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        text = text_buffers(batch.column("text"))
        known: np.ndarray = pc.is_in(batch.column("language.code"), value_set=pa.array(DICTIONARY)).to_numpy(
            zero_copy_only=False
        )
        applied = text.valid & known
        cut: Cut = self.opened
        pieces = [cut(batch.column("text")[int(d)].as_py()) if applied[d] else [] for d in range(len(applied))]
        firsts = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(p) for p in pieces], out=firsts[1:])
        chars = np.fromiter((c for p in pieces for c in p), np.int32, int(firsts[-1]))
        stops = np.array([string_hash(w) for w in LISTS["zh"].split()[:64]], np.uint64)
        for view in (chars, firsts, stops):
            view.flags.writeable = False
        counts = measure(text, applied, Pieces(chars, firsts, stops))
        return pa.RecordBatch.from_pydict(
            {PREFIX + name: number_column(counts[i], applied) for i, name in enumerate(NAMES)}
        )

    def warm(self) -> None:
        self.score(
            pa.RecordBatch.from_pydict(
                {"text": pa.array(["你好。"], pa.large_string()), "language.code": pa.array(["zh"])}
            )
        )


STAGE = DictionarySignals
