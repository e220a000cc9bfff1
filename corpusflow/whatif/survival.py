"""How many documents a threshold would keep over its whole range, and which rules drop the same documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from corpusflow.rules import OTHERWISE, Rule, numbers

_POINTS: Final = 21
#: Values kept per curve; beyond it every second one is left out, again and again.
_MOST_VALUES: Final = 1 << 22
_MOST_GROUPS: Final = 8


class Curve:
    """The share of the documents in front of a rule that it would keep, threshold by threshold.

    Documents to which the rule does not apply are kept at every threshold. A rule with a table of thresholds has a curve
    per key.
    """

    def __init__(self, node: int, before: Rule | None, after: Rule) -> None:
        self.node = node
        self.before = before
        self.rule = after
        self.documents = 0
        self._values: dict[str, list[np.ndarray]] = {}
        self._size = 0
        self._step = 1

    @staticmethod
    def possible(rule: Rule) -> bool:
        """Whether the rule has a threshold that can be moved."""
        return rule.op in (">=", "<=", ">", "<")

    def add(self, columns: Mapping[str, pa.Array], mask: np.ndarray) -> None:
        """Values of some documents, those in the mask."""
        rule = self.rule
        column = columns[rule.column]
        usable = mask & column.is_valid().to_numpy(zero_copy_only=False)
        signal = numbers(column)
        if rule.per is not None:
            denominator = numbers(columns[rule.per])
            usable &= denominator > 0
            signal = np.divide(signal, denominator, out=np.zeros(len(signal)), where=denominator > 0)
        self.documents += int(mask.sum())
        if rule.by is None:
            self._keep("", signal[usable])
            return
        encoded = columns[rule.by].dictionary_encode()
        index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for i, key in enumerate(encoded.dictionary.to_pylist()):
            name = str(key)
            if self._threshold(rule, name) is not None:
                self._keep(name, signal[usable & (index == i)])

    def _keep(self, key: str, values: np.ndarray) -> None:
        kept = values[:: self._step]
        self._values.setdefault(key, []).append(kept)
        self._size += len(kept)
        while self._size > _MOST_VALUES:
            self._step *= 2
            self._values = {k: [np.concatenate(v)[::2]] for k, v in self._values.items()}
            self._size = sum(len(v[0]) for v in self._values.values())

    @staticmethod
    def _threshold(rule: Rule | None, key: str) -> float | None:
        if rule is None:
            return None
        value = rule.value.get(key, rule.value.get(OTHERWISE)) if isinstance(rule.value, Mapping) else rule.value
        return None if value is None else float(value)  # type: ignore[arg-type]

    def as_data(self) -> dict[str, Any]:
        """JSON form: per key `points` of [threshold, share kept of those the rule applies to]."""
        groups = []
        by_size = sorted(self._values, key=lambda k: -sum(map(len, self._values[k])))
        for key in by_size[:_MOST_GROUPS]:
            values = np.sort(np.concatenate(self._values[key]))
            if len(values):
                groups.append(self._group(key, values))
        return {
            "reason": self.rule.reason,
            "signal": self.rule.signal(),
            "op": self.rule.op,
            "documents": self.documents,
            "one_in": self._step,
            "groups": groups,
        }

    def _group(self, key: str, values: np.ndarray) -> dict[str, Any]:
        now, then = self._threshold(self.before, key), self._threshold(self.rule, key)
        at = np.quantile(values, np.linspace(0, 1, _POINTS), method="nearest")
        thresholds = sorted({*at.tolist(), *(t for t in (now, then) if t is not None)})
        points = [[t, round(_kept(values, self.rule.op, t) / len(values), 6)] for t in thresholds]
        return {"key": key, "applies_to": len(values) * self._step, "now": now, "then": then, "points": points}


def _kept(ordered: np.ndarray, op: str, threshold: float) -> int:
    """How many of the sorted values satisfy the comparison."""
    side = "left" if op in (">=", "<") else "right"
    below = int(np.searchsorted(ordered, threshold, side))  # type: ignore[call-overload]
    return len(ordered) - below if op in (">=", ">") else below


class Overlap:
    """Which rules drop the same documents: pairs, and documents that only one rule drops.

    Each new rule is held against all documents that the run measured to the end, whatever other rules say of them.

    Attributes:
        pairs: int64 array (rules, rules): documents that both drop; on the diagonal, that one drops.
        only: int64 array (rules,): documents that no other rule drops.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        self.documents = 0
        self.pairs = np.zeros((len(reasons), len(reasons)), np.int64)
        self.only = np.zeros(len(reasons), np.int64)

    def add(self, failing: Sequence[tuple[int, np.ndarray, np.ndarray]], known: np.ndarray) -> None:
        """(position of the rule, rows judged, which of them fail) of one shard, over the rows in `known`."""
        rows = np.flatnonzero(known)
        self.documents += len(rows)
        place = np.full(len(known), -1, np.int64)
        place[rows] = np.arange(len(rows))
        active = [(rule, place[judged[fails]]) for rule, judged, fails in failing if fails.any()]
        active = [(rule, at[at >= 0]) for rule, at in active]
        counts = np.zeros(len(rows), np.int16)
        for _, at in active:
            counts[at] += 1
        several = np.flatnonzero(counts > 1)  # few documents fail, fewer fail twice: the table is made of those alone
        place = np.full(len(rows), -1, np.int64)
        place[several] = np.arange(len(several))
        matrix = np.zeros((len(active), len(several)), np.bool_)
        for i, (rule, at) in enumerate(active):
            alone = int((counts[at] == 1).sum())
            self.only[rule] += alone
            self.pairs[rule, rule] += alone
            shared = place[at]
            matrix[i, shared[shared >= 0]] = True
        rules = np.array([rule for rule, _ in active], np.int64)
        bits = np.packbits(matrix, axis=1)
        for i, rule in enumerate(rules):
            self.pairs[rule, rules] += np.bitwise_count(bits[i] & bits).sum(1, dtype=np.int64)

    def only_by_rule(self) -> list[int]:
        """Per rule, documents that no other drops."""
        out: list[int] = self.only.tolist()
        return out

    def as_data(self) -> dict[str, Any]:
        """JSON form: the rules that drop anything, and the table of documents that two of them drop."""
        used = [i for i in range(len(self.reasons)) if self.pairs[i, i]]
        return {
            "documents": self.documents,
            "rules": [self.reasons[i] for i in used],
            "only": self.only[used].tolist(),
            "both": self.pairs[np.ix_(used, used)].tolist(),
        }
