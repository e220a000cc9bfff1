"""Measuring word lists on labelled or ordinary texts: what `corpusflow eval toxicity.wordlist` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from stages.kernels.wordlist import CATEGORIES
from stages.language.identify import LanguageScore

_WORST: Final = 20


def with_languages(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """What `WordlistScore` reads: texts, their `lang` where a row has one (else as identified), and the script identified."""
    texts = pa.array([row["text"] for row in rows], pa.large_string())
    found = LanguageScore(min_letters=1).score(pa.RecordBatch.from_arrays([texts], names=["text"]))
    codes = [row.get("lang") or code for row, code in zip(rows, found.column("language.code").to_pylist(), strict=True)]
    return pa.RecordBatch.from_arrays(
        [texts, pa.array(codes, pa.string()), found.column("language.script")],
        names=["text", "language.code", "language.script"],
    )


def wordlist_report(
    rows: Sequence[Mapping[str, Any]],
    languages: Sequence[str | None],
    signals: pa.RecordBatch,
    limits: Mapping[str, float],
) -> dict[str, Any]:
    """How many texts have a term, how many are over the limit, by language and category, and what looks like a mistake.

    Args:
        rows: `text` and, where it is known, `toxic`; a row without it counts as ordinary.
        languages, signals: of each row, the code and what the Score adds.
        limits: highest density kept by language, "*" for all others.
    """
    toxic = np.array([bool(row.get("toxic")) for row in rows], np.bool_)
    hits = np.array(signals.column("toxicity.hits").fill_null(0), np.int64)
    base = np.array(signals.column("toxicity.base").fill_null(1), np.int64)
    density = 1000 * np.array(signals.column("toxicity.weight").fill_null(0), np.int64) / base
    kept = density <= np.array([limits.get(str(code), limits["*"]) for code in languages])
    by_language = {}
    for code in sorted({str(code) for code in languages}):
        inside = np.array([str(code_) == code for code_ in languages])
        by_language[code] = _counts(hits[inside] > 0, kept[inside], toxic[inside])
    alarms = [i for i in np.argsort(-density, kind="stable").tolist() if hits[i] and not toxic[i]][:_WORST]
    missed = [i for i in np.argsort(density, kind="stable").tolist() if toxic[i]][:_WORST]
    return {
        **_counts(hits > 0, kept, toxic),
        "by_language": by_language,
        "by_category": {
            name: int((np.array(signals.column(f"toxicity.{name}").fill_null(0), np.int64) > 0).sum())
            for name in CATEGORIES
        },
        "densest_of_the_ordinary": [_example(rows[i], density[i]) for i in alarms],
        "least_dense_of_the_toxic": [_example(rows[i], density[i]) for i in missed],
    }


def _counts(found: np.ndarray, kept: np.ndarray, toxic: np.ndarray) -> dict[str, int]:
    return {
        "texts": len(toxic),
        "toxic_with_a_term": int((toxic & found).sum()),
        "toxic_dropped": int((toxic & ~kept).sum()),
        "toxic": int(toxic.sum()),
        "other_with_a_term": int((~toxic & found).sum()),
        "other_dropped": int((~toxic & ~kept).sum()),
        "other": int((~toxic).sum()),
    }


def _example(row: Mapping[str, Any], density: float) -> dict[str, Any]:
    return {"per_1000": round(float(density), 1), "text": str(row["text"])[:120]}
