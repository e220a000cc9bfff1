"""Measuring clean.pii on labelled texts: what `corpusflow eval pii` does."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from corpusflow import ConfigError
from stages.clean._pii_find import KINDS, look
from stages.labelled import read_labelled

#: What collections of labelled texts call our kinds, besides by our own names.
LABELS: Final = {
    "email_address": "email", "phone_number": "phone", "mobile": "phone", "telephone": "phone", "telephonenum": "phone",
    "ip_address": "ip", "ipv4": "ip", "ipv6": "ip", "iban_code": "iban", "credit_card": "card", "creditcardnumber": "card",
    "bank_card": "card", "us_ssn": "ssn", "socialnum": "ssn", "cn_id": "national_id", "id_card": "national_id",
    "us_passport": "passport", "passport_number": "passport", "crypto_address": "crypto", "bitcoinaddress": "crypto",
    "license_plate": "plate", "licence_plate": "plate", "mac_address": "mac", "coordinates": "location", "key": "secret",
    "password": "secret", "api_key": "secret",
}  # fmt: skip
_WORST: Final = 20
_AROUND: Final = 24  # characters of context


class Labelled(NamedTuple):
    """A text with the places of what is labelled in it, in bytes; `kind` is as the data has it where we have no such kind."""

    text: bytes
    spans: tuple[tuple[int, int, str], ...]


def read_texts(paths: Sequence[str]) -> Iterator[Labelled]:
    """Rows of JSONL files (.gz too) with `text` (or `full_text`) and `spans`, empty where there is nothing to find.

    A span has `kind` (or `entity_type`, `label`), `start` and `end` (or `start_position`, `end_position`), in characters.

    Raises:
        ConfigError: a line is not such an object. One without `spans` is not labelled: taken for a text that holds nothing, it
            would make every right finding a wrong one.
    """
    return read_labelled(paths, "`text` and `spans` of `kind`, `start`, `end`", _labelled)


def _labelled(row: dict[str, Any]) -> Labelled:
    text = str(row["full_text"] if "full_text" in row else row["text"])
    if not isinstance(row.get("spans"), list):
        raise ConfigError(
            f"a text without labels: `spans` must be a list, got {row['spans']!r}"
            if "spans" in row
            else f"a text without labels: no `spans` among its fields {', '.join(row)}",
            hint='label it, "spans": [{"kind": "email", "start": 5, "end": 18}]; "spans": [] says that it holds nothing',
        )
    spans = []
    for span in row["spans"]:
        name = str(next(span[k] for k in ("kind", "entity_type", "label") if k in span)).lower()
        start = int(span["start"] if "start" in span else span["start_position"])
        end = int(span["end"] if "end" in span else span["end_position"])
        if not 0 <= start <= end <= len(text):
            raise ValueError(f"span {start} to {end} of a text of {len(text)} characters")
        spans.append((len(text[:start].encode()), len(text[:end].encode()), LABELS.get(name, name)))
    return Labelled(text.encode(), tuple(spans))


def report(rows: Sequence[Labelled], suspects: dict[int, tuple[bytes, list[tuple[int, int, int]]]]) -> dict[str, Any]:
    """Precision and recall by kind, what is taken for what, and examples of what is missed and of what is found wrongly.

    A finding is right if it overlaps a label of its kind, a label is found if a finding of its kind overlaps it. Kinds that
    nothing is labelled as are judged by their findings alone: each is wrong.
    """
    right, missed, wrong = (collections.Counter[str]() for _ in range(3))
    confusion = collections.Counter[tuple[str, str]]()
    worst: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        found = look(*suspects[i]) if i in suspects else []
        for start, end, kind in row.spans:
            over = [s for s in found if s.start < end and start < s.end]
            if any(s.kind == kind for s in over):
                right[kind] += 1
                continue
            if kind in KINDS:
                missed[kind] += 1
                worst.append(_example(row.text, start, end, labelled=kind, found=over[0].kind if over else None))
            if kind in KINDS or over:
                confusion[kind, over[0].kind if over else "-"] += 1
        for s in found:
            if not any(s.kind == kind and s.start < end and start < s.end for start, end, kind in row.spans):
                wrong[s.kind] += 1
                if not any(s.start < end and start < s.end for start, end, _ in row.spans):
                    confusion["-", s.kind] += 1
                    worst.append(_example(row.text, s.start, s.end, labelled=None, found=s.kind))
    size = sum(len(row.text) for row in rows) / 1e6
    return {
        "texts": len(rows),
        "megabytes": size,
        "wrong_per_megabyte": sum(wrong.values()) / size if size else None,
        "by_kind": {
            kind: {
                "labelled": right[kind] + missed[kind],
                "right": right[kind],
                "missed": missed[kind],
                "wrong": wrong[kind],
                "precision": _share(right[kind], wrong[kind]),
                "recall": _share(right[kind], missed[kind]),
            }
            for kind in KINDS
            if right[kind] or missed[kind] or wrong[kind]
        },
        "confusion": [{"labelled": a, "found": b, "times": n} for (a, b), n in confusion.most_common(30)],
        "worst": _varied(worst),
    }


def _share(part: int, rest: int) -> float | None:
    return part / (part + rest) if part + rest else None


def _example(text: bytes, start: int, end: int, labelled: str | None, found: str | None) -> dict[str, Any]:
    before = text[:start].decode()[-_AROUND:]
    after = text[end : end + 4 * _AROUND].decode(errors="ignore")[:_AROUND]
    return {"labelled": labelled, "found": found, "text": f"{before}⟦{text[start:end].decode()[:80]}⟧{after}"}


def _varied(examples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of each kind of mistake."""
    by_mistake: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for example in examples:
        by_mistake.setdefault((example["labelled"], example["found"]), []).append(example)
    most = max(3, _WORST // max(1, len(by_mistake)))
    return [example for group in by_mistake.values() for example in group[:most]][: 2 * _WORST]


def column(rows: Sequence[Labelled]) -> pa.Array:
    """The texts as a column."""
    return pa.array([row.text.decode() for row in rows], pa.large_string())
